//! One suite for all transports: the same questions over gRPC, HTTP and the Redis protocol, at the same
//! instants, each answer compared with the limiter's own over the reference model.
//!
//! In this process, on a clock that is moved by hand, so that every answer is exact; over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tollgate_core::{Clock, ManualClock, Outcome, RetryAfter, Timestamp};
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_http_api::{HttpApi, HttpSettings, NodeState, NodeStatus};
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_limiter::{Answer, Descriptor, Entry, Limiter, LimiterSettings, Request, Scratch};
use tollgate_net::{AcceptLimits, ConnectionStats, Surface, accept};
use tollgate_resp_api::{RespApi, RespSettings};
use tollgate_rule_files::parse_text;
use tollgate_store::{ModelStore, Store};
use tollgate_store_memory::MemoryStore;

use crate::http;
use crate::resp::{self, Reply};
use crate::rls;

const RULES: &str = "
domain: suite
descriptors:
  - {key: window, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: first_hit, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: fixed_window, align: first_hit}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 3, algorithm: token_bucket, burst: 6}}
  - {key: steps, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: token_bucket, refill: interval}}
  - {key: sliding, rate_limit: {unit: minute, requests_per_unit: 7, algorithm: sliding_window, cells: 6}}
  - {key: counter, rate_limit: {unit: minute, requests_per_unit: 7, algorithm: sliding_window_counter}}
  - {key: log, rate_limit: {unit: minute, requests_per_unit: 4, algorithm: sliding_window_log}}
  - {key: meter, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, form: meter, capacity: 5}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, form: queue, capacity: 5}}
  - {key: total, rate_limit: {algorithm: total, limit: 9}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: two
    limits:
      - {name: short, unit: second, requests_per_unit: 3, algorithm: token_bucket}
      - {name: long, unit: hour, requests_per_unit: 20}
  - key: user
    descriptors:
      - {key: plan, value: gold, rate_limit: {name: golden, unit: minute, requests_per_unit: 8}}
      - {key: plan, rate_limit: {unit: minute, requests_per_unit: 3}}
";

const KEYS: [&str; 14] = [
    "window",
    "first_hit",
    "bucket",
    "steps",
    "sliding",
    "counter",
    "log",
    "meter",
    "queue",
    "total",
    "free",
    "shadow",
    "two",
    "nobody",
];

/// One question that every transport can ask.
#[derive(Debug)]
struct Question {
    domain: &'static str,
    entries: Vec<(String, String)>,
    hits: u32,
    at: Timestamp,
}

/// Questions from a seed: a few clients, all rules, small and large costs, time in steps of any size.
fn questions(mut seed: u64, count: usize, mut at: Timestamp) -> Vec<Question> {
    let mut below = move |most: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % most
    };
    let mut question = || {
        let step = [0, 0, 1, 40, 250, 1_000, 7_000, 61_000][below(8) as usize];
        at = at + Duration::from_millis(step * (1 + below(3)));
        let client = ["ann", "bob", "请求", ""][below(4) as usize].to_owned();
        let entries = match below(16) {
            14 => vec![("user".into(), client), ("plan".into(), "gold".into())],
            15 => vec![("user".into(), client), ("plan".into(), "tin".into())],
            key => vec![(KEYS[key as usize].to_owned(), client)],
        };
        let domain = if below(20) == 0 { "elsewhere" } else { "suite" };
        Question { domain, entries, hits: [1, 1, 1, 2, 3, 5, 50][below(7) as usize], at }
    };
    (0..count).map(|_| question()).collect()
}

/// The limiter's own answer, as far as any transport can express it.
#[derive(Debug)]
struct Told {
    is_admitted: bool,
    limit: Option<u64>,
    /// The most that can remain.
    burst: u64,
    remaining: u64,
    delay: Duration,
    retry: RetryAfter,
    reset: Duration,
    is_fixed_window: bool,
    rule: Option<String>,
}

impl Told {
    fn of(answer: &Answer<'_>) -> Self {
        let only = answer.descriptor(0).expect("one was asked");
        Told {
            is_admitted: answer.overall() == Outcome::Admit,
            limit: only.limit.map(|limit| limit.requests_per_unit),
            burst: only.limit.map_or(0, |limit| limit.burst()),
            remaining: only.remaining(),
            delay: only.delay(),
            retry: if answer.is_admitted() { RetryAfter::Now } else { only.retry_after() },
            reset: only.reset_after(),
            is_fixed_window: only.limit.is_some_and(|limit| limit.quota.algorithm().name() == "fixed_window"),
            rule: only.rule.map(|rule| rule.path.clone()),
        }
    }
}

fn limiter<S: Store>(store: S) -> Arc<Limiter<S>> {
    let policy = parse_text("suite.yaml", RULES).expect("no fault");
    Arc::new(Limiter::new(policy, store, LimiterSettings::default()))
}

struct Up;

impl NodeStatus for Up {
    fn state(&self) -> NodeState {
        NodeState { is_ready: true, ..NodeState::default() }
    }
}

/// All surfaces, all on one clock.
pub(crate) struct Surfaces {
    pub(crate) clock: ManualClock,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    /// For `/json`, so that it can charge counters of its own.
    pub(crate) json: SocketAddr,
    pub(crate) resp: SocketAddr,
    /// Kept alive, so that no surface drains.
    _drain: watch::Sender<bool>,
}

impl Surfaces {
    async fn start() -> Self {
        Self::over(|| limiter(MemoryStore::default())).await
    }

    /// Each surface asks a limiter that `limiter` returns.
    pub(crate) async fn over(limiter: impl Fn() -> Arc<Limiter<MemoryStore>>) -> Self {
        let (drain, drained) = watch::channel(false);
        let clock = ManualClock::at(Timestamp::ZERO);
        let ready = watch::channel(true).1;
        let rls = |limiter: Arc<Limiter<MemoryStore>>| {
            let clock: Arc<dyn Clock> = Arc::new(clock.clone());
            Arc::new(RateLimitService::new(
                limiter,
                clock,
                ready.clone(),
                ReplyOptions::default(),
                Limits::default(),
            ))
        };
        let http = || {
            let limiter = limiter();
            let service = rls(limiter.clone());
            let clock = Arc::new(clock.clone());
            let json = Arc::new(service.over_http(Default::default()));
            let api = HttpApi::new(limiter, clock, Arc::new(Up), json, HttpSettings::default());
            Arc::new(HttpSurface::new(api, SurfaceSettings::default()))
        };
        let resp = RespApi::new(limiter(), Arc::new(clock.clone()), RespSettings::default());
        Surfaces {
            grpc: listen(rls(limiter()), drained.clone()).await,
            http: listen(http(), drained.clone()).await,
            json: listen(http(), drained.clone()).await,
            resp: listen(Arc::new(resp), drained).await,
            clock,
            _drain: drain,
        }
    }
}

async fn listen(surface: Arc<impl Surface>, drain: watch::Receiver<bool>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(accept(
        listener,
        surface,
        None,
        Arc::new(AcceptLimits::default()),
        Arc::new(ConnectionStats::default()),
        drain,
    ));
    address
}

fn seconds(span: Duration) -> i64 {
    span.as_nanos().div_ceil(1_000_000_000).min(i64::MAX as u128) as i64
}

fn millis(span: Duration) -> Value {
    if span == Duration::from_nanos(u64::MAX) {
        Value::Null
    } else {
        json!(span.as_nanos().div_ceil(1_000_000) as u64)
    }
}

/// Fields of a reply over gRPC and `/json`: code, limit, remaining, seconds until reset (`None`: the reply
/// says more than the limiter).
type Status = (bool, u64, u64, Option<i64>);

fn status_of(told: &Told) -> Status {
    // An untouched fixed window says when it ends, which the limiter's own answer does not.
    let reset = (!told.is_fixed_window || !told.reset.is_zero()).then(|| seconds(told.reset));
    // The limit there is the rate, and no more than that remains.
    let remaining =
        told.limit.map_or(told.remaining, |limit| told.remaining.min(limit)).min(u64::from(u32::MAX));
    (told.is_admitted, told.limit.unwrap_or(0), remaining, reset)
}

async fn by_grpc(client: &mut rls::Client, question: &Question, want: &Status) -> Status {
    let entries = question
        .entries
        .iter()
        .map(|(key, value)| rls::Entry { key: key.as_str().into(), value: value.as_str().into() });
    let request = rls::RateLimitRequest {
        domain: question.domain.to_owned(),
        descriptors: vec![rls::Descriptor { entries: entries.collect(), ..rls::Descriptor::default() }],
        hits_addend: question.hits,
    };
    let answer = client.ask(request).await.expect("an answer");
    let [status] = &answer.statuses[..] else { panic!("one status: {answer:?}") };
    assert_eq!(status.code, answer.overall_code);
    let limit = status.current_limit.as_ref().map_or(0, |limit| u64::from(limit.requests_per_unit));
    let reset = want.3.map(|_| status.duration_until_reset.as_ref().map_or(0, |span| span.seconds));
    (answer.overall_code == rls::OK, limit, u64::from(status.limit_remaining), reset)
}

async fn by_json(to: SocketAddr, question: &Question, want: &Status) -> Status {
    let entries: Vec<_> =
        question.entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let body = json!({"domain": question.domain, "descriptors": [{"entries": entries}], "hitsAddend": question.hits});
    let answer = http::post(to, "/json", &body.to_string()).await.expect("an answer");
    let said: Value = serde_json::from_str(&answer.body).expect("JSON");
    let status = &said["statuses"][0];
    assert_eq!(answer.status, if said["overallCode"] == "OK" { 200 } else { 429 });
    let limit = status["currentLimit"]["requestsPerUnit"].as_u64().unwrap_or(0);
    let reset = status["durationUntilReset"]
        .as_str()
        .map_or(0, |s| s.trim_end_matches('s').parse().expect("seconds"));
    let is_ok = said["overallCode"] == "OK";
    (is_ok, limit, status["limitRemaining"].as_u64().unwrap_or(0), want.3.map(|_| reset))
}

async fn by_http(to: SocketAddr, question: &Question, told: &Told) {
    let entries: Vec<_> =
        question.entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let body = json!({"domain": question.domain, "descriptors": [entries], "hits": question.hits});
    let answer = http::post(to, "/v1/check", &body.to_string()).await.expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let said: Value = serde_json::from_str(&answer.body).expect("JSON");
    let limited = |value: Value| if told.limit.is_some() { value } else { Value::Null };
    let retry = match told.retry {
        RetryAfter::Now => json!(0),
        RetryAfter::After(span) => millis(span),
        RetryAfter::Never => Value::Null,
    };
    for (name, want) in [
        ("outcome", json!(if told.is_admitted { "admit" } else { "deny" })),
        ("limit", limited(json!(told.burst))),
        ("remaining", limited(json!(told.remaining))),
        ("delay_ms", millis(told.delay)),
        ("retry_after_ms", retry),
        ("reset_after_ms", millis(told.reset)),
        ("rule", json!(told.rule)),
        ("degraded", Value::Null),
    ] {
        assert_eq!(said["descriptors"][0][name], want, "descriptor, {name}: {said} {told:?}");
        // Without a limit the whole has no descriptor to show.
        if told.limit.is_some() || name == "outcome" {
            assert_eq!(said[name], want, "{name}: {said} {told:?}");
        }
    }
}

async fn by_resp(client: &mut resp::Client, question: &Question, told: &Told) {
    let hits = question.hits.to_string();
    let mut words = vec!["TOLLGATE.CHECK", question.domain];
    words.extend(question.entries.iter().flat_map(|(key, value)| [key.as_str(), value]));
    words.extend(["COST", &hits]);
    let reply = client.ask(&words).await;
    let wait = match told.retry {
        RetryAfter::Now | RetryAfter::Never => -1,
        RetryAfter::After(span) => seconds(span),
    };
    let reset = told.reset;
    let want = match told.limit {
        Some(_) => vec![
            i64::from(!told.is_admitted),
            told.burst as i64,
            told.remaining as i64,
            wait,
            if reset == Duration::from_nanos(u64::MAX) { -1 } else { seconds(reset) },
        ],
        None => vec![0, -1, -1, -1, 0],
    };
    assert_eq!(reply.integers(), want, "{told:?}");
    let Reply::Array(items) = &reply else { unreachable!("it has integers") };
    assert_eq!(items.last(), Some(&Reply::Bulk(told.rule.clone())));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_transports_answer_as_the_limiter_itself_does() {
    let surfaces = Surfaces::start().await;
    let reference = limiter(ModelStore::default());
    let mut grpc = rls::Client::connect(surfaces.grpc).await.expect("it listens");
    let mut resp = resp::Client::connect(surfaces.resp).await.expect("it listens");
    let mut denied = 0;
    let mut never = 0;
    for (seed, start) in [(1, 1_700_000_000), (0xdead_beef, 1_700_100_000)] {
        for question in questions(seed, 300, Timestamp::from_unix_seconds(start)) {
            surfaces.clock.set(question.at);
            let entries: Vec<_> =
                question.entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
            let descriptors = [Descriptor::new(&entries)];
            let hits = u64::from(question.hits);
            let request = Request { domain: question.domain, descriptors: &descriptors, hits };
            let mut scratch = Scratch::new();
            let answer = reference.decide(&request, question.at, &mut scratch).await.expect("it makes sense");
            let told = Told::of(&answer);
            drop(answer);
            denied += usize::from(!told.is_admitted);
            never += usize::from(told.retry == RetryAfter::Never);
            let want = status_of(&told);
            assert_eq!(by_grpc(&mut grpc, &question, &want).await, want, "gRPC: {question:?} {told:?}");
            assert_eq!(by_json(surfaces.json, &question, &want).await, want, "/json: {question:?} {told:?}");
            by_http(surfaces.http, &question, &told).await;
            by_resp(&mut resp, &question, &told).await;
        }
    }
    assert!(denied > 50 && never > 5, "the questions are worth asking: {denied} denied, {never} for ever");
}
