//! Central takes that wait together: equal ones become one operation of the ledger. Not here: who waits, and how they are answered.

use std::collections::HashMap;
use std::hash::Hash;

/// Takes that are alike, each group in order of arrival, the groups in the order of their first.
///
/// All groups are to be sent at once: were each to wait for the answer to the one before, callers whose costs differ would have one
/// round trip after another to wait for, and most of them longer than their deadline.
#[must_use]
pub fn merged<T, K: Copy + Eq + Hash>(
    takes: impl IntoIterator<Item = T>,
    kind: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let (mut groups, mut places) = (Vec::<(K, Vec<T>)>::new(), HashMap::new());
    for take in takes {
        let kind = kind(&take);
        let place = *places.entry(kind).or_insert_with(|| {
            groups.push((kind, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(take);
    }
    groups
}
