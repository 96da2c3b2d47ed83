//! A batch in two parts, and the answers in one again.

use crate::{Counter, Sharing, Take, Verdicts};

/// Whether this counter is kept in this node's memory.
pub(crate) fn is_local(counter: Counter<'_>) -> bool {
    counter.sharing == Sharing::Local
}

/// The takes of a batch by where they are counted, each part in the batch's order.
pub(crate) struct Parts<'a> {
    pub(crate) local: Vec<Take<'a>>,
    pub(crate) shared: Vec<Take<'a>>,
}

/// Partitions `batch` by store.
pub(crate) fn split<'a>(batch: &[Take<'a>]) -> Parts<'a> {
    let (local, shared) = batch.iter().copied().partition(|take| is_local(take.counter));
    Parts { local, shared }
}

/// Pushes the answers to both parts of `batch` in its order.
pub(crate) fn merge(batch: &[Take<'_>], of_local: Verdicts, of_shared: Verdicts, verdicts: &mut Verdicts) {
    let mut of_local = of_local.into_iter();
    let mut of_shared = of_shared.into_iter();
    let next = |take: &Take<'_>| if is_local(take.counter) { of_local.next() } else { of_shared.next() };
    verdicts.extend(batch.iter().filter_map(next));
}
