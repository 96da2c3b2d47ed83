//! Central takes that wait at the same time: equal ones become one operation of the ledger. Not here: how
//! callers wait and are answered.

use std::collections::HashMap;
use std::hash::Hash;

/// Equal takes, each group in order of arrival, the groups in the order of their first take.
///
/// All groups are to be sent at once. If each waited for the reply to the one before, callers with different
/// costs would wait for one round trip after another, most of them longer than their deadline.
#[must_use]
pub fn merge<T, K: Copy + Eq + Hash>(
    takes: impl IntoIterator<Item = T>,
    kind: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups = Vec::<(K, Vec<T>)>::new();
    let mut places = HashMap::new();
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
