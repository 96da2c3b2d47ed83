//! Rules that change while requests are decided: takes the updates of a source, and puts them in force.
//!
//! Rules that cannot be used, or that lack too many of the previous ones, change nothing: the previous ones
//! stay in force, and [`FollowState`], the log and the metrics show the error. Not here: where rules come
//! from (`policy`'s `RuleSource`, `rule-files`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tollgate_core::{Clock, Timestamp};
use tollgate_human_text::with_causes;
use tollgate_observe::Observer;
use tollgate_policy::{Policy, Removed, RuleSource, RuleUpdate};
use tollgate_store::Store;

use crate::limiter::Limiter;

/// Most removed rules, and most removed domains, that a message names.
const MOST_NAMED: usize = 10;

/// Which updates are put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowSettings {
    /// An update that drops more than this percentage of the rules in force is rejected; 100 rejects none.
    pub max_rules_dropped: u8,
}

impl Default for FollowSettings {
    fn default() -> Self {
        Self { max_rules_dropped: 100 }
    }
}

/// Result of the updates so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowState {
    /// Number of updates so far, usable or not.
    pub updates: u64,
    /// Version of the rules in force.
    pub version: String,
    /// The source's revision of the last update; empty before the first.
    pub revision: String,
    /// When the last update was applied or rejected; `None` before the first.
    pub at: Option<Timestamp>,
    /// Why the last update is not in force; `None` if it is. One error per line.
    pub error: Option<Arc<str>>,
}

/// A limiter that follows a [`RuleSource`].
#[derive(Debug)]
pub struct Follower {
    shared: Arc<SharedFollowState>,
}

#[derive(Debug, Default)]
struct SharedFollowState {
    state: Mutex<FollowState>,
    changed: Condvar,
}

/// Puts every update of `source` that `settings` allow in force in `limiter`, on a thread that ends with the
/// source. Counts are kept.
///
/// # Errors
/// The thread could not be started.
///
/// # Example
/// ```
/// # use std::convert::Infallible;
/// # use std::{sync::Arc, sync::mpsc, time::Duration};
/// # use tollgate_core::ManualClock;
/// # use tollgate_limiter::follow::{FollowSettings, follow};
/// # use tollgate_limiter::{Limiter, LimiterSettings, Policy};
/// # use tollgate_policy::{DescriptorSpec, DomainSpec, Limit, PolicyBuilder, RuleSpec, RuleUpdate, Unit};
/// # use tollgate_store::ModelStore;
/// let limiter = Arc::new(Limiter::new(Policy::empty(), ModelStore::default(), LimiterSettings::default()));
/// let (sender, source) = mpsc::channel::<RuleUpdate<Infallible>>();
/// let clock = Arc::new(ManualClock::default());
/// let follower = follow(source, Arc::clone(&limiter), clock, FollowSettings::default())?;
/// let user = DescriptorSpec::new("user").rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
/// let policy = PolicyBuilder::new().domain(DomainSpec::new("shop").descriptor(user)).build()?;
/// sender.send(RuleUpdate::new("7", Ok(policy)))?;
/// let state = follower.wait(|state| state.updates == 1, Duration::from_secs(60)).expect("an update");
/// assert_eq!(state.revision, "7");
/// assert!(limiter.rules().policy().domain("shop").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn follow<S: Store, O: Observer>(
    mut source: impl RuleSource + 'static,
    limiter: Arc<Limiter<S, O>>,
    clock: Arc<dyn Clock>,
    settings: FollowSettings,
) -> std::io::Result<Follower> {
    limiter.observer().started(clock.now());
    let version = limiter.rules().policy().version().to_owned();
    let state = FollowState { version, ..FollowState::default() };
    let shared = Arc::new(SharedFollowState { state: Mutex::new(state), changed: Condvar::new() });
    let follower = Follower { shared: Arc::clone(&shared) };
    std::thread::Builder::new().name("rules".into()).spawn(move || {
        while let Some(update) = source.next() {
            apply(update, settings, &limiter, clock.now(), &shared);
        }
    })?;
    Ok(follower)
}

fn apply<E: std::error::Error, S: Store, O: Observer>(
    update: RuleUpdate<E>,
    settings: FollowSettings,
    limiter: &Limiter<S, O>,
    now: Timestamp,
    shared: &SharedFollowState,
) {
    let RuleUpdate { revision, policy, warnings, .. } = update;
    let rules = limiter.rules();
    let policy = policy.map_err(|error| with_causes(&error).to_string());
    let error = match policy.and_then(|policy| accept(rules.policy(), policy, settings)) {
        Ok(policy) => {
            tracing::info!(version = policy.version(), "rules loaded");
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            log_removed(&Removed::between(rules.policy(), &policy));
            limiter.replace(policy, now);
            None
        }
        Err(error) => {
            match rules.policy().domains().is_empty() {
                true => tracing::error!("no rules loaded; requests fail until the files are valid:\n{error}"),
                false => tracing::error!("rule reload failed; keeping the previous rules:\n{error}"),
            }
            let error: Arc<str> = error.into();
            limiter.reject_because(&error, now);
            Some(error)
        }
    };
    let mut state = shared.state.lock();
    let version = limiter.rules().policy().version().to_owned();
    *state = FollowState { updates: state.updates + 1, version, revision, at: Some(now), error };
    drop(state);
    shared.changed.notify_all();
}

/// The new rules, or why `settings` do not let them replace the old ones.
fn accept(old: &Policy, new: Policy, settings: FollowSettings) -> Result<Policy, String> {
    let removed = Removed::between(old, &new);
    if !removed.is_above(settings.max_rules_dropped) {
        return Ok(new);
    }
    let dropped = removed.rules.len();
    let mut named: Vec<String> = removed.rules.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    if dropped > MOST_NAMED {
        named.push(format!("{} more", dropped - MOST_NAMED));
    }
    Err(format!(
        "the new rules lack {dropped} of the {} rules in force ({}), more than the {} % of max-rules-dropped; \
         restore them, or restart the server to load the new rules as they are",
        removed.before,
        named.join(", "),
        settings.max_rules_dropped
    ))
}

/// Warns about limits that no longer exist: a half-written or lost file shows here.
fn log_removed(removed: &Removed<'_>) {
    let Removed { domains, rules, .. } = removed;
    for domain in domains.iter().take(MOST_NAMED) {
        tracing::warn!(domain = domain.name(), rules = domain.rules().len(), "domain removed by the reload");
    }
    if domains.len() > MOST_NAMED {
        tracing::warn!(domains = domains.len() - MOST_NAMED, "more domains removed by the reload");
    }
    let is_alone = |domain: &str| domains.iter().all(|removed| removed.name() != domain);
    let alone: Vec<_> = rules.iter().filter(|removed| is_alone(removed.domain.name())).collect();
    for removed in alone.iter().take(MOST_NAMED) {
        tracing::warn!(
            domain = removed.domain.name(),
            rule = removed.rule.path,
            "rule removed by the reload"
        );
    }
    if alone.len() > MOST_NAMED {
        tracing::warn!(rules = alone.len() - MOST_NAMED, "more rules removed by the reload");
    }
}

impl Follower {
    /// Result of the updates so far.
    #[must_use]
    pub fn state(&self) -> FollowState {
        self.shared.state.lock().clone()
    }

    /// Waits until the state satisfies `condition`, at most for `timeout`.
    ///
    /// # Errors
    /// The state at the end of `timeout`.
    pub fn wait(
        &self,
        condition: impl Fn(&FollowState) -> bool,
        timeout: Duration,
    ) -> Result<FollowState, FollowState> {
        let mut state = self.shared.state.lock();
        let waited = self.shared.changed.wait_while_for(&mut state, |state| !condition(state), timeout);
        if waited.timed_out() { Err(state.clone()) } else { Ok(state.clone()) }
    }
}
