//! Traces: a collector of the test's own, fed by the server over OTLP. Its messages are written out again
//! here by field number.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::codegen::http::uri::PathAndQuery;

use crate::http;
use crate::rls::{self, PATIENCE};
use crate::start::rules;
use crate::tollgate::Start;

const RULES: &str =
    "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Text>,
}

/// An `AnyValue` that is a text.
#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

/// Attributes as `key=value`, sorted.
fn told(attributes: &[Attribute]) -> Vec<String> {
    let text = |it: &Attribute| it.value.as_ref().map_or_else(String::new, |value| value.text.clone());
    let mut told: Vec<String> = attributes.iter().map(|it| format!("{}={}", it.key, text(it))).collect();
    told.sort();
    told
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Listens as a collector does; every message that it is sent comes out of the channel.
async fn collector() -> (SocketAddr, mpsc::UnboundedReceiver<Export>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (say, said) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let say = say.clone();
            tokio::spawn(async move {
                let mut calls = h2::server::handshake(stream).await.expect("HTTP/2");
                while let Some(Ok((request, respond))) = calls.accept().await {
                    assert!(request.uri().path().ends_with("TraceService/Export"), "{:?}", request.uri());
                    tokio::spawn(take(request.into_body(), respond, say.clone()));
                }
            });
        }
    });
    (address, said)
}

/// Takes one message and says that it was taken.
async fn take(
    mut body: h2::RecvStream,
    mut respond: h2::server::SendResponse<Bytes>,
    say: mpsc::UnboundedSender<Export>,
) {
    let mut message = BytesMut::new();
    while let Some(Ok(part)) = body.data().await {
        body.flow_control().release_capacity(part.len()).expect("received");
        message.extend_from_slice(&part);
    }
    let head =
        ::http::Response::builder().header("content-type", "application/grpc").body(()).expect("a head");
    let mut stream = respond.send_response(head, false).expect("open");
    stream.send_data(Bytes::from_static(&[0; 5]), false).expect("open");
    let trailers = ::http::HeaderMap::from_iter([(
        "grpc-status".parse().expect("a name"),
        ::http::HeaderValue::from_static("0"),
    )]);
    stream.send_trailers(trailers).expect("open");
    say.send(Export::decode(&message[5..]).expect("an export")).ok(); // the test may be over
}

/// Asks over gRPC with more metadata.
async fn ask_with(to: SocketAddr, name: &'static str, value: &str) -> rls::RateLimitResponse {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{to}")).expect("an address");
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.expect("it listens"));
    client.ready().await.expect("ready");
    let mut request = tonic::Request::new(rls::hit("shop", "user", "alice"));
    request.metadata_mut().insert(name, value.parse().expect("ASCII"));
    let codec = tonic_prost::ProstCodec::<rls::RateLimitRequest, rls::RateLimitResponse>::default();
    client.unary(request, PathAndQuery::from_static(rls::PATH), codec).await.expect("an answer").into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_span_under_the_callers_own_and_those_not_sampled_are_none() {
    let (collector, mut exports) = collector().await;
    let folder = rules(RULES);
    let url = format!("http://{collector}");
    // A ratio so small that only what callers ask for is sampled.
    let server = Start::new(folder.path()).args(["--otlp", &url, "--trace-ratio", "0.000000001"]).go();
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    ask_with(server.grpc, "traceparent", &sampled.replace("-01", "-00")).await;
    ask_with(server.grpc, "x-nothing", "1").await;
    assert_eq!(ask_with(server.grpc, "traceparent", &sampled).await.overall_code, rls::OVER_LIMIT);
    let check = "/v1/check?domain=shop&entry=user=bob";
    let asked = http::get(server.http, check, &[("traceparent", &sampled)]).await;
    assert_eq!(asked.expect("an answer").status, 200);
    let mut spans = Vec::new();
    let mut service = Vec::new();
    while spans.len() < 2 {
        let export = timeout(PATIENCE, exports.recv()).await.expect("in time").expect("an export");
        for resource in export.resource_spans {
            service = told(&resource.resource.expect("a resource").attributes);
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    assert!(service.contains(&"service.name=tollgate".to_owned()), "{service:?}");
    let wanted = [
        ["domain=shop", "outcome=deny", "rule=user", "surface=grpc"],
        ["domain=shop", "outcome=admit", "rule=user", "surface=http"],
    ];
    for (span, want) in spans.iter().zip(wanted) {
        assert_eq!(
            (hex(&span.trace_id).as_str(), hex(&span.parent_span_id).as_str(), span.name.as_str()),
            (TRACE, PARENT, "decide")
        );
        assert_eq!(told(&span.attributes), want);
    }
    // Counted once the server has read that they were taken.
    while server.metric("tollgate_trace_spans_total", "sent").await != Some(2.0) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_at_the_end() {
    let (collector, mut exports) = collector().await;
    let folder = rules(RULES);
    let url = format!("http://{collector}");
    let mut server =
        Start::new(folder.path()).args(["--otlp", &url, "--trace-ratio", "1", "--drain-delay", "0"]).go();
    let mut client = rls::Client::connect(server.grpc).await.expect("it listens");
    client.admits(rls::hit("shop", "user", "alice")).await;
    drop(client);
    let reserve = r#"{"domain":"shop","descriptors":[[{"key":"user","value":"bob"}]]}"#;
    let reserved = http::post(server.http, "/v1/reserve", reserve).await.expect("an answer");
    assert_eq!(reserved.status, 200, "{reserved:?}");
    let mut stream = tokio::net::TcpStream::connect(server.resp).await.expect("it listens");
    stream
        .write_all(b"TOLLGATE.CHECK shop user eve\r\nCL.THROTTLE k 0 1 60\r\nQUIT\r\n")
        .await
        .expect("sent");
    stream.read_to_end(&mut Vec::new()).await.expect("answers");
    server.signal("TERM");
    assert!(server.wait().success(), "{}", server.printed());
    let mut spans = Vec::new();
    while spans.len() < 4 {
        let export = timeout(PATIENCE, exports.recv()).await.expect("in time").expect("an export");
        spans.extend(export.resource_spans.into_iter().flat_map(|it| it.scope_spans).flat_map(|it| it.spans));
    }
    let spans: Vec<_> = spans.iter().map(|span| told(&span.attributes).join(" ")).collect();
    assert_eq!(
        spans,
        [
            "domain=shop outcome=admit rule=user surface=grpc",
            "domain=shop outcome=admit rule=user surface=http",
            "domain=shop outcome=admit rule=user surface=resp",
            "domain= outcome=admit rule=(throttle) surface=resp",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let folder = rules(RULES);
    // A port that was free a moment ago.
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let url = format!("http://{nobody}");
    let mut server =
        Start::new(folder.path()).args(["--otlp", &url, "--trace-ratio", "1", "--drain-delay", "0"]).go();
    let mut client = rls::Client::connect(server.grpc).await.expect("it listens");
    assert!(client.admits(rls::hit("shop", "user", "alice")).await);
    while server.metric("tollgate_trace_spans_total", "failed").await.unwrap_or_default() < 1.0 {}
    assert!(!client.admits(rls::hit("shop", "user", "alice")).await, "it answers as ever");
    drop(client);
    server.signal("TERM");
    assert!(server.wait().success());
    let said = server.printed();
    assert_eq!(said.matches("traces do not arrive").count(), 1, "{said}");
}
