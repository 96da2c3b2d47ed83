//! Logs of requests: lines about denials, and spans.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::Write;
use std::sync::Arc;

use crate::common::{NOON, ask_at, entries, of, policy, seconds};
use parking_lot::Mutex;
use tollgate_core::{Cost, Quota};
use tollgate_limiter::{
    Descriptor, Limiter, LimiterSettings, ObserveSettings, Policy, Request, Scratch, Throttle,
};
use tollgate_store::suite::OutageStore;
use tollgate_store::{ModelStore, block_on};
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

/// Lines that were written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that `act` logs at this level and above.
fn lines(level: Level, act: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    let to = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || to.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let text = String::from_utf8(lines.0.lock().clone()).expect("text");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: path, rate_limit: {unit: second, requests_per_unit: 1}, descriptors: [{key: user, value: ann, rate_limit: {unit: minute, requests_per_unit: 1}}]}";

fn limiter(settings: LimiterSettings) -> Limiter<ModelStore> {
    Limiter::new(policy(RULES), ModelStore::default(), settings)
}

#[test]
fn a_denial_is_one_line_with_key_limit_and_wait() {
    let limiter = limiter(LimiterSettings::default());
    let ask = |asks: &[crate::common::Ask<'_>]| drop(ask_at(&limiter, "d", asks, NOON));
    let got = lines(Level::INFO, || {
        ask(&[of("path=/a user=ann").hits(2)]);
        ask(&[of("shadow=x"), of("path=/a")]); // shadow denials, admissions
        ask(&[of("path=/a"), of("user=\u{1b}[31m\u{202e}")]); // and two in one request
        ask(&[of("nobody=x").limit(0, tollgate_limiter::Unit::Hour)]);
    });
    let want = [
        "INFO tollgate::denied: denied domain=\"d\" rule=\"path → user=ann\" limit=1 per minute, fixed_window \
         descriptor=\"path=/a, user=ann\" hits=2 never_fits=true",
        "INFO tollgate::denied: denied domain=\"d\" rule=\"path\" limit=1 per second, fixed_window \
         descriptor=\"path=/a\" hits=1 retry_after_ms=1000",
        "INFO tollgate::denied: denied domain=\"d\" rule=\"user\" limit=0 per minute, fixed_window \
         descriptor=\"user=\\u{1b}[31m\\u{202e}\" hits=1 never_fits=true",
        "INFO tollgate::denied: denied domain=\"d\" is_override=true descriptor=\"nobody=x\" hits=1 never_fits=true",
    ];
    assert_eq!(got, want);
    let quota = Quota::fixed_window(0, seconds(60)).expect("in bounds");
    let mut out = Vec::new();
    let got = lines(Level::INFO, || {
        let ask = Throttle { key: b"k\xff", quota: &quota, cost: Cost::ONE };
        block_on(limiter.throttle(&[ask], NOON, &mut Scratch::new(), &mut out));
    });
    let want = "INFO tollgate::denied: denied rule=\"(throttle)\" limit=0 per 1m, fixed_window descriptor=\"key=k\\\\xFF\" hits=1 never_fits=true";
    assert_eq!(got, [want]);
}

#[test]
fn a_denial_without_a_limit_says_that_no_wait_helps() {
    let rules =
        "{domain: d, unmatched: deny, descriptors: [{key: ip, action: deny}, {key: user, rate: 1/s}]}";
    let limiter = Limiter::new(policy(rules), ModelStore::default(), LimiterSettings::default());
    let got = lines(Level::INFO, || {
        ["ip=192.0.2.1", "nobody=x"].iter().for_each(|asked| drop(ask_at(&limiter, "d", &[of(asked)], NOON)));
    });
    let want = [
        "INFO tollgate::denied: denied domain=\"d\" rule=\"ip\" descriptor=\"ip=192.0.2.1\" hits=1 never_fits=true",
        "INFO tollgate::denied: denied domain=\"d\" descriptor=\"nobody=x\" hits=1 unmatched=true never_fits=true",
    ];
    assert_eq!(got, want);
    // A store that does not answer is another matter: the next attempt may pass.
    let rules = "{domain: d, descriptors: [{key: user, on_store_failure: deny, rate: 1/s}]}";
    let store = OutageStore::default().down();
    let limiter: Limiter<OutageStore> = Limiter::new(policy(rules), store, LimiterSettings::default());
    let got = lines(Level::INFO, || drop(ask_at(&limiter, "d", &[of("user=u")], NOON)));
    let want = "hits=1 retry_after_ms=1000 degraded=\"deny\"";
    assert!(got.iter().any(|line| line.ends_with(want)), "{got:?}");
}

#[test]
fn denial_lines_per_second_and_their_level_are_as_configured() {
    let deny = |settings: LimiterSettings, level, times_at: &[(u64, usize)]| {
        let limiter = limiter(settings);
        let got = lines(level, || {
            for &(second, times) in times_at {
                (0..times).for_each(|_| drop(ask_at(&limiter, "d", &[of("user=u")], NOON + seconds(second))));
            }
        });
        got.iter()
            .map(|line| {
                line.split(' ')
                    .filter(|part| part.starts_with("left_out") || part.chars().all(char::is_uppercase))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect::<Vec<_>>()
    };
    let settings = |denial_log, denial_log_lines| LimiterSettings {
        observe: ObserveSettings { denial_log, denial_log_lines, ..ObserveSettings::default() },
        ..LimiterSettings::default()
    };
    let times = [(0, 5), (1, 1), (2, 1)];
    assert_eq!(
        deny(settings(Some(Level::ERROR), 2), Level::ERROR, &times),
        ["ERROR", "ERROR", "ERROR left_out=3", "ERROR"]
    );
    assert_eq!(
        deny(settings(Some(Level::DEBUG), 1), Level::DEBUG, &times),
        ["DEBUG", "DEBUG left_out=4", "DEBUG"]
    );
    for level in [Level::WARN, Level::INFO, Level::TRACE] {
        assert_eq!(deny(settings(Some(level), 9), Level::TRACE, &[(0, 1)]), [level.to_string()]);
    }
    assert!(deny(settings(Some(Level::DEBUG), 9), Level::INFO, &times).is_empty(), "nobody listens");
    assert!(deny(settings(None, 9), Level::TRACE, &times).is_empty());
    assert!(deny(settings(Some(Level::ERROR), 0), Level::TRACE, &times).is_empty());
}

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PASSED_OVER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[test]
fn a_sampled_request_has_a_span_with_its_outcome_and_rule() {
    let limiter = limiter(LimiterSettings {
        observe: ObserveSettings { trace_ratio: 1.0, denial_log: None, ..ObserveSettings::default() },
        ..LimiterSettings::default()
    });
    let call = |of: &str, traceparent: Option<&str>| {
        let entries = entries(of);
        let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries)], hits: 1 };
        let span = limiter.call_span("grpc", request.domain, traceparent);
        let mut scratch = Scratch::new();
        let answer = block_on(limiter.decide(&request, NOON, &mut scratch)).expect("it makes sense");
        if let Some(span) = span {
            answer.record(&span);
        }
    };
    let got = lines(Level::INFO, || {
        call("user=u", Some(SAMPLED));
        call("path=p", None);
        call("nobody=x", Some("no traceparent"));
        call("user=u", Some(PASSED_OVER));
    });
    let got: Vec<&str> = got.iter().filter_map(|line| line.split(": close").next()).collect();
    let want = [
        &format!(
            "INFO decide{{surface=\"grpc\" domain=\"d\" traceparent=\"{SAMPLED}\" outcome=\"deny\" rule=\"user\"}}: tollgate::call"
        )[..],
        "INFO decide{surface=\"grpc\" domain=\"d\" outcome=\"admit\" rule=\"path\"}: tollgate::call",
        "INFO decide{surface=\"grpc\" domain=\"d\" outcome=\"admit\"}: tollgate::call",
    ];
    assert_eq!(got, want);
}

#[test]
fn the_share_of_spans_is_as_configured_and_zero_makes_no_spans() {
    let limiter: Limiter<ModelStore> =
        Limiter::new(Policy::empty(), ModelStore::default(), LimiterSettings::default());
    let spans = |ratio: f64, traceparent: Option<&str>| {
        limiter.metrics().set_trace_ratio(ratio);
        (0..1_000).filter(|_| limiter.call_span("http", &"d".repeat(1_000), traceparent).is_some()).count()
    };
    lines(Level::INFO, || {
        assert_eq!(
            [spans(0.0, None), spans(0.0, Some(SAMPLED)), spans(-1.0, None), spans(f64::NAN, None)],
            [0; 4]
        );
        assert_eq!([spans(1.0, None), spans(9.0, None), spans(0.001, Some(SAMPLED))], [1_000; 3]);
        assert_eq!(spans(1.0, Some(PASSED_OVER)), 0);
        assert!((150..350).contains(&spans(0.25, None))); // seven standard deviations
    });
    lines(Level::ERROR, || assert_eq!(spans(1.0, None), 0, "nobody listens"));
}

#[test]
fn each_unknown_domain_is_one_warning_and_at_most_a_hundred_are_named() {
    let limiter = limiter(LimiterSettings::default());
    let ask = |domain: &str| drop(ask_at(&limiter, domain, &[of("user=u")], NOON));
    let got = lines(Level::TRACE, || {
        ["elsewhere", "dd", "elsewhere", "dd", "\u{1b}[31m", "elsewhere"].into_iter().for_each(ask);
    });
    let advice = "add rules for it, or correct its name in the requests";
    let want = [
        format!(
            "WARN tollgate_observe::unknown_domains: no rule file is about this domain, so its requests are \
             admitted; {advice} domain=\"elsewhere\""
        ),
        "WARN tollgate_observe::unknown_domains: no rule file is about this domain, so its requests are \
         admitted; did you mean d? domain=\"dd\""
            .to_owned(),
        format!(
            "WARN tollgate_observe::unknown_domains: no rule file is about this domain, so its requests are \
             admitted; {advice} domain=\"\\u{{1b}}[31m\""
        ),
    ];
    assert_eq!(got, want);
    let got = lines(Level::TRACE, || (0..1_000).for_each(|number| ask(&format!("domain-number-{number}"))));
    assert_eq!(got.len(), 97 + 1, "a hundred names, and the line that no more follow: {:?}", got.last());
    assert!(got[97].ends_with("no further ones are logged named=100"), "{}", got[97]);
    let empty: Limiter<ModelStore> =
        Limiter::new(Policy::empty(), ModelStore::default(), LimiterSettings::default());
    let got = lines(Level::TRACE, || drop(ask_at(&empty, "d", &[of("user=u")], NOON)));
    assert!(got.is_empty(), "without rules every domain is unknown: {got:?}");
}
