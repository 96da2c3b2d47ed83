//! An entry of the audit, and its hash.

use tollgate_db::columns;
use tollgate_model::hash::{digest_of, hex};

/// An entry, as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// 1, 2, 3 …
    pub seq: i64,
    /// Milliseconds UTC.
    pub at: i64,
    /// `user`, `token`, `system`.
    pub actor_kind: String,
    /// The name of the actor.
    pub actor: String,
    /// The token that was used; empty for a login.
    pub via: String,
    /// Where the request came from.
    pub ip: String,
    pub request_id: String,
    /// `rule.create`, `user.disable`, …
    pub action: String,
    /// The object that was changed.
    pub target: String,
    /// The app it belongs to.
    pub app: Option<String>,
    /// The object before, as JSON.
    pub before: Option<String>,
    /// The object after, as JSON.
    pub after: Option<String>,
    /// As the actor gave it.
    pub reason: String,
    /// Hash of the entry before.
    pub prev_hash: String,
    /// Hash of this entry.
    pub hash: String,
}

columns! {
    AuditEntry {
        seq,
        at,
        actor_kind,
        actor,
        via,
        ip,
        request_id,
        action,
        target,
        app,
        before,
        after,
        reason,
        prev_hash,
        hash,
    }
}

impl AuditEntry {
    /// SHA-256 of the hash before and of all fields as one JSON array, so that no field can run into the
    /// next.
    pub(crate) fn computed_hash(&self) -> String {
        let fields = (
            &*self.prev_hash,
            self.seq,
            self.at,
            &*self.actor_kind,
            &*self.actor,
            &*self.via,
            &*self.ip,
            &*self.request_id,
            &*self.action,
            &*self.target,
            &self.app,
            &self.before,
            &self.after,
            &*self.reason,
        );
        let bytes = serde_json::to_vec(&fields).unwrap_or_default(); // texts and numbers cannot fail
        hex(&digest_of(&bytes))
    }
}
