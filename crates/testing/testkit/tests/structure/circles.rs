//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// From each node to those that it points to.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Every largest set of nodes that all reach each other, sorted; a node that only points to itself does not
/// count.
pub(crate) fn of(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|node| (node, reachable(graph, node))).collect();
    let mut circles = BTreeSet::new();
    for (node, from_here) in &reached {
        let circle: Vec<String> = from_here
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(*node)))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable<'g>(graph: &'g Graph, from: &'g String) -> BTreeSet<&'g String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

#[test]
fn only_nodes_that_reach_each_other_are_a_circle() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(of(&graph(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "c")])), [[""; 0]; 0]);
    assert_eq!(of(&graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])), [["a", "b", "c"]]);
    assert_eq!(
        of(&graph(&[("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"), ("b", "c")])),
        [["a", "b"], ["c", "d"]]
    );
}
