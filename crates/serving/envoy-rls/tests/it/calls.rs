//! Calls of a well-behaved client, made with tonic over real sockets.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration as StdDuration;

use crate::common::{Server, call, descriptor, framed, outcome, request};
use prost::Message;
use tollgate_envoy_rls::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse, ServingStatus,
};
use tollgate_envoy_rls::proto::reflection::{
    Answer, Question, ServerReflectionRequest, ServerReflectionResponse,
};
use tollgate_envoy_rls::proto::rls;
use tollgate_envoy_rls::proto::rls::{
    Code, Duration, HeaderValue, RateLimit, RateLimitOverride, RateLimitRequest, Unit, Value,
};
use tollgate_envoy_rls::{HeaderNames, Limits, ReplyOptions};
use tollgate_limiter::{Intervened, Intervention};

#[tokio::test]
async fn three_pass_and_the_fourth_is_over() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (code, remaining) in [(Code::Ok, 2), (Code::Ok, 1), (Code::Ok, 0), (Code::OverLimit, 0)] {
        let response = client.ask(request(vec![descriptor("api_key", "k-17")])).await.expect("an answer");
        assert_eq!(response.overall_code(), code);
        let [status] = &response.statuses[..] else { panic!("one status, not {:?}", response.statuses) };
        assert_eq!((status.code(), status.limit_remaining), (code, remaining));
        let limit = RateLimit { requests_per_unit: 3, unit: Unit::Hour as i32, name: String::new() };
        assert_eq!(status.current_limit, Some(limit));
        assert_eq!(status.duration_until_reset, Some(Duration { seconds: 2_800, nanos: 0 }));
    }
    let other = client.ask(request(vec![descriptor("api_key", "k-18")])).await.expect("an answer");
    assert_eq!(other.overall_code(), Code::Ok, "another value has a counter of its own");
    let metrics = server.limiter.metrics().render();
    assert!(metrics.contains("\ntollgate_decision_latency_seconds_count{surface=\"grpc\"} 5\n"), "{metrics}");
}

#[tokio::test]
async fn each_descriptor_is_answered_in_its_place() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let mut peek = descriptor("named", "a");
    peek.hits_addend = Some(0);
    let mut own = descriptor("nobody", "a");
    own.limit = Some(RateLimitOverride { requests_per_unit: 7, unit: Unit::Week as i32 });
    let descriptors = vec![
        descriptor("nobody", "a"),
        descriptor("free", "a"),
        descriptor("shadowed", "a"),
        peek,
        own,
        descriptor("odd", "a"),
    ];
    let hits_addend = 2;
    let response =
        client.ask(RateLimitRequest { hits_addend, ..request(descriptors) }).await.expect("an answer");
    let lines: Vec<_> = response
        .statuses
        .iter()
        .map(|status| {
            let limit = status.current_limit.as_ref();
            let limit = limit.map(|limit| (limit.requests_per_unit, limit.unit(), limit.name.as_str()));
            let reset = status.duration_until_reset.map(|duration| duration.seconds);
            (status.code(), limit, status.limit_remaining, reset)
        })
        .collect();
    let week_left = 604_800 - 1_700_000_000 % 604_800;
    assert_eq!(
        lines,
        [
            (Code::Ok, None, 0, None),
            (Code::Ok, None, u32::MAX, None),
            (Code::Ok, Some((1, Unit::Hour, "")), 0, Some(2_800)), // over, but in shadow
            (Code::Ok, Some((10, Unit::Minute, "by-name")), 10, Some(40)), // an untouched window has an end too
            (Code::Ok, Some((7, Unit::Week, "")), 5, Some(week_left)),
            (Code::Ok, Some((5, Unit::Unknown, "5 per 10s")), 3, Some(10)),
        ]
    );
    assert_eq!(response.overall_code(), Code::Ok);
}

#[tokio::test]
async fn headers_describe_the_nearest_limit() {
    let options = ReplyOptions { headers: Some(HeaderNames::default()), ..ReplyOptions::default() };
    let server = Server::start(options, Limits::default()).await;
    let mut client = server.client().await;
    let header = |key: &str, value: &str| HeaderValue { key: key.into(), value: value.into() };
    for (keys, want) in [
        (vec!["named", "api_key", "free"], vec!["3", "2", "2800"]),
        (vec!["nobody", "free"], vec![]),
        (vec!["api_key", "odd"], vec!["3", "1", "2800"]),
    ] {
        let descriptors = keys.into_iter().map(|key| descriptor(key, "h")).collect();
        let response = client.ask(request(descriptors)).await.expect("an answer");
        let names = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
        let want: Vec<_> = names.into_iter().zip(want).map(|(name, value)| header(name, value)).collect();
        assert_eq!(response.response_headers_to_add, want);
    }
}

#[tokio::test]
async fn a_denial_has_the_longest_wait_of_those_that_deny_unless_no_wait_helps_or_it_is_switched_off() {
    let header = |key: &str, value: &str| HeaderValue { key: key.into(), value: value.into() };
    for (retry_after, waits) in [(true, ["2800", "40"]), (false, ["", ""])] {
        let options = ReplyOptions { retry_after, ..ReplyOptions::default() };
        let server = Server::start(options, Limits::default()).await;
        let mut client = server.client().await;
        let want = |wait: &str| match wait {
            "" => Vec::new(),
            wait => ["Retry-After", "X-RateLimit-Retry-After"].map(|name| header(name, wait)).to_vec(),
        };
        for (hits, keys, code, wait) in [
            (3, vec!["api_key"], Code::Ok, ""),
            (10, vec!["named"], Code::Ok, ""),
            (1, vec!["named", "free"], Code::OverLimit, waits[1]),
            (1, vec!["named", "api_key", "odd"], Code::OverLimit, waits[0]), // an hour's is longer than a minute's
            (2, vec!["shadowed"], Code::Ok, ""),                             // it denies without effect
            (11, vec!["named"], Code::OverLimit, ""),                        // more than it can ever grant
        ] {
            let descriptors = keys.iter().map(|key| descriptor(key, "r")).collect();
            let request = RateLimitRequest { hits_addend: hits, ..request(descriptors) };
            let response = client.ask(request).await.expect("an answer");
            assert_eq!(response.overall_code(), code, "{hits} of {keys:?}");
            assert_eq!(response.response_headers_to_add, want(wait), "{hits} of {keys:?}");
        }
    }
}

/// Row 153: `Retry-After` in replies to Envoy.
#[tokio::test]
async fn the_header_is_whole_seconds_never_early_and_less_than_a_second_late() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let asked = |hits| RateLimitRequest { hits_addend: hits, ..request(vec![descriptor("named", "r")]) };
    client.ask(asked(10)).await.expect("an answer");
    // The window ends in 40 s.
    let mut passed = StdDuration::ZERO;
    for (at, want) in [
        (StdDuration::ZERO, "40"),
        (StdDuration::from_nanos(1), "40"),
        (StdDuration::from_millis(999), "40"),
        (StdDuration::from_secs(1), "39"),
        (StdDuration::from_nanos(39_000_000_001), "1"),
        (StdDuration::from_nanos(39_999_999_999), "1"),
    ] {
        server.clock.advance(at - passed);
        passed = at;
        let response = client.ask(asked(1)).await.expect("an answer");
        let waits = response.response_headers_to_add.iter().filter(|it| it.key.contains("Retry-After"));
        let waits: Vec<&str> = waits.map(|it| it.value.as_str()).collect();
        assert_eq!(waits, [want; 2], "{at:?}");
    }
    server.clock.advance(StdDuration::from_secs(40) - passed);
    assert_eq!(client.ask(asked(1)).await.expect("an answer").overall_code(), Code::Ok);
}

#[tokio::test]
async fn metadata_says_what_was_asked_and_what_passed() {
    let options = ReplyOptions { dynamic_metadata: true, ..ReplyOptions::default() };
    let server = Server::start(options, Limits::default()).await;
    let mut client = server.client().await;
    let mut asked = descriptor("named", "m");
    asked.hits_addend = Some(4);
    for (overall, want) in [(Code::Ok, true), (Code::Ok, true), (Code::OverLimit, false)] {
        let response = client.ask(request(vec![asked.clone()])).await.expect("an answer");
        assert_eq!(response.overall_code(), overall);
        let metadata = response.dynamic_metadata.expect("metadata");
        let text = |text: &str| Some(rls::Kind::String(text.into()));
        assert_eq!(metadata.fields["domain"].kind, text("shop"));
        let Some(rls::Kind::List(list)) = &metadata.fields["descriptors"].kind else { panic!("a list") };
        let Some(rls::Kind::Struct(first)) = &list.values[0].kind else { panic!("a map") };
        assert_eq!(first.fields["hitsAddend"].kind, Some(rls::Kind::Number(4.0)));
        let entries = rls::List { values: vec![Value { kind: text("named=m") }] };
        assert_eq!(first.fields["entries"].kind, Some(rls::Kind::List(entries)));
        let passed = metadata.fields.get("metadata").map(|passed| match &passed.kind {
            Some(rls::Kind::Struct(passed)) => passed.fields["team"].kind.clone(),
            other => panic!("not a map: {other:?}"),
        });
        assert_eq!(passed, want.then(|| text("checkout")));
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_an_invalid_argument() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let mut unknown_unit = descriptor("api_key", "x");
    unknown_unit.limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 0 });
    for (asked, want) in [
        (RateLimitRequest::default(), "the domain is empty"),
        (request(vec![]), "there is no descriptor"),
        (request(vec![unknown_unit]), "descriptors[0].limit.unit is not a unit"),
    ] {
        let status = client.ask(asked).await.expect_err("rejected");
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains(want), "{}", status.message());
    }
    let peek = client.ask(request(vec![descriptor("api_key", "x")])).await.expect("an answer");
    assert_eq!(peek.statuses[0].limit_remaining, 2, "a rejected request takes nothing");
}

#[tokio::test]
async fn health_follows_readiness() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let check = |service: &str| HealthCheckRequest { service: service.into() };
    for ready in [true, false, true] {
        server.ready.send_replace(ready);
        let want = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"] {
            let path = "/grpc.health.v1.Health/Check";
            let response: HealthCheckResponse = client.unary(path, check(service)).await.expect("known");
            assert_eq!(response.status(), want, "{service}");
        }
        let listed: HealthListResponse =
            client.unary("/grpc.health.v1.Health/List", HealthListRequest {}).await.expect("a list");
        assert_eq!(listed.statuses["ratelimit"].status(), want);
        let path = "/grpc.health.v1.Health/Check";
        let unknown =
            client.unary::<_, HealthCheckResponse>(path, check("nobody")).await.expect_err("unknown");
        assert_eq!(unknown.code(), tonic::Code::NotFound);
    }
}

#[tokio::test]
async fn a_watched_health_reports_every_change_and_ends_with_the_server() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let path = http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
    let asked = tonic::Request::new(HealthCheckRequest { service: "ratelimit".into() });
    client.0.ready().await.expect("a connection");
    let mut watch = client.0.server_streaming(asked, path, codec).await.expect("a stream").into_inner();
    let mut next = async || watch.message().await.map(|message| message.map(|message| message.status()));
    assert_eq!(next().await.expect("told"), Some(ServingStatus::Serving));
    server.ready.send_replace(false);
    assert_eq!(next().await.expect("told"), Some(ServingStatus::NotServing));
    server.ready.send_replace(true);
    assert_eq!(next().await.expect("told"), Some(ServingStatus::Serving));
    server.drain.send_replace(true);
    assert_eq!(next().await.expect("told"), Some(ServingStatus::NotServing));
    assert_eq!(next().await.expect_err("over").code(), tonic::Code::Unavailable);
    drop(client);
    server.ended.await.expect("ended well");
}

#[tokio::test]
async fn reflection_lists_the_services_and_hands_out_their_files() {
    let server = Server::plain().await;
    for path in [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        let mut client = server.client().await;
        let codec = tonic_prost::ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
        let ask = |question| ServerReflectionRequest { host: "h".into(), question: Some(question) };
        let symbol = "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit".to_owned();
        let questions = tonic::codegen::tokio_stream::iter(vec![
            ask(Question::ListServices(String::new())),
            ask(Question::FileContainingSymbol(symbol)),
            ask(Question::FileByFilename("no/such.proto".into())),
        ]);
        client.0.ready().await.expect("a connection");
        let path = http::uri::PathAndQuery::from_static(path);
        let answers =
            client.0.streaming(tonic::Request::new(questions), path, codec).await.expect("a stream");
        let mut answers = answers.into_inner();
        let mut next = async || answers.message().await.expect("told").and_then(|message| message.answer);
        let Some(Answer::Services(services)) = next().await else { panic!("services") };
        let names: Vec<_> = services.service.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "envoy.service.ratelimit.v3.RateLimitService",
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
                "tollgate.check.v1.CheckService",
                "tollgate.slots.v1.SlotService",
            ]
        );
        let Some(Answer::Files(files)) = next().await else { panic!("files") };
        let set: Vec<_> = files
            .file_descriptor_proto
            .iter()
            .map(|file| prost_types::FileDescriptorProto::decode(file.clone()).expect("a file"))
            .collect();
        assert_eq!(set[0].name(), "envoy/service/ratelimit/v3/rls.proto");
        for file in &set {
            for needed in &file.dependency {
                assert!(set.iter().any(|file| file.name() == needed), "{needed} is missing");
            }
        }
        let Some(Answer::Error(error)) = next().await else { panic!("an error") };
        assert_eq!(error.error_code, tonic::Code::NotFound as i32);
        assert_eq!(next().await, None);
    }
}

#[tokio::test]
async fn a_drain_lets_calls_finish_and_takes_no_new_connection() {
    let server = Server::plain().await;
    let mut send = server.raw().await;
    let (response, mut body) =
        send.send_request(call(crate::common::SHOULD_RATE_LIMIT).body(()).unwrap(), false).unwrap();
    let mut client = server.client().await;
    client.ask(request(vec![descriptor("api_key", "d")])).await.expect("an answer");
    server.drain.send_replace(true);
    // The call whose header came before the drain still gets its answer.
    body.send_data(framed(&request(vec![descriptor("api_key", "d")])), true).expect("still open");
    assert_eq!(outcome(response).await.expect("an answer"), (200, 0));
    drop(send);
    server.ended.await.expect("ended well");
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn json_asks_and_answers_the_same() {
    let (service, _ready) =
        crate::common::service(crate::common::limiter(), ReplyOptions::default(), Limits::default());
    let body = |text: &str| service.json(text.as_bytes(), &"legacy".parse().unwrap()).now_or_never();
    for (text, want) in [
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "api_key", "value": "j"}]}], "hitsAddend": "2"}"#,
            r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":3,"unit":"HOUR"},"durationUntilReset":"2800s","limitRemaining":1}]}"#,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "api_key", "value": "j"}], "hits_addend": 2}]}"#,
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":3,"unit":"HOUR"},"durationUntilReset":"2800s"}],"responseHeadersToAdd":[{"key":"Retry-After","value":"2800"},{"key":"X-RateLimit-Retry-After","value":"2800"}]}"#,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "x"}], "limit": {"requestsPerUnit": 9, "unit": "DAY"}}]}"#,
            r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":9,"unit":"DAY"},"durationUntilReset":"6400s","limitRemaining":8}]}"#,
        ),
    ] {
        let reply = body(text);
        let is_over = want.contains("\"overallCode\":\"OVER_LIMIT\"");
        assert_eq!(reply.status(), if is_over { 429 } else { 200 }, "{text}");
        let field = |name: &str| reply.headers().get(name).and_then(|value| value.to_str().ok());
        let wait = is_over.then_some("2800");
        assert_eq!([field("retry-after"), field("x-ratelimit-retry-after")], [wait; 2], "{text}");
        assert!(field("x-ratelimit-limit").is_some() && field("x-ratelimit-remaining").is_some(), "{text}");
        let reply: serde_json::Value = serde_json::from_str(reply.body()).unwrap();
        let want: serde_json::Value = serde_json::from_str(want).unwrap();
        assert_eq!(reply, want);
    }
    // More hits than there can be.
    for hits in ["4294967296", "18446744073709551616", "1e30", r#""99999999999999999999""#] {
        for text in [
            format!(
                r#"{{"domain": "shop", "descriptors": [{{"entries": [{{"key": "named"}}]}}], "hitsAddend": {hits}}}"#
            ),
            format!(
                r#"{{"domain": "shop", "descriptors": [{{"entries": [{{"key": "named"}}], "hitsAddend": {hits}}}]}}"#
            ),
        ] {
            assert_eq!(body(&text).status(), 429, "{text}");
        }
    }
    for text in [
        "",
        "[]",
        r#"{"domain": "shop", "surprise": 1}"#,
        r#"{"domain": "shop", "descriptors": [{"entries": [], "hitsAddend": -1}]}"#,
        r#"{"domain": "shop", "descriptors": [{"entries": [], "limit": {"unit": "FORTNIGHT"}}]}"#,
        r#"{"domain": "shop", "descriptors": []}"#,
        r#"{"descriptors": [{}]}"#,
    ] {
        let reply = body(text);
        assert_eq!(reply.status(), 400, "{text}");
        assert_eq!(reply.headers()["content-type"], "text/plain; charset=utf-8", "{text}");
    }
}

/// The result of a future that never waits.
trait NowOrNever: Future + Sized {
    fn now_or_never(self) -> Self::Output {
        match std::pin::pin!(self).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("it waits"),
        }
    }
}

impl<F: Future> NowOrNever for F {}

#[tokio::test]
async fn a_request_that_no_rule_matches_is_over_the_limit_where_its_domain_says_so() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (unmatched, code) in [("admit", Code::Ok), ("deny", Code::OverLimit)] {
        let rules = format!("{{domain: shop, unmatched: {unmatched}, descriptors: [{{key: user}}]}}");
        let policy = tollgate_rule_files::parse_text("shop.yaml", rules).expect("rules without fault");
        server.limiter.replace(policy, tollgate_core::Timestamp::ZERO);
        let response = client.ask(request(vec![descriptor("nobody", "a")])).await.expect("an answer");
        assert_eq!(response.overall_code(), code, "{unmatched}");
        let [status] = &response.statuses[..] else { panic!("one status, not {:?}", response.statuses) };
        assert_eq!((status.code(), &status.current_limit, status.limit_remaining), (code, &None, 0));
    }
}

#[tokio::test]
async fn a_request_above_a_soft_limit_is_marked_in_a_header_field() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let rules = "{domain: shop, descriptors: [{key: user, rate_limit: {rate: 1/hour, excess: 1}}]}";
    let policy = tollgate_rule_files::parse_text("shop.yaml", rules).expect("rules without fault");
    server.limiter.replace(policy, tollgate_core::Timestamp::ZERO);
    let mark = HeaderValue { key: "X-RateLimit-Excess".into(), value: "true".into() };
    for (code, marks) in [(Code::Ok, 0), (Code::Ok, 1), (Code::OverLimit, 0)] {
        let response = client.ask(request(vec![descriptor("user", "ann")])).await.expect("an answer");
        let marked = response.response_headers_to_add.iter().filter(|field| **field == mark).count();
        assert_eq!((response.overall_code(), marked), (code, marks));
        let limit = response.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit);
        assert_eq!((limit, response.statuses[0].limit_remaining), (Some(1), 0));
    }
}

#[tokio::test]
async fn what_an_operator_blocks_is_over_its_limit_and_what_is_allowed_is_not_counted() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let one = |value: &str, action| Intervention {
        domain: "shop".to_owned(),
        entries: vec![("api_key".into(), value.into())],
        action,
        until: crate::common::NOW + std::time::Duration::from_secs(60),
    };
    let list = vec![one("bad", Intervened::Blocked), one("good", Intervened::Allowed)];
    assert_eq!(server.limiter.intervene(list, crate::common::NOW).in_force, 2);
    for _ in 0..5 {
        let blocked = client.ask(request(vec![descriptor("api_key", "bad")])).await.expect("an answer");
        assert_eq!((blocked.overall_code(), blocked.statuses[0].limit_remaining), (Code::OverLimit, 0));
        let allowed = client.ask(request(vec![descriptor("api_key", "good")])).await.expect("an answer");
        assert_eq!(allowed.overall_code(), Code::Ok);
    }
}
