//! A console on a port of its own, and a client that keeps its cookie.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollgate_console::{Console, ConsoleSettings, traces_in};
use tollgate_control::{Claim, Control, KnownNodes};
use tollgate_db::TimeSource;
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};

const NOW_MS: i64 = 1_524_494_484_445;

pub(crate) struct Server {
    pub(crate) control: Arc<Control>,
    pub(crate) nodes: Arc<KnownNodes>,
    pub(crate) code: String,
    address: std::net::SocketAddr,
    time: Arc<AtomicI64>,
    pub(crate) folder: TempDir,
    _running: watch::Sender<bool>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_in(&std::env::temp_dir()).await
    }

    /// With its database in a folder within this one.
    pub(crate) async fn start_in(place: &std::path::Path) -> Self {
        let time = Arc::new(AtomicI64::new(NOW_MS));
        Self::start_at(place, TimeSource::Manual(Arc::clone(&time)), time).await
    }

    /// With `before`, which runs before each transaction.
    pub(crate) async fn start_with(before: impl Fn() + Send + Sync + 'static) -> Self {
        let time = Arc::new(AtomicI64::new(NOW_MS));
        let now = Arc::clone(&time);
        let source = TimeSource::Asked(Arc::new(move || {
            before();
            now.load(Relaxed)
        }));
        Self::start_at(&std::env::temp_dir(), source, time).await
    }

    async fn start_at(place: &std::path::Path, source: TimeSource, time: Arc<AtomicI64>) -> Self {
        let folder = tempfile::tempdir_in(place).expect("a folder");
        let nodes = Arc::new(KnownNodes::default());
        let known = Arc::<KnownNodes>::clone(&nodes);
        let control = Control::open(folder.path(), source, known).await.expect("a database");
        let control = Arc::new(control);
        let code = control.setup_code().await.expect("a code").expect("no user yet");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let console = Console::new(
            Arc::clone(&control),
            ConsoleSettings { traces: Some(traces_in(folder.path())), ..ConsoleSettings::default() },
        );
        let surface = Arc::new(HttpSurface::new(console, SurfaceSettings::default()));
        let (running, drain) = watch::channel(false);
        let limits = Arc::new(AcceptLimits::default());
        let stats = Arc::new(ConnectionStats::default());
        tokio::spawn(accept(listener, surface, None, limits, stats, drain));
        Self { control, nodes, code, address, time, folder, _running: running }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.time.load(Relaxed)
    }

    pub(crate) fn set_time(&self, now_ms: i64) {
        self.time.store(now_ms, Relaxed);
    }

    /// The form of the first admin.
    pub(crate) fn setup(&self, code: &str) -> String {
        format!("code={code}&name=ann&password=correct+horse+battery&again=correct+horse+battery")
    }
}

pub(crate) struct Client {
    address: std::net::SocketAddr,
    pub(crate) cookie: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        Self { address: server.address, cookie: None }
    }

    /// The first admin, logged in.
    pub(crate) async fn admin(server: &Server) -> Self {
        let mut client = Self::new(server);
        assert_eq!(client.post("/setup", &server.setup(&server.code)).await.status, 303);
        client
    }

    /// The first admin, logged in once more.
    pub(crate) async fn again(server: &Server) -> Self {
        let mut client = Self::new(server);
        let login = client.post("/login", "name=ann&password=correct+horse+battery").await;
        assert_eq!(login.status, 303);
        client
    }

    /// Another user with this role, logged in.
    pub(crate) async fn user(server: &Server, name: &str, role: &str, app: &str) -> Self {
        let invited = server.control.invite(&Claim::program("tollgate"), name, app, role).await;
        let (_, code) = invited.expect("a new user");
        let mut client = Self::new(server);
        let form = format!("code={code}&password=another+good+password&again=another+good+password");
        assert_eq!(client.post("/link", &form).await.status, 303);
        client
    }

    /// Sends a request and leaves its reply unread.
    pub(crate) async fn open(&self, path: &str) -> TcpStream {
        let cookie = self.cookie.as_deref().unwrap_or_default();
        self.open_with(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: tollgate={cookie}\r\n\r\n",
            self.address
        ))
        .await
    }

    /// Announces a body of this length and sends none of it.
    pub(crate) async fn open_body(&self, path: &str, length: usize) -> TcpStream {
        let cookie = self.cookie.as_deref().unwrap_or_default();
        self.open_with(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: same-origin\r\nCookie: tollgate={cookie}\r\n\
             Content-Length: {length}\r\n\r\n",
            self.address
        ))
        .await
    }

    async fn open_with(&self, head: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.expect("a connection");
        socket.write_all(head.as_bytes()).await.expect("sent");
        socket
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&mut self, path: &str, form: &str) -> Reply {
        self.send("POST", path, &["Sec-Fetch-Site: same-origin"], form).await
    }

    pub(crate) async fn json(
        &mut self,
        method: &str,
        path: &str,
        if_match: Option<&str>,
        body: &str,
    ) -> Reply {
        let if_match = if_match.map(|etag| format!("If-Match: {etag}"));
        let mut fields = vec!["Content-Type: application/json"];
        fields.extend(if_match.as_deref());
        self.send(method, path, &fields, body).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, fields: &[&str], body: &str) -> Reply {
        let host = self.address.to_string();
        self.exchange(&host, method, path, fields, body).await
    }

    pub(crate) async fn send_to(&mut self, host: &str, method: &str, path: &str) -> Reply {
        self.exchange(host, method, path, &[], "").await
    }

    /// The head and the body of a reply as they were sent.
    pub(crate) async fn bytes(&self, path: &str, field: &str) -> (String, Vec<u8>) {
        let answer = self.raw(&self.address.to_string(), "GET", path, &[field], "").await;
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        (String::from_utf8(answer[..end].to_vec()).expect("a head in ASCII"), answer[end..].to_vec())
    }

    async fn raw(&self, host: &str, method: &str, path: &str, fields: &[&str], body: &str) -> Vec<u8> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for field in fields {
            request += &format!("{field}\r\n");
        }
        if !fields.iter().any(|field| field.starts_with("Content-Type")) {
            request += "Content-Type: application/x-www-form-urlencoded\r\n";
        }
        if let Some(cookie) = &self.cookie {
            request += &format!("Cookie: tollgate={cookie}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut socket = TcpStream::connect(self.address).await.expect("a connection");
        socket.write_all(request.as_bytes()).await.expect("the head was sent");
        // A server that rejects a body by its length may close before it has arrived.
        drop(socket.write_all(body.as_bytes()).await);
        let mut answer = Vec::new();
        drop(socket.read_to_end(&mut answer).await);
        answer
    }

    /// Sends the head, and the body once the server reads it: `before_body` runs between the two.
    pub(crate) async fn send_in_two(
        &self,
        method: &str,
        path: &str,
        fields: &[String],
        body: &str,
        before_body: impl FnOnce(),
    ) -> Reply {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for field in fields {
            request += &format!("{field}\r\n");
        }
        if let Some(cookie) = &self.cookie {
            request += &format!("Cookie: tollgate={cookie}\r\n");
        }
        request += &format!("Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut socket = TcpStream::connect(self.address).await.expect("a connection");
        socket.write_all(request.as_bytes()).await.expect("the head was sent");
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            seen.push(socket.read_u8().await.expect("the server asks for the body"));
        }
        assert!(seen.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&seen));
        before_body();
        socket.write_all(body.as_bytes()).await.expect("the body was sent");
        let mut answer = Vec::new();
        drop(socket.read_to_end(&mut answer).await);
        let answer = String::from_utf8(answer).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a reply");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) async fn exchange(
        &mut self,
        host: &str,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &str,
    ) -> Reply {
        let answer = self.raw(host, method, path, fields, body).await;
        let answer = String::from_utf8(answer).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a reply");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        let reply = Reply { status, head: head.to_owned(), body: body.to_owned() };
        if let Some(cookie) = reply.field("set-cookie").and_then(|it| it.strip_prefix("tollgate=")) {
            let value = cookie.split(';').next().unwrap_or_default();
            self.cookie = (!value.is_empty()).then(|| value.to_owned());
        }
        reply
    }
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Its body as JSON.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Where it leads.
    pub(crate) fn place(&self) -> &str {
        self.field("location").unwrap_or_default()
    }

    /// The faults beside fields.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let parts = self.body.split("class=\"fault\" role=\"alert\">").skip(1);
        parts.filter_map(|part| part.split('<').next()).collect()
    }
}
