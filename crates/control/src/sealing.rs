//! What the service does with the comparison of rows with their seals.

use serde_json::json;
use tollgate_db::{Comparison, Tx};

use crate::actor::{Actor, EVERY_APP};
use crate::audit::{self, Note};
use crate::claim::Claim;
use crate::control::{Control, resolved};
use crate::error::ControlError;
use crate::role::Role;

impl Control {
    /// Compares every row with what the change that made it has left. Reads the whole database.
    ///
    /// # Errors
    /// [`ControlError::NoRight`] except for admins of every app, [`ControlError::Db`].
    pub async fn compare_rows(&self, claim: &Claim) -> Result<Comparison, ControlError> {
        self.read_as(claim, |_, actor| actor.must(Role::Admin, EVERY_APP)).await?;
        Ok(self.db.compare().await?)
    }

    /// Accepts rows that another program has edited as they are, and records that. Returns which.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::NotFound`] if no row was edited.
    pub async fn accept_edits(&self, claim: &Claim, reason: &str) -> Result<Comparison, ControlError> {
        let found = self.compare_rows(claim).await?;
        if found.differ == 0 {
            return Err(ControlError::NotFound { what: "edited rows", name: String::new() });
        }
        let rows: Vec<_> = found.differences.iter().map(|it| format!("{} {}", it.table, it.key)).collect();
        let (reason, after) = (reason.to_owned(), json!({"rows": found.differ, "first": rows}));
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            actor.must(Role::Admin, EVERY_APP)?;
            let note = Note {
                action: "audit.accept_edits",
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
}
