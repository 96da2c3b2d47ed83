//! Rate limiting for Rust programs: a function, a user, an outgoing client.
//!
//! It is not in a registry yet. `Cargo.toml` names its repository, or the folder of a copy:
//!
//! ```toml
//! [dependencies]
//! tollgate = { git = "https://github.com/tollgate/tollgate" }
//! # or a copy: tollgate = { path = "../tollgate/crates/library/tollgate" }
//! tollgate-tower = { git = "https://github.com/tollgate/tollgate" } # layers for axum, tonic, clients
//! ```
//!
//! Features: `tokio` (on by default; callers that wait in tasks), `rules`, `redis`, `macros`, `http`.
//!
//! # Limit a function
//!
//! A [`Quota`] says how much, a [`RateLimiter`] counts. A hundred calls per second here, and up to two
//! hundred at once after a quiet time:
//!
//! ```
//! use tollgate::{Quota, RateLimiter};
//!
//! let limiter = RateLimiter::direct(Quota::per_second(100).burst(200))?;
//!
//! if limiter.check().is_ok() {
//!     // call it
//! }
//! # assert_eq!(limiter.take_at_most(1_000), 199);
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! A denial is an error that says when to come back, so that `?` passes it on:
//!
//! ```
//! use tollgate::{Denied, Quota, RateLimiter};
//!
//! fn send_mail(limiter: &RateLimiter) -> Result<(), Denied> {
//!     limiter.check()?;
//!     Ok(())
//! }
//!
//! let limiter = RateLimiter::direct(Quota::per_hour(1))?;
//! assert!(send_mail(&limiter).is_ok());
//! let denied = send_mail(&limiter).unwrap_err();
//! assert!(denied.retry_after().is_some_and(|span| span.as_secs() > 3_590));
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! # Quotas from a configuration
//!
//! A quota is also a text, the same as `rate` in rule files, and its errors say what to write:
//!
//! ```
//! use tollgate::Quota;
//!
//! let quota: Quota = "5/minute burst 20".parse()?;
//! assert_eq!(quota, Quota::per_minute(5).burst(20));
//!
//! let error = "10r/s".parse::<Quota>().unwrap_err();
//! assert_eq!(error.to_string(), "invalid rate \"10r/s\": write 10/s");
//! # Ok::<(), tollgate::ParseQuotaError>(())
//! ```
//!
//! A message does not repeat the error that `source()` returns: print the sources too, as `{:#}` of anyhow
//! does.
//!
//! # Limit a route
//!
//! The crate `tollgate-tower` limits services of axum, hyper and tonic by address, header, path or anything
//! else. Ten requests per second and client address, with axum:
//!
//! ```ignore
//! let layer = RateLimitLayer::per_peer(Quota::per_second(10))?;
//! let app = Router::new().route("/search", get(search)).layer(layer);
//! // Requests carry the address that they come from only if axum is asked for it:
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! ```
//!
//! A request without an address gets 500, and the log says why. Behind proxies, `Key::forwarded_ip` counts by
//! the client's address instead of the proxy's. The attribute `rate_limit` (feature `macros`) limits one
//! handler, or any function, by its name.
//!
//! # Limit an outgoing client
//!
//! A third party that counts calls per window wants that window kept strictly: no more than a thousand in
//! *any* hour, and only as many as are left when work is fetched in batches:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Quota, RateLimiter};
//!
//! let limiter = RateLimiter::direct(Quota::sliding_window(1_000, Duration::from_secs(3_600)))?;
//! let batch = limiter.take_at_most(600);
//! let next = limiter.take_at_most(600);
//! assert_eq!((batch, next), (600, 400));
//!
//! // Fifty of them were not needed after all.
//! limiter.give_back(50);
//! assert_eq!(limiter.peek().remaining(), 50);
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! The crate `tollgate-tower` wraps a client in `ClientLayer`, which holds requests back as the server's
//! `Retry-After` and RateLimit fields say, sends denied ones again if asked to, and keeps a limit of its own
//! besides.
//!
//! # Per user
//!
//! A [`KeyedRateLimiter`] has permits of its own for each key. Keys are texts, numbers, addresses, or
//! [your own type](LimitKey); a million of them take about 30 MB, and the memory is bounded.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Quota, RateLimiter};
//!
//! let limiter = RateLimiter::keyed(Quota::per_second(2))?;
//! assert!(limiter.check("ann").is_ok());
//! assert!(limiter.check("bob").is_ok());
//!
//! // A failed login costs more, and some callers get nothing for a while.
//! limiter.penalise("bob", 5);
//! limiter.block("mallory", limiter.now() + Duration::from_secs(600));
//! assert!(limiter.check("bob").is_err() && limiter.check("mallory").is_err());
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! [`Quotas`] give some keys a quota of their own: a function is asked once per key, and its answer is
//! remembered. When the answer changes, the permits that the key has taken stay taken, unless [`Inherit`]
//! says otherwise:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Quota, Quotas, RateLimiter};
//!
//! let pays = |user: &str| user.starts_with("premium:"); // ask a database
//! let of = move |user: &str| pays(user).then(|| Quota::per_minute(100));
//! let quotas = Quotas::by(Quota::per_minute(10), of).remember_for(Duration::from_secs(300));
//! let limiter = RateLimiter::keyed(quotas)?;
//! assert_eq!((limiter.peek("ann").remaining(), limiter.peek("premium:bob").remaining()), (10, 100));
//! limiter.ask_again("ann"); // she has just paid: do not wait five minutes
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! # Wait
//!
//! [`acquire`](RateLimiter::acquire) waits for its turn: first in, first out, for each key. One timer serves
//! all waiters of a limiter. A waiter that is dropped gives its permits back, and a deadline that cannot be
//! met is an error at once. This holds for every algorithm, also for windows: no check overtakes those who
//! wait for the next one.
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tollgate::{AcquireError, Quota, RateLimiter};
//!
//! let limiter = RateLimiter::direct(Quota::per_second(100).burst(1))?;
//! for _ in 0..3 {
//!     limiter.acquire(1).await?; // one every 10 ms
//! }
//! // Two at once are never there.
//! assert!(matches!(limiter.acquire(2).await, Err(AcquireError::NeverFits { burst: 1 })));
//!
//! let hourly = RateLimiter::direct(Quota::per_hour(1))?;
//! hourly.acquire(1).await?;
//! let hurried = hourly.try_acquire(1, Duration::from_secs(60)).await;
//! assert!(matches!(hurried, Err(AcquireError::TooLong { .. })));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! Threads wait in the same line with [`blocking_acquire`](RateLimiter::blocking_acquire), and need no
//! runtime.
//!
//! # Reserve and commit
//!
//! Where the cost is known only afterwards, as that of a language model's answer, reserve an estimate and
//! commit what was used. (The example `llm_tokens` plays a real trace.)
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Quota, RateLimiter};
//!
//! let tokens = RateLimiter::keyed(Quota::per_minute(10_000))?;
//! let reservation = tokens.reserve("ann", 4_000, Duration::ZERO)?;
//! let used = 1_500; // ask the model
//! reservation.commit(used);
//! assert_eq!(tokens.peek("ann").remaining(), 8_500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Share with a fleet
//!
//! Rules say which limits a request has, in the files that the server reads or in code (feature `rules`). One
//! line decides who counts together: this process, or all that use one Redis or Valkey (feature `redis`). The
//! calls stay the same:
//!
//! ```
//! # #[cfg(feature = "redis")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tollgate::RateLimiter;
//!
//! let limiter = RateLimiter::from_rules("rules/shop.yaml")?;
//! let limiter = limiter.shared("redis://127.0.0.1:6379")?; // the line that a fleet needs
//! limiter.check("shop", &[("user", "ann")]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A limit per key needs no rules: `.shared("logins", &SharedStore::at("redis://127.0.0.1:6379")?)` behind
//! [`RateLimiter::keyed`] counts it in Redis under that name, also where [`Quotas`] give keys quotas of their
//! own. Its `check` is awaited, and its errors say whether a limit or the store said no.
//!
//! # Test your own code
//!
//! The clock is a type parameter. A [`ManualClock`] moves only when a test says so:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::default();
//! let limiter = RateLimiter::direct_with_clock(Quota::per_minute(1), clock.clone())?;
//! assert!(limiter.check().is_ok() && limiter.check().is_err());
//! clock.advance(Duration::from_secs(60));
//! assert!(limiter.check().is_ok());
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! Code that waits is tested with `TokioClock` and tokio's paused time, so that an hour takes no time.
//!
//! # Several limits at once
//!
//! [`check_all`] takes from all of them or from none:
//!
//! ```
//! use tollgate::{Quota, RateLimiter, check_all};
//!
//! let everybody = RateLimiter::direct(Quota::per_second(1_000))?;
//! let per_user = RateLimiter::keyed(Quota::per_second(1))?;
//! let admit = |user: &str| check_all(&[everybody.request(1), per_user.request(user, 1)]).is_ok();
//!
//! assert!(admit("ann") && !admit("ann"));
//! assert_eq!(everybody.peek().remaining(), 999);
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! # Change a quota at run time
//!
//! Permits that were taken stay taken, unless [`Inherit`] says otherwise:
//!
//! ```
//! use tollgate::{Inherit, Quota, RateLimiter};
//!
//! let limiter = RateLimiter::keyed(Quota::per_hour(10))?;
//! assert!(limiter.check_n("ann", 10).is_ok());
//! limiter.reconfigure(Quota::per_hour(15))?;
//! assert_eq!(limiter.peek("ann").remaining(), 5);
//! limiter.reconfigure_as(Quota::per_hour(30), Inherit::Proportional)?;
//! assert_eq!(limiter.peek("ann").remaining(), 10);
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! # Let some callers go first
//!
//! [`RateLimiter::by_priority`] splits a quota over classes by weight. Each has its part whatever the others
//! do, and borrows what they leave idle:
//!
//! ```
//! use tollgate::{Quota, RateLimiter};
//!
//! let limiter = RateLimiter::by_priority(Quota::per_second(100), &[9, 1])?;
//! let (paying, crawlers) = (0, 1);
//! while limiter.check(crawlers).is_ok() {} // they take all that they can
//! assert!(limiter.check_n(paying, 90).is_ok());
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! [`RateLimiter::keyed_by_priority`] does so for each key.
//!
//! # Limit what runs at the same time
//!
//! A [`ConcurrencyLimiter`] has slots: a guard holds one, and gives it up when it is dropped, also when the
//! code within panics or the task is cancelled.
//!
//! ```
//! use tollgate::{ConcurrencyLimiter, NoSlot};
//!
//! fn query(database: &ConcurrencyLimiter) -> Result<(), NoSlot> {
//!     let _slot = database.try_enter()?;
//!     // ask it
//!     Ok(())
//! }
//!
//! let database = ConcurrencyLimiter::direct(10);
//! query(&database)?;
//! assert_eq!((database.in_use(), database.peak()), (0, 1));
//! # Ok::<(), NoSlot>(())
//! ```
//!
//! [`enter`](ConcurrencyLimiter::enter) waits for slots, first in, first out.
//!
//! An [`AdaptiveLimiter`] finds the number itself, from how long the calls take and which fail for overload:
//!
//! ```
//! use tollgate::AdaptiveLimiter;
//! use tollgate::adaptive::Gradient2;
//!
//! let backend = AdaptiveLimiter::new(Gradient2::default())?;
//! let call = backend.try_enter()?;
//! // ask the backend
//! call.success();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`partitioned`](ConcurrencyLimiter::partitioned) splits the slots over classes of callers, for fixed
//! numbers and learned ones: each class has its part whatever the others do.
//!
//! # Run jobs at a constant rate
//!
//! A `LeakyExecutor` (feature `tokio`) keeps jobs in a bounded queue and runs them one by one, or in batches,
//! at a constant rate:
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tollgate::LeakyExecutor;
//!
//! let mails = LeakyExecutor::builder(200, Duration::from_secs(1)).capacity(10_000).start()?;
//! let sent = mails.submit(async { "sent" })?; // send it
//! assert_eq!(sent.await?, "sent");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # Ask a service
//!
//! Programs that are to know neither rules nor Redis ask a Tollgate service, with the crate
//! `tollgate-remote`: `Service::at("grpc://127.0.0.1:8081")?.limiter("shop", "api_key")` has `check`,
//! `check_n`, `peek` and `acquire`, a policy for the time without the service, and leases where a rule allows
//! them.
//!
//! Not here: the server, for programs in other languages and for proxies.
#![deny(missing_docs)] // it is published

mod acquire_error;
pub mod adaptive;
mod asking;
mod bounds;
mod concurrency;
mod denied;
mod direct;
mod engine;
mod epochs;
#[cfg(feature = "tokio")]
pub mod executor;
mod in_force;
mod key;
mod keyed;
mod priority;
mod quota;
mod quotas;
pub mod registry;
mod reservation;
#[cfg(feature = "rules")]
mod rules;
#[cfg(feature = "redis")]
mod shared;
mod snapshot;
mod states;
mod tiers;
mod together;
#[cfg(feature = "tokio")]
mod tokio_clock;
mod waiting;

pub use acquire_error::AcquireError;
pub use adaptive::guard::AdaptiveGuard;
pub use adaptive::limiter::AdaptiveLimiter;
pub use adaptive::partitioned::AdaptivePartitions;
pub use bounds::Bounds;
pub use concurrency::error::{EnterError, NoSlot};
pub use concurrency::guard::ConcurrencyGuard;
pub use concurrency::partitions::{PartitionGuard, PartitionedLimiter};
pub use concurrency::{ConcurrencyLimiter, KeyedConcurrencyLimiter};
pub use denied::{Admitted, Denied, DeniedBy};
pub use direct::RateLimiter;
#[cfg(feature = "tokio")]
pub use executor::LeakyExecutor;
pub use key::{KeyBytes, LimitKey};
pub use keyed::KeyedRateLimiter;
pub use priority::PriorityLimiter;
pub use priority::keyed::KeyedPriorityLimiter;
pub use quota::{ParseQuotaError, Quota};
pub use quotas::{QuotaStats, Quotas};
pub use reservation::Reservation;
#[cfg(feature = "rules")]
pub use rules::{ReloadError, RuleAdmitted, RuleError, RuleLimiter};
#[cfg(feature = "redis")]
pub use shared::{SharedError, SharedRateLimiter, SharedStore};
pub use snapshot::{RestoreError, Snapshot};
pub use together::{Request, check_all};
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;
pub use tollgate_clock::{MonotonicClock, SystemClock};
pub use tollgate_core::{
    Algorithm, Align, CivilUnit, Clock, Decision, Inherit, LeakyForm, ManualClock, Outcome, Period,
    QuotaError, Refill, RetryAfter, Timestamp,
};
/// Limits the calls of a function, synchronous or asynchronous, or of a handler of axum.
///
/// | argument | meaning |
/// |---|---|
/// | `app`, `name` | the rule that counts the calls: functions with the same ones share its permits |
/// | `need_permits` | permits that one call takes; 1 if nothing is set |
/// | `desc` | what the rule is for, shown in errors and in [`registry::all`] |
/// | `quota` | such as `"100/s burst 200"`; without one all pass until [`registry::set_quota`] |
/// | `key` | an argument of the function, such as `"id"` or `"user.id"`: each value has permits of its own |
/// | `fallback` | a function that gets the [`registry::RuleDenied`], and returns what a denied call returns |
/// | `template` | the body of a denied HTTP handler, such as `"retry in {{retry_after}} s"` |
///
/// Without `fallback`, a denied call returns what [`registry::FromDenied`] makes of its return type: `Err`,
/// `None`, or, with the feature `http`, a response with status 429.
///
/// # Example
/// ```
/// use tollgate::registry::{self, RuleDenied};
/// use tollgate::{Quota, rate_limit};
///
/// #[rate_limit(app = "HOTEL_SIP", name = "TEST", need_permits = 1, desc = "rooms of a hotel")]
/// fn rooms(hotel: u32) -> Result<String, RuleDenied> {
///     Ok(format!("rooms of {hotel}"))
/// }
///
/// // The quota may come from anywhere, at any time.
/// registry::set_quota("HOTEL_SIP", "TEST", Quota::per_hour(1))?;
/// assert!(rooms(1).is_ok());
/// let denied = rooms(1).unwrap_err();
/// assert_eq!(denied.to_string(), "HOTEL_SIP/TEST (rooms of a hotel)");
/// assert!(denied.denied().to_string().starts_with("rate limit exceeded"));
/// # Ok::<(), registry::SetQuotaError>(())
/// ```
///
/// Mistakes are errors of the compiler:
///
/// ```compile_fail
/// #[tollgate::rate_limit(app = "HOTEL_SIP", name = "TEST", quota = "10r/s")] // write 10/s
/// fn rooms() -> Option<u32> {
///     Some(1)
/// }
/// ```
///
/// ```compile_fail,E0277
/// #[tollgate::rate_limit(app = "HOTEL_SIP", name = "TEST")] // a denied call cannot return u32
/// fn rooms() -> u32 {
///     1
/// }
/// ```
#[cfg(feature = "macros")]
pub use tollgate_macros::rate_limit;
pub use tollgate_store_memory::MemoryStats;
#[cfg(feature = "redis")]
pub use tollgate_store_redis::{ConfigError, RedisConfig};

/// Rules in code, what their answers say, and where their counters are kept.
#[cfg(feature = "rules")]
pub mod rule {
    pub use tollgate_limiter::{Degraded, RequestError};
    pub use tollgate_policy::{
        BuildErrors, DescriptorSpec, DomainSpec, Limit, LimitError, OnStoreFailure, Policy, PolicyBuilder,
        RuleSpec, Sharing, Unit, ValueSpec,
    };
    pub use tollgate_rule_files::LoadError;
    #[cfg(feature = "redis")]
    pub use tollgate_store_redis::{ConfigError, RedisConfig};
}
/// Runs what the READMEs show.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
#[doc = include_str!("../../../../README.zh-CN.md")]
struct Readme;
/// Compiles the pages.
#[cfg(all(doctest, feature = "redis", feature = "macros"))]
#[doc = include_str!("../../../../docs/library.md")]
#[doc = include_str!("../../../../docs/zh-CN/library.md")]
struct Library;
/// Compiles the page.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../../docs/coming-from-libraries.md")]
struct ComingFromLibraries;
