//! Keys: what nodes count for a descriptor, by its domain and entries; resetting it; and listing those of a
//! domain.
//!
//! Counters are on the nodes or in their store, so a node is asked by a command over its stream: one node
//! where all share a store, every live node where each counts by itself. Not here: how a command gets there
//! ([`Nodes::command`]), what a node answers (`fleet-agent`).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tollgate_model::Role;

use crate::access::actor::EVERY_APP;
use crate::access::claim::Claim;
use crate::audit::{self, Note};
use crate::changes::apps;
use crate::control::Control;
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::fleet::nodes::{NodeState, Nodes};
use crate::fleet::overrides::{owner, read_domain, read_entries};

/// Time that a node has for its answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Most nodes that are asked for one key.
pub const MAX_NODES_ASKED: usize = 200;
/// Most keys of one look-up of several.
pub const MAX_KEYS: usize = 100;
/// Most bytes of the cursor of a listing.
const MAX_CURSOR: usize = 300;

/// One counter on a node, or in the store that it shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Counter {
    /// The limit in words.
    pub limit: String,
    /// The counter's key.
    pub key: String,
    /// The most permits that it holds.
    pub max: u64,
    /// Permits that are there; negative when overdrawn.
    pub tokens: i64,
    /// Until it is full; `None`: never.
    pub reset_after_ms: Option<u64>,
    /// Whether it was ever used, and is not full again.
    pub tracked: bool,
    /// Only this node's.
    pub local: bool,
    /// The way the node counts while its store does not answer.
    pub degraded: Option<String>,
}

/// A block or an allowance that a node enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Overridden {
    /// `block` or `allow`.
    pub action: String,
    /// Until it ends.
    pub left_ms: u64,
}

/// The state of a key on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Known {
    /// The path of its rule.
    pub rule: Option<String>,
    /// Its counters, one for each limit of the rule.
    pub limits: Vec<Counter>,
    /// Why nothing is counted.
    pub none: Option<String>,
    /// The override of an operator.
    #[serde(rename = "override")]
    pub overridden: Option<Overridden>,
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The node's name.
    pub node: String,
    /// The state of the key, or why there is no answer.
    pub known: Result<Known, String>,
}

/// The permits of one limit on all nodes that know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokensLeft {
    pub least: i64,
    pub most: i64,
    pub sum: i64,
}

/// The answers of the nodes that were asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// One where all nodes share the counters.
    pub nodes: Vec<NodeAnswer>,
    /// Nodes that are live.
    pub live: usize,
    /// Each node counts by itself.
    pub is_local: bool,
    /// The app of the domain is disabled, so that none of its rules counts anything.
    pub is_app_disabled: bool,
}

impl Answers {
    /// The permits of the limit at `index`; `None` if no node knows it.
    #[must_use]
    pub fn tokens(&self, index: usize) -> Option<TokensLeft> {
        let known = self.nodes.iter().filter_map(|it| it.known.as_ref().ok());
        let tokens: Vec<i64> = known.filter_map(|it| it.limits.get(index)).map(|it| it.tokens).collect();
        let least = *tokens.iter().min()?;
        let most = *tokens.iter().max()?;
        let sum = tokens.iter().fold(0, |sum: i64, it| sum.saturating_add(*it));
        Some(TokensLeft { least, most, sum })
    }

    /// The first answer that knows the rule, or any.
    #[must_use]
    pub fn known(&self) -> Option<&Known> {
        let mut known = self.nodes.iter().filter_map(|it| it.known.as_ref().ok());
        let first = known.next()?;
        if first.rule.is_some() { Some(first) } else { known.find(|it| it.rule.is_some()).or(Some(first)) }
    }
}

/// One counter of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Listed {
    /// The counter's key.
    pub key: String,
    /// `counter`, `leased` or `slots`.
    pub kept: String,
    /// The unit or the algorithm, such as `minute` or `token_bucket`.
    pub counted: Option<String>,
    /// The entries to look it up by; `None` where they do not follow from the key.
    pub entries: Option<Vec<(String, String)>>,
}

/// A page of the counters of a domain, by a node whose store keeps names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Listing {
    /// In no order; a key may come twice.
    pub keys: Vec<Listed>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
    /// Why the store has no listing.
    pub none: Option<String>,
    /// Nodes that are live; none means that there is nobody to ask.
    #[serde(skip)]
    pub live: usize,
    /// Why the cursor was not accepted.
    invalid: Option<String>,
}

/// A key as people and programs name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub domain: String,
    /// Entries as `key=value`.
    pub entries: Vec<String>,
}

type Entries = Vec<(String, String)>;

impl Question {
    fn check(&self) -> Result<(String, Entries), ControlError> {
        let mut faults = FieldFaults::default();
        let domain = faults.take("domain", read_domain(&self.domain), String::new());
        let entries = faults.take("entries", read_entries(&self.entries), Vec::new());
        if entries.is_empty() && self.entries.is_empty() {
            faults.add("entries", Fault::Required);
        }
        faults.check()?;
        Ok((domain, entries))
    }
}

/// A question to nodes about a domain: whose it is, and the role that it takes there.
#[derive(Clone, Copy)]
struct Asking<'a> {
    claim: &'a Claim,
    need: Role,
    domain: &'a str,
}

impl Control {
    /// The counters of nodes for a key. Needs viewer of the domain's app.
    ///
    /// # Errors
    /// [`ControlError`]. That a node does not answer is a part of the answer.
    pub async fn inspect_key(&self, claim: &Claim, question: &Question) -> Result<Answers, ControlError> {
        let (domain, entries) = question.check()?;
        let body = json!({"domain": domain, "entries": entries}).to_string();
        let by = Asking { claim, need: Role::Viewer, domain: &domain };
        let mut answers = self.ask_nodes(by, "inspect", body).await?;
        // Nodes take their time, so the right is asked for again.
        let nodes = self.nodes_shared();
        let read = self.read_as(claim, move |tx, actor| {
            let app = owner(tx, &*nodes, &domain)?;
            actor.must(Role::Viewer, &app)?;
            apps::is_disabled(tx, &app)
        });
        answers.is_app_disabled = read.await?;
        Ok(answers)
    }

    /// Whether the right is there now, and the time: asked again before each command to a node, and before an
    /// answer is shown.
    async fn may_ask(&self, by: Asking<'_>) -> Result<i64, ControlError> {
        let need = by.need;
        let domain = by.domain.to_owned();
        let nodes = self.nodes_shared();
        self.read_as(by.claim, move |tx, actor| {
            actor.must(need, &owner(tx, &*nodes, &domain)?)?;
            Ok(tx.now_ms())
        })
        .await
    }

    /// Has nodes forget the counters of a key, so that its next request finds full quotas. Needs editor of
    /// the domain's app.
    ///
    /// # Errors
    /// [`ControlError`]: no node was asked.
    pub async fn reset_key(&self, claim: &Claim, question: &Question) -> Result<Answers, ControlError> {
        let (domain, entries) = question.check()?;
        let body = json!({"domain": domain, "entries": entries}).to_string();
        let of = domain.clone();
        let nodes = self.nodes_shared();
        // Recorded before it is sent: a node that does not answer may have done it.
        self.write_as(claim, move |tx, actor| {
            let domain = &of;
            let app = owner(tx, &*nodes, &of)?;
            actor.must(Role::Editor, &app)?;
            let pairs: Vec<_> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let note = Note {
                action: "key.reset",
                target: format!("{domain} {}", pairs.join(" ")),
                app: if app == EVERY_APP { None } else { Some(&app) },
                ..Note::default()
            };
            audit::append(tx, actor, note)
        })
        .await?;
        self.ask_nodes(Asking { claim, need: Role::Editor, domain: &domain }, "reset", body).await
    }

    /// The counters of a domain whose first entries are those of `question`, a page per call. Needs viewer of
    /// the domain's app.
    ///
    /// # Errors
    /// [`ControlError::Unanswered`]: no node answers. That its store cannot list keys is an answer.
    pub async fn scan_keys(
        &self,
        claim: &Claim,
        question: &Question,
        cursor: &str,
    ) -> Result<Listing, ControlError> {
        let mut faults = FieldFaults::default();
        let domain = faults.take("domain", read_domain(&question.domain), String::new());
        let entries = faults.take("entries", read_entries(&question.entries), Vec::new());
        if cursor.len() > MAX_CURSOR {
            faults.add("cursor", Fault::TooLong { max: MAX_CURSOR });
        }
        faults.check()?;
        let by = Asking { claim, need: Role::Viewer, domain: &domain };
        let now_ms = self.may_ask(by).await?;
        let body = json!({"domain": domain, "entries": entries, "cursor": cursor}).to_string();
        let (live, nodes) = self.live_nodes(now_ms);
        let mut failed = None;
        // All nodes share the store, and the first of them is asked for each page.
        for node in nodes.iter().take(3) {
            let asked = ask(self.nodes_shared(), std::slice::from_ref(node), "scan", &body).await;
            self.may_ask(by).await?;
            let read = asked.into_iter().next().map_or_else(|| Err("no answer".to_owned()), |it| it.1);
            let read = read
                .and_then(|text| serde_json::from_str::<Listing>(&text).map_err(|error| error.to_string()));
            match read {
                Ok(Listing { invalid: Some(_), .. }) => {
                    return Err(invalid("cursor", Fault::Cursor));
                }
                Ok(listing) => return Ok(Listing { live, ..listing }),
                Err(reason) => failed = Some(ControlError::Unanswered { node: node.name.clone(), reason }),
            }
        }
        failed.map_or_else(|| Ok(Listing::default()), Err)
    }

    /// The buckets of up to [`MAX_KEYS`] request classes of an app, in the order asked for; of a class with
    /// `per`, no value is named, so that there is nothing to show. Needs viewer.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn live_keys(
        &self,
        claim: &Claim,
        app: &str,
        keys: &[String],
    ) -> Result<Vec<Answers>, ControlError> {
        let now_ms = self.may_see(claim, app).await?;
        if keys.len() > MAX_KEYS {
            return Err(ControlError::Cap { what: "keys of one look-up", max: MAX_KEYS as i64 });
        }
        let lists: Vec<_> = keys.iter().map(|key| [["key", key.as_str()]]).collect();
        let body = json!({"domain": app, "keys": lists}).to_string();
        let (live, nodes) = self.live_nodes(now_ms);
        let mut answers = vec![Answers { live, ..Answers::default() }; keys.len()];
        for (node, answer) in ask(self.nodes_shared(), &nodes, "inspect", &body).await {
            let read = answer.and_then(|text| {
                #[derive(Deserialize)]
                struct Several {
                    keys: Vec<Known>,
                }
                let read = serde_json::from_str::<Several>(&text);
                read.map(|it| it.keys).map_err(|error| error.to_string())
            });
            for (at, of) in answers.iter_mut().enumerate() {
                let known = read.as_ref().map_err(Clone::clone);
                let known = known.and_then(|it| it.get(at).cloned().ok_or_else(|| "no answer".to_owned()));
                // One answer is enough where the nodes share a counter.
                let is_local = known.as_ref().is_ok_and(|it| it.limits.iter().any(|it| it.local));
                if is_local || !of.nodes.iter().any(|it| it.known.is_ok()) {
                    of.is_local |= is_local;
                    of.nodes.push(NodeAnswer { node: node.clone(), known });
                }
            }
        }
        self.may_see(claim, app).await?;
        Ok(answers)
    }

    async fn may_see(&self, claim: &Claim, app: &str) -> Result<i64, ControlError> {
        let app = app.to_owned();
        self.read_as(claim, move |tx, actor| {
            actor.must(Role::Viewer, &app)?;
            Ok(tx.now_ms())
        })
        .await
    }

    fn live_nodes(&self, now_ms: i64) -> (usize, Vec<NodeState>) {
        // Any app: the rules of the nodes do not matter here.
        let mut live: Vec<_> =
            self.nodes().nodes_of("").into_iter().filter(|it| it.is_live(now_ms)).collect();
        let count = live.len();
        live.truncate(MAX_NODES_ASKED);
        (count, live)
    }

    /// Asks one node after another until one answers, and then the others, if each counts by itself.
    async fn ask_nodes(
        &self,
        by: Asking<'_>,
        kind: &'static str,
        body: String,
    ) -> Result<Answers, ControlError> {
        let (live, nodes) = self.live_nodes(self.may_ask(by).await?);
        let mut answers = Answers { live, ..Answers::default() };
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                self.may_ask(by).await?;
            }
            let asked = ask(self.nodes_shared(), std::slice::from_ref(node), kind, &body).await;
            answers.take(asked);
            let Some(Ok(known)) = answers.nodes.last().map(|it| &it.known) else {
                if index >= 2 {
                    break; // three that do not answer: the others are not waited for one by one
                }
                continue;
            };
            answers.is_local = known.limits.iter().any(|it| it.local);
            if answers.is_local {
                let others = nodes.get(index + 1..).unwrap_or_default();
                self.may_ask(by).await?;
                answers.take(ask(self.nodes_shared(), others, kind, &body).await);
            }
            break;
        }
        Ok(answers)
    }
}

impl Answers {
    fn take(&mut self, asked: Vec<(String, Result<String, String>)>) {
        for (node, answer) in asked {
            let known =
                answer.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
            self.nodes.push(NodeAnswer { node, known });
        }
    }
}

/// Asks all of `nodes` at the same time; in their order.
async fn ask(
    by: Arc<dyn Nodes>,
    nodes: &[NodeState],
    kind: &'static str,
    body: &str,
) -> Vec<(String, Result<String, String>)> {
    let mut asked = JoinSet::new();
    for (index, node) in nodes.iter().enumerate() {
        let by = Arc::clone(&by);
        let id = node.id.clone();
        let body = body.to_owned();
        asked.spawn(async move { (index, by.command(&id, kind, body, PATIENCE).await) });
    }
    let mut answers: Vec<_> = nodes.iter().map(|it| (it.name.clone(), Err("no answer".to_owned()))).collect();
    while let Some(done) = asked.join_next().await {
        if let Ok((index, answer)) = done
            && let Some(kept) = answers.get_mut(index)
        {
            kept.1 = answer;
        }
    }
    answers
}
