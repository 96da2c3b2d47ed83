//! Laws of writing and reading: written fields are read back, and no input panics.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::collections::HashSet;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::Timestamp;
use tollgate_headers::{
    Generation, Ietf, LimitState, MAX_LISTED, MAX_SECONDS, RetryAfter, Style, most_restrictive, read, write,
};

const NOON: Timestamp = Timestamp::from_unix_seconds(1_763_726_400);

/// A limit without its name.
#[derive(Clone, Debug)]
struct Raw {
    name: String,
    limit: u64,
    burst: u64,
    window: Duration,
    remaining: u64,
    reset_after: Duration,
    retry_after: RetryAfter,
}

impl Raw {
    fn state(&self) -> LimitState<'_> {
        LimitState {
            name: &self.name,
            limit: self.limit,
            burst: self.burst,
            window: self.window,
            remaining: self.remaining,
            reset_after: self.reset_after,
            retry_after: self.retry_after,
            is_unknown: false,
        }
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_u64, 0..2_000_u64, any::<u64>()]
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![0..3_000_000_000_u64, any::<u64>(), Just(0), Just(u64::MAX)].prop_map(Duration::from_nanos)
}

fn raw() -> impl Strategy<Value = Raw> {
    let retry_after = prop_oneof![
        Just(RetryAfter::Now),
        Just(RetryAfter::Never),
        span().prop_map(|span| RetryAfter::After(span.max(Duration::from_nanos(1))))
    ];
    let limits = (number(), any::<bool>(), number());
    (any::<String>(), limits, span(), number(), span(), retry_after).prop_map(
        |(name, (limit, has_burst, burst), window, remaining, reset_after, retry_after)| Raw {
            name,
            limit,
            burst: remaining.max(if has_burst { burst } else { limit }),
            window,
            remaining,
            reset_after,
            retry_after,
        },
    )
}

fn style() -> impl Strategy<Value = Style> {
    let ietf = prop_oneof![Just(Ietf::Off), Just(Ietf::Draft03), Just(Ietf::Draft07), Just(Ietf::Draft11)];
    (any::<bool>(), ietf).prop_map(|(legacy, ietf)| Style { legacy, ietf })
}

fn seconds(span: Duration) -> Duration {
    let up = span.as_secs() + u64::from(span.subsec_nanos() > 0);
    Duration::from_secs(up.min(MAX_SECONDS))
}

const MAX_INTEGER: u64 = 999_999_999_999_999;

proptest! {
    #[test]
    fn what_is_written_of_one_limit_is_read_back(raw in raw(), style in style()) {
        let limit = raw.state();
        let is_admitted = limit.retry_after == RetryAfter::Now;
        let mut fields = HeaderMap::new();
        write(&[limit], is_admitted, &style, &mut fields);
        let reading = read(&fields, NOON);
        if style == Style::OFF {
            prop_assert!(fields.is_empty() && reading.is_none());
            return Ok(());
        }
        let reading = reading.expect("limits");
        let generation = match style.ietf {
            Ietf::Off => Generation::Legacy,
            Ietf::Draft03 => Generation::Draft03,
            Ietf::Draft07 => Generation::Draft07,
            Ietf::Draft11 => Generation::Draft11,
        };
        prop_assert_eq!(reading.generation, generation);
        let (most, left) = match style.ietf {
            Ietf::Draft11 => (limit.limit, limit.remaining.min(limit.limit)),
            _ => (limit.burst, limit.remaining),
        };
        prop_assert_eq!(reading.limit, Some(most.min(MAX_INTEGER)));
        prop_assert_eq!(reading.remaining, Some(left.min(MAX_INTEGER)));
        prop_assert!(reading.remaining <= reading.limit, "a client would compute a negative use");
        let wait = match limit.retry_after {
            RetryAfter::After(span) => Some(seconds(span)),
            _ => None,
        };
        prop_assert_eq!(reading.retry_after, wait);
        let reset = match (style.ietf, wait) {
            (Ietf::Off, _) | (_, None) => seconds(limit.reset_after),
            (_, Some(wait)) => wait,
        };
        let is_left_out = style.ietf == Ietf::Draft11 && wait.is_none() && limit.reset_after.as_nanos() >= u128::from(u64::MAX);
        prop_assert_eq!(reading.reset_after, (!is_left_out).then_some(reset));
        if style.ietf == Ietf::Off {
            prop_assert_eq!((reading.window, reading.name), (None, None));
        } else {
            let window = (!limit.window.is_zero()).then(|| seconds(limit.window));
            prop_assert_eq!(reading.window, window);
            let name = if raw.name.is_empty() { "default" } else { &raw.name[..raw.name.floor_char_boundary(128)] };
            let name = (style.ietf == Ietf::Draft11).then(|| name.replace('→', ">"));
            prop_assert_eq!(reading.name, name);
        }
    }

    #[test]
    fn fields_stay_small_and_readable_whatever_the_limits(raws in vec(raw(), 1..20), style in style(), is_admitted: bool) {
        let limits: Vec<LimitState<'_>> = raws.iter().map(Raw::state).collect();
        let mut fields = HeaderMap::new();
        write(&limits, is_admitted, &style, &mut fields);
        for (name, value) in &fields {
            prop_assert!(value.len() <= MAX_LISTED * 450, "{name}: {value:?}");
            prop_assert!(value.to_str().is_ok_and(|text| !text.is_empty()), "{name}: {value:?}");
        }
        if style == Style::OFF {
            return Ok(());
        }
        let reading = read(&fields, NOON).expect("limits");
        let shown = most_restrictive(&limits).expect("one");
        if style.ietf == Ietf::Draft11 {
            let least = limits.iter().map(|limit| limit.remaining.min(limit.limit).min(MAX_INTEGER)).min();
            prop_assert!(limits.len() > MAX_LISTED || reading.remaining == least);
        } else {
            prop_assert_eq!(reading.remaining, Some(shown.remaining.min(MAX_INTEGER)));
        }
        if style.ietf == Ietf::Draft07 {
            let policies = fields.get("ratelimit-policy").map_or("", |value| value.to_str().expect("ASCII"));
            let quotas: Vec<&str> = policies.split(", ").map(|policy| policy.split(';').next().expect("one")).collect();
            prop_assert_eq!(quotas.iter().collect::<HashSet<_>>().len(), quotas.len(), "{}", policies);
        }
        let waits = !is_admitted && matches!(shown.retry_after, RetryAfter::After(_));
        prop_assert_eq!(reading.retry_after.is_some(), waits);
        prop_assert!(reading.retry_after.is_none_or(|wait| wait >= Duration::from_secs(1)), "a denied caller never hears 0");
    }

    #[test]
    fn nothing_that_arrives_panics(
        lines in vec((0..NAMES.len(), prop_oneof![
            vec(any::<u8>(), 0..60),
            "[0-9.,;=\"a-z :-]{0,40}".prop_map(String::into_bytes),
            proptest::sample::select(&TEXTS[..]).prop_map(|text: &str| text.as_bytes().to_vec()),
        ]), 0..8),
        now: u64,
    ) {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                fields.append(HeaderName::from_static(NAMES[name]), value);
            }
        }
        if let Some(reading) = read(&fields, Timestamp::from_nanos(now)) {
            let spans = [reading.reset_after, reading.retry_after, reading.window, Some(reading.wait())];
            prop_assert!(spans.into_iter().flatten().all(|span| span <= Duration::from_secs(MAX_SECONDS)));
        }
    }
}

const NAMES: [&str; 12] = [
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-rate-limit-reset",
    "x-ratelimit-retry-after",
    "retry-after",
    "retry-after-ms",
];

const TEXTS: [&str; 8] = [
    "\"a\";r=1;t=2, \"b\";r=0",
    "limit=1, remaining=0, reset=5",
    "99999999999999999999",
    "18446744073709551615.999999999",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thursday, 01-Jan-70 00:00:00 GMT",
    "10, 10;w=1;name=\"é\"",
    "999999999999999",
];
