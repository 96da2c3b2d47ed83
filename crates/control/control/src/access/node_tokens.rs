//! The tokens of nodes in memory: a stream is admitted without asking the database.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use subtle::{Choice, ConstantTimeEq as _};
use tollgate_model::hash::sha256;

use crate::access::token_text::is_token;
use crate::access::tokens::OfNodes;

/// The tokens of nodes that are in force.
#[derive(Debug, Default)]
pub struct NodeTokens(Vec<NodeToken>);

#[derive(Debug)]
struct NodeToken {
    id: String,
    sha256: String,
    expires_at: i64,
    is_for_joining: bool,
    used_at: AtomicI64,
}

impl NodeTokens {
    /// `uses` are earlier uses that are not recorded yet.
    pub(crate) fn new(rows: Vec<OfNodes>, uses: &[(String, i64)]) -> Self {
        let token = |OfNodes { id, sha256, expires_at, is_for_joining }| NodeToken {
            used_at: AtomicI64::new(uses.iter().find(|it| it.0 == id).map_or(0, |it| it.1)),
            id,
            sha256,
            expires_at: expires_at.unwrap_or(i64::MAX),
            is_for_joining,
        };
        Self(rows.into_iter().map(token).collect())
    }

    /// Whether any node may attach with this token at `now_ms`.
    #[must_use]
    pub fn admits(&self, token: Option<&str>, now_ms: i64) -> bool {
        self.has(token, now_ms, |it| now_ms < it.expires_at)
    }

    /// Whether a node that is known may attach with this token at `now_ms`: also with one for joining that
    /// has ended.
    #[must_use]
    pub fn admits_known(&self, token: Option<&str>, now_ms: i64) -> bool {
        self.has(token, now_ms, |it| now_ms < it.expires_at || it.is_for_joining)
    }

    /// Compares with every token, so that the time says nothing about which one it is.
    fn has(&self, token: Option<&str>, now_ms: i64, is_good: impl Fn(&NodeToken) -> bool) -> bool {
        let Some(token) = token.filter(|it| is_token(it)) else { return false };
        let hash = sha256(token);
        let mut found = Choice::from(0);
        for known in &self.0 {
            let is_it =
                known.sha256.as_bytes().ct_eq(hash.as_bytes()) & Choice::from(u8::from(is_good(known)));
            if bool::from(is_it) {
                known.used_at.fetch_max(now_ms, Relaxed);
            }
            found |= is_it;
        }
        found.into()
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no node can attach.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Id and time of those that were used since this was asked last.
    pub(crate) fn take_uses(&self) -> Vec<(String, i64)> {
        let uses = self.0.iter().map(|it| (it.id.clone(), it.used_at.swap(0, Relaxed)));
        uses.filter(|(_, at)| *at > 0).collect()
    }
}
