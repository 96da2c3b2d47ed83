//! Which node an id belongs to. All nodes of a fleet may have one token; so that its holder cannot speak for
//! another node, an id is bound to a secret of the node's own with the first `Hello` that has one.
//!
//! Only digests are kept. Nodes of releases without such secrets are never bound, and work as before. An id
//! stays bound once its node has reported; before, it is free again when the stream ends. So ids that attach
//! without reporting fill nothing, and a machine and a token each have a share of the ids.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tollgate_core::Timestamp;
use tollgate_fleet_proto::Sha256Bytes;
use tollgate_shares::{Part, Room, Shares};

/// Most ids that are bound; further nodes are served, and are not bound.
pub const MAX_BINDINGS: usize = 50_000;

/// Most new streams of a known node within [`BEGINS_WITHIN`] that pass; further ones wait with the unknown
/// nodes.
const MOST_BEGINS: u32 = 3;
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// An attempt to attach with the id of a node and another secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedClaim {
    /// Address and port of the attempt.
    pub address: String,
    /// Time of the last attempt.
    pub at: Timestamp,
}

#[derive(Debug)]
struct Binding {
    digest: Sha256Bytes,
    /// Whose share it takes; `None`: it was bound before this process began.
    holders: Option<[u64; 2]>,
    /// It has taken the rules that it was sent, and reported.
    is_proven: bool,
    /// It has reported while there was nothing to send: it stays bound, and proves nothing.
    has_reported: bool,
    /// Start of the current counting period, and hellos of the node within it.
    begins: (Timestamp, u32),
}

/// Digests of the secrets of nodes, by id.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    by_id: HashMap<String, Binding>,
    shares: Shares,
    /// Failed claims to ids that are bound.
    claims: HashMap<String, FailedClaim>,
}

/// Result of checking a node's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindingCheck {
    /// It is the node.
    Known,
    /// Nothing is bound to the id yet.
    Free,
    /// Neither is there a secret.
    Unbound,
    /// It is another node, or one without its secret.
    Other,
}

/// Trust in a node where nodes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was bound before this process began.
    Old,
    /// It has taken rules of this process, and reported.
    Proven,
    /// Nothing is known of it.
    New,
}

impl Bindings {
    pub(crate) fn new(digests: HashMap<String, Sha256Bytes>) -> Self {
        let old = |digest| Binding {
            digest,
            holders: None,
            is_proven: true,
            has_reported: true,
            begins: (Timestamp::ZERO, 0),
        };
        let by_id = digests.into_iter().map(|(id, digest)| (id, old(digest))).collect();
        Self { by_id, ..Self::default() }
    }

    /// Whether the secret is that of the node with this id. Takes a time that does not depend on the secret.
    pub(crate) fn check(&self, node: &str, secret: &[u8]) -> BindingCheck {
        match self.by_id.get(node) {
            Some(known) if !secret.is_empty() && is_of(&known.digest, secret) => BindingCheck::Known,
            Some(_) => BindingCheck::Other,
            None if secret.is_empty() => BindingCheck::Unbound,
            None => BindingCheck::Free,
        }
    }

    /// Whether a known node may pass the unknown ones: not if it opens streams again and again.
    pub(crate) fn may_pass(&mut self, node: &str, now: Timestamp) -> bool {
        let Some(known) = self.by_id.get_mut(node) else { return false };
        if now.since(known.begins.0) >= BEGINS_WITHIN {
            known.begins = (now, 0);
        }
        known.begins.1 = known.begins.1.saturating_add(1);
        known.begins.1 <= MOST_BEGINS
    }

    /// The names of a machine and a token, and their shares.
    pub(crate) fn holders(&self, machine: &str, token: u64) -> [Part; 2] {
        [
            Part { name: self.shares.name((0, machine)), times: 1 },
            Part { name: self.shares.name((1, token)), times: 4 },
        ]
    }

    /// Binds a free id. Returns whether there was room, also in the share of `holders`.
    pub(crate) fn bind(&mut self, node: &str, secret: &[u8], holders: [Part; 2]) -> bool {
        let free = Room { places: MAX_BINDINGS.saturating_sub(self.by_id.len()) as u64, bytes: 1 };
        if self.shares.take(&holders, Room::PLACE, free).is_err() {
            return false;
        }
        let holders = Some(holders.map(|it| it.name));
        let digest = digest(secret);
        let begins = (Timestamp::ZERO, 0);
        let binding = Binding { digest, holders, is_proven: false, has_reported: false, begins };
        self.by_id.insert(node.to_owned(), binding);
        true
    }

    /// The node has taken the rules that it was sent, and has reported. Returns the digest, if it was not
    /// proven before.
    pub(crate) fn proven(&mut self, node: &str) -> Option<Sha256Bytes> {
        let known = self.by_id.get_mut(node).filter(|it| !it.is_proven)?;
        known.is_proven = true;
        self.reported(node)
    }

    /// The node has reported while there was nothing to send. The digest, if it had not before.
    pub(crate) fn reported(&mut self, node: &str) -> Option<Sha256Bytes> {
        let known = self.by_id.get_mut(node).filter(|it| !it.has_reported)?;
        known.has_reported = true;
        Some(known.digest)
    }

    /// The stream of the node has ended. Whether the id is free now.
    pub(crate) fn ended(&mut self, node: &str) -> bool {
        if self.by_id.get(node).is_none_or(|it| it.has_reported) {
            return false;
        }
        let holders = self.by_id.remove(node).and_then(|it| it.holders);
        self.shares.give_back(holders.into_iter().flatten(), Room::PLACE);
        self.claims.remove(node);
        true
    }

    pub(crate) fn standing(&self, node: &str) -> Option<Standing> {
        self.by_id.get(node).map(|it| match (it.holders, it.is_proven) {
            (None, _) => Standing::Old,
            (Some(_), true) => Standing::Proven,
            (Some(_), false) => Standing::New,
        })
    }

    /// Whether the id is that of a node that has reported.
    pub(crate) fn is_known(&self, node: &str) -> bool {
        self.by_id.get(node).is_some_and(|it| it.has_reported)
    }

    pub(crate) fn claimed(&mut self, node: &str, address: &str, now: Timestamp) {
        if self.by_id.contains_key(node) {
            self.claims.insert(node.to_owned(), FailedClaim { address: address.to_owned(), at: now });
        }
    }

    pub(crate) fn claim(&self, node: &str) -> Option<&FailedClaim> {
        self.claims.get(node)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// Digest of a secret.
pub(crate) fn digest(secret: &[u8]) -> Sha256Bytes {
    Sha256::digest(secret).into()
}

/// Takes a time that does not depend on the secret.
pub(crate) fn is_of(known: &Sha256Bytes, secret: &[u8]) -> bool {
    known.ct_eq(&digest(secret)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_the_first_secret_and_without_one_to_nobody() {
        let mut bindings = Bindings::default();
        let holders = bindings.holders("m", 0);
        assert_eq!(bindings.check("a", b""), BindingCheck::Unbound);
        assert_eq!(bindings.check("a", b"one"), BindingCheck::Free);
        assert!(bindings.bind("a", b"one", holders));
        for (secret, verdict) in
            [(&b"one"[..], BindingCheck::Known), (b"two", BindingCheck::Other), (b"", BindingCheck::Other)]
        {
            assert_eq!(bindings.check("a", secret), verdict);
        }
        assert_eq!(bindings.check("b", b"one"), BindingCheck::Free, "each id by itself");
    }

    #[test]
    fn an_id_is_free_again_unless_its_node_has_reported() {
        let mut bindings = Bindings::new(HashMap::from([("old".to_owned(), digest(b"s"))]));
        let holders = bindings.holders("m", 0);
        for id in ["a", "b"] {
            assert!(bindings.bind(id, b"s", holders));
        }
        assert_eq!((bindings.proven("a"), bindings.proven("a")), (Some(digest(b"s")), None), "told once");
        let standing = |bindings: &Bindings| ["old", "a", "b", "c"].map(|id| bindings.standing(id));
        let old = Some(Standing::Old);
        let proven = Some(Standing::Proven);
        assert_eq!(standing(&bindings), [old, proven, Some(Standing::New), None]);
        assert_eq!(["old", "a", "b"].map(|id| bindings.ended(id)), [false, false, true]);
        assert_eq!(standing(&bindings), [old, proven, None, None]);
        assert_eq!((bindings.proven("old"), bindings.len()), (None, 2));
    }

    #[test]
    fn a_machine_binds_half_of_the_ids_that_are_free_and_others_find_room() {
        let mut bindings = Bindings::default();
        let mut bind = |machine: &str, token: u64, nth: u32| {
            let holders = bindings.holders(machine, token);
            bindings.bind(&format!("{machine} {token} {nth}"), b"s", holders)
        };
        let mut fill = |machine: &str, token| (0..).take_while(|nth| bind(machine, token, *nth)).count();
        assert_eq!(fill("a", 0), MAX_BINDINGS / 2);
        assert_eq!(fill("b", 0), MAX_BINDINGS / 4);
        let of_token: usize = (0..20).map(|nth| fill(&format!("m{nth}"), 0)).sum();
        assert_eq!(of_token, MAX_BINDINGS / 20, "the token has four fifths");
        assert!(fill("a", 1) == 0 && fill("c", 1) > 0, "another token, from another machine");
    }

    #[test]
    fn a_known_node_passes_the_others_three_times_in_ten_seconds() {
        let mut bindings = Bindings::new(HashMap::from([("n".to_owned(), [0; 32])]));
        let noon = Timestamp::from_unix_seconds(1_000);
        for (at_s, passes) in
            [(0, true), (1, true), (2, true), (3, false), (9, false), (10, true), (11, true)]
        {
            assert_eq!(bindings.may_pass("n", noon + Duration::from_secs(at_s)), passes, "{at_s} s");
        }
        assert!(!bindings.may_pass("m", noon), "an unknown node");
    }
}
