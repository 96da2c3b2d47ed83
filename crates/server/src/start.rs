//! Parts of a server before it listens: rules, store, limiter, and the source of rules that it follows.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_clock::SystemClock;
use tollgate_core::Clock;
use tollgate_limiter::follow::{FollowSettings, follow};
use tollgate_limiter::{Limiter, StoreStats};
use tollgate_policy::{Place, Policy};
use tollgate_rule_files::{Fault, FileSource, LoadError, Options, RuleSet, WatchSettings};
use tollgate_store::Origin;
use tollgate_store::routed::RoutedStore;
use tollgate_store_memcache::MemcacheStore;
use tollgate_store_memory::{MemoryConfig, MemoryStore};
use tollgate_store_redis::RedisStore;

use crate::any_store::{AnyStore, NodeLimiter};
use crate::node::{NodeRules, ServerNode};
use crate::node_control;
use crate::settings::{Settings, StoreKind};

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The store cannot be used as it is configured.
    #[error("{0}")]
    Store(String),
    /// The control plane cannot be used as it is configured.
    #[error("{0}")]
    Control(String),
    /// The system gives no thread.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    /// The paths, joined, contain no rule file.
    #[error("{0}: no rule file found; only *.yaml, *.yml and *.json are read")]
    NoFiles(String),
    /// The only rule files have names that begin with a dot.
    #[error("{}: not read, since its name begins with a dot, and no other rule file was found; rename it, give the path of the file itself, or set TOLLGATE_DOT_FILES=true", .0.display())]
    Hidden(PathBuf),
    /// A path cannot be read, or files are faulty.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl RulesError {
    /// Number of errors: one per line.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Load(LoadError::Faulty(faults)) => faults.as_slice().len(),
            _ => 1,
        }
    }
}

/// The rules of `paths`. Every command loads them by this, so that all of them agree.
pub(crate) fn load(paths: &[PathBuf], options: &Options) -> Result<RuleSet, RulesError> {
    let mut rules = tollgate_rule_files::load(paths, options)?;
    let hidden = match options.dot_files {
        true => Vec::new(),
        false => tollgate_rule_files::hidden_files(paths)?,
    };
    if rules.policy.domains().is_empty() {
        if let Some(first) = hidden.into_iter().next() {
            return Err(RulesError::Hidden(first));
        }
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(RulesError::NoFiles(paths.join(", ")));
    }
    rules.warned += hidden.len();
    if let Some(first) = hidden.first() {
        let more = match hidden.len() - 1 {
            0 => String::new(),
            more => format!("; {more} more such files follow"),
        };
        let message = format!(
            "not read, since the name begins with a dot; rename it, give its path itself, or set TOLLGATE_DOT_FILES=true{more}"
        );
        let place = Place { file: first.as_path().into(), line: 1, column: 1 };
        rules.warnings.push(Fault { place, path: String::new(), message });
    }
    Ok(rules)
}

/// A node that decides by `rules`, if there are any, and reloads them by `options` when their files change.
pub(crate) fn node(
    rules: Option<RuleSet>,
    options: Options,
    settings: &Settings,
) -> Result<Arc<ServerNode>, StartError> {
    let policy = rules.as_ref().map_or_else(Policy::empty, |rules| rules.policy.clone());
    let limiter = Arc::new(limiter(policy, settings).map_err(StartError::Store)?);
    watch_memory(&limiter);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let rules = match &settings.control {
        Some(control) => {
            let rules = rules.as_ref();
            let controlled = node_control::start(control, rules, &options, settings, &limiter, &clock);
            NodeRules::Control(controlled.map_err(StartError::Control)?)
        }
        None => follow_files(rules, options, settings, &limiter, &clock)?,
    };
    Ok(Arc::new(ServerNode::new(limiter, clock, rules, settings.store.ready_needs)))
}

/// Has `limiter` follow the rule files.
fn follow_files(
    rules: Option<RuleSet>,
    options: Options,
    settings: &Settings,
    limiter: &Arc<NodeLimiter>,
    clock: &Arc<dyn Clock>,
) -> io::Result<NodeRules> {
    let loaded = rules.map(|rules| rules.revision);
    let watched = WatchSettings { loaded, ..WatchSettings::new(settings.rules.paths.clone(), options) };
    let (source, files) = FileSource::watch(watched);
    let followed = FollowSettings { max_rules_dropped: settings.rules.max_rules_dropped };
    let follower = follow(source, Arc::clone(limiter), Arc::clone(clock), followed)?;
    Ok(NodeRules::Files { files, follower })
}

/// A limiter with the configured store, and with memory of its own beside a shared one.
fn limiter(policy: Policy, settings: &Settings) -> Result<NodeLimiter, String> {
    let store = &settings.store;
    let memory = MemoryStore::new(MemoryConfig {
        max_bytes: store.memory_max,
        request_share: store.memory_request_share,
        ..MemoryConfig::default()
    });
    let of = |store| Limiter::new(policy, store, settings.decisions.limiter.clone());
    Ok(match &store.kind {
        StoreKind::Memory => of(AnyStore::Memory(memory)),
        StoreKind::Redis(config) => {
            let store = RedisStore::new((**config).clone()).map_err(|error| error.to_string())?;
            of(AnyStore::Redis(RoutedStore::new(store, memory)))
        }
        StoreKind::Memcache(config) => {
            let nodes = store.nodes;
            let store = MemcacheStore::new((**config).clone()).map_err(|error| error.to_string())?;
            of(AnyStore::Memcache { store: RoutedStore::new(store, memory), nodes })
        }
    })
}

/// Shows the tables in this process's memory in the limiter's metrics.
fn watch_memory(limiter: &Arc<NodeLimiter>) {
    for (name, origin) in [("memory", Origin::Rule), ("memory_requests", Origin::Request)] {
        let watched = Arc::downgrade(limiter);
        limiter.metrics().watch_store(name, move || {
            let stats = watched.upgrade().map(|limiter| limiter.store().memory().stats_of(origin));
            let stats = stats.unwrap_or_default();
            StoreStats::new(stats.tracked_keys, stats.bytes, stats.max_bytes, stats.evictions)
        });
    }
}
