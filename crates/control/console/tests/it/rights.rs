//! Every operation × every kind of caller: allowed, or refused with nothing written.

use std::collections::BTreeMap;

use rusqlite::Connection;
use tollgate_control::{Role, sha256};
use tollgate_harness::console::{ConsoleClient, ConsoleReply, ConsoleServer};

use crate::contract::{prepare, target};
use crate::operations::{API, FILE_BODY, LOOSE, Operation, PAGES, Way, Who};

/// Somebody who calls.
#[derive(Clone, Debug)]
struct Caller {
    name: String,
    /// The secret of a cookie or of a token; without one there is no login.
    secret: String,
    is_token: bool,
    /// Whether the login or the token is in force.
    is_valid: bool,
    role: Option<Role>,
    app: &'static str,
}

const APPS: [&str; 3] = ["*", "SIP_HOTEL", "OTHER"];

fn callers() -> Vec<Caller> {
    let caller = |name: String, is_token, is_valid, role, app| {
        let secret = if is_token { token(&name) } else { sha256(&name) };
        Caller { name, secret, is_token, is_valid, role, app }
    };
    let mut all = vec![
        Caller { secret: String::new(), ..caller("nobody".to_owned(), false, false, None, "*") },
        caller("no-role".to_owned(), false, true, None, "*"),
        caller("disabled".to_owned(), false, false, Some(Role::Admin), "*"),
        caller("idle".to_owned(), false, false, Some(Role::Admin), "*"),
        caller("t-revoked".to_owned(), true, false, Some(Role::Admin), "*"),
        caller("t-expired".to_owned(), true, false, Some(Role::Admin), "*"),
        caller("t-of-disabled".to_owned(), true, false, Some(Role::Admin), "*"),
        caller("t-node".to_owned(), true, false, None, "*"),
        // More than its owner has: what the owner has counts.
        caller("t-escalated".to_owned(), true, true, Some(Role::Viewer), "SIP_HOTEL"),
    ];
    for app in APPS {
        for role in Role::ALL {
            let of = format!("{}-{}", role.name(), app.to_lowercase().replace('*', "all").replace('_', "-"));
            all.push(caller(of.clone(), false, true, Some(role), app));
            all.push(caller(format!("t-{of}"), true, true, Some(role), app));
        }
    }
    all
}

/// A token of this name with a right checksum.
fn token(name: &str) -> String {
    tollgate_control::tokens::text_of(sha256(name).as_bytes().first_chunk().expect("32 bytes"))
}

/// Writes the callers into the database, whatever an operation before made of them.
fn seed(database: &Connection, now_ms: i64) {
    let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        database.execute(sql, values).unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    database.execute_batch("BEGIN IMMEDIATE").expect("begun");
    let own: &str = database
        .query_row("SELECT id FROM users WHERE name = 'ann'", [], |row| row.get::<_, String>(0))
        .expect("ann")
        .leak();
    for caller in callers().iter().filter(|it| !it.secret.is_empty()) {
        let name = &caller.name;
        let hash = sha256(&caller.secret);
        let state = if name == "disabled" { "disabled" } else { "active" };
        if !caller.is_token || name == "t-escalated" {
            run(
                "INSERT INTO users (id, name, display, state, etag, created_at) VALUES (?1, ?1, ?1, ?2, 1, 0) \
                 ON CONFLICT (id) DO UPDATE SET state = ?2",
                &[name, &state],
            );
            if let Some(role) = caller.role {
                run(
                    "INSERT OR REPLACE INTO role_bindings (user_id, app, role) VALUES (?1, ?2, ?3)",
                    &[name, &caller.app, &role.name()],
                );
            }
        }
        if !caller.is_token {
            let seen = if name == "idle" { now_ms - 12 * 3_600_000 } else { now_ms };
            run(
                "INSERT OR REPLACE INTO logins (sha256, user_id, created_at, last_seen, expires_at, ip) \
                 VALUES (?1, ?2, ?3, ?3, ?4, '')",
                &[&hash, name, &seen, &(now_ms + 1_000_000)],
            );
            continue;
        }
        let owner = match &**name {
            "t-of-disabled" => "disabled",
            "t-escalated" => name,
            _ => own,
        };
        let role = caller.role.unwrap_or(Role::Viewer);
        let rights = match &**name {
            "t-escalated" => r#"[["*","admin"]]"#.to_owned(),
            _ => format!(r#"[["{}","{}"]]"#, caller.app, role.name()),
        };
        let kind = if name == "t-node" { "node" } else { "api" };
        let expires = if name == "t-expired" { now_ms } else { now_ms + 1_000_000 };
        let revoked = (name == "t-revoked").then_some(now_ms);
        run(
            "INSERT OR REPLACE INTO tokens (id, kind, name, sha256, prefix, owner, rights, created_at, \
             expires_at, last_used_at, revoked_at) VALUES (?1, ?2, ?1, ?3, '', ?4, ?5, 0, ?6, ?8, ?7)",
            &[name, &kind, &hash, &owner, &rights, &expires, &revoked, &now_ms],
        );
    }
    database.execute_batch("COMMIT").expect("kept");
}

/// Everything in the database except entries about rejections.
fn everything(database: &Connection) -> BTreeMap<String, Vec<String>> {
    let mut tables = database
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .expect("tables");
    let names: Vec<String> =
        tables.query_map([], |row| row.get(0)).expect("names").map(|it| it.expect("a name")).collect();
    let mut all = BTreeMap::new();
    for name in names.into_iter().filter(|name| name != "sequences") {
        let only = if name == "audit" { "WHERE action NOT IN ('rejected', 'login.failed')" } else { "" };
        let mut rows = database.prepare(&format!("SELECT * FROM {name} {only}")).expect("rows");
        let columns = rows.column_count();
        let read = rows.query_map([], |row| {
            let values = (0..columns).map(|it| Ok(format!("{:?}", row.get_ref(it)?)));
            Ok(values.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
        });
        all.insert(name, read.expect("rows").map(|it| it.expect("a row")).collect());
    }
    all
}

/// Changes with each commit of another connection.
pub(crate) fn commits(database: &Connection) -> i64 {
    database.pragma_query_value(None, "data_version", |row| row.get(0)).expect("a number")
}

fn may(caller: &Caller, operation: &Operation) -> bool {
    if caller.is_token && !caller.is_valid {
        return false; // a wrong token is rejected everywhere
    }
    if caller.is_token && operation.way == Way::Login {
        return false;
    }
    let has =
        |role: Role, apps: &[&str]| caller.role.is_some_and(|it| it >= role) && apps.contains(&caller.app);
    match operation.who {
        Who::Anyone => true,
        Who::User => caller.is_valid,
        Who::Somewhere(role) => caller.is_valid && has(role, &APPS),
        Who::InApp(role) => caller.is_valid && has(role, &["*", "SIP_HOTEL"]),
        Who::Everywhere(role) => caller.is_valid && has(role, &["*"]),
    }
}

async fn call(
    client: &mut ConsoleClient,
    caller: &Caller,
    etag: &str,
    target: &str,
    operation: &Operation,
) -> ConsoleReply {
    let method = operation.name.split(' ').next().expect("a method");
    let is_api = target.starts_with("/api") || target == "/openapi.json";
    let authorization = format!("Authorization: Bearer {}", caller.secret);
    let if_match = format!("If-Match: {etag}");
    let mut fields = vec![if_match.as_str()];
    if is_api {
        fields.push("Content-Type: application/json");
    }
    if caller.is_token {
        fields.push(&authorization);
    } else {
        client.cookie = (!caller.secret.is_empty()).then(|| caller.secret.clone());
    }
    client.send(method, target, &fields, operation.body).await
}

pub(crate) fn is_refused(reply: &ConsoleReply) -> bool {
    let is_sent_away =
        reply.status == 303 && (reply.place().starts_with("/login") || reply.place() == "/setup");
    matches!(reply.status, 401 | 403) || is_sent_away
}

#[tokio::test]
async fn every_operation_is_allowed_to_those_who_may_and_refused_to_others_with_nothing_written() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    ConsoleClient::again(&server).await;
    let database = server.file();
    database.busy_timeout(std::time::Duration::from_secs(5)).expect("set");
    database.pragma_update(None, "synchronous", "OFF").expect("set");
    let mut allowed = 0;
    let mut refused = 0;
    let mut faults = Vec::new();
    // What anyone may do needs no rights, and ends or begins logins: it is tried elsewhere.
    let is_here = |it: &&Operation| !matches!(it.who, Who::Anyone) && !it.target.ends_with("/logout");
    for operation in API.iter().chain(PAGES).chain(LOOSE).filter(is_here) {
        // What operations before may have taken away.
        for (path, body) in [("rules", r#"{"key":"second","max_permits":7}"#), ("files", FILE_BODY)] {
            ann.json("POST", &format!("/api/v1/apps/SIP_HOTEL/{path}"), None, body).await;
        }
        let is_page = !operation.target.starts_with("/api");
        let called = target(&mut ann, operation.target).await;
        let etag = match operation.etag_of {
            "" => String::new(),
            path => {
                let path = target(&mut ann, path).await;
                ann.get(&path).await.field("etag").unwrap_or_default().to_owned()
            }
        };
        // Those who may not first, since the others change what there is.
        let mut callers = callers();
        callers.retain(|it| !(is_page && it.is_token)); // pages take no tokens
        callers.sort_by_key(|it| may(it, operation));
        seed(&database, server.now_ms());
        let mut before = everything(&database);
        let mut seen = commits(&database);
        for caller in callers {
            let mut client = ConsoleClient::new(&server);
            let reply = call(&mut client, &caller, &etag, &called, operation).await;
            let what = format!("{} by {}: {} {}", operation.name, caller.name, reply.status, reply.body);
            let mut wrong = |is_wrong: bool, why: &str| {
                if is_wrong && faults.len() < 40 {
                    faults.push(format!("{why}: {}", what.chars().take(220).collect::<String>()));
                }
            };
            wrong(reply.status >= 500, "failed");
            if may(&caller, operation) {
                allowed += 1;
                // The form of a password that is wrong, or a link that is not there, is no refusal of rights.
                wrong(is_refused(&reply) && operation.way != Way::Author, "refused");
                if commits(&database) != seen {
                    seed(&database, server.now_ms());
                    seen = commits(&database);
                }
            } else {
                refused += 1;
                wrong(!is_refused(&reply), "allowed");
                if commits(&database) != seen {
                    let after = everything(&database);
                    wrong(after != before, "something was written");
                    (before, seen) = (after, commits(&database));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(allowed > 500 && refused > 500, "{allowed} allowed, {refused} refused");
}

#[tokio::test]
async fn a_change_that_another_site_forges_is_rejected_whoever_is_logged_in() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let database = server.file();
    database.busy_timeout(std::time::Duration::from_secs(5)).expect("set");
    let mut callers = callers();
    callers.retain(|it| !it.is_token && it.is_valid && it.app == "*");
    seed(&database, server.now_ms());
    assert_eq!(callers.len(), 5);
    for operation in API.iter().chain(PAGES).chain(LOOSE).filter(|it| !it.name.starts_with("GET")) {
        let method = operation.name.split(' ').next().expect("a method");
        let target = operation.target;
        for caller in &callers {
            let before = everything(&database);
            for (host, field) in [
                ("", "Sec-Fetch-Site: cross-site"),
                ("", "Sec-Fetch-Site: same-site"),
                ("", "Origin: https://evil.example"),
                ("", "Origin: null"),
                ("evil.example", "X: y"),
                ("127.0.0.1.evil.example:8070", "Sec-Fetch-Site: same-origin"),
            ] {
                let mut client = ConsoleClient::new(&server);
                client.cookie = Some(caller.secret.clone());
                let host = if host.is_empty() {
                    server.url()["http://".len()..].to_owned()
                } else {
                    host.to_owned()
                };
                let reply = client.exchange(&host, method, target, &[field], operation.body).await;
                assert_eq!(reply.status, 403, "{} by {}: {field} {host}", operation.name, caller.name);
            }
            assert_eq!(everything(&database), before, "{} by {}", operation.name, caller.name);
        }
    }
}
