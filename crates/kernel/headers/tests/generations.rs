//! Fields as servers of the field send them, and which of several limits is shown.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tollgate_core::Timestamp;
use tollgate_headers::{
    Generation, LimitState, MAX_LISTED, Reading, RetryAfter, Style, most_restrictive, read, write,
};

/// 2025-11-07 23:59:19 GMT.
const NOW: Timestamp = Timestamp::from_unix_seconds(1_762_559_959);

fn fields(lines: &str) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines.lines() {
        let (name, value) = line.split_once(": ").expect("a field");
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        fields.append(name, value.parse().expect("a value"));
    }
    fields
}

type GenerationCase = (Generation, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

fn row(reading: &Reading) -> GenerationCase {
    let millis = |span: Option<Duration>| span.map(|span| span.as_millis() as u64);
    (
        reading.generation,
        reading.limit,
        reading.remaining,
        millis(reading.reset_after),
        millis(reading.retry_after),
    )
}

#[test]
fn every_generation_and_the_variants_of_the_field_are_read() {
    use Generation::{Draft03, Draft07, Draft11, Legacy, RetryAfter as Only};
    let rows: [(&str, GenerationCase); 22] = [
        // IETF drafts 8 to 11; the least of several, also over several lines.
        (
            "RateLimit: \"default\";r=50;t=30\nRateLimit-Policy: \"default\";q=100;w=60",
            (Draft11, Some(100), Some(50), Some(30_000), None),
        ),
        ("RateLimit: default;r=50;t=30", (Draft11, None, Some(50), Some(30_000), None)),
        ("RateLimit: \"b\";r=9;t=1\nRateLimit: \"d\";r=3;pk=:cHM=:", (Draft11, None, Some(3), None, None)),
        (
            "RateLimit-Policy: \"b\";q=10;w=1,\"d\";q=7;w=86400\nRateLimit: \"b\";r=0;t=1,\"d\";r=0;t=600\nRetry-After: 600",
            (Draft11, Some(7), Some(0), Some(600_000), Some(600_000)),
        ),
        // Draft 7 and before.
        ("RateLimit: limit=100, remaining=50, reset=5", (Draft07, Some(100), Some(50), Some(5_000), None)),
        ("ratelimit: reset=5,limit=100;x", (Draft07, Some(100), None, Some(5_000), None)),
        (
            "RateLimit-Limit: 10, 10;w=1, 50;w=60\nRateLimit-Remaining: 3\nRateLimit-Reset: 1",
            (Draft03, Some(10), Some(3), Some(1_000), None),
        ),
        (
            "RateLimit-Limit: 10, 10;window=1\nRateLimit-Reset: 1",
            (Draft03, Some(10), None, Some(1_000), None),
        ),
        // A malformed field is as good as none: the older field counts.
        ("RateLimit: limit=, x\nX-RateLimit-Remaining: 4", (Legacy, None, Some(4), None, None)),
        ("RateLimit: \"a\";t=5\nRetry-After: 5", (Only, None, None, None, Some(5_000))),
        // GitHub: Unix time.
        (
            "x-ratelimit-limit: 60\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1762559999\nx-ratelimit-used: 60",
            (Legacy, Some(60), Some(0), Some(40_000), None),
        ),
        // As Twitter writes them.
        (
            "x-rate-limit-limit: 300\nx-rate-limit-remaining: 299\nx-rate-limit-reset: 1762559900",
            (Legacy, Some(300), Some(299), Some(0), None),
        ),
        // Discord: decimals, and a span beside the moment.
        (
            "X-RateLimit-Limit: 5\nX-RateLimit-Reset: 1762559960.5\nX-RateLimit-Reset-After: 1.25",
            (Legacy, Some(5), None, Some(1_250), None),
        ),
        ("X-RateLimit-Reset: 1762559960.500", (Legacy, None, None, Some(1_500), None)),
        // Milliseconds, dates, spans.
        ("X-RateLimit-Reset: 1762559961000", (Legacy, None, None, Some(2_000), None)),
        ("X-RateLimit-Reset: Fri, 07 Nov 2025 23:59:59 GMT", (Legacy, None, None, Some(40_000), None)),
        ("X-RATELIMIT-RESET: 30", (Legacy, None, None, Some(30_000), None)),
        // As Envoy writes them.
        (
            "x-ratelimit-limit: 10, 10;w=1;name=\"per-ip\", 100;w=60\nx-ratelimit-remaining: 9\nx-ratelimit-reset: 1",
            (Legacy, Some(10), Some(9), Some(1_000), None),
        ),
        // Only when to come back.
        ("Retry-After: Fri, 07 Nov 2025 23:59:59 GMT", (Only, None, None, None, Some(40_000))),
        ("Retry-After: Friday, 07-Nov-25 23:59:59 GMT", (Only, None, None, None, Some(40_000))),
        ("Retry-After: 2\nRetry-After-Ms: 1234", (Only, None, None, None, Some(1_234))),
        ("X-RateLimit-Retry-After: 7", (Only, None, None, None, Some(7_000))),
    ];
    for (lines, want) in rows {
        assert_eq!(read(&fields(lines), NOW).as_ref().map(row), Some(want), "{lines}");
    }
    let envoy =
        read(&fields("x-ratelimit-limit: 10, 10;w=1;name=\"per-ip\", 100;w=60"), NOW).expect("limits");
    assert_eq!((envoy.name.as_deref(), envoy.window), (Some("per-ip"), Some(Duration::from_secs(1))));
}

#[test]
fn invalid_fields_are_ignored() {
    for lines in [
        "Content-Type: text/plain",
        "Retry-After: soon",
        "Retry-After: -1",
        "Retry-After: 99999999999999999999999",
        "Retry-After: 1e9",
        "X-RateLimit-Limit: many",
        "X-RateLimit-Remaining: -5",
        "RateLimit: ",
        "RateLimit: \"a\";r=-1",
        "RateLimit: \"a\";r=1.5",
    ] {
        assert_eq!(read(&fields(lines), NOW), None, "{lines}");
    }
}

#[test]
fn the_wait_follows_from_the_fields() {
    for (lines, seconds) in [
        ("Retry-After: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", 5),
        ("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", 60),
        ("X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 60", 0),
        ("X-RateLimit-Reset: 60", 0),
    ] {
        assert_eq!(
            read(&fields(lines), NOW).expect("limits").wait(),
            Duration::from_secs(seconds),
            "{lines}"
        );
    }
}

fn limit(name: &'static str, remaining: u64, reset_s: u64, retry_after: RetryAfter) -> LimitState<'static> {
    let window = Duration::from_secs(60);
    let reset_after = Duration::from_secs(reset_s);
    LimitState { name, limit: 10, burst: 10, window, remaining, reset_after, retry_after, is_unknown: false }
}

#[test]
fn the_most_restrictive_limit_is_shown() {
    let after = |seconds| RetryAfter::After(Duration::from_secs(seconds));
    let now = RetryAfter::Now;
    for (limits, want) in [
        (vec![], None),
        (vec![limit("a", 5, 9, now), limit("b", 3, 1, now)], Some("b")), // the least left
        (vec![limit("a", 3, 1, now), limit("b", 3, 9, now)], Some("b")), // then the last reset
        (vec![limit("a", 3, 9, now), limit("b", 3, 9, now)], Some("a")), // then the first
        (vec![limit("a", 0, 9, now), limit("b", 2, 1, after(1))], Some("b")), // a denying one comes first
        (vec![limit("a", 0, 1, after(1)), limit("b", 2, 9, after(9))], Some("b")), // of these the longest wait
        (vec![limit("a", 0, 9, after(99)), limit("b", 9, 0, RetryAfter::Never)], Some("b")),
    ] {
        assert_eq!(most_restrictive(&limits).map(|limit| limit.name), want, "{limits:?}");
    }
}

#[test]
fn a_limit_that_binds_is_listed_also_when_it_comes_last() {
    let mut limits = vec![limit("spare", 9, 1, RetryAfter::Now); MAX_LISTED + 3];
    limits.push(limit("tight", 0, 5, RetryAfter::After(Duration::from_secs(5))));
    let style: Style = "draft-11".parse().expect("a style");
    let mut sent = HeaderMap::new();
    write(&limits, false, &style, &mut sent);
    let reading = sent["ratelimit"].to_str().expect("ASCII");
    assert_eq!(reading.matches(";r=").count(), MAX_LISTED);
    assert!(reading.ends_with("\"tight\";r=0;t=5"), "{reading}");
}

/// 10 permits per minute, of which a client that was idle may use 20 at once.
#[test]
fn what_remains_of_a_burst_is_never_more_than_the_limit_beside_it() {
    let bucket = LimitState { burst: 20, ..limit("bucket", 19, 6, RetryAfter::Now) };
    for (style, want) in [
        ("legacy", "x-ratelimit-limit: 20, x-ratelimit-remaining: 19, x-ratelimit-reset: 6"),
        ("draft-03", "ratelimit-limit: 20, 10;w=60;burst=20, ratelimit-remaining: 19, ratelimit-reset: 6"),
        ("draft-07", "ratelimit-policy: 10;w=60;burst=20, ratelimit: limit=20, remaining=19, reset=6"),
        ("draft-11", "ratelimit-policy: \"bucket\";q=10;w=60, ratelimit: \"bucket\";r=10;t=6"),
    ] {
        let mut sent = HeaderMap::new();
        write(&[bucket], true, &style.parse().expect("a style"), &mut sent);
        let mut lines: Vec<_> =
            sent.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII"))).collect();
        lines.sort();
        assert_eq!(lines.join(", "), want);
        let reading = read(&sent, NOW).expect("limits");
        assert!(reading.remaining <= reading.limit, "{reading:?}");
        assert_eq!(reading.window, (style != "legacy").then_some(bucket.window), "{style}");
    }
    let small = LimitState { burst: 3, ..limit("small", 3, 6, RetryAfter::Now) };
    let mut sent = HeaderMap::new();
    write(&[small], true, &"legacy".parse().expect("a style"), &mut sent);
    assert_eq!(
        (&sent["x-ratelimit-limit"], &sent["x-ratelimit-remaining"]),
        (&"3".parse().unwrap(), &"3".parse().unwrap())
    );
}

#[test]
fn each_reply_has_the_limit_of_its_own_rule_however_many_rules_take_turns() {
    let style: Style = "legacy".parse().expect("a style");
    let limits = (0..200).map(|n: u64| n * n * n * 7).chain([999, 1_000, u64::MAX, 7_000, 14_000, 7_000]);
    for (limit, shown) in limits.map(|limit| (limit, limit.min(999_999_999_999_999))) {
        for _ in 0..2 {
            let state = LimitState {
                name: "l",
                limit,
                burst: limit,
                window: Duration::from_secs(60),
                remaining: 0,
                reset_after: Duration::ZERO,
                retry_after: RetryAfter::Now,
                is_unknown: false,
            };
            let mut fields = HeaderMap::new();
            write(&[state], true, &style, &mut fields);
            assert_eq!(fields["x-ratelimit-limit"], shown.to_string());
        }
    }
}
