//! The ledger's last reply, and what can be concluded from it a little later.

use crate::{LedgerReply, Mono, Terms};

/// The ledger's last reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReply {
    pub(super) reply: LedgerReply,
    /// When it was asked for, and when it came: the ledger made it in between.
    pub(super) asked: Mono,
    pub(super) received: Mono,
}

impl LastReply {
    /// Microseconds since it came.
    #[inline]
    pub(super) const fn age_us(&self, now: Mono) -> u64 {
        now.ns_since(self.received) / 1_000
    }

    /// The debt now, if nothing was taken since.
    #[inline]
    pub(super) fn taken_now(&self, terms: &Terms, now: Mono) -> u64 {
        terms.taken_after(&self.reply, self.age_us(now))
    }

    /// Microseconds until the window ends, or the epoch.
    #[inline]
    pub(super) const fn ends_in_us(&self, now: Mono) -> u64 {
        self.reply.ends_us.saturating_sub(self.reply.now_us.saturating_add(self.age_us(now)))
    }
}
