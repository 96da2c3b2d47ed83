//! Slots: holders over gRPC, HTTP and the Redis protocol hold places of the same limit.

use serde_json::{Value, json};

use crate::resp::Reply;
use crate::tollgate::Tollgate;
use crate::{http, resp, rls};

const RULES: &str = "
domain: shop
descriptors:
  - key: export
    rate_limit: {algorithm: concurrency, limit: 2, ttl: 1h}
  - key: api_key
    rate_limit: {unit: year, requests_per_unit: 2}
";
const ID: &str = "0123456789abcdef0123456789abcdef";

/// The messages of `tollgate.slots.v1`, by field number.
#[derive(Clone, PartialEq, prost::Message)]
struct Holder {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<rls::Entry>,
    #[prost(string, tag = "3")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Acquired {
    #[prost(bool, tag = "1")]
    admitted: bool,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(uint64, optional, tag = "3")]
    limit: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    remaining: Option<u64>,
    #[prost(message, optional, tag = "5")]
    retry_after: Option<prost_types::Duration>,
    #[prost(message, optional, tag = "6")]
    expires_in: Option<prost_types::Duration>,
    #[prost(bool, tag = "7")]
    renewed: bool,
    #[prost(string, tag = "8")]
    rule: String,
    #[prost(string, tag = "9")]
    degraded: String,
    #[prost(bool, tag = "10")]
    shadow: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Released {
    #[prost(bool, tag = "1")]
    released: bool,
}

const ACQUIRE: &str = "/tollgate.slots.v1.SlotService/Acquire";
const RELEASE: &str = "/tollgate.slots.v1.SlotService/Release";

fn holder(key: &str, id: &str) -> Holder {
    let entries = vec![rls::Entry { key: key.into(), value: "orders".into() }];
    Holder { domain: "shop".into(), entries, id: id.into() }
}

#[tokio::test]
async fn a_slot_is_acquired_over_one_surface_and_renewed_and_released_over_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.yaml"), RULES).expect("written");
    let server = Tollgate::start(folder.path());
    let mut grpc = rls::Client::connect(server.grpc).await.expect("it listens");
    let mut redis = resp::Client::connect(server.resp).await.expect("it listens");
    let over_http = async |path: &str, id: &str| {
        let body =
            json!({"domain": "shop", "descriptors": [[{"key": "export", "value": "orders"}]], "id": id});
        let answer = http::post(server.http, path, &body.to_string()).await.expect("an answer");
        serde_json::from_str::<Value>(&answer.body).expect("JSON")
    };

    let first: Acquired = grpc.call(ACQUIRE, holder("export", "")).await.expect("an answer");
    assert_eq!((first.admitted, first.limit, first.remaining), (true, Some(2), Some(1)));
    assert_eq!((first.id.len(), first.rule.as_str(), first.renewed), (32, "export", false));
    assert_eq!(first.expires_in, Some(prost_types::Duration { seconds: 3_600, nanos: 0 }));
    assert_eq!(first.retry_after, Some(prost_types::Duration::default()));
    let renewed = over_http("/v1/acquire", &first.id).await;
    assert_eq!((&renewed["renewed"], &renewed["remaining"]), (&json!(true), &json!(1)));
    let second = redis.ask(&["TOLLGATE.ACQUIRE", "shop", "export", "orders", "ID", ID]).await;
    assert_eq!(second.integers(), [0, 2, 0, -1, 3_600]);

    let third: Acquired = grpc.call(ACQUIRE, holder("export", "")).await.expect("an answer");
    assert_eq!((third.admitted, third.remaining, third.id.as_str()), (false, Some(0), ""));
    assert_eq!((third.limit, third.expires_in), (Some(2), None));
    let wait = third.retry_after.expect("a slot expires").seconds;
    assert!((3_000..=3_600).contains(&wait), "{wait}");

    let released: Released = grpc.call(RELEASE, holder("export", ID)).await.expect("an answer");
    assert!(released.released);
    let again = redis.ask(&["TOLLGATE.RELEASE", "shop", "export", "orders", "ID", ID]).await;
    assert_eq!(again, Reply::Integer(0));
    assert_eq!(over_http("/v1/release", &first.id).await, json!({"released": true}));
    let again: Released = grpc.call(RELEASE, holder("export", &first.id)).await.expect("an answer");
    assert!(!again.released);
}

#[tokio::test]
async fn what_is_no_request_for_a_slot_fails_with_a_status_that_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.yaml"), RULES).expect("written");
    let server = Tollgate::start(folder.path());
    let mut grpc = rls::Client::connect(server.grpc).await.expect("it listens");
    let counts = holder("api_key", "");
    for (path, request, code, says) in [
        (ACQUIRE, counts.clone(), tonic::Code::InvalidArgument, "rule api_key counts permits"),
        (ACQUIRE, holder("export", "0"), tonic::Code::InvalidArgument, "32 hexadecimal digits"),
        (ACQUIRE, Holder { domain: String::new(), ..counts }, tonic::Code::InvalidArgument, "domain"),
        (RELEASE, holder("export", ""), tonic::Code::InvalidArgument, "32 hexadecimal digits"),
        (RELEASE, holder("nobody", ID), tonic::Code::NotFound, "no rule with algorithm: concurrency"),
    ] {
        let status = grpc.call::<_, Acquired>(path, request).await.expect_err("an error");
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(says), "{status}");
    }
    // A check of such a rule names it, and says what to do.
    let status = grpc.ask(rls::hit("shop", "export", "orders")).await.expect_err("slots are acquired");
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains("export"), "{status}");
    // A domain without rules admits, and holds nothing.
    let unknown = Holder { domain: "elsewhere".into(), ..holder("export", "") };
    let free: Acquired = grpc.call(ACQUIRE, unknown).await.expect("an answer");
    assert_eq!((free.admitted, free.limit, free.rule.as_str()), (true, None, ""));
}
