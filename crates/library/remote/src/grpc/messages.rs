//! `tollgate.check.v1`, as far as a client needs it. The service's proto file is in
//! `crates/serving/envoy-rls/proto`.

use std::time::Duration;

use crate::answer::{Answer, DecidedBy};
use crate::lease::Offer;
use crate::question::Question;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EntryMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct DurationMessage {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CheckRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<EntryMessage>,
    #[prost(uint64, optional, tag = "3")]
    hits: Option<u64>,
    #[prost(message, optional, tag = "4")]
    max_wait: Option<DurationMessage>,
    #[prost(uint64, optional, tag = "5")]
    consumed: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CheckResponse {
    #[prost(bool, tag = "1")]
    admitted: bool,
    #[prost(uint64, optional, tag = "2")]
    limit: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    remaining: Option<u64>,
    #[prost(message, optional, tag = "4")]
    delay: Option<DurationMessage>,
    #[prost(message, optional, tag = "5")]
    retry_after: Option<DurationMessage>,
    #[prost(string, tag = "6")]
    rule: String,
    #[prost(string, tag = "7")]
    degraded: String,
    #[prost(message, optional, tag = "9")]
    pub(super) offer: Option<OfferMessage>,
    #[prost(uint64, tag = "10")]
    owed: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct OfferMessage {
    #[prost(uint64, tag = "1")]
    permits: u64,
    #[prost(message, optional, tag = "2")]
    refill: Option<DurationMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaseRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<EntryMessage>,
    #[prost(uint64, tag = "3")]
    permits: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LeaseResponse {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) refill: Option<DurationMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReturnRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(uint64, tag = "2")]
    pub(super) used: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ReturnResponse {
    #[prost(uint64, tag = "1")]
    returned: u64,
}

impl From<&Question<'_>> for CheckRequest {
    fn from(question: &Question<'_>) -> Self {
        Self {
            domain: question.domain.to_owned(),
            entries: entries(question),
            hits: (!question.is_consumed).then_some(question.hits),
            consumed: question.is_consumed.then_some(question.hits),
            max_wait: (!question.max_wait.is_zero()).then(|| question.max_wait.into()),
        }
    }
}

impl LeaseRequest {
    /// For permits of the same descriptor.
    pub(crate) fn new(question: &Question<'_>, permits: u64) -> Self {
        Self { domain: question.domain.to_owned(), entries: entries(question), permits }
    }
}

fn entries(question: &Question<'_>) -> Vec<EntryMessage> {
    let entry = |&(key, value): &(&str, &str)| EntryMessage { key: key.to_owned(), value: value.to_owned() };
    question.entries.iter().map(entry).collect()
}

impl From<OfferMessage> for Offer {
    fn from(OfferMessage { permits, refill }: OfferMessage) -> Self {
        Self { permits, refill: refill.map_or(Duration::ZERO, Duration::from) }
    }
}

impl From<Duration> for DurationMessage {
    fn from(span: Duration) -> Self {
        Self {
            seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
        }
    }
}

impl From<DurationMessage> for Duration {
    /// A span below zero becomes zero.
    fn from(DurationMessage { seconds, nanos }: DurationMessage) -> Self {
        let nanos = u32::try_from(nanos).unwrap_or(0).min(999_999_999);
        Self::new(u64::try_from(seconds).unwrap_or(0), nanos)
    }
}

impl From<CheckResponse> for Answer {
    fn from(response: CheckResponse) -> Self {
        Self {
            is_admitted: response.admitted,
            limit: response.limit,
            remaining: response.remaining,
            owed: response.owed,
            delay: response.delay.map_or(Duration::ZERO, Duration::from),
            retry_after: response.retry_after.map(Duration::from),
            rule: Some(response.rule).filter(|rule| !rule.is_empty()),
            decided_by: match response.degraded.as_str() {
                "" => DecidedBy::Service,
                _ => DecidedBy::ServiceWithoutStore,
            },
        }
    }
}
