//! Every secret that real processes were given or made, searched for in all that they print, reply, record,
//! export and keep.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_harness::processes::*;
use tollgate_testkit::certificates::Authority;
use tollgate_testkit::redis::{Options, Redis};

use super::logged::Logged;

/// All bytes of the files in a folder.
fn kept(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("a folder").map(|it| it.expect("a file").path());
    files
        .filter(|it| it.is_file())
        .map(|it| (it.display().to_string(), fs::read(&it).expect("bytes")))
        .collect()
}

fn finds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|it| it == secret.as_bytes())
}

#[test]
fn no_secret_of_any_kind_is_printed_replied_recorded_exported_or_kept() {
    let Some(redis) = Redis::start(&Options::new().password("redis-sesame-7k")) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut secrets: Vec<(&str, String)> = vec![
        ("the password of the store", "redis-sesame-7k".into()),
        ("the password of the admin", "correct horse battery".into()),
        ("a password, as forms send it", "correct+horse+battery".into()),
        ("a wrong password", "wrong-sesame-9q".into()),
        ("the password of a user", "another-long-sesame".into()),
        ("a wrong token", "tgl_wrong-sesame-5z".into()),
    ];
    let issued = Authority::new().issue("server", 2099);
    fs::create_dir(path("tls")).expect("a folder");
    let (cert, key) = issued.write(&path("tls"));
    let key_text = fs::read_to_string(&key).expect("a key");
    secrets.push(("the TLS key", key_text.lines().nth(1).expect("a line").to_owned()));

    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = ControlProcess::command(&path("data"), address);
    command.args(["--log-level", "trace", "--log-format", "json"]);
    let control = Logged::start(command, path("control.log"));
    let setup = control.says("setup");
    let code = setup.split_once("code=").expect("a code").1.to_owned();
    // The one secret that the start prints, on purpose and once: the link of the first admin.
    let printed_once = code.clone();
    let cookie = set_up(address, &setup);
    secrets.push(("the setup code", code.clone()));
    secrets.push(("the cookie of the admin", cookie.clone()));
    let token = fs::read_to_string(path("data/node-token")).expect("a token").trim().to_owned();
    secrets.push(("the token of the nodes", token));

    let store = redis.url();
    assert!(store.contains("redis-sesame-7k"), "{store}");
    let mut command = tollgate();
    command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--control", &format!("http://{address}"), "--control-token-file"]);
    command.arg(path("data/node-token")).arg("--state-dir").arg(path("state"));
    command.args(["--store", &store, "--log-level", "trace"]);
    command.args(["--tls-cert".as_ref(), cert.as_os_str(), "--tls-key".as_ref(), key.as_os_str()]);
    let node = Logged::start(command, path("node.log"));
    let own = fs::read(path("state/secret")).expect("the node's secret");
    secrets.push(("the secret of the node", String::from_utf8(own).expect("digits")));

    let mut replies = String::new();
    let call = |as_who: &str, method: &str, path: &str, kind: &str, body: &str| {
        let fields = format!("{as_who}Content-Type: {kind}\r\nSec-Fetch-Site: same-origin\r\n");
        let (status, head, said) = send(address, method, path, &fields, body).expect("an answer");
        (status, head, said)
    };
    let admin = format!("Cookie: tollgate={cookie}\r\n");
    let form = "application/x-www-form-urlencoded";
    let json_ = "application/json";
    // Logins: wrong, right, ended. Secrets in fields where none belong are not repeated.
    for (who, path, kind, body) in [
        ("", "/login", form, "name=ann&password=wrong-sesame-9q".to_owned()),
        ("", "/login", form, "name=nobody&password=wrong-sesame-9q".to_owned()),
        ("", "/api/v1/login", json_, json!({"name": "ann", "password": "wrong-sesame-9q"}).to_string()),
        ("", "/api/v1/login", json_, json!({"name": "ann", "password": ["wrong-sesame-9q"]}).to_string()),
        ("", "/setup", form, format!("code={code}&name=eve&password=another-long-sesame&again=x")),
        ("", "/api/v1/link", json_, json!({"code": "wrong-sesame-9q", "password": "x"}).to_string()),
        (&admin, "/me/password", form, "current=wrong-sesame-9q&password=another-long-sesame&again=x".into()),
    ] {
        let (status, _, said) = call(who, "POST", path, kind, &body);
        assert!(status >= 400, "{path}: {status}");
        // The form of the setup keeps the code that was entered, for the next attempt.
        if path != "/setup" {
            replies += &said;
        }
    }
    let (_, head, _) = call("", "POST", "/login", form, "name=ann&password=correct+horse+battery");
    let second = head.lines().find_map(|it| it.split_once("tollgate=")?.1.split(';').next());
    secrets.push(("the cookie of a second login", second.expect("a cookie").to_owned()));
    // A user by a link, with a password; another link; tokens of both kinds.
    let made = |path: &str, body: Value, member: &str| {
        let object = path.trim_end_matches("/link");
        let (_, head, _) = call(&admin, "GET", object, json_, "");
        let etag =
            head.lines().find_map(|it| it.to_ascii_lowercase().strip_prefix("etag: ").map(str::to_owned));
        let fields = etag.map_or(admin.clone(), |etag| format!("{admin}If-Match: {etag}\r\n"));
        let (status, _, said) = call(&fields, "POST", path, json_, &body.to_string());
        let said: Value = serde_json::from_str(&said).expect("JSON");
        assert!(status < 300, "{path}: {said}");
        said[member].as_str().expect(member).to_owned()
    };
    let link = made("/api/v1/users", json!({"name": "bob"}), "link");
    let invite = link.split_once("code=").expect("a code").1.to_owned();
    let link = made("/api/v1/users/bob/link", json!({}), "link");
    let reset = link.split_once("code=").expect("a code").1.to_owned();
    let rights = json!([{"app": "*", "role": "admin"}]);
    let api = made("/api/v1/tokens", json!({"name": "ci", "rights": rights}), "secret");
    let of_nodes = made("/api/v1/tokens", json!({"name": "n", "kind": "node"}), "secret");
    let redeemed = json!({"code": reset, "password": "another-long-sesame"}).to_string();
    let (status, _, _) = call("", "POST", "/api/v1/link", json_, &redeemed);
    assert!(status < 300, "{status}");
    secrets.extend([("an invitation", invite), ("a reset", reset), ("a token", api.clone())]);
    secrets.push(("a token of nodes", of_nodes));
    let program = format!("Authorization: Bearer {api}\r\n");
    for (who, method, path, body) in [
        (&*program, "POST", "/api/v1/apps/shop/rules", r#"{"key": "push", "max_permits": 3}"#),
        (&program, "POST", "/api/v1/apps/shop/rules", r#"{"key": "push", "max_permits": 0}"#),
        (&program, "DELETE", "/api/v1/keys?domain=shop&entry=key%3Dpush", ""),
        ("Authorization: Bearer tgl_wrong-sesame-5z\r\n", "GET", "/api/v1/me", ""),
    ] {
        replies += &call(who, method, path, json_, body).2;
    }
    wait("the node has the rule", || {
        let (_, _, nodes) = call(&admin, "GET", "/api/v1/nodes", json_, "");
        nodes.contains(r#""acked":1"#).then_some(())
    });
    // Every operation that only reads, of pages and API, as the description lists them; and the pages.
    let (_, _, described) = call(&admin, "GET", "/openapi.json", json_, "");
    let document: Value = serde_json::from_str(&described).expect("JSON");
    let mut paths: Vec<String> = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .filter(|(path, it)| it["get"].is_object() && !path.ends_with("/events"))
        .map(|(path, _)| path.clone())
        .collect();
    assert!(paths.len() > 25, "{paths:?}");
    paths.extend(
        [
            "/",
            "/rules",
            "/rules/new",
            "/files",
            "/changes",
            "/versions",
            "/keys",
            "/keys/scan?domain=shop",
            "/top",
            "/overrides",
            "/nodes",
            "/users",
            "/users/bob",
            "/tokens",
            "/audit",
            "/settings",
            "/me",
            "/login",
            "/setup",
            "/link",
            "/nope",
            "/metrics",
            "/apps/shop/rules/push",
            "/examples",
            "/api/v1/keys?domain=shop&entry=key%3Dpush",
            "/api/v1/keys/scan?domain=shop",
            "/api/v1/export?app=shop",
            "/api/v1/audit?limit=500",
            "/api/v1/history?app=shop",
        ]
        .map(str::to_owned),
    );
    for path in paths {
        let path = path.replace("{app}", "shop").replace("{key}", "push").replace("{name}", "bob");
        let path = path.replace("{version}", "1").replace("{n}", "1");
        replies += &call(&admin, "GET", &path, json_, "").2;
    }
    for expected in
        ["login.failed", "token.create", "user.create", "rejected", "tollgate_control_nodes", "push"]
    {
        assert!(replies.contains(expected), "{expected}: not everything was read");
    }
    let (status, _, _) = call(&admin, "POST", "/logout", form, "");
    assert!(status < 400, "{status}");
    drop((node, control));
    let logs = ["control.log", "node.log"].map(|name| (name, fs::read(path(name)).expect("a log")));
    assert!(finds(&logs[1].1, "connected to the control plane"), "the log of the node was read");
    let databases = kept(&path("data"));
    assert!(databases.iter().any(|(_, bytes)| finds(bytes, "$argon2id$")), "the database was read");
    let saved = kept(&path("state"));
    assert!(saved.len() >= 2, "{saved:?}");
    for (what, secret) in &secrets {
        assert!(secret.len() >= 8, "{what} is too short to be searched for");
        assert!(!replies.contains(&**secret), "{what} is in a reply");
        for (name, log) in &logs {
            let times = log.windows(secret.len()).filter(|it| it == &secret.as_bytes()).count();
            let allowed = usize::from(*name == "control.log" && *secret == printed_once);
            assert_eq!(times, allowed, "{what} is in {name}");
        }
        for (name, bytes) in databases.iter().chain(&saved) {
            let own = name.ends_with("/node-token") || name.ends_with("state/secret");
            assert!(own || !finds(bytes, secret), "{what} is in {name}");
        }
    }
}
