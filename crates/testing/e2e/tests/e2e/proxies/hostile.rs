//! Requests that no browser sends: odd bytes, sizes, counts of fields, duplicates, URLs that look like
//! Tollgate's; and a client that sends them as they are.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::rls::PATIENCE;

/// Addresses of clients on this machine, each of them once.
#[derive(Default)]
pub(crate) struct Clients(u32);

impl Clients {
    pub(crate) fn next(&mut self) -> Ipv4Addr {
        self.0 += 1;
        Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + self.0)
    }
}

/// A request, byte for byte.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    line: Vec<u8>,
    /// Lines with their ends. Without a `Host` among them, one is added.
    fields: Vec<u8>,
    body: Vec<u8>,
    /// Several requests on one connection: the replies are read to the end.
    is_pipeline: bool,
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Status(u16),
    /// A denial in the words of gRPC, which is 200 over HTTP.
    Grpc,
    /// The connection was closed without a reply.
    Closed,
}

impl Outcome {
    pub(crate) fn is_denial(self) -> bool {
        matches!(self, Self::Status(429) | Self::Grpc)
    }

    /// The proxy itself has rejected the request.
    pub(crate) fn is_rejection(self) -> bool {
        matches!(self, Self::Closed | Self::Status(400..=599))
    }
}

impl Case {
    fn new(name: impl Into<String>) -> Self {
        let line = b"GET / HTTP/1.1".to_vec();
        Self { name: name.into(), line, fields: Vec::new(), body: Vec::new(), is_pipeline: false }
    }

    pub(crate) fn plain() -> Self {
        Self::new("a plain request")
    }

    fn line(mut self, line: impl AsRef<[u8]>) -> Self {
        self.line = line.as_ref().to_vec();
        self
    }

    pub(crate) fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.extend_from_slice(name.as_bytes());
        self.fields.extend_from_slice(b": ");
        self.fields.extend_from_slice(value.as_ref());
        self.fields.extend_from_slice(b"\r\n");
        self
    }

    fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    fn pipeline(mut self) -> Self {
        self.is_pipeline = true;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.line.clone();
        bytes.extend_from_slice(b"\r\n");
        if !self.fields.to_ascii_lowercase().split(|byte| *byte == b'\n').any(|it| it.starts_with(b"host:")) {
            bytes.extend_from_slice(b"Host: app.example\r\n");
        }
        bytes.extend_from_slice(&self.fields);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it from the address of one client.
    pub(crate) async fn send(&self, from: Ipv4Addr, to: SocketAddr) -> Outcome {
        self.send_on(connect(from, to).await).await
    }

    /// Sends it on a connection, which it closes afterwards.
    pub(crate) async fn send_on(&self, mut stream: TcpStream) -> Outcome {
        let (mut read, mut write) = stream.split();
        let bytes = self.bytes();
        let send = async {
            // A proxy may have replied, and closed, before it has read everything.
            write.write_all(&bytes).await.ok();
            std::future::pending::<()>().await;
        };
        let receive = async {
            let mut text = Vec::new();
            let mut chunk = [0; 4096];
            loop {
                if !self.is_pipeline
                    && let Some(outcome) = outcome(&text)
                {
                    return outcome;
                }
                match read.read(&mut chunk).await {
                    Ok(0) | Err(_) => return outcome(&text).unwrap_or(Outcome::Closed),
                    Ok(count) => text.extend_from_slice(&chunk[..count]),
                }
            }
        };
        tokio::select! {
            outcome = timeout(PATIENCE, receive) => outcome.unwrap_or_else(|_| panic!("no reply to {}", self.name)),
            () = send => unreachable!("it never ends"),
        }
    }
}

/// A connection from the address of one client.
pub(crate) async fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("an address of this machine");
    socket.connect(to).await.expect("the proxy listens")
}

/// The outcome of a reply whose head has arrived; `None` for an interim reply.
fn outcome(text: &[u8]) -> Option<Outcome> {
    let text = String::from_utf8_lossy(text);
    let mut rest = &*text;
    loop {
        let (head, after) = rest.split_once("\r\n\r\n")?;
        let status: u16 = head.split(' ').nth(1).and_then(|it| it.get(..3)).and_then(|it| it.parse().ok())?;
        if status >= 200 || status == 101 {
            let is_grpc = head.lines().any(|line| line.to_ascii_lowercase().starts_with("grpc-status:"));
            return Some(if is_grpc { Outcome::Grpc } else { Outcome::Status(status) });
        }
        rest = after;
    }
}

fn text(byte: u8, count: usize) -> Vec<u8> {
    vec![byte; count]
}

/// Bytes that a field may have, most of which are not UTF-8.
pub(crate) fn odd_bytes(random: &mut fastrand::Rng, count: usize) -> Vec<u8> {
    let byte = |random: &mut fastrand::Rng| match random.u8(..8) {
        0 => random.u8(b'!'..=b'~'),
        1 => 0xff,
        _ => random.u8(0x80..),
    };
    (0..count).map(|_| byte(random)).collect()
}

/// Every kind of hostile request, and `mixed` that are several kinds at once.
pub(crate) fn cases(random: &mut fastrand::Rng, mixed: usize) -> Vec<Case> {
    let fields = [bytes_and_sizes(random), names()].concat();
    let mut cases = [fields.clone(), urls(), connections()].concat();
    for number in 0..mixed {
        let mut case = random.choice(&cases).expect("some").clone();
        for _ in 0..random.usize(1..=3) {
            let more = random.choice(&fields).expect("some");
            case.name += &format!(", {}", more.name);
            case.fields.extend_from_slice(&more.fields);
        }
        case.name = format!("mix {number}: {}", case.name);
        cases.push(case);
    }
    cases
}

/// Values of fields that no rule uses.
fn bytes_and_sizes(random: &mut fastrand::Rng) -> Vec<Case> {
    let mut cases = vec![
        Case::new("a byte that is not UTF-8").field("X-Other", b"caf\xe9"),
        Case::new("bytes that are not UTF-8").field("X-Other", odd_bytes(random, 400)),
        Case::new("a cookie that is not UTF-8").field("Cookie", b"a=\xff\xfe; b=\x80"),
        Case::new("a NUL").field("X-Other", b"a\0b"),
        Case::new("a control character").field("X-Other", b"a\x01b"),
        Case::new("a tab").field("X-Other", b"a\tb"),
        Case::new("a bare CR").field("X-Other", b"a\rb"),
        Case::new("an empty value").field("X-Other", ""),
        Case::new("an empty name").field("", "x"),
        Case::new("a folded line").field("X-Other", b"a\r\n b"),
        Case::new("a line without a colon").field("X-Other", b"a\r\nnothing"),
        Case::new("a name with a space").field("X Other", "x"),
        Case::new("a name that is not ASCII").field("X-Oth\u{e9}r", "x"),
    ];
    // Around the largest line and the largest head of each proxy, by default.
    for size in [1_000, 7_000, 8_150, 8_192, 8_300, 15_000, 16_384, 17_000, 33_000, 60_000, 62_000, 1_000_000]
    {
        cases.push(Case::new(format!("a field of {size} bytes")).field("X-Other", text(b'x', size)));
        cases.push(Case::new(format!("a cookie of {size} bytes")).field("Cookie", text(b'c', size)));
    }
    for (count, size) in
        [(3, 7_000), (4, 6_000), (4, 8_100), (7, 8_000), (20, 3_000), (2, 30_000), (60, 1_000)]
    {
        let many = |case: Case, number: usize| case.field(&format!("X-Other-{number}"), text(b'y', size));
        let case = Case::new(format!("{count} fields of {size} bytes"));
        cases.push((0..count).fold(case, many));
    }
    for count in [90, 98, 99, 100, 101, 105, 128, 200, 500, 2_000] {
        let case = Case::new(format!("{count} fields"));
        cases.push((0..count).fold(case, |case, number| case.field(&format!("X-{number}"), "1")));
        let case = Case::new(format!("{count} fields of one name"));
        cases.push((0..count).fold(case, |case, _| case.field("X-Other", "1")));
    }
    cases
}

/// URLs and hosts that look like parameters of Tollgate, or that proxies rewrite.
fn urls() -> Vec<Case> {
    let mut cases = Vec::new();
    for url in [
        "/?&hits=0",
        "/?&hits=0&domain=other&status=200",
        "/?&consumed=0",
        "/?&consumed=1&entry=a=b",
        "/?x&domain=other",
        "/login?&hits=0#&hits=0",
        "/%26hits=0%26domain=other",
        "/%3f%26hits=0",
        "/v1/check?domain=other&entry=a=b",
        "//",
        "/../",
        "/..%2f..%2f",
        "/%00",
        "/%ff",
        "/%zz",
        "/a b",
        "/;a=b",
        "/{http.request.remote.host}",
        "/%{remote_addr}$remote_addr",
        "http://other.example/?&hits=0",
        "*",
        "x",
        "",
    ] {
        cases.push(Case::new(format!("the URL {url}")).line(format!("GET {url} HTTP/1.1")));
    }
    for size in [4_000, 7_000, 8_150, 8_300, 15_000, 17_000, 33_000, 60_000, 62_000, 1_000_000] {
        let url = "u".repeat(size);
        cases.push(Case::new(format!("a path of {size} bytes")).line(format!("GET /{url} HTTP/1.1")));
        cases.push(
            Case::new(format!("a query of {size} bytes")).line(format!("GET /?&hits=0&{url} HTTP/1.1")),
        );
    }
    cases.push(Case::new("a URL that is not UTF-8").line(b"GET /\xff\xfe?&hits=0\xe9 HTTP/1.1"));
    for host in [
        "a&hits=0",
        "a&hits=0&domain=other",
        "a&descriptor&entry=x=y",
        "a%26hits=0",
        "a b",
        "",
        "[::1]:80",
        "\u{e9}",
        "a,b",
        "a@b",
        "a:99999",
        "{http.request.remote.host}",
    ] {
        cases.push(Case::new(format!("the host {host}")).field("Host", host));
    }
    cases.push(Case::new("a host of 7000 bytes").field("Host", text(b'h', 7_000)));
    cases.push(Case::new("two hosts").field("Host", "a").field("Host", "b&hits=0"));
    cases
}

/// Fields that proxies, or Tollgate, could take for their own.
fn names() -> Vec<Case> {
    let mut cases = Vec::new();
    for value in [
        "",
        " ",
        "203.0.113.7",
        "203.0.113.7:50001",
        "[2001:db8::2]:4711",
        "2001:db8::2",
        "fe80::1%eth0",
        "::ffff:203.0.113.9",
        "unknown",
        "_hidden",
        "\"203.0.113.7\"",
        "203.0.113.7, 203.0.113.8",
        "10.0.0.1, 127.0.0.1",
        "127.0.0.1",
        "for=203.0.113.7;by=203.0.113.8",
        "a&hits=0&domain=other",
        "\u{e9}",
    ] {
        let case = Case::new(format!("forwarded for {value}"));
        let names = ["X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP"];
        cases.push(names.into_iter().fold(case, |case, name| case.field(name, value)));
        let case = Case::new(format!("twice forwarded for {value}")).field("X-Forwarded-For", value);
        cases.push(case.field("X-Forwarded-For", "198.51.100.1:5"));
    }
    let list = "203.0.113.7, ".repeat(600);
    cases.push(Case::new("a list of 600 addresses").field("X-Forwarded-For", &list));
    for (name, value) in [
        ("X-Limit-Address", "203.0.113.7"),
        ("X-Limit-Host", "a&hits=0"),
        ("X-Tollgate", "replied"),
        ("X-RateLimit-Limit", "1000"),
        ("RateLimit", "\"default\";r=1000;t=1"),
        ("Retry-After", "0"),
        ("X-HTTP-Method-Override", "POST"),
        ("X-Original-URL", "/v1/check?domain=other"),
        ("X-Rewrite-URL", "/v1/check?domain=other"),
        ("X-Accel-Redirect", "/tollgate"),
        ("X-Forwarded-Uri", "/?&hits=0"),
        ("X-Forwarded-Host", "a&hits=0"),
        ("X-Forwarded-Proto", "x"),
        ("X-Envoy-Internal", "true"),
        ("X-Envoy-Internal", "false"),
        ("X-Envoy-External-Address", "203.0.113.7"),
        ("X-Envoy-Original-Path", "/other"),
        ("X-Envoy-Upstream-Rq-Timeout-Ms", "1"),
        ("X-Envoy-Retry-On", "5xx"),
        ("X-Envoy-RateLimited", "false"),
        ("X-Request-Id", "0"),
        ("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("Traceparent", "\u{e9}"),
        ("Range", "bytes=0-0"),
        ("If-None-Match", "*"),
        ("If-Match", "x"),
        ("Authorization", "Bearer x"),
        ("Accept-Encoding", "gzip"),
        ("Content-Type", "application/grpc"),
        ("TE", "trailers"),
        ("Trailer", "X-Api-Key"),
    ] {
        cases.push(Case::new(format!("{name}: {value}")).field(name, value));
        cases.push(Case::new(format!("{name}: {value}, twice")).field(name, value).field(name, value));
    }
    cases
}

/// Methods, versions, bodies and fields about the connection.
fn connections() -> Vec<Case> {
    let mut cases = Vec::new();
    for line in [
        "HEAD / HTTP/1.1",
        "POST / HTTP/1.1",
        "OPTIONS / HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "TRACE / HTTP/1.1",
        "CONNECT app.example:80 HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "PURGE / HTTP/1.1",
        "get / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        "GET / HTTP/1.0",
        "GET / HTTP/0.9",
        "GET / HTTP/2.0",
        "GET / HTTP/1.9",
        "GET  /  HTTP/1.1",
        "GET /",
        "PRI * HTTP/2.0",
    ] {
        cases.push(Case::new(format!("the line {line}")).line(line));
    }
    for (name, value) in [
        ("Connection", "X-Api-Key, X-Forwarded-For, Host, Cookie"),
        ("Connection", "keep-alive, upgrade"),
        ("Proxy-Connection", "keep-alive"),
        ("Keep-Alive", "timeout=0"),
        ("Expect", "100-continue"),
        ("Expect", "something"),
        ("Max-Forwards", "0"),
        ("Content-Length", "0"),
        ("Content-Length", "-1"),
        ("Content-Length", "18446744073709551616"),
        ("Transfer-Encoding", "x"),
    ] {
        cases.push(Case::new(format!("{name}: {value}")).field(name, value));
    }
    let upgrade = |to: &str| {
        Case::new(format!("an upgrade to {to}")).field("Connection", "Upgrade").field("Upgrade", to)
    };
    cases.push(
        upgrade("websocket")
            .field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .field("Sec-WebSocket-Version", "13"),
    );
    cases.push(upgrade("h2c").field("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"));
    let post = |name: &str| Case::new(name).line("POST / HTTP/1.1");
    cases.push(post("a body").field("Content-Length", "4").body("body"));
    cases.push(post("a body of 100 kB").field("Content-Length", "100000").body(text(b'b', 100_000)));
    cases.push(
        post("a body that is asked for")
            .field("Expect", "100-continue")
            .field("Content-Length", "4")
            .body("body"),
    );
    let chunked = |name: &str| post(name).field("Transfer-Encoding", "chunked");
    cases.push(chunked("a chunked body").body("4\r\nbody\r\n0\r\n\r\n"));
    cases.push(chunked("a chunked body with a trailer").body("4\r\nbody\r\n0\r\nX-Api-Key: other\r\n\r\n"));
    let second = "GET /?&hits=0 HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\n\r\n";
    let both = chunked("chunked, and a length").field("Content-Length", "4");
    cases.push(both.body(format!("0\r\n\r\n{second}")).pipeline());
    cases.push(post("two lengths").field("Content-Length", "4").field("Content-Length", "5").body("body5"));
    cases.push(Case::new("a GET with a body").field("Content-Length", "4").body("body"));
    cases.push(Case::new("two requests at once").body(second).pipeline());
    cases
}

/// A request with a key, or without one.
pub(crate) struct KeyCase {
    pub(crate) case: Case,
    /// No other request has this key.
    pub(crate) is_own: bool,
    /// So large that a proxy may reject it, although it forwards fields of this size.
    pub(crate) is_large: bool,
}

/// Requests whose `X-Api-Key` is odd, large, there twice or not at all. `used_up` is a key without permits.
pub(crate) fn keys(random: &mut fastrand::Rng, used_up: &str) -> Vec<KeyCase> {
    let own = |case: Case| KeyCase { case, is_own: true, is_large: false };
    let shared = |case: Case| KeyCase { case, is_own: false, is_large: false };
    let sized = |case: Case, size: usize| KeyCase { case, is_own: true, is_large: size > 4_096 };
    let key = |name: &str, value: &[u8]| Case::new(name).field("X-Api-Key", value);
    let mut cases = vec![
        own(key("a plain key", b"alice")),
        own(key("a key that looks like parameters", b"a&hits=0&domain=other&entry=api_key=b")),
        own(key("a key in percent", b"%61lice%00")),
        own(key("a key with spaces", b"a b  c")),
        own(key("a key with a tab", b"a\tb")),
        own(key("a key with commas", b"x,alice")),
        own(key("another key with commas", b"y,alice")),
        own(key("a key with quotes", b"\"a\\\"b\"; c=d")),
        own(key("a key of a placeholder", b"{http.request.remote.host} %[src] $remote_addr %REQ(x)%")),
        own(key("a key in Latin-1", b"caf\xe9")),
        own(key("a key in Chinese", "\u{5ba2}\u{6237}".as_bytes())),
        own(key("a key of a bad sequence", b"\xff")),
        own(key("a key of another bad sequence", b"\xfe")),
        own(key("a key of the replacement character", "\u{fffd}".as_bytes())),
        own(Case::new("a name in other letters").field("x-aPI-kEY", "letters")),
        own(key("a folded key", b"fold\r\n ed")),
        shared(key("a key with a NUL", b"nul\0l")),
        own(key("a key and a cookie", b"cookie").field("Cookie", text(b'c', 6_000))),
        shared(Case::new("no key")),
        shared(key("an empty key", b"")),
        shared(key("a blank key", b"  ")),
        shared(key("a key that the connection removes", b"gone").field("Connection", "X-Api-Key")),
        shared(Case::new("a name with underscores").field("X_Api_Key", "underscores")),
        shared(key("a used up key, then another", used_up.as_bytes()).field("X-Api-Key", "second")),
        shared(key("another, then a used up key", b"first").field("X-Api-Key", used_up)),
        shared(key("a used up key, then an empty one", used_up.as_bytes()).field("X-Api-Key", "")),
        shared(key("an empty one, then a used up key", b"").field("X-Api-Key", used_up)),
        shared(key("a used up key twice", used_up.as_bytes()).field("X-Api-Key", used_up)),
        shared(key("a used up key and a cookie", used_up.as_bytes()).field("Cookie", text(b'c', 60_000))),
        shared(key("a used up key and odd bytes", used_up.as_bytes()).field("X-Other", b"\xff\xe9")),
    ];
    let many = |case: Case, number: usize| case.field(&format!("X-{number}"), "1");
    cases.push(shared((0..120).fold(key("a used up key and 120 fields", used_up.as_bytes()), many)));
    for number in 0..20 {
        let bytes = [format!("{number}-").into_bytes(), odd_bytes(random, 40)].concat();
        cases.push(own(key("a key of odd bytes", &bytes)));
    }
    for size in [
        200, 1_000, 4_000, 7_000, 8_100, 14_000, 14_700, 15_000, 15_200, 15_300, 30_000, 33_000, 59_000,
        900_000,
    ] {
        let bytes = [format!("{size}-").into_bytes(), text(b'k', size)].concat();
        cases.push(sized(key(&format!("a key of {size} bytes"), &bytes), size));
        let bytes = [format!("{size}-").into_bytes(), odd_bytes(random, size)].concat();
        cases.push(sized(key(&format!("a key of {size} odd bytes"), &bytes), size));
    }
    cases
}
