//! Nodes that have attached, kept over restarts of the control plane until somebody removes them.
//!
//! A node that is away may still decide by the rules that it holds. So it is shown until an operator says
//! that it is gone, or for 30 days. Not here: what nodes hold and report, which they say again when they
//! attach (`nodes`), and their secrets (`identities`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tollgate_db::{Tx, insert, row, select};
use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP};
use crate::access::claim::Claim;
use crate::audit::{self, Note};
use crate::control::Control;
use crate::error::ControlError;
use crate::fleet::nodes::{NodeState, Nodes};
use crate::tasks::events::Topic;

/// Time between two writes of changes.
const EVERY: Duration = Duration::from_secs(2);
/// The last sign of a node is written this often.
const SEEN_MS: i64 = 30_000;
/// A node without a sign for this long is forgotten.
const KEPT_MS: i64 = 30 * 24 * 3_600_000;
/// Most nodes that are kept; the hub has no more either.
const MOST: i64 = 10_000;

/// The stored state of each node, and when its last sign was written.
type StoredStates = BTreeMap<String, (NodeState, i64)>;

impl Control {
    /// The nodes that have attached and were not removed, without what they hold. To be asked before
    /// the first node attaches.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn known_nodes(&self) -> Result<Vec<NodeState>, ControlError> {
        self.read(all).await
    }

    /// Writes which nodes there are, until the future is dropped.
    pub async fn keep_nodes(&self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut kept: Option<StoredStates> = None;
        let mut is_failing = false;
        loop {
            ticks.tick().await;
            let result = self.write_nodes(&mut kept).await;
            if let Err(error) = &result
                && !is_failing
            {
                tracing::warn!(%error, "nodes cannot be kept in the database; a restart would forget new ones");
            }
            is_failing = result.is_err();
        }
    }

    /// Writes which nodes there are, once.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn write_nodes_once(&self) -> Result<(), ControlError> {
        self.write_nodes(&mut None).await
    }

    /// Writes what has changed since `kept`, which is read first if it is not known.
    async fn write_nodes(&self, kept: &mut Option<StoredStates>) -> Result<(), ControlError> {
        let before = match kept.take() {
            Some(kept) => kept,
            None => self.read(all).await?.into_iter().map(|it| (it.id.clone(), (it, 0))).collect(),
        };
        let now_ms = self.read(|tx| Ok(tx.now_ms())).await?;
        let nodes = proven(self.nodes());
        let is_news = |it: &NodeState| match before.get(&it.id) {
            Some((known, at)) => !is_same(known, it) || (it.is_connected && now_ms - at >= SEEN_MS),
            None => true,
        };
        let is_forgotten = before.values().any(|(it, _)| now_ms - it.last_seen_ms > KEPT_MS);
        if !is_forgotten && !nodes.iter().any(is_news) {
            // Nodes that are gone from the fleet are news when they come back.
            let stays = |id: &String| nodes.iter().any(|it| it.id == *id);
            *kept = Some(before.into_iter().filter(|(id, _)| stays(id)).collect());
            return Ok(());
        }
        let source = self.nodes_shared();
        let work = move |tx: &mut dyn Tx| -> Result<StoredStates, ControlError> {
            let now_ms = tx.now_ms();
            // Asked for here, so that none is written again that was removed meanwhile.
            let nodes = proven(&*source);
            let mut after = StoredStates::new();
            for node in nodes {
                let known = before.get(&node.id);
                let is_written = known.is_some_and(|(known, at)| {
                    is_same(known, &node) && !(node.is_connected && now_ms - at >= SEEN_MS)
                });
                if !is_written {
                    put(tx, &node)?;
                }
                let at = known.filter(|_| is_written).map_or(now_ms, |(_, at)| *at);
                after.insert(node.id.clone(), (node, at));
            }
            tx.execute("DELETE FROM nodes WHERE last_seen < $1", &[(now_ms - KEPT_MS).into()])?;
            Ok(after)
        };
        *kept = Some(self.write(work).await?);
        Ok(())
    }

    /// Removes a node that is not live from all lists. One that attaches again is new. Needs admin of every
    /// app.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::NodeLive`] while it reports.
    pub async fn remove_node(&self, claim: &Claim, id: &str) -> Result<NodeState, ControlError> {
        let id = id.to_owned();
        let source = self.nodes_shared();
        let removed = self.write_as(claim, move |tx, actor| remove(tx, &*source, actor, &id)).await?;
        self.live().events.note(Topic::Nodes);
        Ok(removed)
    }
}

fn remove(tx: &mut dyn Tx, nodes: &dyn Nodes, actor: &Actor, id: &str) -> Result<NodeState, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let node = without_apps(nodes).into_iter().find(|it| it.id == id);
    let node = node.ok_or_else(|| ControlError::NotFound { what: "node", name: id.to_owned() })?;
    if node.is_live(tx.now_ms()) {
        return Err(ControlError::NodeLive { node: node.name });
    }
    tx.execute("DELETE FROM nodes WHERE id = $1", &[id.into()])?;
    let before = json!({
        "id": node.id, "name": node.name, "address": node.address, "last_seen": node.last_seen_ms,
    });
    let target = node.name.clone();
    audit::append(
        tx,
        actor,
        Note { action: "node.remove", target, before: Some(before), ..Note::default() },
    )?;
    // Last: if the commit fails, the node is written again with the next change.
    nodes.remove(id);
    Ok(node)
}

/// The nodes that are worth keeping: that take rules and report. Whoever has the token of all nodes attaches
/// as many others as there are ids.
fn proven(nodes: &dyn Nodes) -> Vec<NodeState> {
    let mut all = without_apps(nodes);
    all.retain(|it| !it.is_new);
    all
}

/// Every node, without what it holds.
fn without_apps(nodes: &dyn Nodes) -> Vec<NodeState> {
    let mut all = nodes.nodes_of("");
    all.iter_mut().for_each(|node| node.apps.clear());
    all
}

/// Whether all that is kept of a node, except its last sign, is the same.
fn is_same(a: &NodeState, b: &NodeState) -> bool {
    (&a.name, &a.address, &a.software) == (&b.name, &b.address, &b.software)
        && (&a.labels, a.language, &a.local_domains) == (&b.labels, b.language, &b.local_domains)
}

fn all(tx: &mut dyn Tx) -> Result<Vec<NodeState>, ControlError> {
    let nodes = select!(NodeRow: "FROM nodes ORDER BY id LIMIT $1").all(tx, &[MOST.into()])?;
    nodes.into_iter().map(NodeRow::state).collect()
}

row! {
    struct NodeRow {
        id: String,
        name: String,
        address: String,
        software: String,
        labels: String,
        language: i64,
        local_domains: String,
        last_seen: i64 =
            "MAX(last_seen, COALESCE((SELECT MAX(at) FROM reported WHERE reported.node = nodes.id), 0))",
    }
}

impl NodeRow {
    fn state(self) -> Result<NodeState, ControlError> {
        let json = |error: serde_json::Error| ControlError::Document {
            app: String::new(),
            reason: error.to_string(),
        };
        Ok(NodeState {
            id: self.id,
            name: self.name,
            address: self.address,
            software: self.software,
            labels: serde_json::from_str(&self.labels).map_err(json)?,
            language: u32::try_from(self.language).unwrap_or(1),
            local_domains: serde_json::from_str(&self.local_domains).map_err(json)?,
            last_seen_ms: self.last_seen,
            ..NodeState::default()
        })
    }
}

fn put(tx: &mut dyn Tx, node: &NodeState) -> Result<(), ControlError> {
    insert!(tx, "nodes" {
        id: &node.id,
        name: &node.name,
        address: &node.address,
        software: &node.software,
        labels: json!(node.labels).to_string(),
        language: i64::from(node.language),
        local_domains: json!(node.local_domains).to_string(),
        first_seen: tx.now_ms(),
        last_seen: node.last_seen_ms,
    }, "ON CONFLICT (id) DO UPDATE SET name = excluded.name, address = excluded.address, \
         software = excluded.software, labels = excluded.labels, language = excluded.language, \
         local_domains = excluded.local_domains, last_seen = excluded.last_seen")?;
    Ok(())
}
