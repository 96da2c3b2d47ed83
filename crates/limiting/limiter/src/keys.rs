//! Keys of counters that belong to no rule alone: this node's share of a quota, and quotas that came with the
//! request.
//!
//! Such a key begins with a control character, with which no rule's key begins. It holds the rate, so that
//! another rate is another counter, unless the quota keeps instants, which are valid at any rate. Not here:
//! keys of rules (`policy`).

use tollgate_core::{Period, Quota};
use tollgate_store::{Counter, Key, Origin, Sharing};

/// First byte of the key of a share; no quota that came with a request has it.
const SHARE: u8 = 14;
/// First byte of the key of a share of slots.
const SLOT_SHARE: u8 = 15;

/// This node's part of a quota, by which it decides alone, and the counter of that part.
#[derive(Debug)]
pub(crate) struct Share {
    key: Vec<u8>,
    quota: Quota,
    origin: Origin,
}

impl Share {
    /// The part of `whole` that one of `nodes` nodes has.
    pub(crate) fn new(whole: Counter<'_>, nodes: u32) -> Self {
        let quota = whole.quota.share_of(nodes);
        let mut key = Vec::with_capacity(HEAD + whole.key.0.len());
        write_head(SHARE, &quota, &mut key);
        key.extend_from_slice(whole.key.0);
        Self { key, quota, origin: whole.origin }
    }

    /// The counter of the part, in this node's memory.
    pub(crate) fn counter(&self) -> Counter<'_> {
        Counter::new(Key(&self.key), &self.quota).shared(Sharing::Local).from_origin(self.origin)
    }
}

/// Appends the key of this node's share of the slots that are kept under `whole`.
pub(crate) fn write_slot_share(whole: &[u8], out: &mut Vec<u8>) {
    out.push(SLOT_SHARE);
    out.extend_from_slice(whole);
}

const HEAD: usize = 14;

/// Appends a kind and the rate of `quota`: always [`HEAD`] bytes, so that no key runs into another. A rate of
/// 0 per 0 ns, which no quota has, means any rate.
#[inline]
pub(crate) fn write_head(kind: u8, quota: &Quota, out: &mut Vec<u8>) {
    let mut head = [0; HEAD];
    head[0] = kind;
    if quota.keeps_instants() {
        return out.extend_from_slice(&head);
    }
    // 2^40 is above the largest limit that a quota may have; no limit at all has no counter.
    let limit = quota.limit().min((1 << 40) - 1);
    let period = match quota.period() {
        Period::Span(span) => u64::try_from(span.as_nanos()).unwrap_or(u64::MAX),
        Period::Civil { unit, .. } => u64::MAX - 1 - *unit as u64,
        _ => u64::MAX,
    };
    head[1..6].copy_from_slice(&limit.to_be_bytes()[3..]);
    head[6..].copy_from_slice(&period.to_be_bytes());
    out.extend_from_slice(&head);
}
