//! Keys: the counters of nodes, listings of a store, and the buckets of rules.

use serde::Serialize;
use tollgate_control::keys;
use utoipa::ToSchema;

use crate::shapes::nullable;
use crate::words;

/// The counters that nodes have for a key.
#[derive(Debug, Serialize, ToSchema)]
pub struct Key {
    /// The path of its rule; null without one.
    #[schema(required)]
    pub rule: Option<String>,
    /// Why there is no rule; null with one.
    #[schema(required)]
    pub none: Option<String>,
    /// The block or the allowance in force; null without one.
    #[schema(schema_with = nullable::<KeyOverride>, required)]
    pub r#override: Option<KeyOverride>,
    /// Each node counts for itself.
    pub local: bool,
    /// The app is disabled, so that no node has its rules.
    pub app_disabled: bool,
    pub live_nodes: usize,
    pub nodes: Vec<KeyNode>,
}

/// A block or an allowance as a node has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyOverride {
    pub action: String,
    pub left_ms: u64,
}

/// The reply of a node: `limits`, or the `error`.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyNode {
    /// The id of the node.
    pub node: String,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Counter>>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The counter of one limit.
#[derive(Debug, Serialize, ToSchema)]
pub struct Counter {
    /// The limit in words.
    pub limit: String,
    /// The key of the counter.
    pub counter: String,
    /// Permits available at once.
    pub max: u64,
    /// Permits available now; below 0 where some were taken in advance.
    pub tokens: i64,
    /// Until all permits are back; null when that is never.
    #[schema(required)]
    pub reset_after_ms: Option<u64>,
    /// The counter exists.
    pub tracked: bool,
    /// The node counts for itself.
    pub local: bool,
    /// `allow`, `deny` or `local` while the store is unavailable; null while it is available.
    #[schema(required)]
    pub degraded: Option<String>,
}

impl From<&keys::Counter> for Counter {
    fn from(it: &keys::Counter) -> Self {
        Self {
            limit: it.limit.clone(),
            counter: it.key.clone(),
            max: it.max,
            tokens: it.tokens,
            reset_after_ms: it.reset_after_ms,
            tracked: it.tracked,
            local: it.local,
            degraded: it.degraded.clone(),
        }
    }
}

impl From<&keys::Answers> for Key {
    fn from(answers: &keys::Answers) -> Self {
        let known = answers.known();
        let overridden = known.and_then(|it| it.overridden.as_ref());
        let node = |it: &keys::NodeAnswer| {
            let node = it.node.clone();
            match &it.known {
                Ok(known) => {
                    let limits = known.limits.iter().map(Counter::from).collect();
                    KeyNode { node, limits: Some(limits), error: None }
                }
                Err(error) => KeyNode { node, limits: None, error: Some(error.clone()) },
            }
        };
        Self {
            rule: known.and_then(|it| it.rule.clone()),
            none: known.and_then(|it| it.none.clone()),
            r#override: overridden.map(|it| KeyOverride { action: it.action.clone(), left_ms: it.left_ms }),
            local: answers.is_local,
            app_disabled: answers.is_app_disabled,
            live_nodes: answers.live,
            nodes: answers.nodes.iter().map(node).collect(),
        }
    }
}

/// A key that a store lists.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedKey {
    pub key: String,
    #[schema(schema_with = words::kept_as)]
    pub kept: String,
    #[schema(required)]
    pub counted: Option<String>,
    /// Each as key=value; null where the key does not say them.
    #[schema(required)]
    pub entries: Option<Vec<String>>,
}

impl From<keys::Listed> for ListedKey {
    fn from(it: keys::Listed) -> Self {
        let keys::Listed { key, kept, counted, entries } = it;
        let in_words =
            |all: Vec<(String, String)>| all.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self { key, kept, counted, entries: entries.map(in_words) }
    }
}

/// Keys of a domain.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedKeys {
    pub keys: Vec<ListedKey>,
    /// The cursor of the next part; null after the last.
    #[schema(required)]
    pub next: Option<String>,
    /// Why nothing is listed; null otherwise.
    #[schema(required)]
    pub none: Option<String>,
    pub live_nodes: usize,
}

impl From<keys::Listing> for ListedKeys {
    fn from(found: keys::Listing) -> Self {
        Self {
            keys: found.keys.into_iter().map(ListedKey::from).collect(),
            next: found.next,
            none: found.none,
            live_nodes: found.live,
        }
    }
}

/// The bucket of a rule.
#[derive(Debug, Serialize, ToSchema)]
pub struct LiveKey {
    pub key: String,
    /// Permits available on the node that has least; null where no node knows.
    #[schema(required)]
    pub tokens: Option<i64>,
    /// Permits available on the node that has most.
    #[schema(required)]
    pub tokens_most: Option<i64>,
    /// Nodes that replied.
    pub nodes: usize,
    /// Each node counts for itself.
    pub local: bool,
    #[schema(required)]
    pub last_used: Option<i64>,
}

/// The buckets of rules of an app.
#[derive(Debug, Serialize, ToSchema)]
pub struct LiveKeys {
    pub app: String,
    pub keys: Vec<LiveKey>,
}
