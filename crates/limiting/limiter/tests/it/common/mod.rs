//! A limiter on the reference model, asked in short words.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod desk;

use std::time::Duration;

use tollgate_core::{Outcome, RetryAfter, Timestamp};
use tollgate_limiter::{
    Descriptor, DescriptorAnswer, Entry, Kind, LimitOverride, Limiter, LimiterSettings, Policy, Request,
    Scratch, Unit,
};
use tollgate_store::routed::RoutedStore;
use tollgate_store::suite::{Down, OutageStore};
use tollgate_store::{ModelStore, Store, block_on};

/// A whole minute, hour and day begin here.
pub(crate) const NOON: Timestamp = Timestamp::from_unix_seconds(1_699_920_000);

pub(crate) fn policy(text: &str) -> Policy {
    tollgate_rule_files::parse_text("rules.yaml", text).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The model behind a network that a test can cut, and memory beside it.
pub(crate) type Routed = RoutedStore<OutageStore, ModelStore>;

pub(crate) fn beside_memory(store: OutageStore) -> Routed {
    RoutedStore::new(store, ModelStore::default())
}

/// Which keys the shared store of `limiter` does not answer from now on.
pub(crate) fn cut(limiter: &Limiter<Routed>, down: Down) {
    limiter.store().shared().outage().set(down);
}

pub(crate) fn limiter(text: &str) -> Limiter<ModelStore> {
    Limiter::new(policy(text), ModelStore::default(), LimiterSettings::default())
}

/// One descriptor: entries as `key=value` with blanks between, hits, and a limit of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) entries: &'a str,
    pub(crate) hits: Option<u64>,
    pub(crate) limit: Option<(u32, Unit)>,
}

pub(crate) fn of(entries: &str) -> Ask<'_> {
    Ask { entries, ..Ask::default() }
}

impl Ask<'_> {
    pub(crate) fn hits(self, hits: u64) -> Self {
        Self { hits: Some(hits), ..self }
    }

    pub(crate) fn limit(self, requests_per_unit: u32, unit: Unit) -> Self {
        Self { limit: Some((requests_per_unit, unit)), ..self }
    }
}

pub(crate) fn entries(text: &str) -> Vec<Entry<'_>> {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("key=value"));
    pairs.map(|(key, value)| Entry::new(key, value)).collect()
}

/// Asks once, and returns the answer as one line: overall, then each descriptor.
pub(crate) fn ask_at<S: Store>(
    limiter: &Limiter<S>,
    domain: &str,
    asks: &[Ask<'_>],
    now: Timestamp,
) -> String {
    let lists: Vec<Vec<Entry<'_>>> = asks.iter().map(|ask| entries(ask.entries)).collect();
    let descriptors: Vec<Descriptor<'_>> = asks
        .iter()
        .zip(&lists)
        .map(|(ask, entries)| Descriptor {
            entries,
            hits: ask.hits,
            limit: ask.limit.map(|(requests_per_unit, unit)| LimitOverride { requests_per_unit, unit }),
        })
        .collect();
    let request = Request { domain, descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let answer = match block_on(limiter.decide(&request, now, &mut scratch)) {
        Ok(answer) => answer,
        Err(error) => return format!("error: {error}"),
    };
    let told: Vec<String> = answer.descriptors().map(|it| tell(&it)).collect();
    let overall = if answer.is_admitted() { "OK" } else { "OVER" };
    let shadow = if answer.is_shadowed() { " (shadow)" } else { "" };
    format!("{overall}{shadow}: {}", told.join(", "))
}

pub(crate) fn ask(limiter: &Limiter<ModelStore>, asks: &[Ask<'_>]) -> String {
    ask_at(limiter, "d", asks, NOON)
}

fn tell(it: &DescriptorAnswer<'_>) -> String {
    let mut told = if it.outcome == Outcome::Admit { "ok".to_owned() } else { "over".to_owned() };
    match it.limit {
        _ if it.kind == Kind::Unlimited => told += " unlimited",
        None => {}
        Some(limit) => {
            told += &format!(" {}/{}", it.remaining(), limit.requests_per_unit);
        }
    }
    for (is, word) in [
        (it.in_excess, " excess"),
        (it.is_shadowed, " shadow"),
        (it.kind == Kind::Replaced, " replaced"),
        (it.is_quota, " quota"),
    ] {
        if is {
            told += word;
        }
    }
    if let Some(degraded) = it.degraded {
        told += " degraded:";
        told += degraded.name();
    }
    match it.retry_after() {
        RetryAfter::Now => {}
        RetryAfter::Never => told += " never",
        RetryAfter::After(wait) => told += &format!(" in {}s", wait.as_secs_f64()),
    }
    told
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
