//! The change machine against a model of its page, `docs/control.md`: states × actors × operations, in random
//! sequences, while the approvals that the app needs and the roles of its users change as well.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate_control::app_settings::AppInput;
use tollgate_control::change_set::{ChangeSet, State};
use tollgate_control::changes::{self, ChangeInput};
use tollgate_control::{
    Actor, Claim, Committed, Control, ControlError, Role, Who, apps, publishing, reviews, rules, users,
};
use tollgate_db::Tx;
use tollgate_harness::ControlPlane;
use tollgate_harness::people::stranger;
use tollgate_harness::rules::{change_of, create_rule, file_text, limit, put, put_file, set_app};

const AUTHOR: &str = "ann";
/// Each with the role that it begins with.
const USERS: [(&str, Role); 6] = [
    (AUTHOR, Role::Approver),
    ("bob", Role::Approver),
    ("cyd", Role::Approver),
    ("dan", Role::Viewer),
    ("eve", Role::Admin),
    ("fay", Role::Editor),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The same content again, or another.
    Edit(u8),
    Submit,
    Approve,
    Reject,
    Publish,
    Abandon,
    Comment,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An act of the user of this index; with an earlier etag if it is stale.
    Act { act: Act, user: usize, is_stale: bool },
    /// The app needs so many approvals.
    Need(i64),
    /// A user of this index has this role from now on.
    Role(usize, Option<Role>),
}

/// Why an operation is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum No {
    Right,
    Stale,
    State,
    Own,
    NotAuthor,
    NeedsApproval,
}

/// The state machine as documented.
#[derive(Clone, Debug)]
struct Model {
    state: State,
    needed: i64,
    roles: BTreeMap<&'static str, Option<Role>>,
    /// Who approved the last submission, and nothing has voided it.
    approved: Vec<&'static str>,
    submissions: usize,
}

impl Model {
    fn may(&self, user: &str, need: Role) -> bool {
        self.roles[user].is_some_and(|role| role >= need)
    }

    /// Approved as soon as it has the approvals that its app needs.
    fn reached(&self) -> State {
        if self.approved.len() as i64 >= self.needed { State::Approved } else { State::Submitted }
    }

    fn act(&mut self, act: Act, user: &'static str, is_stale: bool) -> Result<(), No> {
        let is_author = user == AUTHOR;
        let need = match act {
            Act::Approve | Act::Reject => Role::Approver,
            _ => Role::Editor,
        };
        if !self.may(user, need) {
            return Err(No::Right);
        }
        if act == Act::Comment {
            return Ok(()); // in every state, whatever was seen
        }
        if is_stale {
            return Err(No::Stale);
        }
        let next = match (self.state, act) {
            (State::Published | State::Abandoned, _) => return Err(No::State),
            (_, Act::Edit(_)) if !is_author => return Err(No::NotAuthor),
            (_, Act::Edit(_)) => {
                self.approved.clear();
                State::Draft
            }
            (State::Draft, Act::Submit) => {
                self.approved.clear();
                self.submissions += 1;
                self.reached()
            }
            (State::Submitted | State::Approved, Act::Approve) => {
                if is_author {
                    return Err(No::Own);
                }
                self.approved.retain(|it| *it != user);
                self.approved.push(user);
                self.reached()
            }
            (State::Submitted | State::Approved, Act::Reject) => {
                self.approved.clear();
                State::Rejected
            }
            (State::Draft, Act::Publish) if self.needed == 0 => State::Published,
            (State::Draft, Act::Publish) => return Err(No::NeedsApproval),
            (State::Submitted | State::Approved, Act::Publish) => {
                // Counted again: of those who may still approve.
                let count = self.approved.iter().filter(|it| self.may(it, Role::Approver)).count();
                if (count as i64) < self.needed {
                    return Err(No::NeedsApproval);
                }
                State::Published
            }
            (_, Act::Abandon) if is_author || self.may(user, Role::Admin) => State::Abandoned,
            (_, Act::Abandon) => return Err(No::Right),
            _ => return Err(No::State),
        };
        self.state = next;
        Ok(())
    }
}

fn why(error: &ControlError) -> No {
    match error {
        ControlError::NoRight { .. } => No::Right,
        ControlError::Stale { .. } => No::Stale,
        ControlError::WrongState { .. } => No::State,
        ControlError::OwnChange => No::Own,
        ControlError::NotAuthor { .. } => No::NotAuthor,
        ControlError::NeedsApproval { .. } => No::NeedsApproval,
        other => panic!("{other}"),
    }
}

fn content(round: usize, version: u8) -> ChangeInput {
    let key = format!("k{round}");
    let rate = 1 + i64::from(version);
    change_of(&[put(&key, None, rate)])
}

/// The user as the database knows it now.
fn by(tx: &mut dyn Tx, name: &str) -> Result<Actor, ControlError> {
    let user = users::get(tx, &Actor::system(), name)?;
    let who = Who { user_id: user.id, roles: user.roles, ..stranger(&user.name) };
    Ok(who.assumed())
}

async fn run(
    control: &Control,
    name: &'static str,
    work: impl Fn(&mut dyn Tx, &Actor) -> Result<Committed<ChangeSet>, ControlError> + Send + 'static,
) -> Result<ChangeSet, ControlError> {
    let work = move |tx: &mut dyn Tx| {
        let actor = by(tx, name)?;
        work(tx, &actor)
    };
    control.commit(work).await
}

async fn carry_out(
    control: &Control,
    round: usize,
    now: &ChangeSet,
    act: Act,
    user: &'static str,
    is_stale: bool,
) -> Result<ChangeSet, ControlError> {
    let id = now.id.clone();
    let etag = now.etag - i64::from(is_stale);
    run(control, user, move |tx, actor| match act {
        Act::Edit(version) => changes::update(tx, actor, &id, etag, &content(round, version)),
        Act::Submit => changes::submit(tx, actor, &id, etag),
        Act::Approve => reviews::approve(tx, actor, &id, etag, ""),
        Act::Reject => reviews::reject(tx, actor, &id, etag, "no"),
        Act::Publish => publishing::publish(tx, actor, &id, etag),
        Act::Abandon => changes::abandon(tx, actor, &id, etag, ""),
        Act::Comment => changes::comment(tx, actor, &id, "so"),
    })
    .await
}

async fn holds(control: &Control, first: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let roles = USERS.iter().map(|(name, role)| (*name, Some(*role))).collect();
    let mut model = Model { state: State::Draft, needed: 1, roles, approved: Vec::new(), submissions: 0 };
    for (user, (_, role)) in USERS.iter().enumerate() {
        set(control, Step::Role(user, Some(*role))).await;
    }
    set(control, Step::Need(1)).await;
    let mut round = first;
    let begin =
        |round| run(control, AUTHOR, move |tx, by| changes::create(tx, by, "shop", &content(round, 0)));
    let mut now = begin(round).await.expect("a draft");
    let mut closed_for = 0;
    for step in steps {
        let Step::Act { act, user, is_stale } = *step else {
            set(control, *step).await;
            match *step {
                Step::Need(needed) => model.needed = needed,
                Step::Role(user, role) => drop(model.roles.insert(USERS[user].0, role)),
                Step::Act { .. } => {}
            }
            continue;
        };
        let user = USERS[user].0;
        let before = model.clone();
        let wanted = model.act(act, user, is_stale);
        let done = carry_out(control, round, &now, act, user, is_stale).await;
        let got = done.as_ref().map(|_| ()).map_err(why);
        prop_assert_eq!(got, wanted, "{:?} by {} in {:?}", act, user, before);
        if let Ok(done) = done {
            prop_assert_eq!(done.state, model.state, "{:?} by {} in {:?}", act, user, before);
            let mut approved = done.approved_by();
            approved.sort_unstable();
            model.approved.sort_unstable();
            prop_assert_eq!(&approved, &model.approved, "{:?} by {} in {:?}", act, user, before);
            prop_assert_eq!(done.submission(), model.submissions);
            now = done;
        }
        // A closed one is tried a few times more, and then the author begins another, if the role allows it.
        closed_for = if model.state.is_closed() { closed_for + 1 } else { 0 };
        if closed_for > 3 && model.may(AUTHOR, Role::Editor) {
            (round, closed_for) = (round + 1, 0);
            now = begin(round).await.expect("a draft");
            (model.state, model.submissions) = (State::Draft, 0);
            model.approved.clear();
        }
    }
    Ok(())
}

async fn set(control: &Control, step: Step) {
    let system = Claim::program("tollgate");
    let done = match step {
        Step::Act { .. } => Ok(()),
        Step::Need(needed) => {
            let input = AppInput { approvals: needed.to_string(), ..AppInput::default() };
            set_app(control, "shop", input).await;
            Ok(())
        }
        Step::Role(user, role) => {
            let name = USERS[user].0;
            control.commit_as(&system, move |tx, actor| users::set_role(tx, actor, name, "shop", role)).await
        }
    };
    done.expect("set");
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let act = prop_oneof![
        2 => (0..2_u8).prop_map(Act::Edit),
        3 => Just(Act::Submit),
        4 => Just(Act::Approve),
        2 => Just(Act::Reject),
        3 => Just(Act::Publish),
        1 => Just(Act::Abandon),
        1 => Just(Act::Comment),
    ];
    // The author often, so that there is something to review.
    let user = prop_oneof![2 => Just(0), 3 => 0..USERS.len()];
    let role = prop_oneof![
        1 => Just(None),
        1 => Just(Some(Role::Viewer)),
        1 => Just(Some(Role::Editor)),
        3 => Just(Some(Role::Approver)),
    ];
    let step = prop_oneof![
        20 => (act, user, proptest::bool::weighted(0.05))
            .prop_map(|(act, user, is_stale)| Step::Act { act, user, is_stale }),
        2 => (0..3_i64).prop_map(Step::Need),
        2 => (0..USERS.len(), role).prop_map(|(user, role)| Step::Role(user, role)),
    ];
    proptest::collection::vec(step, 1..80)
}

#[test]
fn a_change_set_goes_the_way_that_its_page_describes_whoever_does_what() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let control = runtime.block_on(async {
        let control = ControlPlane::in_real_time().await;
        create_rule(&control, "shop", limit("first", 1)).await.expect("an app");
        for (name, role) in USERS {
            let system = Claim::program("tollgate");
            control.invite(&system, name, "shop", role.name()).await.expect("a user");
        }
        control
    });
    let round = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps())| {
        // Rules of other names each time: a rule that is there is no new one.
        let first = round.replace(round.get() + 100);
        runtime.block_on(holds(&control, first, &steps))?;
    });
}

/// Each way by which an app or a change can come into being.
#[tokio::test]
async fn a_new_app_needs_the_approvals_of_the_settings_however_it_comes_into_being() {
    type Way = fn(&mut dyn Tx, &Actor) -> Result<Option<State>, ControlError>;
    let ways: [(&str, Way); 6] = [
        ("the API for apps", |tx, by| {
            let app = apps::create(tx, by, "shop", "")?.value;
            assert_eq!(app.approvals, 2, "the reply says it");
            Ok(None)
        }),
        ("a rule", |tx, by| {
            let intent = publishing::Intent::Publish;
            Ok(Some(rules::propose_create(tx, by, "shop", &limit("k", 1), intent)?.value.state))
        }),
        ("a rule at once", |tx, by| {
            rules::create(tx, by, "shop", &limit("k", 1)).map(|_| Some(State::Published))
        }),
        ("a change set that is to be published", |tx, by| {
            let done = publishing::propose(tx, by, "shop", &content(0, 0), publishing::Intent::Publish)?;
            Ok(Some(done.value.state))
        }),
        ("an import", |tx, by| {
            let all = tollgate_control::transfer::Imported {
                app: "shop".to_owned(),
                rules: content(0, 0).ops.into_iter().filter_map(|it| it.after).collect(),
            };
            let done = tollgate_control::transfer::import(tx, by, &all, publishing::Intent::Publish)?;
            Ok(done.value.map(|it| it.state))
        }),
        ("a rule file", |tx, by| {
            let input = change_of(&[put_file("web", None, &file_text("web", 5))?]);
            Ok(Some(publishing::propose(tx, by, "shop", &input, publishing::Intent::Publish)?.value.state))
        }),
    ];
    for (name, way) in ways {
        let control = ControlPlane::in_real_time().await;
        let system = Claim::program("tollgate");
        let two = tollgate_control::Settings { approvals: 2, ..Default::default() };
        control.change_settings(&system, 0, two).await.expect("set");
        let done =
            control.commit_as(&system, move |tx, by| Ok(Committed { value: way(tx, by)?, documents: None }));
        match done.await {
            Ok(state) => assert!(matches!(state, None | Some(State::Submitted)), "{name}: {state:?}"),
            Err(ControlError::NeedsApproval { approvals: 2, .. }) => continue, // nothing was made
            Err(error) => panic!("{name}: {error}"),
        }
        let app =
            control.read_as(&system, |tx, by| apps::get(tx, by, Role::Viewer, "shop")).await.expect(name);
        assert_eq!((app.approvals, app.version), (2, 0), "{name}");
    }
}
