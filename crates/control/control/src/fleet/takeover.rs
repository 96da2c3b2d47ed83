//! Takes over what a node holds of a frozen app.

use serde_json::json;
use tollgate_model::Role;

use crate::access::claim::Claim;
use crate::control::Control;
use crate::error::ControlError;
use crate::fleet::frozen::decidable;
use crate::fleet::keys::PATIENCE;
use crate::fleet::thaw::{HeldDocuments, take_over};

impl Control {
    /// Makes the rules of a frozen app those that `node` holds, as a version above all that nodes hold. Needs
    /// admin of the app. Returns the version.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::NotFound`] if the app is not frozen, and
    /// [`ControlError::Unanswered`] if the node does not say what it holds.
    pub async fn take_over(
        &self,
        claim: &Claim,
        app: &str,
        node: &str,
        reason: &str,
    ) -> Result<i64, ControlError> {
        let name = app.to_owned();
        let look = self.read_as(claim, move |tx, actor| {
            actor.must(Role::Admin, &name)?;
            decidable(tx, &name)
        });
        if look.await?.is_none() {
            return Err(ControlError::NotFound { what: "frozen app", name: app.to_owned() });
        }
        let body = json!({"app": app}).to_string();
        let answer = self.nodes_shared().command(node, "documents", body, PATIENCE).await;
        let unanswered = |reason| ControlError::Unanswered { node: node.to_owned(), reason };
        let documents: HeldDocuments = serde_json::from_str(&answer.map_err(unanswered)?)
            .map_err(|error| unanswered(error.to_string()))?;
        let app = app.to_owned();
        let reason = reason.to_owned();
        self.commit_as(claim, move |tx, actor| take_over(tx, actor, &app, &documents, &reason)).await
    }
}
