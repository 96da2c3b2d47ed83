//! Output of `tollgate import nginx`, in the configuration of docs/proxies.md and beside nginx's own limits.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::http;
use crate::nginx::{Wait, nginx, start};
use crate::proxies::app::App;
use crate::proxies::page::replace;
use crate::proxies::proxy::Proxy;
use crate::start::rules;
use crate::tollgate::{self, Tollgate};

/// Result of importing a configuration.
struct Imported {
    rules: String,
    /// The lines for each place, by the name of its location.
    places: Vec<(String, Vec<String>)>,
}

/// Imports `text`, with as many warnings as `said`.
fn imported(text: &str, said: usize) -> Imported {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, text).expect("written");
    let (status, rules, talk) = tollgate::run(&["import", "nginx", path.to_str().expect("a text")]);
    assert_eq!(talk.matches("warning: ").count(), said, "{talk}");
    assert_eq!(status.code(), Some(i32::from(said > 0)), "{talk}");
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    for line in rules.lines() {
        if let Some(place) = line.strip_prefix("# For location ") {
            places.push((place.split(' ').next().expect("a name").to_owned(), Vec::new()));
        } else if let (Some(line), Some((_, lines))) = (line.strip_prefix("#   "), places.last_mut()) {
            lines.push(line.to_owned());
        }
    }
    assert!(!places.is_empty(), "{rules}");
    Imported { rules, places }
}

/// The configuration of the page with a limited location and a question for each place, and `more` in its
/// server.
fn applied(config: &str, imported: &Imported, more: &str) -> String {
    let block = |name: &str| {
        let (_, rest) = config.split_once(&format!("    {name} {{\n")).expect("it is on the page");
        let (inside, _) = rest.split_once("\n    }\n").expect("it ends");
        (format!("    {name} {{\n{inside}\n    }}\n"), inside.to_owned())
    };
    let (limited, in_limited) = block("location /");
    let (asking, in_asking) = block("location = /tollgate");
    let mut maps = String::new();
    let mut locations = more.to_owned();
    for (number, (name, lines)) in imported.places.iter().enumerate() {
        let mut inside = in_limited.clone();
        let mut question = in_asking.clone();
        inside = replace(&inside, " /tollgate;", &format!(" /tollgate{number};"));
        for line in lines {
            match line.split_once(' ').expect("a directive") {
                ("map", _) => _ = writeln!(maps, "{line}"),
                ("set", _) => _ = writeln!(inside, "\n{line}"),
                ("return", _) => {}
                // In place of the line that the page has.
                ("proxy_pass" | "proxy_read_timeout", _) => {
                    let directive = line.split(' ').next().expect("a word");
                    let before = question.lines().find(|it| it.trim_start().starts_with(directive));
                    question = replace(&question, before.expect("the page has it"), line);
                }
                _ => _ = writeln!(question, "\n{line}"),
            }
        }
        _ = write!(
            locations,
            "location {name} {{\n{inside}\n}}\nlocation = /tollgate{number} {{\n{question}\n}}\n"
        );
    }
    let config = replace(config, &limited, "");
    let config = replace(&config, &asking, &locations);
    replace(&config, "upstream app {", &format!("{maps}upstream app {{"))
}

/// nginx, the application and a Tollgate that runs the imported rules.
async fn running(binary: &Path, imported: &Imported, tables: &str, more: &str) -> (Tollgate, App, Proxy) {
    let folder = rules(&imported.rules);
    let server = Tollgate::start(folder.path());
    let app = App::start().await;
    let change = |config: String| {
        let config = applied(&config, imported, more);
        replace(&config, "upstream app {", &format!("{tables}upstream app {{"))
    };
    let nginx = start(binary, Wait::Long, (server.http, &app), change).await;
    (server, app, nginx)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_writes_never_changes_the_question_that_an_imported_limit_asks() {
    let Some(binary) = nginx() else { return };
    let tables = "map $arg_plan $plan { default \"plan $arg_plan\"; gold ''; }\n";
    let zones: String = [
        ("pages", "$binary_remote_addr$request_uri"),
        ("uri", "$uri"),
        ("args", "$arg_user"),
        ("plans", "$plan"),
        ("hosts", "$host"),
        ("mixed", "$cookie_s$http_x_key"),
        ("users", "$remote_user"),
    ]
    .iter()
    .map(|(name, key)| {
        format!(
            "limit_req_zone {key} zone={name}:1m rate=1r/m;\nserver {{ location /{name} {{ limit_req zone={name} \
             burst=1 nodelay; }} }}\n"
        )
    })
    .collect();
    let imported = imported(&format!("{tables}{zones}"), 8);
    let (_server, app, nginx) = running(&binary, &imported, tables, "").await;
    let none: &[(&str, &str)] = &[];
    // Each has two requests, as nginx's own limit would give it; `other` shares the counter of the one
    // before.
    let other = true;
    for (path, fields, shares) in [
        ("/pages", none, false),
        ("/pages?&hits=0", none, false),
        ("/pages?x&domain=other", none, false),
        ("/pages?status=200&entry=zone=none&descriptor", none, false),
        ("/uri/a", none, false),
        ("/uri/%61?&hits=0", none, other),
        ("/uri/b%0d%0aX-Limit-Uri:%20c", none, false),
        ("/uri/d%0d%0aX-Limit-Uri:%20e", none, other), // what has control characters is one
        ("/uri/f%0d%0a%0d%0aGET%20/v1/check?hits=0%20HTTP/1.1", none, other),
        ("/uri/%ff", none, false),
        ("/args?user=a", none, false),
        ("/args?x=1&user=a&hits=0", none, other),
        ("/args?user=a%26hits=0", none, false),
        ("/plans?plan=free", none, false),
        ("/plans?plan=free&hits=0", none, other),
        ("/hosts", &[("host", "a&hits=0")], false),
        ("/hosts", &[("host", "a&hits=0&domain=other")], false),
        ("/mixed", &[("X-Key", "a&hits=0")], false),
        ("/mixed", &[("Cookie", "s=a&hits=0")], false),
        ("/mixed", &[("Cookie", "s=a&hits=0"), ("X-Limit-Cookie-S", "b")], other),
        ("/users", &[("Authorization", "Basic YW5uOng=")], false),
        ("/users", &[("Authorization", "Basic Ym9iDQpYLUxpbWl0LVJlbW90ZS1Vc2VyOiBxOng=")], false), // bob, CR LF, a field
        ("/users", &[("Authorization", "Basic DQoNCjp4")], other),
    ] {
        let want = if shares { [429, 429, 429, 429] } else { [200, 200, 429, 429] };
        for (nth, want) in want.into_iter().enumerate() {
            let answer = http::get(nginx.public, path, fields).await.expect("nginx answers");
            assert_eq!(answer.status, want, "{path} {fields:?}, request {nth}: {}", nginx.log());
        }
    }
    // An empty key is not limited, as in nginx.
    let before = app.reached();
    for path in ["/args?user=", "/args", "/plans?plan=gold", "/mixed", "/users"] {
        for _ in 0..4 {
            assert_eq!(http::get(nginx.public, path, &[]).await.expect("an answer").status, 200, "{path}");
        }
    }
    assert_eq!(app.reached(), before + 20);
}

/// The status of a `GET` from an address of this machine.
async fn from(address: Ipv4Addr, to: SocketAddr, path: &str) -> std::io::Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((address, 0).into())?;
    let mut stream = socket.connect(to).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"))
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_lists_of_addresses_admit_whom_nginx_admits() {
    let Some(binary) = nginx() else { return };
    // An allow list with an exception in it, and one in that; ranges; a table of two tables.
    let tables = "geo $limited { default 1; 127.0.0.16/28 0; 127.0.0.24/30 1; 127.0.0.26 0; }
map $limited $a { 0 ''; 1 $binary_remote_addr; }
geo $office { ranges; default no; 127.0.0.40-127.0.0.45 YES; 127.0.0.42-127.0.0.43 no; }
map $office-$limited $b { yes-1 $binary_remote_addr; default ''; }
map $remote_addr $c { default ''; 127.0.0.5 $remote_addr; }
";
    let zones: String =
        ["a", "b", "c"].map(|name| format!("limit_req_zone ${name} zone={name}:1m rate=1r/m;\n")).concat();
    let places: String = ["a", "b", "c"]
        .map(|name| format!("location /{name} {{ limit_req zone={name} burst=1 nodelay; }}\n"))
        .concat();
    let imported = imported(&format!("{tables}{zones}limit_req_status 429;\nserver {{ {places} }}"), 0);
    assert!(!imported.rules.contains("entry_header"), "{}", imported.rules);
    let own = replace(&places, "location /", "location /own/");
    let own = own
        .replace("nodelay;", "nodelay; limit_req_status 429; rewrite ^ /page break; proxy_pass http://app;");
    let (_server, _app, nginx) = running(&binary, &imported, &format!("{tables}{zones}"), &own).await;
    let mut limited = 0;
    for last in [2, 5, 15, 16, 23, 24, 25, 26, 27, 28, 31, 32, 39, 40, 42, 43, 45, 46, 50, 51] {
        let address = Ipv4Addr::new(127, 0, 0, last);
        for zone in ["a", "b", "c"] {
            let mut by_nginx = Vec::new();
            let mut by_rules = Vec::new();
            for _ in 0..3 {
                by_nginx.push(from(address, nginx.public, &format!("/own/{zone}")).await.expect("an answer"));
                by_rules.push(from(address, nginx.public, &format!("/{zone}")).await.expect("an answer"));
            }
            assert_eq!(by_rules, by_nginx, "{address} in zone {zone}: {}", nginx.log());
            limited += usize::from(by_nginx == [200, 200, 429]);
        }
    }
    assert!((10..50).contains(&limited), "some are limited and some are not: {limited}");
}

/// When each request of a trace was sent and answered, and how; times since the beginning of the trace.
type Trace = Vec<(Duration, Duration, u16)>;

/// Sends `path` eight times at once, and three times half of an interval after the last of them was answered.
async fn trace(at: SocketAddr, path: String) -> Trace {
    let began = Instant::now();
    let batch = async |count: usize, after: Duration| {
        tokio::time::sleep_until(began + after).await;
        let mut asking = JoinSet::new();
        for _ in 0..count {
            let path = path.clone();
            asking.spawn(async move {
                let sent = began.elapsed();
                let status = http::get(at, &path, &[]).await.expect("an answer").status;
                (sent, began.elapsed(), status)
            });
        }
        asking.join_all().await
    };
    let (mut first, second) = tokio::join!(batch(8, Duration::ZERO), batch(3, Duration::from_millis(1_500)));
    first.extend(second);
    first
}

/// The waits of those that passed, in order, and how many were denied; `None` if a request was sent so late
/// that another number would pass.
fn summary(trace: &Trace) -> Option<(Vec<Duration>, usize)> {
    let is_late = |(sent, _, _): &(Duration, Duration, u16)| {
        let planned = if *sent < Duration::from_millis(1_000) { 0 } else { 1_500 };
        *sent > Duration::from_millis(planned + 400)
    };
    if trace.iter().any(is_late) {
        return None;
    }
    let passed = trace.iter().filter(|(_, _, status)| *status == 200);
    let mut waits: Vec<Duration> = passed.map(|(sent, answered, _)| *answered - *sent).collect();
    waits.sort();
    Some((waits, trace.iter().filter(|(_, _, status)| *status == 429).count()))
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_delays_hold_requests_back_as_nginx_does_on_one_trace() {
    let Some(binary) = nginx() else { return };
    // One a second: after one second and a half, one and a half of the burst are free again.
    let bursts = [("a", "burst=4"), ("b", "burst=4 delay=2"), ("c", "burst=4 nodelay")];
    let zones: String = bursts
        .map(|(name, _)| format!("limit_req_zone $binary_remote_addr zone={name}:1m rate=1r/s;\n"))
        .concat();
    let places: String = bursts
        .map(|(name, burst)| format!("location /{name} {{ limit_req zone={name} {burst}; }}\n"))
        .concat();
    let imported = imported(&format!("{zones}limit_req_status 429;\nserver {{ {places} }}"), 2);
    let own = replace(&places, "location /", "location /own/");
    let own = own.replace("; }", "; limit_req_status 429; proxy_pass http://app; }");
    for _ in 0..10 {
        let (_server, _app, nginx) = running(&binary, &imported, &zones, &own).await;
        let mut asking = JoinSet::new();
        for (name, _) in bursts {
            for path in [format!("/own/{name}"), format!("/{name}")] {
                asking.spawn(async move { (path.clone(), trace(nginx.public, path).await) });
            }
        }
        let traces: std::collections::BTreeMap<String, Trace> = asking.join_all().await.into_iter().collect();
        let summaries: Option<Vec<_>> =
            traces.iter().map(|(path, trace)| Some((path.clone(), summary(trace)?))).collect();
        let Some(summaries) = summaries else { continue }; // the machine was too busy for this trace
        let of = |path: &str| &summaries.iter().find(|(known, _)| known == path).expect("it was asked").1;
        for (name, burst) in bursts {
            let (own, own_denied) = of(&format!("/own/{name}"));
            let (waits, denied) = of(&format!("/{name}"));
            let figures = format!("{burst}: nginx {own:?} {own_denied}, rules {waits:?} {denied}");
            assert_eq!((waits.len(), denied), (own.len(), own_denied), "{figures}");
            assert_eq!(own_denied, &5, "{figures}");
            for (wait, own) in waits.iter().zip(own) {
                // The second batch is sent up to 400 ms late, and so waits that much less.
                let apart = wait.abs_diff(*own);
                assert!(apart < Duration::from_millis(900), "{figures}");
            }
        }
        return;
    }
    panic!("the machine never sent a trace in time");
}
