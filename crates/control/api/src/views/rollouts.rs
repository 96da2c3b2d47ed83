//! Rollouts.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_control::rollout::{self, Stage};
use tollgate_control::{NodeState, Observed, rollouts};
use utoipa::ToSchema;

use super::apps::Plan;
use crate::shapes::nullable;
use crate::words;

/// Decisions of some nodes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Decisions {
    pub decisions: u64,
    pub denied: u64,
    /// Made without the store.
    pub degraded: u64,
}

impl From<rollout::Tally> for Decisions {
    fn from(it: rollout::Tally) -> Self {
        Self { decisions: it.decisions, denied: it.denied, degraded: it.degraded }
    }
}

/// Decisions of the nodes that have the new version, and of the others.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sides {
    pub chosen: Decisions,
    pub others: Decisions,
}

impl From<&rollout::Sides> for Sides {
    fn from(it: &rollout::Sides) -> Self {
        Self { chosen: it.chosen.into(), others: it.others.into() }
    }
}

/// Why a rollout is halted or withdrawn.
#[derive(Debug, Serialize, ToSchema)]
pub struct Why {
    #[schema(schema_with = words::gate)]
    pub gate: &'static str,
    /// The names of the nodes at fault.
    pub nodes: Vec<String>,
    pub detail: String,
    /// Null where the gate does not compare decisions.
    #[schema(schema_with = nullable::<Sides>, required)]
    pub figures: Option<Sides>,
}

impl From<&rollout::Why> for Why {
    fn from(why: &rollout::Why) -> Self {
        Self {
            gate: why.name(),
            nodes: why.nodes().to_vec(),
            detail: why.detail().to_owned(),
            figures: why.sides().map(Sides::from),
        }
    }
}

/// A step that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepEnd {
    /// Number of the step, counted from 1.
    pub step: usize,
    #[schema(required)]
    pub begun_at: Option<i64>,
    pub ended_at: i64,
    pub figures: Sides,
}

impl From<&rollouts::StepEnd> for StepEnd {
    fn from(it: &rollouts::StepEnd) -> Self {
        let figures = (&it.sides).into();
        Self { step: it.step + 1, begun_at: it.begun_at, ended_at: it.ended_at, figures }
    }
}

/// A rollout of a version. `stages` and `nodes` are not there in lists.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rollout {
    pub app: String,
    pub version: i64,
    pub from_version: i64,
    /// The version with the content of before; null unless it was withdrawn.
    #[schema(required)]
    pub withdrawn_version: Option<i64>,
    #[schema(schema_with = words::rollout_state)]
    pub state: &'static str,
    pub plan: Plan,
    /// Number of the current step, counted from 1.
    pub step: usize,
    /// The beginning of the step; null while it waits for a node to begin with.
    #[schema(required)]
    pub step_at: Option<i64>,
    /// The earliest end of the step; null before it has begun.
    #[schema(required)]
    pub soaked_at: Option<i64>,
    /// Nodes whose reports the step waits for, after its soak time.
    pub unreported: usize,
    /// The share of all nodes that the version has reached, in hundredths of a percent.
    pub share: u16,
    #[schema(schema_with = nullable::<Why>, required)]
    pub why: Option<Why>,
    pub ended: Vec<StepEnd>,
    /// Decisions since the step began.
    pub figures: Sides,
    pub author: String,
    pub created_at: i64,
    pub updated_at: i64,
    #[schema(schema_with = words::stages, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<BTreeMap<&'static str, usize>>,
    /// The most urgent first, at most 500.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<RolloutNode>>,
}

/// Nodes of a rollout that are listed.
const NODES: usize = 500;

impl Rollout {
    /// An entry of a list: without nodes.
    #[must_use]
    pub fn listed(rollout: &rollouts::Rollout, observed: &Observed) -> Self {
        let progress = &rollout.progress;
        Self {
            app: rollout.app.clone(),
            version: rollout.to_version,
            from_version: rollout.from_version,
            withdrawn_version: rollout.withdrawn_version,
            state: progress.state.name(),
            plan: (&rollout.plan).into(),
            step: progress.step + 1,
            step_at: progress.step_at,
            soaked_at: observed.soaked_at,
            unreported: observed.unreported,
            share: progress.reach.share,
            why: progress.why.as_ref().map(Why::from),
            ended: rollout.ended.iter().map(StepEnd::from).collect(),
            figures: (&observed.sides).into(),
            author: rollout.author.clone(),
            created_at: rollout.created_at,
            updated_at: rollout.updated_at,
            stages: None,
            nodes: None,
        }
    }

    /// The same with the stage of each node.
    #[must_use]
    pub fn with_nodes(self, nodes: Vec<(NodeState, Stage)>) -> Self {
        let count_of = |at: Stage| nodes.iter().filter(|(_, it)| *it == at).count();
        let stages = Stage::ALL.map(|at| (at.name(), count_of(at))).into_iter().collect();
        let node = |(node, stage)| RolloutNode::new(&self.app, node, stage);
        let nodes = nodes.into_iter().take(NODES).map(node).collect();
        Self { stages: Some(stages), nodes: Some(nodes), ..self }
    }
}

/// A node in a rollout.
#[derive(Debug, Serialize, ToSchema)]
pub struct RolloutNode {
    pub id: String,
    pub name: String,
    #[schema(schema_with = words::stage)]
    pub stage: &'static str,
    /// The version that it has; 0 without one.
    pub acked: u64,
    /// Why it rejected the version; null where it did not.
    #[schema(required)]
    pub fault: Option<String>,
}

impl RolloutNode {
    fn new(app: &str, node: NodeState, stage: Stage) -> Self {
        let app = node.apps.into_iter().find(|it| it.app == *app);
        let acked = app.as_ref().map_or(0, |it| it.acked);
        Self { id: node.id, name: node.name, stage: stage.name(), acked, fault: app.and_then(|it| it.fault) }
    }
}

/// Rollouts, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rollouts {
    pub rollouts: Vec<Rollout>,
}
