//! The distribution's HAProxy asks the binary by its client for Lua, with the files of docs/proxies.md.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use crate::http::{self, Answer};
use crate::nginx::Wait;
use crate::proxies::app::App;
use crate::proxies::page::{addressed, block, quoted_after, replace};
use crate::proxies::proxy::{Proxy, program};
use crate::skip;
use crate::start::rules;
use crate::tollgate::Tollgate;

/// HAProxy, with both files of the page and a second frontend without a limiter. `change` gets the
/// configuration and the program in Lua.
pub(crate) async fn start(
    binary: &PathBuf,
    wait: Wait,
    (tollgate, app): (SocketAddr, &App),
    change: impl Fn(String, String) -> (String, String),
) -> Proxy {
    Proxy::start(app, |folder, [public, open, inner]| {
        let program = folder.join("tollgate.lua");
        let config = addressed(&block("haproxy"), tollgate, app.at);
        let config = replace(&config, "/etc/haproxy/tollgate.lua", &program.display().to_string());
        let config = replace(&config, "bind :80", &format!("bind {public}"));
        let config = replace(&config, "127.0.0.1:8070", &inner.to_string());
        let config = config + &format!("\nfrontend open\n    bind {open}\n    default_backend app\n");
        let lua = replace(&block("lua"), "127.0.0.1:8070", &inner.to_string());
        let (config, lua) = match wait {
            Wait::OfPage => (config, lua),
            Wait::Long => {
                (replace(&config, " 50ms", " 60s"), replace(&lua, "timeout = 1000", "timeout = 60000"))
            }
        };
        let (config, lua) = change(config, lua);
        std::fs::write(program, lua).expect("it can be written");
        std::fs::write(folder.join("haproxy.cfg"), config).expect("it can be written");
        let mut command = Command::new(binary);
        command.arg("-f").arg(folder.join("haproxy.cfg"));
        command
    })
    .await
}

/// The change of the page for a limit by API key.
pub(crate) fn by_key(config: String, lua: String) -> (String, String) {
    let sentence = "- For a limit by API key, use `entry_header=api_key=X-Api-Key` in the URL";
    let lua = replace(&lua, "timeout =", &format!("{}, timeout =", quoted_after(sentence)));
    let lua = replace(&lua, "entry=remote_address=%s", "entry_header=api_key=X-Api-Key");
    let line = block("haproxy api key");
    (
        replace(
            &config,
            "    http-request lua.tollgate",
            &format!("    {line}    http-request lua.tollgate"),
        ),
        lua,
    )
}

/// Where this machine has one that can run Lua.
pub(crate) fn haproxy() -> Option<PathBuf> {
    let found = program("haproxy").filter(|binary| {
        let version = Command::new(binary).arg("-vv").stdin(Stdio::null()).output();
        version.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("+LUA"))
    });
    if found.is_none() {
        skip::skip("a real HAProxy", "none with Lua is installed; on Debian: apt-get install haproxy");
    }
    found
}

const RULES: &str = "domain: edge
descriptors:
  - {key: remote_address, rate_limit: {name: per_address, unit: year, requests_per_unit: 3}}
  - {key: api_key, rate_limit: {name: per_key, unit: year, requests_per_unit: 2}}
";

fn seconds(answer: &Answer, field: &str) -> Option<u64> {
    answer.header(field).and_then(|it| it.parse().ok()).filter(|it| (1..=31_622_400).contains(it))
}

#[tokio::test(flavor = "multi_thread")]
async fn haproxy_admits_the_limit_and_returns_tollgates_reply_to_a_denied_client() {
    let Some(binary) = haproxy() else { return };
    let rules = rules(RULES);
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let proxy = start(&binary, Wait::Long, (server.http, &app), |config, lua| (config, lua)).await;
    let get = async |path| http::get(proxy.public, path, &[]).await.expect("HAProxy answers");
    for left in ["2", "1", "0"] {
        let answer = get("/any?x=1").await;
        let fields = ["limit", "remaining"].map(|name| answer.header(&format!("x-ratelimit-{name}")));
        assert_eq!((answer.status, &answer.body), (200, &app.body()), "{answer:?}");
        assert_eq!(fields, [Some("3"), Some(left)], "{answer:?}");
        assert!(seconds(&answer, "x-ratelimit-reset").is_some(), "{answer:?}");
        assert_eq!((answer.header("retry-after"), answer.header("x-tollgate")), (None, None));
    }
    for _ in 0..2 {
        let answer = get("/").await;
        let fields = ["x-ratelimit-remaining", "content-type"].map(|name| answer.header(name));
        assert_eq!(answer.status, 429, "{answer:?}");
        assert_eq!(fields, [Some("0"), Some("application/problem+json")], "{answer:?}");
        let wait = seconds(&answer, "retry-after");
        assert!(wait.is_some() && wait == seconds(&answer, "x-ratelimit-retry-after"), "{answer:?}");
        let problem: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(problem["violated-policies"][0], "per_address");
    }
    assert_eq!(app.reached(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_haproxy_a_clients_header_counts_as_it_is() {
    let Some(binary) = haproxy() else { return };
    let rules = rules(RULES);
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let proxy = start(&binary, Wait::Long, (server.http, &app), by_key).await;
    for key in ["alice", "a&entry=api_key=b", "%61lice", "a b", "x,alice", "y,alice"] {
        for want in [200, 200, 429] {
            let answer = http::get(proxy.public, "/", &[("x-api-key", key)]).await.expect("HAProxy answers");
            assert_eq!(answer.status, want, "{key}: {answer:?}");
        }
    }
}

/// It is denied by `--undecided`: neither an admission nor an outage.
#[tokio::test(flavor = "multi_thread")]
async fn haproxy_denies_what_tollgate_cannot_read() {
    let Some(binary) = haproxy() else { return };
    let rules = rules(RULES);
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let wrong = |config, lua: String| (config, replace(&lua, "domain=edge", "unknown=edge"));
    let proxy = start(&binary, Wait::Long, (server.http, &app), wrong).await;
    let answer = http::get(proxy.public, "/", &[]).await.expect("HAProxy answers");
    assert_eq!((answer.status, app.reached()), (429, 0), "{answer:?}");
}
