//! Which node an id belongs to. All nodes of a fleet may have one token; so that its holder cannot speak for
//! another node, an id is bound to a secret of the node's own with the first `Hello` that has one.
//!
//! Only digests are kept. Nodes of releases without such secrets are never bound, and work as before.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tollgate_core::Timestamp;
use tollgate_fleet_proto::Sha256Bytes;

/// Most ids that are bound; further nodes are served, and are not bound.
pub const MAX_BINDINGS: usize = 50_000;

/// Somebody has tried to attach as a node, with another secret than that node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where from.
    pub address: String,
    /// When last.
    pub at: Timestamp,
}

/// Digests of the secrets of nodes, by id.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    digests: HashMap<String, Sha256Bytes>,
    /// Of ids that are bound.
    claims: HashMap<String, Claim>,
}

/// What a secret says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the node.
    Known,
    /// Nothing is bound to the id yet; now this secret is.
    Bound(Sha256Bytes),
    /// Neither is there a secret.
    Unbound,
    /// It is another node, or one without its secret.
    Other,
}

impl Bindings {
    pub(crate) fn new(digests: HashMap<String, Sha256Bytes>) -> Self {
        Self { digests, claims: HashMap::new() }
    }

    /// Whether the secret is that of the node with this id. Takes a time that does not depend on the secret.
    pub(crate) fn check(&mut self, node: &str, secret: &[u8]) -> Verdict {
        let digest: Sha256Bytes = Sha256::digest(secret).into();
        match self.digests.get(node) {
            Some(known) if bool::from(known.ct_eq(&digest)) && !secret.is_empty() => Verdict::Known,
            Some(_) => Verdict::Other,
            None if secret.is_empty() || self.digests.len() >= MAX_BINDINGS => Verdict::Unbound,
            None => {
                self.digests.insert(node.to_owned(), digest);
                Verdict::Bound(digest)
            }
        }
    }

    pub(crate) fn claimed(&mut self, node: &str, address: &str, now: Timestamp) {
        self.claims.insert(node.to_owned(), Claim { address: address.to_owned(), at: now });
    }

    pub(crate) fn claim(&self, node: &str) -> Option<&Claim> {
        self.claims.get(node)
    }

    pub(crate) fn len(&self) -> usize {
        self.digests.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_the_first_secret_and_without_one_to_nobody() {
        let mut bindings = Bindings::default();
        assert_eq!(bindings.check("a", b""), Verdict::Unbound);
        assert_eq!(bindings.check("a", b""), Verdict::Unbound);
        assert!(matches!(bindings.check("a", b"one"), Verdict::Bound(_)));
        for (secret, verdict) in
            [(&b"one"[..], Verdict::Known), (b"two", Verdict::Other), (b"", Verdict::Other)]
        {
            assert_eq!(bindings.check("a", secret), verdict);
        }
        assert!(matches!(bindings.check("b", b"one"), Verdict::Bound(_)), "each id by itself");
        assert_eq!(bindings.len(), 2);
    }
}
