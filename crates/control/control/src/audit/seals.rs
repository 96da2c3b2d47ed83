//! Comparing rows with their seals, and accepting those that differ.

use std::time::Duration;

use serde_json::json;
use tollgate_db::{Comparison, Tx};
use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP};
use crate::access::claim::Claim;
use crate::audit::edited_rows::{ACCEPTED, EditedRows, Recorded, named, recorded};
use crate::audit::{self, Note};
use crate::control::{Control, resolved};
use crate::error::ControlError;

/// Time between two comparisons of all rows, and while some differ: somebody may put them back.
const EVERY: Duration = Duration::from_secs(3600);
const AGAIN: Duration = Duration::from_secs(60);
/// At most this part of the time is spent on comparing.
const SHARE: u32 = 20;

impl Control {
    /// Compares every row with what the change that made it has left. Reads the whole database.
    ///
    /// # Errors
    /// [`ControlError::NoRight`] except for admins of every app, [`ControlError::Db`].
    pub async fn compare_rows(&self, claim: &Claim) -> Result<Comparison, ControlError> {
        self.read_as(claim, |_, actor| actor.must(Role::Admin, EVERY_APP)).await?;
        Ok(self.db.compare().await?)
    }

    /// Accepts rows that another program has edited as they are, and edits that the audit has recorded; and
    /// records that. Returns the rows that still differed.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::NotFound`] if no row was edited.
    pub async fn accept_edits(&self, claim: &Claim, reason: &str) -> Result<Comparison, ControlError> {
        let found = self.compare_rows(claim).await?;
        if found.differ == 0 && self.recorded_edits().await?.open == 0 {
            return Err(ControlError::NotFound { what: "edited rows", name: String::new() });
        }
        let rows: Vec<_> = found.differences.iter().map(|it| format!("{} {}", it.table, it.key)).collect();
        let reason = reason.to_owned();
        let after = json!({"rows": found.differ, "first": rows});
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            actor.must(Role::Admin, EVERY_APP)?;
            let note = Note {
                action: ACCEPTED,
                target: "database".to_owned(),
                after: Some(after.clone()),
                reason: &reason,
                ..Note::default()
            };
            audit::append(tx, actor, note)
        };
        self.db.write_sealing_all(resolved(claim, work)).await?;
        Ok(found)
    }

    /// Compares all rows with their seals, at once and then each hour, until the future is dropped. What
    /// differs is a problem.
    pub async fn compare_rows_hourly(&self) {
        loop {
            let (found, took) = self.compare_rows_now().await;
            let wait = match found {
                Ok(found) if found.is_whole() => EVERY,
                Ok(_) => AGAIN,
                Err(error) => {
                    tracing::warn!(%error, "rows cannot be compared with their seals");
                    EVERY
                }
            };
            tokio::time::sleep(wait.max(took * SHARE)).await;
        }
    }

    /// Compares all rows with their seals, and keeps what differs as a problem. Returns also how long that
    /// has taken.
    pub async fn compare_rows_now(&self) -> (Result<Comparison, ControlError>, Duration) {
        let now_ms = async || self.read(|tx| Ok(tx.now_ms())).await.unwrap_or_default();
        let began = now_ms().await;
        let found = self.db().compare().await;
        let took = now_ms().await.saturating_sub(began);
        let took = Duration::from_millis(u64::try_from(took).unwrap_or(0));
        let found = match found {
            Ok(found) => found,
            Err(error) => return (Err(error.into()), took),
        };
        if !found.is_whole() {
            tracing::error!(
                rows = found.differ,
                first = found.differences.first().map(named),
                broken_seal = found.broken_at,
                "rows were edited by another program; undo that, or accept it by `tollgate control audit accept`"
            );
        }
        self.edited.lock().compared =
            Some((began, EditedRows::of(&found, began))).filter(|(_, it)| it.rows > 0);
        if let Err(error) = self.look_for_problems().await {
            tracing::debug!(%error, "problems cannot be read");
        }
        (Ok(found), took)
    }

    /// Edits by other programs that the audit has recorded.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn recorded_edits(&self) -> Result<Recorded, ControlError> {
        self.read(recorded).await
    }
}
