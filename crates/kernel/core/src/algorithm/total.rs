//! A quota that never refills by itself: the word counts the permits taken, and never expires.
//!
//! At most the limit is admitted, ever. A denied take changes nothing; only giving back makes room.

use crate::bounds::MAX_COUNT;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::{Expiry, Word, WordStep};

/// Stands for "never" in a span.
const NEVER_NS: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Total {
    /// The limit that decisions state.
    limit: u64,
    stock: u64,
}

impl Total {
    pub(crate) const fn new(limit: u64, stock: u64) -> Self {
        Self { limit, stock }
    }

    pub(crate) const fn stock(&self) -> u64 {
        self.stock
    }

    pub(crate) fn take(&self, word: Word, cost: Cost) -> WordStep {
        let used = used(word);
        let after = used.saturating_add(cost.permits());
        if after > self.stock {
            let decision = Decision::never(self.limit, self.stock.saturating_sub(used), reset_ns(used));
            return WordStep { word, decision };
        }
        self.set_used(word, used, after)
    }

    pub(crate) fn give_back(&self, word: Word, cost: Cost) -> WordStep {
        let used = used(word);
        self.set_used(word, used, used.saturating_sub(cost.permits()))
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost) -> WordStep {
        let used = used(word);
        let after = used.saturating_add(cost.permits()).min(MAX_COUNT).max(used);
        let remaining = self.stock.saturating_sub(after);
        let owed = after.saturating_sub(self.stock);
        let decision = Decision::used(self.limit, remaining, owed, NEVER_NS, reset_ns(after));
        WordStep { decision, ..self.set_used(word, used, after) }
    }

    fn set_used(&self, word: Word, used: u64, after: u64) -> WordStep {
        let word = if after == used { word } else { Word { value: after, expires: Expiry::NEVER } };
        let decision = Decision::admit(self.limit, self.stock.saturating_sub(after), reset_ns(after));
        WordStep { word, decision }
    }
}

/// A word that another algorithm wrote (its rule was changed to `total`) counts nothing here.
const fn used(word: Word) -> u64 {
    if word.expires.to_bits() == Expiry::NEVER.to_bits() { word.value } else { 0 }
}

const fn reset_ns(used: u64) -> u64 {
    if used == 0 { 0 } else { NEVER_NS }
}
