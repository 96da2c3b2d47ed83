use std::sync::Arc;

use proptest::prelude::*;
use tokio::sync::watch;
use tollgate_core::ManualClock;
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

use super::*;
use crate::service::{AnswerBuffers, Caller, RateLimitService};
use crate::{Limits, Status};

const RULES: &str = "
domain: shop
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: b, shadow_mode: true, metadata: {team: x, deep: {one: 1}}, rate_limit: {unit: week, requests_per_unit: 300}}
  - {key: c, quota_mode: true, metadata: {team: y, deep: {two: [null, true, 2.5]}}, rate_limit: {name: c-name, unit: year, requests_per_unit: 4294967295}}
  - {key: d, rate_limit: {unlimited: true}}
  - {key: e, rate_limit: {period: 90s, requests_per_unit: 0}}
  - {key: f, rate_limit: {unit: minute, requests_per_unit: 20, algorithm: token_bucket, burst: 30}}
  - {key: g, rate_limit: {limit: 500, algorithm: total}}
";

fn service(options: ReplyOptions) -> RateLimitService<MemoryStore> {
    let policy = parse_text("rules.yaml", RULES).expect("rules without fault");
    let store = MemoryStore::new(MemoryConfig::default());
    let limiter = Arc::new(Limiter::new(policy, store, LimiterSettings::default()));
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(1_700_000_000_123_456_789)));
    RateLimitService::new(limiter, clock, watch::channel(true).1, options, Limits::default())
}

fn ask(
    service: &RateLimitService<MemoryStore>,
    request: &rls::RateLimitRequest,
    buffers: &mut AnswerBuffers,
) -> Result<Bytes, Status> {
    let message = request.encode_to_vec();
    let caller = Caller::over_http(None);
    let answer = std::pin::pin!(service.answer(&message, &caller, service.now(), buffers));
    match answer.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("memory does not wait"),
    }
}

fn descriptor() -> impl Strategy<Value = rls::RateLimitDescriptor> {
    let value = prop_oneof!["[xyß]{0,2}".prop_map(String::into_bytes), Just(vec![b'x', 0xe9])];
    let entry = ("[a-g]", value).prop_map(|(key, value)| rls::Entry { key: key.into(), value });
    let limit = prop::option::weighted(0.2, (any::<u32>(), 1_i32..8)).prop_map(|limit| {
        limit.map(|(requests_per_unit, unit)| rls::RateLimitOverride { requests_per_unit, unit })
    });
    let hits =
        prop_oneof![3 => Just(None), 2 => (0_u64..5).prop_map(Some), 1 => (0_u64..1 << 63).prop_map(Some)];
    (prop::collection::vec(entry, 0..3), limit, hits).prop_map(|(entries, limit, hits_addend)| {
        rls::RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits: false }
    })
}

proptest! {
    #[test]
    fn a_reply_is_what_the_general_writer_makes_of_it(
        asked in prop::collection::vec((prop::collection::vec(descriptor(), 1..6), 0_u32..4), 1..6),
        headers in any::<bool>(),
        retry_after in any::<bool>(),
        dynamic_metadata in any::<bool>(),
    ) {
        let service = service(ReplyOptions {
            headers: headers.then(HeaderNames::default),
            retry_after,
            dynamic_metadata,
        });
        let mut buffers = AnswerBuffers::default();
        for (descriptors, hits_addend) in asked {
            let count = descriptors.len();
            let request = rls::RateLimitRequest { domain: "shop".into(), descriptors, hits_addend };
            let framed = ask(&service, &request, &mut buffers).expect("an answer");
            let (prefix, message) = framed.split_at(PREFIX);
            prop_assert_eq!(prefix, [&[0][..], &(message.len() as u32).to_be_bytes()].concat());
            let response = rls::RateLimitResponse::decode(message).expect("readable");
            prop_assert_eq!(&response.encode_to_vec()[..], message, "{:?}", response);
            prop_assert_eq!(response.statuses.len(), count);
            prop_assert_eq!(response.dynamic_metadata.is_some(), dynamic_metadata);
        }
    }
}

#[test]
fn metadata_of_rules_is_merged_and_the_first_value_stays() {
    let entry = |key: &str| rls::Entry { key: key.into(), value: Vec::new() };
    let descriptor = |key| rls::RateLimitDescriptor { entries: vec![entry(key)], ..Default::default() };
    let descriptors = vec![descriptor("b"), descriptor("c"), descriptor("e")];
    let request = rls::RateLimitRequest { domain: "shop".into(), descriptors, hits_addend: 0 };
    let framed = ask(
        &service(ReplyOptions { dynamic_metadata: true, ..ReplyOptions::default() }),
        &request,
        &mut AnswerBuffers::default(),
    )
    .expect("an answer");
    let response = rls::RateLimitResponse::decode(framed.slice(PREFIX..)).expect("readable");
    let metadata = &response.dynamic_metadata.expect("asked for").fields["metadata"];
    let want = serde_json::json!({"team": "x", "deep": {"one": 1, "two": [null, true, 2.5]}});
    assert_eq!(metadata, &value_of(&want));
}

#[test]
fn a_limit_of_no_unit_is_named_by_its_period_and_a_total_has_none() {
    let entry = |key: &str| rls::Entry { key: key.into(), value: Vec::new() };
    let descriptor = |key| rls::RateLimitDescriptor { entries: vec![entry(key)], ..Default::default() };
    let descriptors = ["a", "e", "g"].map(descriptor).to_vec();
    let request = rls::RateLimitRequest { domain: "shop".into(), descriptors, hits_addend: 0 };
    let framed = ask(&service(ReplyOptions::default()), &request, &mut AnswerBuffers::default());
    let message = framed.expect("an answer").slice(PREFIX..);
    let response = rls::RateLimitResponse::decode(message).expect("readable");
    let limits = response.statuses.into_iter().filter_map(|status| status.current_limit);
    let shown: Vec<_> = limits.map(|limit| (limit.name, limit.unit)).collect();
    assert_eq!(shown, [(String::new(), 1), ("0 per 90s".to_owned(), 0), ("500 in all".to_owned(), 0)]);
}

#[test]
fn widths_are_those_of_varints() {
    for (value, want) in
        [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX >> 1, 9), (u64::MAX, 10)]
    {
        let mut out = BytesMut::new();
        varint(&mut out, value);
        assert_eq!((width(value), out.len() as u64), (want, want), "{value}");
    }
}
