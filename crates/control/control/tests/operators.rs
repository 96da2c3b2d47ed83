//! Overrides and keys, from the control plane to limiters of nodes, without sockets between them.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::json;
use tollgate_clock::SystemClock;
use tollgate_control::keys::{Question, TokensLeft};
use tollgate_control::overrides::{self, OverrideInput};
use tollgate_control::{
    Actor, Claim, Committed, Control, ControlError, Fault, NodeState, Nodes, Origin, Role, Who, audit, users,
};
use tollgate_core::{Clock, ManualClock, Timestamp};
use tollgate_db::{TimeSource, Tx};
use tollgate_fleet_agent::{carry_out, put_in_force};
use tollgate_fleet_proto::Command;
use tollgate_harness::people::{PASSWORD, user};
use tollgate_harness::rules::{create_rule, limit};
use tollgate_harness::{ControlPlane, open_with};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Request, Scratch};
use tollgate_store::{ModelStore, block_on};

async fn open(folder: &Path, nodes: Arc<dyn Nodes>) -> Control {
    open_with(folder, TimeSource::Database, nodes).await
}

fn actor(app: &str, role: Role) -> Who {
    user("ann", role, app)
}

fn input(entries: &[&str], minutes: &str) -> OverrideInput {
    OverrideInput {
        domain: "shop".to_owned(),
        entries: entries.iter().map(|it| (*it).to_owned()).collect(),
        action: "block".to_owned(),
        minutes: minutes.to_owned(),
        reason: "floods".to_owned(),
    }
}

fn fields(error: ControlError) -> Vec<(&'static str, Fault)> {
    match error {
        ControlError::Invalid(faults) => faults.into_iter().map(|it| (it.field, it.fault)).collect(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_editor_blocks_for_a_day_an_approver_for_thirty_and_each_is_checked_and_recorded() {
    let control = ControlPlane::in_real_time().await;
    create_rule(&control, "shop", limit("a", 1)).await.expect("a rule");
    let editor = actor("shop", Role::Editor);
    let approver = actor("shop", Role::Approver);
    for by in [actor("shop", Role::Viewer), actor("bank", Role::Admin)] {
        let refused = control.create_override(&Claim::assumed(&by), input(&["key=a"], "5")).await;
        assert!(matches!(refused, Err(ControlError::NoRight { need: Role::Editor, .. })), "{refused:?}");
    }
    for (by, minutes, is_good) in [
        (&editor, "0", false),
        (&editor, "1", true),
        (&editor, "1440", true),
        (&editor, "1441", false),
        (&approver, "1441", true),
        (&approver, "43200", true),
        (&approver, "43201", false),
        (&approver, "1.5", false),
        (&approver, "", false),
    ] {
        let made =
            control.create_override(&Claim::assumed(by), input(&[&format!("key={minutes}")], minutes)).await;
        match made {
            Ok(made) => {
                assert!(is_good, "{minutes}");
                let minutes: i64 = minutes.parse().expect("a number");
                assert_eq!(made.until - made.created_at, minutes * 60_000);
                control.end_override(&Claim::assumed(by), &made.id).await.expect("ended");
            }
            Err(error) => {
                assert!(!is_good, "{minutes}: {error}");
                assert_eq!(fields(error)[0].0, "minutes");
            }
        }
    }
    let long = format!("key={}", "x".repeat(1_025));
    for (bad, field) in [
        (OverrideInput { action: "ban".into(), ..input(&["key=a"], "5") }, "action"),
        (OverrideInput { reason: " ".into(), ..input(&["key=a"], "5") }, "reason"),
        (OverrideInput { reason: "x".repeat(501), ..input(&["key=a"], "5") }, "reason"),
        (input(&["key"], "5"), "entries"),
        (input(&["=a"], "5"), "entries"),
        (input(&["key=a\n"], "5"), "entries"),
        (input(&[&long], "5"), "entries"),
        (input(&["a=b"; 17], "5"), "entries"),
    ] {
        let error = control.create_override(&Claim::assumed(&editor), bad).await.expect_err(field);
        assert_eq!(fields(error)[0].0, field);
    }
    // A domain that no app owns takes the right over all apps.
    let foreign = OverrideInput { domain: "local".into(), ..input(&[], "5") };
    let refused = control.create_override(&Claim::assumed(&approver), foreign.clone()).await;
    assert!(matches!(refused, Err(ControlError::NoRight { .. })));
    control.create_override(&Claim::assumed(&actor("*", Role::Editor)), foreign).await.expect("made");
    // The same key twice.
    control.create_override(&Claim::assumed(&editor), input(&["key=a"], "5")).await.expect("made");
    let again =
        control.create_override(&Claim::assumed(&editor), input(&["key=a"], "9")).await.expect_err("twice");
    assert_eq!(fields(again), [("entries", Fault::Duplicate)]);
    let (chain, actions) = control
        .read(|tx| {
            let entries = audit::list(tx, &Actor::system(), "", "", 0, 50)?;
            Ok((audit::verify(tx, &Actor::system())?, entries))
        })
        .await
        .expect("read");
    assert!(matches!(chain, audit::Chain::Whole(_)));
    let of = |action: &str| actions.iter().filter(|it| it.action == action).count();
    assert_eq!((of("override.create"), of("override.end")), (6, 4));
}

#[tokio::test]
async fn those_in_force_are_published_and_survive_a_restart() {
    let control = ControlPlane::in_real_time().await;
    let by = Who::system();
    let mut published = control.overrides();
    assert!(published.borrow_and_update().overrides.is_empty());
    let ann = control
        .create_override(&Claim::assumed(&by), input(&["user=ann", "path=/x"], "5"))
        .await
        .expect("made");
    assert!(published.has_changed().expect("open"));
    let shown = Arc::clone(&published.borrow_and_update());
    assert_eq!((shown.revision, shown.overrides.len()), (1, 1));
    assert_eq!(shown.overrides[0].until_ms, ann.until.unsigned_abs());
    assert_eq!(shown.overrides[0].entries[1].value, "/x");
    control.create_override(&Claim::assumed(&by), input(&[], "5")).await.expect("made");
    control.end_override(&Claim::assumed(&by), &ann.id).await.expect("ended");
    let gone = control.end_override(&Claim::assumed(&by), &ann.id).await;
    assert!(matches!(gone, Err(ControlError::NotFound { what: "override", .. })));
    let shown = Arc::clone(&published.borrow_and_update());
    assert_eq!((shown.revision, shown.overrides.len()), (3, 1));
    let control = control.restart().await;
    assert_eq!(*control.overrides().borrow(), shown);
    let viewer = actor("bank", Role::Viewer);
    let seen = control.read(move |tx| overrides::list(tx, &viewer.assumed(), "", 10)).await.expect("a list");
    assert_eq!((seen.0.len(), seen.1), (0, 0), "of another app");
    let found = control.read(|tx| overrides::list(tx, &Actor::system(), "FLOODS", 10)).await.expect("a list");
    assert_eq!((found.0.len(), found.1), (1, 1));
}

/// Two nodes, each with a limiter of its own.
struct TwoNodes {
    limiters: Vec<Arc<Limiter<ModelStore, ()>>>,
    clock: ManualClock,
    /// Those that answer.
    answering: Vec<bool>,
}

impl TwoNodes {
    fn new(answering: [bool; 2]) -> Self {
        let rules = "{domain: shop, descriptors: [{key: key, rate_limit: {algorithm: token_bucket, rate: 1/s burst 5}}]}";
        let limiter = || {
            let policy = tollgate_rule_files::parse_text("shop", rules).expect("rules");
            Arc::new(Limiter::with_observer(policy, ModelStore::default(), LimiterSettings::default(), ()))
        };
        let clock = ManualClock::at(SystemClock::new().now());
        Self { limiters: vec![limiter(), limiter()], clock, answering: answering.to_vec() }
    }

    fn take(&self, node: usize, key: &str, hits: u64) -> bool {
        let entries = [Entry::new("key", key)];
        let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits };
        let mut scratch = Scratch::new();
        let decided = block_on(self.limiters[node].decide(&request, self.clock.now(), &mut scratch));
        decided.expect("a decision").is_admitted()
    }
}

impl Nodes for TwoNodes {
    fn nodes(&self) -> Vec<NodeState> {
        let node = |n: usize| NodeState {
            id: n.to_string(),
            name: format!("node-{n}"),
            last_seen_ms: i64::MAX,
            ..NodeState::default()
        };
        vec![node(0), node(1)]
    }

    fn command<'a>(
        &'a self,
        node: &'a str,
        kind: &'static str,
        body: String,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>> {
        let index: usize = node.parse().expect("a number");
        let limiter = Arc::clone(&self.limiters[index]);
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let answers = self.answering[index];
        Box::pin(async move {
            if !answers {
                return Err(format!("no reply within {patience:?}"));
            }
            let reply = carry_out(limiter, clock)(Command { command: 1, kind: kind.to_owned(), body }).await;
            if reply.error.is_empty() { Ok(reply.body) } else { Err(reply.error) }
        })
    }
}

fn left(least: i64, most: i64, sum: i64) -> Option<TokensLeft> {
    Some(TokensLeft { least, most, sum })
}

fn question(entry: &str) -> Question {
    Question { domain: "shop".to_owned(), entries: vec![entry.to_owned()] }
}

#[tokio::test]
async fn a_key_is_looked_up_on_every_node_that_counts_by_itself_and_reset_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = Arc::new(TwoNodes::new([true, true]));
    let control = open(folder.path(), Arc::clone(&nodes) as _).await;
    let by = Who::system();
    assert!(nodes.take(0, "a", 3) && nodes.take(1, "a", 1));
    let answers = control.inspect_key(&Claim::assumed(&by), &question("key=a")).await.expect("answers");
    assert_eq!((answers.is_local, answers.live, answers.tokens(0)), (true, 2, left(2, 4, 6)));
    let known = answers.known().expect("one");
    assert_eq!((known.rule.as_deref(), known.limits[0].max), (Some("key"), 5));
    assert_eq!(known.limits[0].reset_after_ms, Some(3_000));
    let live = control
        .live_keys(&Claim::assumed(&by), "shop", &["a".to_owned(), "b".to_owned()])
        .await
        .expect("answers");
    assert_eq!((live[0].tokens(0), live[1].tokens(0)), (left(2, 4, 6), left(5, 5, 10)));
    let reset = control.reset_key(&Claim::assumed(&by), &question("key=a")).await.expect("answers");
    assert_eq!(reset.tokens(0), left(5, 5, 10));
    assert!(nodes.take(0, "a", 5));
    // What no rule limits is an answer, and what cannot be asked is a fault.
    let none = control.inspect_key(&Claim::assumed(&by), &question("other=a")).await.expect("answers");
    assert_eq!(none.known().expect("one").none.as_deref(), Some("no rule of domain \"shop\" limits other=a"));
    let bad = control.inspect_key(&Claim::assumed(&by), &question("other")).await.expect_err("no value");
    assert_eq!(fields(bad)[0].0, "entries");
    for role in Role::ALL {
        let by = actor("*", role);
        assert!(control.inspect_key(&Claim::assumed(&by), &question("key=a")).await.is_ok());
        assert_eq!(
            control.reset_key(&Claim::assumed(&by), &question("key=a")).await.is_ok(),
            role >= Role::Editor,
            "{role:?}"
        );
    }
    let foreign = actor("bank", Role::Admin);
    assert!(matches!(
        control.inspect_key(&Claim::assumed(&foreign), &question("key=a")).await,
        Err(ControlError::NoRight { .. })
    ));
    let many: Vec<_> = (0..101).map(|n| n.to_string()).collect();
    assert!(matches!(
        control.live_keys(&Claim::assumed(&by), "shop", &many).await,
        Err(ControlError::Cap { max: 100, .. })
    ));
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_named_and_the_others_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path(), Arc::new(TwoNodes::new([false, true]))).await;
    let answers =
        control.inspect_key(&Claim::program("tollgate"), &question("key=a")).await.expect("answers");
    assert_eq!(answers.nodes[0].known, Err("no reply within 2s".to_owned()));
    assert_eq!(answers.tokens(0), left(5, 5, 5));
    let live =
        control.live_keys(&Claim::program("tollgate"), "shop", &["a".to_owned()]).await.expect("answers");
    assert_eq!((live[0].nodes.len(), live[0].tokens(0)), (2, left(5, 5, 5)));
}

#[tokio::test]
async fn an_override_gets_from_the_control_plane_to_decisions_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = Arc::new(TwoNodes::new([true, true]));
    let control = open(folder.path(), Arc::clone(&nodes) as _).await;
    let clock: Arc<dyn Clock> = Arc::new(nodes.clock.clone());
    let mut enforce = put_in_force(Arc::clone(&nodes.limiters[0]), clock);
    control.create_override(&Claim::program("tollgate"), input(&["key=a"], "2")).await.expect("made");
    enforce((**control.overrides().borrow()).clone());
    assert!(!nodes.take(0, "a", 1) && nodes.take(0, "b", 1));
    let shown = control.inspect_key(&Claim::program("tollgate"), &question("key=a")).await.expect("answers");
    let overridden = shown.known().and_then(|it| it.overridden.clone()).expect("a block");
    assert!(overridden.action == "block" && (60_000..=121_000).contains(&overridden.left_ms));
    nodes.clock.advance(Duration::from_secs(121));
    assert!(nodes.take(0, "a", 1), "it ends by itself");
    // Another one is ended early.
    let made =
        control.create_override(&Claim::program("tollgate"), input(&["key=c"], "2")).await.expect("made");
    nodes.clock.set(Timestamp::ZERO + Duration::from_millis(made.created_at.unsigned_abs()));
    enforce((**control.overrides().borrow()).clone());
    assert!(!nodes.take(0, "c", 1));
    control.end_override(&Claim::program("tollgate"), &made.id).await.expect("ended");
    enforce((**control.overrides().borrow()).clone());
    assert!(nodes.take(0, "c", 1), "it was ended early");
}

#[tokio::test]
async fn overrides_have_a_cap_of_bytes_within_which_they_fit_into_one_message() {
    use tollgate_fleet_proto::{ControlSays, FromControl, MAX_CONTROL_MESSAGE_BYTES, MAX_OVERRIDE_BYTES};
    let control = ControlPlane::in_real_time().await;
    let by = Who::system();
    let own = control.create_override(&Claim::assumed(&by), input(&["key=a"], "60")).await.expect("made");
    control.end_override(&Claim::assumed(&by), &own.id).await.expect("ended");
    // All but exactly the room that this one takes, in entries of 16 KiB and one of what is left.
    let room = "shop".len() + r#"[["key","a"]]"#.len() + 40;
    let fill = move |tx: &mut dyn tollgate_db::Tx| {
        let mut left = MAX_OVERRIDE_BYTES - room;
        for n in 0.. {
            let bytes = if left > 40_000 { 16_384 } else { left };
            let entries = |value: usize| json!([["k", "x".repeat(value)]]).to_string();
            let entries = entries(bytes - "shop".len() - 40 - entries(0).len());
            tx.execute(
                "INSERT INTO overrides (id, domain, entries, app, action, until, reason, author, created_at, \
                 removed_at) VALUES ($1, 'shop', $2, 'shop', 'block', $3, '', '', 0, NULL)",
                &[n.to_string().into(), entries.into(), i64::MAX.into()],
            )?;
            left -= bytes;
            if left == 0 {
                break;
            }
        }
        Ok(Committed { value: (), documents: None })
    };
    control.commit(fill).await.expect("filled");
    control.create_override(&Claim::assumed(&by), input(&["key=a"], "60")).await.expect("the last that fits");
    let more = control.create_override(&Claim::assumed(&by), input(&[], "60")).await;
    assert!(matches!(more, Err(ControlError::Cap { what: "bytes of overrides", .. })), "{more:?}");
    let all = (**control.overrides().borrow()).clone();
    let message = ControlSays::from(FromControl::Overrides(all)).to_bytes();
    assert!(message.len() < MAX_CONTROL_MESSAGE_BYTES, "{}", message.len());
    assert!(message.len() > MAX_CONTROL_MESSAGE_BYTES * 9 / 10, "the cap is not far below what fits");
}

#[tokio::test]
async fn a_domain_that_a_node_has_from_its_own_files_takes_the_rights_over_every_app() {
    let control = ControlPlane::in_real_time().await;
    create_rule(&control, "shop", limit("a", 1)).await.expect("a rule");
    let editor = actor("shop", Role::Editor);
    let all = actor("*", Role::Editor);
    let made = control.create_override(&Claim::assumed(&editor), input(&["key=a"], "5")).await.expect("made");
    let local_domains = vec!["shop".to_owned()];
    control.nodes.report(NodeState { id: "n".to_owned(), local_domains, ..NodeState::default() });
    let refused = [
        control.create_override(&Claim::assumed(&editor), input(&["key=b"], "5")).await.err(),
        control.end_override(&Claim::assumed(&editor), &made.id).await.err(),
        control.inspect_key(&Claim::assumed(&editor), &question("key=a")).await.err(),
        control.reset_key(&Claim::assumed(&editor), &question("key=a")).await.err(),
        control.scan_keys(&Claim::assumed(&editor), &question("key=a"), "").await.err(),
    ];
    for error in refused {
        assert!(matches!(&error, Some(ControlError::NoRight { app, .. }) if app == "*"), "{error:?}");
    }
    control.create_override(&Claim::assumed(&all), input(&["key=b"], "5")).await.expect("made");
    control.end_override(&Claim::assumed(&all), &made.id).await.expect("ended");
}

/// Nodes that answer once `before` is done, and count what they are asked.
struct Slow {
    asked: AtomicUsize,
    control: std::sync::OnceLock<Arc<Control>>,
    answers: bool,
    /// The command during which the right ends, from 0.
    at: usize,
    user: &'static str,
}

impl Nodes for Slow {
    fn nodes(&self) -> Vec<NodeState> {
        let node = |n: usize| NodeState { id: n.to_string(), last_seen_ms: i64::MAX, ..NodeState::default() };
        (0..3).map(node).collect()
    }

    fn command<'a>(
        &'a self,
        _: &'a str,
        _: &'static str,
        _: String,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>> {
        Box::pin(async move {
            let index = self.asked.fetch_add(1, Relaxed);
            let user = self.user;
            let control = self.control.get().expect("a control plane");
            if index == self.at {
                let system = Claim::program("tollgate");
                let off = control.commit_as(&system, move |tx, by| users::set_active(tx, by, user, false));
                off.await.expect("disabled");
            }
            let several = r#"{"limits": [{"local": true}], "keys": [{}], "domain": "shop"}"#;
            if self.answers { Ok(several.to_owned()) } else { Err("no reply".to_owned()) }
        })
    }
}

#[tokio::test]
async fn no_node_is_asked_after_the_right_to_ask_has_ended_and_no_answer_is_shown() {
    for (answers, at) in [(true, 0), (false, 0), (false, 1), (true, usize::MAX), (false, usize::MAX)] {
        for which in ["inspect", "reset", "scan", "live"] {
            let folder = tempfile::tempdir().expect("a folder");
            let asked = AtomicUsize::new(0);
            let control = std::sync::OnceLock::new();
            let nodes = Arc::new(Slow { asked, control, answers, at, user: "bob" });
            let control = Arc::new(open(folder.path(), Arc::clone(&nodes) as _).await);
            assert!(nodes.control.set(Arc::clone(&control)).is_ok());
            let system = Claim::program("tollgate");
            control.create_user(&system, "bob", PASSWORD).await.expect("a user");
            let editor =
                |tx: &mut dyn Tx, by: &Actor| users::set_role(tx, by, "bob", "*", Some(Role::Editor));
            control.commit_as(&system, editor).await.expect("a role");
            let cookie = control.log_in(Origin::default(), "bob", PASSWORD).await.expect("a login");
            let bob = Claim::login(&cookie, Origin::default());
            let asks = question("key=a");
            let done = match which {
                "inspect" => control.inspect_key(&bob, &asks).await.map(drop),
                "reset" => control.reset_key(&bob, &asks).await.map(drop),
                "scan" => control.scan_keys(&bob, &asks, "").await.map(drop),
                _ => control.live_keys(&bob, "shop", &["a".to_owned()]).await.map(drop),
            };
            let asked = nodes.asked.load(Relaxed);
            let what = format!("{which}, answers: {answers}, at {at}: {done:?}, {asked} asked");
            if at == usize::MAX {
                let is_told = matches!(done, Ok(()) | Err(ControlError::Unanswered { .. }));
                assert!(is_told && asked > 0, "{what}");
            } else {
                assert!(matches!(done, Err(ControlError::NoLogin)), "{what}");
                // Of live keys all nodes are asked at the same time.
                assert!(asked == at + 1 || which == "live", "{what}");
            }
        }
    }
}
