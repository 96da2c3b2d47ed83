//! Which nodes a candidate reaches: by share, by labels. Both ends of a rollout compute it alike.

use sha2::{Digest as _, Sha256};

/// A share of every node.
pub const WHOLE: u16 = 10_000;

/// The nodes that a candidate has reached. It only ever grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Id of the rollout: each rollout begins with other nodes.
    pub rollout: String,
    /// Nodes whose [`place`] is below this are reached; [`WHOLE`] is all of them.
    pub share: u16,
    /// Nodes with such labels are reached too.
    pub selectors: Vec<Selector>,
}

/// Nodes that have one of these values under a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Key of the label.
    pub key: String,
    /// Alternatives; one of them must match.
    pub values: Vec<String>,
}

impl Selector {
    /// Whether `labels` has one of the values.
    pub fn matches<'a>(&self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        labels.into_iter().any(|(key, value)| key == self.key && self.values.iter().any(|it| it == value))
    }
}

impl Reach {
    /// Whether it reaches a node with these labels.
    ///
    /// # Example
    /// ```
    /// # use tollgate_fleet_proto::reach::{Reach, Selector};
    /// let zone = Selector { key: "zone".to_owned(), values: vec!["a".to_owned()] };
    /// let reach = Reach { rollout: "r".to_owned(), share: 0, selectors: vec![zone] };
    /// assert!(reach.includes("node", [("zone", "a")]));
    /// assert!(!reach.includes("node", [("zone", "b")]));
    /// ```
    pub fn includes<'a>(
        &self,
        node: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> bool {
        self.selectors.iter().any(|selector| selector.matches(labels.clone()))
            || self.share >= WHOLE
            || (self.share > 0 && place(&self.rollout, node) < self.share)
    }

    /// Whether it reaches every node that `other` reaches.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let has_selectors = other.selectors.iter().all(|it| self.selectors.contains(it));
        self.rollout == other.rollout && self.share >= other.share && (self.share >= WHOLE || has_selectors)
    }
}

/// Where a node is in the order of a rollout, from 0 to 9,999. It never changes.
#[must_use]
pub fn place(rollout: &str, node: &str) -> u16 {
    let mut hash = Sha256::new();
    hash.update((rollout.len() as u64).to_be_bytes());
    hash.update(rollout);
    hash.update(node);
    let digest = hash.finalize();
    let first = digest.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    u16::try_from(first % u64::from(WHOLE)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(share: u16) -> Reach {
        Reach { rollout: "01J".to_owned(), share, selectors: Vec::new() }
    }

    #[test]
    fn a_share_reaches_its_part_of_the_nodes_and_a_larger_one_keeps_them() {
        let nodes: Vec<String> = (0..10_000).map(|it| format!("node-{it}")).collect();
        let reached =
            |share| -> Vec<&String> { nodes.iter().filter(|node| reach(share).includes(node, [])).collect() };
        assert_eq!((reached(0).len(), reached(WHOLE).len()), (0, nodes.len()));
        let mut before = Vec::new();
        for share in [1, 100, 1_000, 5_000, 9_999, WHOLE] {
            let now = reached(share);
            assert!(before.iter().all(|node| now.contains(node)), "{share} keeps the nodes before");
            let expected = f64::from(share);
            let off = (now.len() as f64 - expected).abs();
            assert!(off <= 5.0 * expected.sqrt().max(1.0), "{share}: {} nodes", now.len());
            before = now;
        }
    }

    #[test]
    fn each_rollout_begins_with_other_nodes() {
        let first = |rollout: &str| {
            (0..100).min_by_key(|node| place(rollout, &format!("node-{node}"))).expect("nodes")
        };
        let firsts: std::collections::BTreeSet<i32> =
            (0..20).map(|rollout| first(&rollout.to_string())).collect();
        assert!(firsts.len() > 10, "{firsts:?}");
    }

    #[test]
    fn a_reach_covers_what_it_has_grown_from() {
        let zone = |value: &str| Selector { key: "zone".into(), values: vec![value.into()] };
        let with = |share, selectors: &[Selector]| Reach { selectors: selectors.to_vec(), ..reach(share) };
        for (larger, smaller, covers) in [
            (reach(2), reach(1), true),
            (reach(1), reach(2), false),
            (with(0, &[zone("a"), zone("b")]), with(0, &[zone("a")]), true),
            (with(0, &[zone("b")]), with(0, &[zone("a")]), false),
            (reach(WHOLE), with(0, &[zone("a")]), true),
            (Reach { rollout: "other".into(), ..reach(2) }, reach(1), false),
        ] {
            assert_eq!(larger.covers(&smaller), covers, "{larger:?} {smaller:?}");
        }
    }
}
