//! No secret is in a page, a reply, an audit entry, an export, the log or the database.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_harness::console::{ConsoleClient, ConsoleServer};

/// The log, kept in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_is_in_a_page_a_reply_an_entry_the_log_or_the_database() {
    let log = Log::default();
    let made = log.clone();
    let level = tracing::Level::TRACE;
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_writer(move || made.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");

    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let mut secrets: Vec<String> =
        ["correct horse battery", "correct+horse+battery", "sesame-open-sesame", "argon2"]
            .map(str::to_owned)
            .into();
    secrets.push(server.code.clone());
    secrets.extend(ann.cookie.clone());
    enter_in_wrong_fields(&server, &ann).await;
    let mut all = enter_in_wrong_members(&mut ann).await;
    let token = make_secrets(&server, &mut ann, &mut secrets).await;
    all += &call_with(&token, &mut ann).await;
    all += &visit(&mut ann).await;
    assert!(all.contains("login.failed") && all.contains("(unknown)") && all.contains("rejected"));
    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    let mut kept = Vec::new();
    for file in std::fs::read_dir(server.folder()).expect("the folder") {
        kept.extend(std::fs::read(file.expect("a file").path()).expect("its bytes"));
    }
    let kept = String::from_utf8_lossy(&kept).into_owned();
    assert!(kept.contains("$argon2id$") && kept.contains("token.create"), "the database was read");
    for secret in &secrets {
        assert!(!all.contains(&**secret), "{secret} is in a reply");
        assert!(!log.contains(&**secret), "{secret} is in the log");
        assert!(secret == "argon2" || !kept.contains(&**secret), "{secret} is in the database");
    }
}

/// Passwords in the wrong fields, and wrong ones.
async fn enter_in_wrong_fields(server: &ConsoleServer, ann: &ConsoleClient) {
    for (path, form) in [
        ("/login", "name=sesame-open-sesame&password=x"),
        ("/login", "name=ann&password=sesame-open-sesame"),
        ("/me/password", "current=sesame-open-sesame&password=sesame-open-sesame&again=x"),
        ("/setup", "code=sesame-open-sesame&name=x&password=sesame-open-sesame&again=x"),
        ("/link", "code=sesame-open-sesame&password=sesame-open-sesame&again=x"),
    ] {
        let mut other = ConsoleClient::new(server);
        other.cookie.clone_from(&ann.cookie);
        let reply = other.post(path, form).await;
        assert!(reply.status >= 400, "{path}");
        // A name and a code that were entered are kept in their form; a password never is.
        assert!(!reply.body.contains("name=\"password\" value=\"s"), "{path}");
    }
}

/// As above by the API, and in bodies that it does not take. Returns the replies.
async fn enter_in_wrong_members(ann: &mut ConsoleClient) -> String {
    let mut all = String::new();
    for (path, body) in [
        ("/api/v1/login", r#"{"name": "ann", "password": "sesame-open-sesame"}"#),
        ("/api/v1/login", r#"{"name": "ann", "password": "sesame-open-sesame", "x": 1}"#),
        ("/api/v1/login", r#"{"name": "ann", "password": ["sesame-open-sesame"]}"#),
        ("/api/v1/link", r#"{"code": "sesame-open-sesame", "password": "sesame-open-sesame"}"#),
        ("/api/v1/me/password", r#"{"current": "sesame-open-sesame", "password": "sesame-open-sesame"}"#),
    ] {
        let reply = ann.json("POST", path, None, body).await;
        assert!(reply.status >= 400, "{path}");
        all += &reply.body;
    }
    all
}

/// A link and two tokens, which are shown once. Returns the token of the API.
async fn make_secrets(server: &ConsoleServer, ann: &mut ConsoleClient, secrets: &mut Vec<String>) -> String {
    let invited = ann.json("POST", "/api/v1/users", None, r#"{"name": "bob"}"#).await.value();
    let link = invited["link"].as_str().expect("a link").to_owned();
    secrets.push(link.split_once('=').expect("a code").1.to_owned());
    let token = r#"{"name": "ci", "rights": [{"app": "*", "role": "admin"}]}"#;
    let made = ann.json("POST", "/api/v1/tokens", None, token).await.value();
    let token = made["secret"].as_str().expect("a token").to_owned();
    secrets.push(token.clone());
    let made = ann.json("POST", "/api/v1/tokens", None, r#"{"name": "n", "kind": "node"}"#).await.value();
    let node = made["secret"].as_str().expect("a token").to_owned();
    assert!(server.node_tokens().borrow().admits(Some(&node), server.now_ms()));
    secrets.push(node);
    token
}

/// Calls with a token and with one that is not known. Returns the replies.
async fn call_with(token: &str, ann: &mut ConsoleClient) -> String {
    let bearer = format!("Authorization: Bearer {token}");
    let mut all = String::new();
    for (method, path, body) in [
        ("POST", "/api/v1/apps", r#"{"app": "A"}"#),
        ("POST", "/api/v1/apps", r#"{"app": "A"}"#),
        ("POST", "/api/v1/apps/A/rules", r#"{"key": "a", "max_permits": 0}"#),
        ("DELETE", "/api/v1/apps/A/rules/none", ""),
    ] {
        all += &ann.send(method, path, &[&bearer, "Content-Type: application/json"], body).await.body;
    }
    all + &ann.send("GET", "/api/v1/me", &[&format!("{bearer}x")], "").await.body
}

/// Pages and replies that could show a secret.
async fn visit(ann: &mut ConsoleClient) -> String {
    let mut all = String::new();
    for path in [
        "/rules",
        "/users",
        "/users/bob",
        "/audit",
        "/nodes",
        "/login",
        "/tokens",
        "/me",
        "/settings",
        "/nope",
        "/apps/x/versions",
        "/openapi.json",
        "/api/v1/apps",
        "/api/v1/audit",
        "/api/v1/users",
        "/api/v1/audit/export",
        "/api/v1/tokens",
        "/api/v1/me/logins",
        "/api/v1/settings",
        "/api/v1/nope",
    ] {
        all += &ann.get(path).await.body;
    }
    all
}
