//! Nodes as JSON: what each has in force, and what its last report said.

use tollgate_api::params::PageQuery;
use tollgate_api::{query, views};
use tollgate_control::ControlError;
use tollgate_http_kit::Reply;

use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let PageQuery { limit, cursor } = PageQuery::read(visit)?;
    let (who, now_ms) = console.who(visit).await?;
    let mut nodes = console.control.nodes().nodes();
    let figures = console.control.live().figures();
    let total = nodes.len();
    nodes.sort_by(|a, b| a.id.cmp(&b.id));
    nodes.retain(|it| it.id > cursor);
    nodes.truncate(usize::try_from(limit).unwrap_or_default());
    let next = query::next(&nodes, limit, |it| it.id.clone());
    let node = |it| views::Node::new(&who, it, figures.get(&it.id), now_ms);
    Ok(ok(&views::Nodes { nodes: nodes.iter().map(node).collect(), total, next }))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let id = visit.segment(3);
    let (who, now_ms) = console.who(visit).await?;
    let node = console.control.nodes().nodes().into_iter().find(|it| it.id == id);
    let node = node.ok_or_else(|| ControlError::NotFound { what: "node", name: id.clone() })?;
    let figures = console.control.live().figures();
    Ok(ok(&views::Node::new(&who, &node, figures.get(&id), now_ms)))
}

pub(super) async fn remove(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let removed = console.control.remove_node(&visit.claim()?, &visit.segment(3)).await?;
    let (who, now_ms) = console.who(visit).await?;
    Ok(ok(&views::Node::new(&who, &removed, None, now_ms)))
}
