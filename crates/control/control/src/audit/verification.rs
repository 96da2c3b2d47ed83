//! Verifying the audit, and recording rejected changes in it.

use serde_json::json;
use tollgate_db::{Head, Tx};
use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP, Who};
use crate::access::claim::Claim;
use crate::audit::chain::written;
use crate::audit::head::Lost;
use crate::audit::head_start::{has, last};
use crate::audit::{self, Chain, Note, Walk};
use crate::control::Control;
use crate::error::ControlError;

/// Longest text of a rejection, in characters.
const MAX_TEXT: usize = 300;

/// A change that was rejected.
#[derive(Clone, Debug, Default)]
pub struct Rejected {
    /// The operation: a method and a path without its query.
    pub operation: String,
    /// The app that it was about, if the path names one.
    pub app: Option<String>,
    /// The status of the reply.
    pub status: u16,
    /// Why, without anything that the caller entered; empty where the reply is a form.
    pub reason: String,
}

/// A step of a walk along the audit.
struct Walked {
    walk: Walk,
    /// The result, once the walk is at its end.
    chain: Option<Chain>,
    /// Number of entries ever written.
    all: i64,
}

impl Control {
    /// The last entry: its number and its digest, to be kept elsewhere.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn audit_head(&self) -> Result<Option<Head>, ControlError> {
        self.read(last).await
    }

    /// Whether an entry that was the last one once is still there.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn audit_has(&self, seq: i64, hash: &str) -> Result<bool, ControlError> {
        let hash = hash.to_owned();
        self.read(move |tx| has(tx, seq, &hash)).await
    }

    /// Entries that were acknowledged and are missing, until somebody accepts that.
    #[must_use]
    pub fn audit_lost(&self) -> Option<Lost> {
        self.head.lost()
    }

    /// Accepts that entries are missing, and records that. Returns which.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::NotFound`] if no entries are missing.
    pub async fn accept_lost(&self, claim: &Claim, reason: &str) -> Result<Lost, ControlError> {
        let unknown = || ControlError::NotFound { what: "loss of the audit", name: String::new() };
        let lost = self.head.lost().ok_or_else(unknown)?;
        let reason = reason.to_owned();
        let of = lost.clone();
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            actor.must(Role::Admin, EVERY_APP)?;
            let note = Note {
                action: "audit.accept_loss",
                target: format!("{}", of.seq),
                before: Some(json!({"acknowledged": of.seq, "hash": of.hash})),
                after: Some(json!({"found": of.found})),
                reason: &reason,
                ..Note::default()
            };
            audit::append(tx, actor, note)
        };
        self.write_as(claim, work).await?;
        if let Err(error) = self.head.accept() {
            tracing::error!(%error, "the file `audit-lost` cannot be removed");
        }
        Ok(lost)
    }

    /// Walks the whole chain in short transactions, and reports how many entries of how many are checked.
    ///
    /// # Errors
    /// [`ControlError::NoRight`] except for admins of every app, [`ControlError::Db`].
    pub async fn verify_audit(
        &self,
        claim: &Claim,
        mut progress: impl FnMut(i64, i64) + Send,
    ) -> Result<Chain, ControlError> {
        let mut walk = Walk::default();
        loop {
            let Walked { walk: walked, chain, all } = self.walk_on(claim, walk).await?;
            progress(walked.checked(), all);
            if let Some(chain) = chain {
                self.walked.lock().clone_from(&walked);
                return Ok(self.with_lost(chain));
            }
            walk = walked;
        }
    }

    /// The state of the chain: entries that were checked before by this process are not checked again.
    ///
    /// # Errors
    /// As [`verify_audit`](Self::verify_audit).
    pub async fn audit_chain(&self, claim: &Claim) -> Result<Chain, ControlError> {
        loop {
            let walk = self.walked.lock().clone();
            let Walked { walk, chain, .. } = self.walk_on(claim, walk).await?;
            *self.walked.lock() = walk;
            if let Some(chain) = chain {
                return Ok(self.with_lost(chain));
            }
        }
    }

    /// A chain that is whole may have lost its end.
    fn with_lost(&self, chain: Chain) -> Chain {
        match (chain, self.head.lost()) {
            (Chain::Whole(_), Some(lost)) => Chain::Cut(lost.found, lost.seq),
            (chain, _) => chain,
        }
    }

    /// One step, with the rights of now: a walk takes many.
    async fn walk_on(&self, claim: &Claim, walk: Walk) -> Result<Walked, ControlError> {
        self.read_as(claim, move |tx, actor| {
            actor.must(Role::Admin, EVERY_APP)?;
            let mut walk = walk.clone();
            let chain = walk.step(tx)?;
            Ok(Walked { walk, chain, all: written(tx)? })
        })
        .await
    }

    /// Records that a change of theirs was rejected. The change itself left nothing behind, so that this
    /// is a transaction of its own. At most 60 a minute of each user are recorded; the next says how many
    /// were not.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn note_rejected(&self, who: &Who, rejected: Rejected) -> Result<(), ControlError> {
        let now_ms = self.read(|tx| Ok(tx.now_ms())).await?;
        let Some(left_out) = self.rejections.admit(&who.user_id, now_ms) else { return Ok(()) };
        let who = who.clone();
        let clip =
            |text: &str| -> String { text.chars().filter(|it| !it.is_control()).take(MAX_TEXT).collect() };
        let target = clip(&rejected.operation);
        let reason = clip(&rejected.reason);
        let mut after = json!({"status": rejected.status});
        if left_out > 0 {
            after["left_out_before"] = left_out.into();
        }
        let work = move |tx: &mut dyn Tx| {
            let target = target.clone();
            let after = Some(after.clone());
            let app = rejected.app.as_deref();
            let note = Note { action: "rejected", target, app, after, reason: &reason, ..Note::default() };
            audit::append(tx, &who.clone().acting(), note)
        };
        self.db.write(work).await
    }
}
