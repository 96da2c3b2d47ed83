//! The audit.

use serde::Serialize;
use tollgate_control::audit::{self, Chain};
use utoipa::ToSchema;

use crate::words;

/// An entry of the audit.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entry {
    pub seq: i64,
    pub at: i64,
    #[schema(schema_with = words::actor_kind)]
    pub actor_kind: String,
    pub actor: String,
    /// The token that was used; empty for a login.
    pub via: String,
    pub ip: String,
    pub request_id: String,
    pub action: String,
    /// The object of the action.
    pub target: String,
    #[schema(required)]
    pub app: Option<String>,
    /// The object before, as JSON.
    #[schema(required)]
    pub before: Option<String>,
    /// The object after, as JSON.
    #[schema(required)]
    pub after: Option<String>,
    pub reason: String,
    /// The hash of the entry before.
    pub prev_hash: String,
    pub hash: String,
}

impl From<audit::AuditEntry> for Entry {
    fn from(entry: audit::AuditEntry) -> Self {
        Self {
            seq: entry.seq,
            at: entry.at,
            actor_kind: entry.actor_kind,
            actor: entry.actor,
            via: entry.via,
            ip: entry.ip,
            request_id: entry.request_id,
            action: entry.action,
            target: entry.target,
            app: entry.app,
            before: entry.before,
            after: entry.after,
            reason: entry.reason,
            prev_hash: entry.prev_hash,
            hash: entry.hash,
        }
    }
}

/// Entries of the audit, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entries {
    pub entries: Vec<Entry>,
    /// The cursor of the next part; null after the last.
    #[schema(required)]
    pub next: Option<String>,
}

/// The state of the chain of entries.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditChain {
    pub is_whole: bool,
    /// Entries up to the first fault.
    pub entries: i64,
    /// The first entry that was altered or is missing; null for a whole chain.
    #[schema(required)]
    pub broken_at: Option<i64>,
}

impl From<Chain> for AuditChain {
    fn from(chain: Chain) -> Self {
        match chain {
            Chain::Whole(entries) => Self { is_whole: true, entries, broken_at: None },
            Chain::Cut(found, _) => Self { is_whole: false, entries: found, broken_at: Some(found + 1) },
            Chain::BrokenAt(seq) => Self { is_whole: false, entries: seq - 1, broken_at: Some(seq) },
        }
    }
}
