//! Every operation × every way in which a right ends × every step of the request at which it can: nothing is
//! written from then on, and the reply says that there is no right.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tollgate_control::events::Topic;
use tollgate_control::sha256;
use tollgate_harness::console::{ConsoleClient, ConsoleReply, ConsoleServer};

use crate::contract::{prepare, target};
use crate::operations::{API, FILE_BODY, LOOSE, Operation, PAGES, Who};
use crate::rights::{commits, is_refused};

/// Ways in which a right ends: for a login, for a token, and the change to the database. `ANN` is the user,
/// `LOGIN` the hash of the cookie.
const ENDINGS: &[(&str, bool, bool, &str)] = &[
    ("disabled", true, true, "UPDATE users SET state = 'disabled' WHERE id = ANN"),
    ("role taken", true, true, "DELETE FROM role_bindings WHERE user_id = ANN"),
    ("logged out", true, false, "DELETE FROM logins WHERE sha256 = LOGIN"),
    (
        "password reset",
        true,
        false,
        "UPDATE users SET password_hash = NULL, link_sha256 = 'x' WHERE id = ANN; DELETE FROM logins WHERE user_id = ANN",
    ),
    ("login expired", true, false, "UPDATE logins SET expires_at = 1"),
    ("login idle", true, false, "UPDATE logins SET last_seen = 1"),
    ("token revoked", false, true, "UPDATE tokens SET revoked_at = 1 WHERE kind = 'api'"),
    ("token expired", false, true, "UPDATE tokens SET expires_at = 1 WHERE kind = 'api'"),
];

/// Ends a right before a transaction.
#[derive(Default)]
struct Trap {
    database: Option<Connection>,
    /// Transactions that begin before the right ends.
    left: usize,
    /// The statement that ends the right; taken when it runs.
    ending: Option<String>,
    /// Changes with each commit of the server after that.
    at_end: Option<i64>,
}

impl Trap {
    fn pass(&mut self) {
        if self.ending.is_some() && self.left == 0 {
            self.end();
        }
        self.left = self.left.saturating_sub(1);
    }

    fn end(&mut self) {
        let (Some(database), Some(ending)) = (&self.database, self.ending.take()) else { return };
        database.execute_batch(&ending).unwrap_or_else(|error| panic!("{ending}: {error}"));
        self.at_end = Some(commits(database));
    }
}

struct Trapped {
    server: ConsoleServer,
    ann: ConsoleClient,
    token: String,
    trap: Arc<Mutex<Trap>>,
    /// The commits when everything was there that operations are called for.
    ready: i64,
}

/// The tables that rights are stored in.
const RIGHTS: [&str; 4] = ["users", "role_bindings", "logins", "tokens"];

impl Trapped {
    async fn new() -> Self {
        let trap = Arc::new(Mutex::new(Trap::default()));
        let passed = Arc::clone(&trap);
        let server = ConsoleServer::interrupted(move || {
            passed.lock().pass();
        })
        .await;
        let mut ann = ConsoleClient::admin(&server).await;
        prepare(&mut ann).await;
        ConsoleClient::again(&server).await;
        let body = r#"{"name": "all", "rights": [{"app": "*", "role": "admin"}]}"#;
        let made = ann.json("POST", "/api/v1/tokens", None, body).await;
        let token = made.value()["secret"].as_str().expect("a token").to_owned();
        let mut world = Self { server, ann, token, trap, ready: 0 };
        assert_eq!(world.send("GET", "/api/v1/apps", "", "", true).await.status, 200); // its use is recorded
        let database = world.server.file();
        database.busy_timeout(std::time::Duration::from_secs(5)).expect("set");
        database.pragma_update(None, "foreign_keys", false).expect("set");
        database.pragma_update(None, "synchronous", "OFF").expect("set");
        for table in RIGHTS {
            database
                .execute_batch(&format!("CREATE TEMP TABLE kept_{table} AS SELECT * FROM {table}"))
                .expect("kept");
        }
        world.with_trap(|trap| trap.database = Some(database));
        // So many rejections of a user are recorded in a minute, and time stands still: from now on, a request
        // that is refused writes nothing at all.
        for _ in 0..61 {
            assert_eq!(world.send("POST", "/api/v1/apps", "", "{", false).await.status, 400);
        }
        world
    }

    fn with_trap<T>(&self, work: impl FnOnce(&mut Trap) -> T) -> T {
        work(&mut self.trap.lock())
    }

    fn commits(&self) -> i64 {
        self.with_trap(|trap| commits(trap.database.as_ref().expect("a database")))
    }

    /// Everything is there again that the operations are called for.
    async fn prepare(&mut self) {
        self.with_trap(|trap| {
            (trap.ending, trap.at_end) = (None, None);
            let restored = RIGHTS.map(|it| {
                format!("DELETE FROM main.{it}; INSERT INTO main.{it} SELECT * FROM temp.kept_{it};")
            });
            let restored = format!("BEGIN IMMEDIATE; {} COMMIT;", restored.join(" "));
            trap.database.as_ref().expect("a database").execute_batch(&restored).expect("restored");
        });
        if self.commits() == self.ready {
            return;
        }
        for (path, body) in [("rules", r#"{"key":"second","max_permits":7}"#), ("files", FILE_BODY)] {
            self.ann.json("POST", &format!("/api/v1/apps/SIP_HOTEL/{path}"), None, body).await;
        }
        self.ready = self.commits();
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        etag: &str,
        body: &str,
        is_token: bool,
    ) -> ConsoleReply {
        let authorization = format!("Authorization: Bearer {}", self.token);
        let if_match = format!("If-Match: {etag}");
        let mut fields = vec![if_match.as_str()];
        if path.starts_with("/api") {
            fields.push("Content-Type: application/json");
        } else {
            fields.push("Sec-Fetch-Site: same-origin");
        }
        let mut client = ConsoleClient::new(&self.server);
        if is_token {
            fields.push(&authorization);
        } else {
            client.cookie.clone_from(&self.ann.cookie);
        }
        client.send(method, path, &fields, body).await
    }

    /// The statements of an ending.
    fn ending(&self, text: &str) -> String {
        let login = sha256(self.ann.cookie.as_deref().expect("a login"));
        text.replace("ANN", "(SELECT id FROM users WHERE name = 'ann')")
            .replace("LOGIN", &format!("'{login}'"))
    }

    /// Path and etag of a call that succeeds.
    async fn called(&mut self, operation: &Operation) -> (String, String) {
        self.prepare().await;
        let path = target(&mut self.ann, operation.target).await;
        let etag = match operation.etag_of {
            "" => String::new(),
            of => {
                let of = target(&mut self.ann, of).await;
                self.ann.get(&of).await.field("etag").unwrap_or_default().to_owned()
            }
        };
        self.ready = self.commits();
        (path, etag)
    }
}

/// Every operation that needs a right. The others begin or end logins, and are tried elsewhere.
fn all() -> impl Iterator<Item = &'static Operation> {
    API.iter().chain(PAGES).chain(LOOSE).filter(|it| !matches!(it.who, Who::Anyone))
}

/// Whether a user without any role may do it.
fn needs_a_role(operation: &Operation) -> bool {
    !matches!(operation.who, Who::Anyone | Who::User)
}

fn is_done(reply: &ConsoleReply) -> bool {
    reply.status < 400 && !is_refused(reply)
}

#[tokio::test]
async fn a_right_that_ends_before_any_transaction_of_a_request_carries_out_nothing_more() {
    let mut world = Trapped::new().await;
    let mut ended = 0;
    let mut intact = 0;
    let mut wrote = 0;
    let mut faults = Vec::new();
    for operation in all() {
        let method = operation.name.split(' ').next().expect("a method");
        for (how, by_login, by_token, ending) in ENDINGS {
            if *how == "role taken" && !needs_a_role(operation) {
                continue;
            }
            for is_token in [false, true] {
                let is_way =
                    if is_token { *by_token && operation.target.starts_with("/api") } else { *by_login };
                for step in 0..if is_way { 20 } else { 0 } {
                    let (path, etag) = world.called(operation).await;
                    let ending = world.ending(ending);
                    world.with_trap(|trap| (trap.left, trap.ending) = (step, Some(ending)));
                    let reply = world.send(method, &path, &etag, operation.body, is_token).await;
                    let at_end = world.with_trap(|trap| {
                        trap.ending = None;
                        trap.at_end.take()
                    });
                    let after = world.commits();
                    let what =
                        format!("{}: {how} before transaction {step}, token: {is_token}", operation.name);
                    let short: String = reply.body.chars().take(200).collect();
                    let Some(at_end) = at_end else {
                        // The other side: with the right intact it is carried out.
                        intact += 1;
                        wrote += i32::from(after != world.ready);
                        if is_refused(&reply)
                            && !short.contains("login-only")
                            && !short.contains("own-change")
                        {
                            faults.push(format!("refused: {what}: {} {short}", reply.status));
                        }
                        break;
                    };
                    ended += 1;
                    if after != at_end {
                        faults.push(format!("written: {what}: {} {short}", reply.status));
                    }
                    // What was written before may be shown, and a login that has ended is logged out.
                    let is_late = at_end != world.ready || operation.name.ends_with("/logout");
                    if is_done(&reply) && !is_late {
                        faults.push(format!("done: {what}: {} {short}", reply.status));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {:#?}", faults.len(), &faults[..faults.len().min(60)]);
    assert!(ended > 1_000 && intact > 500 && wrote > 100, "{ended} ended, {intact} intact, {wrote} wrote");
}

#[tokio::test]
async fn a_right_that_ends_while_the_body_is_sent_carries_out_nothing() {
    let mut world = Trapped::new().await;
    let mut faults = Vec::new();
    for operation in all().filter(|it| !it.body.is_empty()) {
        let method = operation.name.split(' ').next().expect("a method");
        for (how, by_login, by_token, ending) in ENDINGS {
            if *how == "role taken" && !needs_a_role(operation) {
                continue;
            }
            for is_token in [false, true] {
                let is_way =
                    if is_token { *by_token && operation.target.starts_with("/api") } else { *by_login };
                if !is_way {
                    continue;
                }
                let (path, etag) = world.called(operation).await;
                let ending = world.ending(ending);
                world.with_trap(|trap| (trap.left, trap.ending) = (usize::MAX, Some(ending)));
                let trap = Arc::clone(&world.trap);
                let is_api = operation.target.starts_with("/api");
                let mut fields = vec![format!("If-Match: {etag}")];
                let kind = if is_api { "application/json" } else { "application/x-www-form-urlencoded" };
                fields.push(format!("Content-Type: {kind}"));
                let mut client = ConsoleClient::new(&world.server);
                if is_token {
                    fields.push(format!("Authorization: Bearer {}", world.token));
                } else {
                    client.cookie.clone_from(&world.ann.cookie);
                }
                let before_body = move || trap.lock().end();
                let reply = client.send_in_two(method, &path, &fields, operation.body, before_body).await;
                let at_end = world.with_trap(|trap| trap.at_end.take()).expect("it ended");
                let what =
                    format!("{}: {how}, token: {is_token}: {} {}", operation.name, reply.status, reply.body);
                if is_done(&reply) || world.commits() != at_end {
                    faults.push(what.chars().take(300).collect::<String>());
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {:#?}", faults.len(), &faults[..faults.len().min(60)]);
}

#[tokio::test]
async fn events_of_a_right_that_ended_while_they_were_waited_for_are_not_answered() {
    let mut world = Trapped::new().await;
    for (how, by_login, _, ending) in ENDINGS.iter().filter(|it| it.0 != "role taken") {
        for is_ended in [true, false] {
            world.prepare().await;
            let first = world.send("GET", "/api/v1/events", "", "", !by_login).await;
            let id = first.body.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
            world.server.control.live().events.note(Topic::Changes);
            let ending = world.ending(ending);
            // The first transaction begins before the wait, and the next one after it.
            world.with_trap(|trap| (trap.left, trap.ending) = (1, is_ended.then_some(ending)));
            let path = format!("/api/v1/events?topics=changes&after={id}");
            let reply = world.send("GET", &path, "", "", !by_login).await;
            let want = if is_ended { 401 } else { 200 };
            assert_eq!(reply.status, want, "{how}: {}", reply.body);
        }
    }
}
