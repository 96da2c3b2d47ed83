//! The console on a port of its own, and a client of it without a browser.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollgate_console::{Console, ConsoleSettings, traces_in};
use tollgate_control::Claim;
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};

use crate::ControlPlane;

/// Where the clock of the console's control plane stands at its start.
const NOW_MS: i64 = 1_524_494_484_445;

/// The console of a control plane that has no user yet. It is used as the [`ControlPlane`] that it derefs to.
pub struct ConsoleServer {
    plane: ControlPlane,
    /// The code of the first setup.
    pub code: String,
    address: SocketAddr,
    _running: watch::Sender<bool>,
}

impl Deref for ConsoleServer {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.plane
    }
}

impl ConsoleServer {
    pub async fn start() -> Self {
        Self::of(ControlPlane::start_at(NOW_MS).await).await
    }

    /// With its database in a folder within this one.
    pub async fn start_in(place: &std::path::Path) -> Self {
        Self::of(ControlPlane::start_in(place, NOW_MS).await).await
    }

    /// `before` runs before each transaction.
    pub async fn interrupted(before: impl Fn() + Send + Sync + 'static) -> Self {
        Self::of(ControlPlane::interrupted(NOW_MS, before).await).await
    }

    async fn of(plane: ControlPlane) -> Self {
        let code = plane.setup_code().await.expect("a code").expect("no user yet");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let traces = Some(traces_in(plane.folder()));
        let settings = ConsoleSettings { traces, ..ConsoleSettings::default() };
        let console = Console::new(Arc::clone(&plane.control), settings);
        let surface = Arc::new(HttpSurface::new(console, SurfaceSettings::default()));
        let (running, drain) = watch::channel(false);
        let limits = Arc::new(AcceptLimits::default());
        let stats = Arc::new(ConnectionStats::default());
        tokio::spawn(accept(listener, surface, None, limits, stats, drain));
        Self { plane, code, address, _running: running }
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The form of the first admin.
    #[must_use]
    pub fn setup(&self, code: &str) -> String {
        format!("code={code}&name=ann&password=correct+horse+battery&again=correct+horse+battery")
    }
}

/// A client that keeps its cookie.
pub struct ConsoleClient {
    address: SocketAddr,
    pub cookie: Option<String>,
}

impl ConsoleClient {
    #[must_use]
    pub fn new(server: &ConsoleServer) -> Self {
        Self { address: server.address, cookie: None }
    }

    /// The first admin, logged in.
    pub async fn admin(server: &ConsoleServer) -> Self {
        Self::entered(server, "/setup", &server.setup(&server.code)).await
    }

    /// The first admin, logged in once more.
    pub async fn again(server: &ConsoleServer) -> Self {
        Self::entered(server, "/login", "name=ann&password=correct+horse+battery").await
    }

    /// Another user with this role, logged in.
    pub async fn user(server: &ConsoleServer, name: &str, role: &str, app: &str) -> Self {
        let invited = server.invite(&Claim::program("tollgate"), name, app, role).await;
        let (_, code) = invited.expect("a new user");
        let form = format!("code={code}&password=another+good+password&again=another+good+password");
        Self::entered(server, "/link", &form).await
    }

    async fn entered(server: &ConsoleServer, path: &str, form: &str) -> Self {
        let mut client = Self::new(server);
        let reply = client.post(path, form).await;
        assert_eq!(reply.status, 303, "{}", reply.body);
        client
    }

    /// Sends a request and leaves its reply unread.
    pub async fn open(&self, path: &str) -> TcpStream {
        self.begun(&(self.head(&self.host(), "GET", path, &[]) + "\r\n")).await
    }

    /// Announces a body of this length and sends none of it.
    pub async fn open_body(&self, path: &str, length: usize) -> TcpStream {
        let fields = ["Sec-Fetch-Site: same-origin", &format!("Content-Length: {length}")];
        self.begun(&(self.head(&self.host(), "POST", path, &fields) + "\r\n")).await
    }

    /// A connection on which this was sent.
    async fn begun(&self, head: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.expect("a connection");
        socket.write_all(head.as_bytes()).await.expect("the head was sent");
        socket
    }

    pub async fn get(&mut self, path: &str) -> ConsoleReply {
        self.send("GET", path, &[], "").await
    }

    pub async fn post(&mut self, path: &str, form: &str) -> ConsoleReply {
        self.send("POST", path, &["Sec-Fetch-Site: same-origin"], form).await
    }

    pub async fn json(
        &mut self,
        method: &str,
        path: &str,
        if_match: Option<&str>,
        body: &str,
    ) -> ConsoleReply {
        let if_match = if_match.map(|etag| format!("If-Match: {etag}"));
        let mut fields = vec!["Content-Type: application/json"];
        fields.extend(if_match.as_deref());
        self.send(method, path, &fields, body).await
    }

    pub async fn send(&mut self, method: &str, path: &str, fields: &[&str], body: &str) -> ConsoleReply {
        self.exchange(&self.host(), method, path, fields, body).await
    }

    pub async fn send_to(&mut self, host: &str, method: &str, path: &str) -> ConsoleReply {
        self.exchange(host, method, path, &[], "").await
    }

    /// As [`ConsoleClient::send`], with another `Host`.
    pub async fn exchange(
        &mut self,
        host: &str,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &str,
    ) -> ConsoleReply {
        let reply = ConsoleReply::read(&self.raw(host, method, path, fields, body).await);
        if let Some(cookie) = reply.field("set-cookie").and_then(|it| it.strip_prefix("tollgate=")) {
            let value = cookie.split(';').next().unwrap_or_default();
            self.cookie = (!value.is_empty()).then(|| value.to_owned());
        }
        reply
    }

    /// The head and the body of a reply as they were sent.
    pub async fn bytes(&self, path: &str, field: &str) -> (String, Vec<u8>) {
        let answer = self.raw(&self.host(), "GET", path, &[field], "").await;
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        (String::from_utf8(answer[..end].to_vec()).expect("a head in ASCII"), answer[end..].to_vec())
    }

    async fn raw(&self, host: &str, method: &str, path: &str, fields: &[&str], body: &str) -> Vec<u8> {
        let mut head = self.head(host, method, path, fields) + "Connection: close\r\n";
        if !fields.iter().any(|field| field.starts_with("Content-Type")) {
            head += "Content-Type: application/x-www-form-urlencoded\r\n";
        }
        let mut socket = self.begun(&format!("{head}Content-Length: {}\r\n\r\n", body.len())).await;
        // A server that rejects a body by its length may close before it has arrived.
        drop(socket.write_all(body.as_bytes()).await);
        rest_of(socket).await
    }

    /// Sends the head, and the body once the server reads it: `before_body` runs between the two.
    pub async fn send_in_two(
        &self,
        method: &str,
        path: &str,
        fields: &[String],
        body: &str,
        before_body: impl FnOnce(),
    ) -> ConsoleReply {
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        let head = self.head(&self.host(), method, path, &fields) + "Connection: close\r\n";
        let length = body.len();
        let mut socket =
            self.begun(&format!("{head}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n")).await;
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            seen.push(socket.read_u8().await.expect("the server asks for the body"));
        }
        assert!(seen.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&seen));
        before_body();
        socket.write_all(body.as_bytes()).await.expect("the body was sent");
        ConsoleReply::read(&rest_of(socket).await)
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    /// The beginning of a head: its end, and how the body is sent, are missing.
    fn head(&self, host: &str, method: &str, path: &str, fields: &[&str]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
        for field in fields {
            head += &format!("{field}\r\n");
        }
        if let Some(cookie) = &self.cookie {
            head += &format!("Cookie: tollgate={cookie}\r\n");
        }
        head
    }
}

async fn rest_of(mut socket: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    drop(socket.read_to_end(&mut answer).await);
    answer
}

#[derive(Debug)]
pub struct ConsoleReply {
    pub status: u16,
    head: String,
    pub body: String,
}

impl ConsoleReply {
    fn read(bytes: &[u8]) -> Self {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("a reply");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The etag, in its quotes.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.field("etag").unwrap_or_else(|| panic!("no etag: {}", self.head))
    }

    /// Its body as JSON.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Where it leads.
    #[must_use]
    pub fn place(&self) -> &str {
        self.field("location").unwrap_or_default()
    }

    /// The faults beside fields.
    #[must_use]
    pub fn faults(&self) -> Vec<&str> {
        let parts = self.body.split("class=\"fault\" role=\"alert\">").skip(1);
        parts.filter_map(|part| part.split('<').next()).collect()
    }
}
