//! Problems, computed from the current state: for the Overview, the API and metrics.
//!
//! Alerts are Prometheus' business: each kind of problem is a metric, and `deploy/alerts.yml` has the rules.

mod exposition;
pub(crate) mod state;

pub use exposition::metrics;

use std::collections::BTreeMap;

use crate::audit::edited_rows::EditedRows;
use crate::audit::head::Lost;
use crate::error::Awaited;
use crate::fleet::figures::{Figures, Surroundings};
use crate::fleet::nodes::NodeState;
use crate::history::Counts;
use crate::rollouts::FailedRollout;

/// A version may take this long to reach a node.
const LAG_MS: i64 = 30_000;
/// Nodes that have sent nothing for this long are forgotten here.
const FORGOTTEN_MS: i64 = 24 * 3_600_000;
/// Decisions on both sides without which shares are not compared.
const LEAST_DECISIONS: i64 = 500;
/// A denied share that is this much higher than before has jumped, in hundredths of a percent.
const JUMP: i64 = 2_000;
/// A degraded share from which on an app is degraded, in hundredths of a percent: not a single late reply.
const DEGRADED: i64 = 100;
/// A certificate that expires within this time is a problem.
const CERTIFICATE_MS: i64 = 7 * 24 * 3_600_000;
/// A node's clock may differ by this much.
const SKEW_MS: i64 = 2_000;
/// Fewer rejected requests in five minutes are no problem.
const LEAST_REJECTED: u64 = 10;
/// Nor is one of this many requests.
const REJECTED_OF: u64 = 100;
/// Most kinds of rejected requests, and most rules, that a problem names.
const MOST_REASONS: usize = 3;
/// Time for which a claim of a node's id is shown.
const CLAIM_MS: i64 = 3_600_000;
/// Most problems of one kind.
const MOST: usize = 100;

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// A node sends no reports.
    UnresponsiveNode,
    /// A node rejected a version, or crashed while applying it.
    RejectedVersion,
    /// A node has held an older version for more than 30 s.
    VersionLag,
    /// The denied share of an app has jumped.
    DeniedShare,
    /// Nodes decide without their store.
    Degraded,
    /// A node reports its store as unavailable.
    StoreDown,
    /// A gate failed and the rollout was withdrawn.
    WithdrawnRollout,
    /// A gate failed and the rollout waits for an operator.
    HaltedRollout,
    /// The disk of the control plane is nearly full.
    DiskLow,
    /// A TLS certificate expires soon.
    CertificateExpiring,
    /// The database is older than what nodes hold.
    FrozenApp,
    /// A node cannot save its rules, or has faulty rule files of its own.
    NodeFault,
    /// The clock of a node differs from this one's, which calendar windows depend on.
    ClockSkew,
    /// Somebody has tried to attach with the id of a node, and without its secret.
    ClaimedNode,
    /// A rule denies and does not count what may be the cost of finished work.
    ForgottenCharges,
    /// Changes wait for nodes that were there before the start.
    AwaitedNodes,
    /// The files of the database are not those that are open any more: changes are rejected.
    DatabaseGone,
    /// Entries of the audit were acknowledged and are missing.
    AuditCut,
    /// Another program has edited rows of the database.
    EditedRows,
    /// A node was asked much that its rules could not answer: by a program or a proxy that asks wrongly.
    BadRequests,
}

impl ProblemKind {
    pub const ALL: [Self; 20] = [
        Self::UnresponsiveNode,
        Self::RejectedVersion,
        Self::VersionLag,
        Self::DeniedShare,
        Self::Degraded,
        Self::StoreDown,
        Self::WithdrawnRollout,
        Self::HaltedRollout,
        Self::DiskLow,
        Self::CertificateExpiring,
        Self::FrozenApp,
        Self::NodeFault,
        Self::ClockSkew,
        Self::ClaimedNode,
        Self::ForgottenCharges,
        Self::AwaitedNodes,
        Self::DatabaseGone,
        Self::AuditCut,
        Self::EditedRows,
        Self::BadRequests,
    ];

    /// Its name in the API and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnresponsiveNode => "unresponsive_node",
            Self::RejectedVersion => "rejected_version",
            Self::VersionLag => "version_lag",
            Self::DeniedShare => "denied_share",
            Self::Degraded => "degraded",
            Self::StoreDown => "store_down",
            Self::WithdrawnRollout => "withdrawn_rollout",
            Self::HaltedRollout => "halted_rollout",
            Self::DiskLow => "disk_low",
            Self::CertificateExpiring => "certificate_expiring",
            Self::FrozenApp => "frozen_app",
            Self::NodeFault => "node_fault",
            Self::ClockSkew => "clock_skew",
            Self::ClaimedNode => "claimed_node",
            Self::ForgottenCharges => "forgotten_charges",
            Self::AwaitedNodes => "awaited_nodes",
            Self::DatabaseGone => "database_gone",
            Self::AuditCut => "audit_cut",
            Self::EditedRows => "edited_rows",
            Self::BadRequests => "bad_requests",
        }
    }
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The app that it concerns; empty if it concerns all.
    pub app: String,
    /// The id of the node that has it; empty if it is of no single node.
    pub node: String,
    /// The name of that node.
    pub node_name: String,
    /// Since when, in ms UTC, where that is known.
    pub since_ms: Option<i64>,
    /// A version, a share in hundredths of a percent, free bytes, seconds, or a number of requests or rows.
    pub value: i64,
    /// The node's own words, or other details.
    pub detail: String,
}

/// The state that problems are computed from.
#[derive(Clone, Debug, Default)]
pub struct ProblemInputs {
    /// Now, in ms UTC.
    pub now_ms: i64,
    /// Every known node.
    pub nodes: Vec<NodeState>,
    /// Figures of their last reports, by id.
    pub figures: BTreeMap<String, Figures>,
    /// When the current version of each app was last given to more nodes.
    pub versions: BTreeMap<String, i64>,
    /// By app: the last five minutes, and the hour before.
    pub shares: BTreeMap<String, (Counts, Counts)>,
    /// Apps that take no change, and the highest version of each that nodes hold.
    pub frozen: BTreeMap<String, i64>,
    /// Apps of which few nodes hold what this database has never published.
    pub few: BTreeMap<String, i64>,
    /// Why the file of the database is gone; `None` while it is there.
    pub gone: Option<String>,
    /// Entries of the audit that are missing.
    pub lost: Option<Lost>,
    /// Rows that another program has edited.
    pub edited: Option<EditedRows>,
    /// The nodes that changes wait for.
    pub awaited: Option<Awaited>,
    /// Rollouts that a gate has withdrawn.
    pub withdrawn: Vec<FailedRollout>,
    /// Rollouts that a gate has halted.
    pub halted: Vec<FailedRollout>,
    /// Disk and certificate.
    pub surroundings: Surroundings,
}

/// Everything that is wrong in `state`, in the order of [`ProblemKind`].
#[must_use]
pub fn find(state: &ProblemInputs) -> Vec<Problem> {
    let mut found = Vec::new();
    for node in &state.nodes {
        of_node(state, node, &mut found);
    }
    for (app, (now, before)) in &state.shares {
        let of_app = |kind, value| Problem { app: app.clone(), value, ..of(kind) };
        if let (Some(share), Some(usual)) = (now.denied_share(), before.denied_share())
            && now.offered().min(before.offered()) >= LEAST_DECISIONS
            && share - usual >= JUMP
        {
            found.push(of_app(ProblemKind::DeniedShare, share));
        }
        if let Some(share) = now.degraded_share().filter(|share| *share >= DEGRADED) {
            found.push(of_app(ProblemKind::Degraded, share));
        }
    }
    for (app, held) in &state.frozen {
        found.push(Problem { app: app.clone(), value: *held, ..of(ProblemKind::FrozenApp) });
    }
    if let Some(Awaited { missing, of, left_ms }) = state.awaited {
        let value = (left_ms + 999) / 1_000;
        let detail = format!("{missing}/{of}");
        found.push(Problem { value, detail, ..self::of(ProblemKind::AwaitedNodes) });
    }
    if let Some(detail) = &state.gone {
        found.push(Problem { detail: detail.clone(), ..of(ProblemKind::DatabaseGone) });
    }
    if let Some(lost) = &state.lost {
        let detail = match lost.found < lost.seq {
            true => format!("{} – {}", lost.found.saturating_add(1), lost.seq),
            false => format!("> {}", lost.found), // changes without an entry of their own
        };
        found.push(Problem { value: lost.seq, detail, ..of(ProblemKind::AuditCut) });
    }
    if let Some(EditedRows { rows, detail, since_ms }) = &state.edited {
        let since_ms = Some(*since_ms);
        let detail = detail.clone();
        found.push(Problem { value: *rows, since_ms, detail, ..of(ProblemKind::EditedRows) });
    }
    let rollouts =
        [(ProblemKind::WithdrawnRollout, &state.withdrawn), (ProblemKind::HaltedRollout, &state.halted)];
    for (kind, of_kind) in rollouts {
        for FailedRollout { app, version, at_ms } in of_kind {
            let app = app.clone();
            let since_ms = Some(*at_ms);
            found.push(Problem { app, since_ms, value: *version, ..of(kind) });
        }
    }
    if let Some((free, size)) = state.surroundings.disk
        && (!state.surroundings.has_room() || free < size / 20)
    {
        let value = i64::try_from(free).unwrap_or(i64::MAX);
        found.push(Problem { value, ..of(ProblemKind::DiskLow) });
    }
    if let Some(ends) = state.surroundings.certificate_ends_ms
        && ends - state.now_ms < CERTIFICATE_MS
    {
        found.push(Problem { value: ends, ..of(ProblemKind::CertificateExpiring) });
    }
    found.sort();
    let mut left = BTreeMap::new();
    found.retain(|it| {
        let left = left.entry(it.kind).or_insert(MOST);
        *left = left.saturating_sub(1);
        *left > 0
    });
    found
}

fn of_node(state: &ProblemInputs, node: &NodeState, found: &mut Vec<Problem>) {
    let silent_ms = state.now_ms.saturating_sub(node.last_seen_ms);
    if silent_ms > FORGOTTEN_MS {
        return;
    }
    let of_node = |kind| Problem { node: node.id.clone(), node_name: node.name.clone(), ..of(kind) };
    if let Some((address, at_ms)) = &node.claim
        && state.now_ms.saturating_sub(*at_ms) < CLAIM_MS
    {
        let since_ms = Some(*at_ms);
        let detail = address.clone();
        found.push(Problem { since_ms, detail, ..of_node(ProblemKind::ClaimedNode) });
    }
    if !node.is_live(state.now_ms) {
        let since_ms = Some(node.last_seen_ms);
        // Its last report may be wrong by now.
        return found.push(Problem { since_ms, ..of_node(ProblemKind::UnresponsiveNode) });
    }
    for app in &node.apps {
        let made_ms = state.versions.get(&app.app).copied();
        let of_app = |kind, value: u64| Problem {
            app: app.app.clone(),
            value: i64::try_from(value).unwrap_or(i64::MAX),
            since_ms: made_ms,
            detail: app.fault.clone().unwrap_or_default(),
            ..of_node(kind)
        };
        if app.is_ahead {
            found.push(of_app(ProblemKind::FrozenApp, app.acked));
        } else if app.fault.is_some() {
            found.push(of_app(ProblemKind::RejectedVersion, app.wanted));
        } else if app.acked < app.wanted && made_ms.is_some_and(|made| state.now_ms - made > LAG_MS) {
            found.push(of_app(ProblemKind::VersionLag, app.acked));
        }
    }
    if node.skew_ms.saturating_abs() > SKEW_MS {
        found.push(Problem { value: node.skew_ms, ..of_node(ProblemKind::ClockSkew) });
    }
    let Some(figures) = state.figures.get(&node.id) else { return };
    if let Some((store, false)) = &figures.store {
        found.push(Problem { detail: store.clone(), ..of_node(ProblemKind::StoreDown) });
    }
    for fault in [&figures.state_error, &figures.rules_error] {
        if !fault.is_empty() {
            found.push(Problem { detail: fault.clone(), ..of_node(ProblemKind::NodeFault) });
        }
    }
    if !figures.forgotten.is_empty() {
        let sum = figures.forgotten.iter().fold(0_u64, |sum, it| sum.saturating_add(it.requests));
        let named = figures.forgotten.iter().take(MOST_REASONS);
        let named: Vec<_> = named.map(|it| format!("{}: {}", it.domain, it.rule)).collect();
        let value = i64::try_from(sum).unwrap_or(i64::MAX);
        let detail = named.join(", ");
        found.push(Problem { value, detail, ..of_node(ProblemKind::ForgottenCharges) });
    }
    let rejected = figures.rejected.iter().fold(0_u64, |sum, it| sum.saturating_add(it.count));
    if rejected >= LEAST_REJECTED && rejected > figures.decided.saturating_add(rejected) / REJECTED_OF {
        let named = figures.rejected.iter().filter(|it| !it.surface.is_empty()).take(MOST_REASONS);
        let named: Vec<_> = named.map(|it| format!("{} {} ({})", it.surface, it.status, it.reason)).collect();
        let value = i64::try_from(rejected).unwrap_or(i64::MAX);
        let detail = named.join(", ");
        found.push(Problem { value, detail, ..of_node(ProblemKind::BadRequests) });
    }
}

fn of(kind: ProblemKind) -> Problem {
    let app = String::new();
    let node = String::new();
    let node_name = String::new();
    let detail = String::new();
    Problem { kind, app, node, node_name, since_ms: None, value: 0, detail }
}
