//! Limits by rules: those of rule files, or the same ones built in code, in this process or shared by a
//! fleet.
//!
//! Not here: the meaning of rules (`policy`, `limiter`), the counters (the stores).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_clock::SystemClock;
use tollgate_core::{Clock, RetryAfter, Timestamp};
use tollgate_limiter::{
    Answer, Degraded, Descriptor, Entry, Limiter, LimiterSettings, Request, RequestError, Scratch,
};
use tollgate_policy::Policy;
use tollgate_rule_files::{LoadError, Options, load};
use tollgate_store::Store;
use tollgate_store_memory::MemoryStore;

use crate::direct::RateLimiter;

/// Most buffers that are kept between decisions.
const MOST_SCRATCHES: usize = 64;

/// Limits requests by rules: entries describe a request, and the rules decide which limits apply.
///
/// Made by [`RateLimiter::from_rules`] from files, or by [`RuleLimiter::new`] from a [`Policy`] that
/// [`PolicyBuilder`](crate::rule::PolicyBuilder) made in code. Its counters are in this process until
/// `shared` (feature `redis`) puts them into a Redis or Valkey that a fleet uses; the calls are the same.
/// Without that they need no runtime: their futures are ready when they are first polled.
///
/// Clones share counters and rules.
///
/// # Example
/// ```
/// use tollgate::rule::{DescriptorSpec, DomainSpec, Limit, PolicyBuilder, RuleSpec, Unit};
/// use tollgate::{RuleError, RuleLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let two = RuleSpec::new(Limit::per(2, Unit::Minute)?);
/// let shop = DomainSpec::new("shop").descriptor(DescriptorSpec::new("user").rule(two));
/// let limiter = RuleLimiter::new(PolicyBuilder::new().domain(shop).build()?);
///
/// let ann = [("user", "ann")];
/// assert_eq!(limiter.check("shop", &ann).await?.remaining(), 1);
/// limiter.check("shop", &ann).await?;
/// let error = limiter.check("shop", &ann).await.expect_err("the third in a minute");
/// assert!(matches!(error, RuleError::Denied { retry_after: Some(_), .. }));
/// # Ok(())
/// # }
/// ```
pub struct RuleLimiter<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    limiter: CounterStores,
    clock: C,
    /// Paths from which the rules were read.
    path: Option<PathBuf>,
    scratches: Mutex<Vec<Scratch>>,
}

/// The stores of the counters.
enum CounterStores {
    Here(Box<Limiter<MemoryStore, ()>>),
    #[cfg(feature = "redis")]
    Shared(Box<Limiter<FleetStore, ()>>),
}

/// Counters that a fleet shares, beside this process's.
#[cfg(feature = "redis")]
type FleetStore = tollgate_store::routed::RoutedStore<tollgate_store_redis::RedisStore, MemoryStore>;

/// A request that rules admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleAdmitted {
    remaining: u64,
    owed: u64,
    delay: Duration,
    degraded: Option<Degraded>,
}

impl RuleAdmitted {
    /// Permits left of the limit that has least left; [`u64::MAX`] where no limit applies.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Permits used beyond those available, for hits that are reported after they were used: the most of any
    /// limit.
    #[must_use]
    pub const fn owed(&self) -> u64 {
        self.owed
    }

    /// Delay after which to act: zero, except where a rule paces.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// The choice of the rule's `on_store_failure`, where it decided because the shared store did not answer;
    /// `None` where the store did.
    #[must_use]
    pub const fn degraded(&self) -> Option<Degraded> {
        self.degraded
    }
}

/// Reason why a request may not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A limit denied the request. Limits that are charged separately may have counted the attempt, as the
    /// rule files say (`charge`).
    #[error("rate limit exceeded: {rule}")]
    Denied {
        /// The path of the rule; empty where a request that no rule matches is denied.
        rule: String,
        /// Time until the same request would pass; `None` if no wait helps.
        retry_after: Option<Duration>,
    },
    /// The shared store did not answer, and the rule denies then. The permits may or may not have been taken.
    #[error("denied by {rule}, since the store did not answer; the permits may or may not have been taken")]
    Unavailable {
        /// The path of the rule.
        rule: String,
    },
    /// The request cannot be decided. No permit was taken; a retry fails the same way.
    #[error(transparent)]
    Invalid(#[from] tollgate_limiter::RequestError),
}

/// Reason why rules cannot be read again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The new rules are faulty. The previous ones stay in force.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The rules were built in code, not read from files.
    #[error("these rules were built in code; put others in force with replace")]
    NoPath,
}

impl RateLimiter {
    /// Limits by the rules of a file, or of a folder with everything below it: the files that the server
    /// reads.
    ///
    /// # Errors
    /// [`LoadError`]: the path cannot be read, or files are faulty; it shows every fault with its place.
    ///
    /// # Example
    /// ```
    /// use tollgate::RateLimiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("tollgate-rules-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("shop.yaml");
    /// # std::fs::write(&path, "{domain: shop, descriptors: [{key: user, rate_limit: {rate: 2/h}}]}")?;
    /// let limiter = RateLimiter::from_rules(&path)?;
    /// assert_eq!(limiter.check("shop", &[("user", "ann")]).await?.remaining(), 1);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_rules(path: impl AsRef<Path>) -> Result<RuleLimiter, LoadError> {
        RuleLimiter::from_rules_with_clock(path, SystemClock::new())
    }
}

impl RuleLimiter {
    /// Limits by `policy`, with counters in this process.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_clock(policy, SystemClock::new())
    }
}

impl<C: Clock> RuleLimiter<C> {
    /// As [`RuleLimiter::new`], on the time of `clock`.
    #[must_use]
    pub fn with_clock(policy: Policy, clock: C) -> Self {
        Self::keeping(policy, clock, None)
    }

    /// As [`RateLimiter::from_rules`], on the time of `clock`.
    ///
    /// # Errors
    /// As there.
    pub fn from_rules_with_clock(path: impl AsRef<Path>, clock: C) -> Result<Self, LoadError> {
        let path = path.as_ref().to_owned();
        let rules = load(std::slice::from_ref(&path), &Options::default())?;
        Ok(Self::keeping(rules.policy, clock, Some(path)))
    }

    fn keeping(policy: Policy, clock: C, path: Option<PathBuf>) -> Self {
        let limiter = Limiter::with_observer(policy, MemoryStore::default(), LimiterSettings::default(), ());
        Self::of(CounterStores::Here(Box::new(limiter)), clock, path)
    }

    fn of(limiter: CounterStores, clock: C, path: Option<PathBuf>) -> Self {
        Self { inner: Arc::new(Inner { limiter, clock, path, scratches: Mutex::default() }) }
    }

    /// The time by the limiter's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Takes one permit from each limit that the rules of `domain` have for a request of these entries: key
    /// and value, from the general to the specific.
    ///
    /// With a shared store it must be called within a tokio runtime. It waits no longer than the deadline of
    /// the store's settings (1 s by default), and at first also for a connection (2 s). Dropped before its
    /// end, the permits may or may not be taken.
    ///
    /// # Errors
    /// [`RuleError`] names the rule that denies, and says whether permits may have been taken.
    pub async fn check(&self, domain: &str, entries: &[(&str, &str)]) -> Result<RuleAdmitted, RuleError> {
        self.check_all(domain, &[entries], 1).await
    }

    /// Takes `n` permits from each limit; 0 takes nothing, and shows the permits left.
    ///
    /// # Errors
    /// As [`RuleLimiter::check`].
    pub async fn check_n(
        &self,
        domain: &str,
        entries: &[(&str, &str)],
        n: u64,
    ) -> Result<RuleAdmitted, RuleError> {
        self.check_all(domain, &[entries], n).await
    }

    /// Takes `n` permits for a request that several descriptors describe, each a list of entries. It passes
    /// if all of them do; a domain with `charge: together` then charges all or none.
    ///
    /// # Errors
    /// As [`RuleLimiter::check`].
    pub async fn check_all(
        &self,
        domain: &str,
        descriptors: &[&[(&str, &str)]],
        n: u64,
    ) -> Result<RuleAdmitted, RuleError> {
        self.decide(domain, descriptors, n, false).await
    }

    /// Counts `n` permits of each limit that are used already, in full, whether they are there or not: for
    /// requests whose cost is known only afterwards. No limit denies it.
    ///
    /// # Errors
    /// [`RuleError::Denied`] where a rule denies whatever is left; nothing was counted. Otherwise as
    /// [`RuleLimiter::check`].
    ///
    /// # Example
    /// ```
    /// # use tollgate::rule::{DescriptorSpec, DomainSpec, Limit, PolicyBuilder, RuleSpec, Unit};
    /// # use tollgate::{ManualClock, RuleLimiter};
    /// let rule = RuleSpec::new(Limit::per(1_000, Unit::Hour)?.post_paid());
    /// let team = DescriptorSpec::new("team").rule(rule);
    /// let policy = PolicyBuilder::new().domain(DomainSpec::new("llm").descriptor(team)).build()?;
    /// let limiter = RuleLimiter::with_clock(policy, ManualClock::default());
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let team = [("team", "search")];
    /// assert!(limiter.check_n("llm", &team, 0).await.is_ok(), "something is left");
    /// let used = limiter.consume("llm", &team, 1_800).await?; // the tokens of the answer
    /// assert_eq!((used.remaining(), used.owed()), (0, 800));
    /// assert!(limiter.check_n("llm", &team, 0).await.is_err(), "until it is paid");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn consume(
        &self,
        domain: &str,
        entries: &[(&str, &str)],
        n: u64,
    ) -> Result<RuleAdmitted, RuleError> {
        self.decide(domain, &[entries], n, true).await
    }

    async fn decide(
        &self,
        domain: &str,
        descriptors: &[&[(&str, &str)]],
        n: u64,
        is_consumed: bool,
    ) -> Result<RuleAdmitted, RuleError> {
        let entry = |&(key, value)| Entry::new(key, value);
        let entries: Vec<Vec<Entry<'_>>> =
            descriptors.iter().map(|it| it.iter().map(entry).collect()).collect();
        let descriptors: Vec<_> = entries.iter().map(|entries| Descriptor::new(entries)).collect();
        let request = Request { domain, descriptors: &descriptors, hits: n };
        let inner = &*self.inner;
        let mut scratch = inner.scratches.lock().pop().unwrap_or_default();
        let now = inner.clock.now();
        let result = match &inner.limiter {
            CounterStores::Here(limiter) => decided(limiter, &request, now, is_consumed, &mut scratch).await,
            #[cfg(feature = "redis")]
            CounterStores::Shared(limiter) => {
                decided(limiter, &request, now, is_consumed, &mut scratch).await
            }
        };
        let mut scratches = inner.scratches.lock();
        if scratches.len() < MOST_SCRATCHES {
            scratches.push(scratch);
        }
        drop(scratches);
        result?
    }

    /// Puts `policy` in force, for all clones; counters of rules that are in both keep their counts.
    pub fn replace(&self, policy: Policy) {
        let now = self.now();
        match &self.inner.limiter {
            CounterStores::Here(limiter) => limiter.replace(policy, now),
            #[cfg(feature = "redis")]
            CounterStores::Shared(limiter) => limiter.replace(policy, now),
        }
    }

    /// Reads the rules of [`RateLimiter::from_rules`] again, and puts them in force.
    ///
    /// # Errors
    /// [`ReloadError`]; the rules before stay in force.
    pub fn reload(&self) -> Result<(), ReloadError> {
        let path = self.inner.path.as_ref().ok_or(ReloadError::NoPath)?;
        let rules = load(std::slice::from_ref(path), &Options::default())?;
        self.replace(rules.policy);
        Ok(())
    }

    /// The rules in force.
    #[cfg(feature = "redis")]
    fn policy(&self) -> Policy {
        match &self.inner.limiter {
            CounterStores::Here(limiter) => limiter.rules().policy().clone(),
            CounterStores::Shared(limiter) => limiter.rules().policy().clone(),
        }
    }
}

#[cfg(feature = "redis")]
impl<C: Clock + Clone> RuleLimiter<C> {
    /// The same rules, whose counters are in the Redis or Valkey at `url`, together with those of all others
    /// that share it: `redis://host:port`, and the other forms of the server's `--store`. Counts of this
    /// process are not carried over.
    ///
    /// Opens no connection yet, and the server may be down: each rule says what happens then
    /// (`on_store_failure`; without it requests pass). The nodes of a fleet and the server `tollgate` count
    /// alike.
    ///
    /// # Errors
    /// [`ConfigError`](crate::rule::ConfigError): the URL has none of the known forms, or a rule has an
    /// algorithm that only memory counts.
    ///
    /// # Example
    /// ```
    /// use tollgate::RuleLimiter;
    /// use tollgate::rule::Policy;
    ///
    /// let limiter = RuleLimiter::new(Policy::empty()).shared("redis://127.0.0.1:6379")?;
    /// assert!(RuleLimiter::new(Policy::empty()).shared("127.0.0.1:6379").is_err());
    /// # Ok::<(), tollgate::rule::ConfigError>(())
    /// ```
    pub fn shared(&self, url: &str) -> Result<Self, crate::rule::ConfigError> {
        self.shared_by(crate::rule::RedisConfig::parse_url(url)?)
    }

    /// As [`shared`](RuleLimiter::shared), with all settings: how long a call and connecting may take, the
    /// prefix of keys, and, in the field `link`, TLS and passwords.
    ///
    /// # Errors
    /// [`ConfigError`](crate::rule::ConfigError): settings contradict each other, or a certificate cannot be
    /// read.
    pub fn shared_by(&self, config: crate::rule::RedisConfig) -> Result<Self, crate::rule::ConfigError> {
        let redis = tollgate_store_redis::RedisStore::new(config)?;
        let store = FleetStore::new(redis, MemoryStore::default());
        let limiter = Limiter::with_observer(self.policy(), store, LimiterSettings::default(), ());
        Ok(Self::of(
            CounterStores::Shared(Box::new(limiter)),
            self.inner.clock.clone(),
            self.inner.path.clone(),
        ))
    }
}

async fn decided<S: Store>(
    limiter: &Limiter<S, ()>,
    request: &Request<'_>,
    now: Timestamp,
    is_consumed: bool,
    scratch: &mut Scratch,
) -> Result<Result<RuleAdmitted, RuleError>, RequestError> {
    let answer = match is_consumed {
        false => limiter.decide(request, now, scratch).await?,
        true => Box::pin(limiter.consume(request, now, scratch)).await?,
    };
    Ok(outcome(&answer))
}

fn outcome(answer: &Answer<'_, ()>) -> Result<RuleAdmitted, RuleError> {
    if answer.is_admitted() {
        let limited = answer.descriptors().filter(|it| it.limit.is_some());
        return Ok(RuleAdmitted {
            remaining: limited.map(|it| it.remaining()).min().unwrap_or(u64::MAX),
            owed: answer.descriptors().map(|it| it.owed()).max().unwrap_or_default(),
            delay: answer.descriptors().map(|it| it.delay()).max().unwrap_or_default(),
            degraded: answer.degraded(),
        });
    }
    let denying = answer.descriptors().filter(|it| !it.is_admitted()).max_by_key(|it| it.retry_after());
    let rule = denying.as_ref().and_then(|it| it.rule).map(|rule| rule.path.clone()).unwrap_or_default();
    if denying.is_some_and(|it| it.degraded == Some(Degraded::Denied)) {
        return Err(RuleError::Unavailable { rule });
    }
    let retry_after = match answer.retry_after() {
        RetryAfter::Now => Some(Duration::ZERO),
        RetryAfter::After(span) => Some(span),
        RetryAfter::Never => None,
    };
    Err(RuleError::Denied { rule, retry_after })
}

impl<C> Clone for RuleLimiter<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> fmt::Debug for RuleLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_shared = !matches!(self.inner.limiter, CounterStores::Here(_));
        f.debug_struct("RuleLimiter").field("is_shared", &is_shared).finish_non_exhaustive()
    }
}
