//! Changes of an app itself.

use tollgate_db::Tx;
use tollgate_model::rollout::Plan;
use tollgate_model::{App, Role, fields};

use crate::access::actor::Actor;
use crate::audit::{self, Note};
use crate::changes::apps::get;
use crate::changes::versions;
use crate::error::{ControlError, Fault, FieldFaults, must_match};
use crate::published::Committed;
use crate::rollouts::rollout_rows;

/// The settings of an app as an admin enters them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppInput {
    pub description: String,
    /// `active` or `disabled`; empty leaves it as it is.
    pub state: String,
    /// Approvals that a change needs, 0 to 2; empty leaves them as they are.
    pub approvals: String,
    /// The plan of its rollouts; `None` keeps the current one.
    pub rollout: Option<Plan>,
}

/// Changes the description, the state, the approvals and the plan of rollouts. Disabling takes all rules of
/// the app off the nodes, and a later enabling brings them back; both are a new version. Needs admin of the
/// app.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn update(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    etag: i64,
    input: &AppInput,
) -> Result<Committed<App>, ControlError> {
    let before = get(tx, actor, Role::Admin, name)?;
    must_match(etag, before.etag)?;
    let mut faults = FieldFaults::default();
    let description =
        faults.take("description", fields::text(&input.description, fields::MAX_DESCRIPTION), String::new());
    let state = if input.state.is_empty() { &*before.state } else { &*input.state };
    if !["active", "disabled"].contains(&state) {
        faults.add("state", Fault::Choice { expected: "active, disabled" });
    }
    let approvals = match &*input.approvals {
        "" => before.approvals,
        "0" => 0,
        "1" => 1,
        "2" => 2,
        _ => faults.take("approvals", Err(Fault::Whole { min: 0, max: 2 }), 0),
    };
    faults.check()?;
    let rollout = input.rollout.clone().unwrap_or_else(|| before.rollout.clone());
    rollout.check()?;
    tx.execute(
        "UPDATE apps SET description = $1, state = $2, approvals = $3, rollout = $4, etag = etag + 1, \
         updated_at = $5 WHERE id = $6",
        &[
            (&description).into(),
            state.into(),
            approvals.into(),
            rollout.json().to_string().into(),
            tx.now_ms().into(),
            (&before.id).into(),
        ],
    )?;
    let state = state.to_owned();
    let mut app = App { description, state, approvals, rollout, etag: etag + 1, ..before.clone() };
    let shown = before.shown();
    let after = app.shown();
    let note = Note {
        action: "app.update",
        target: name.to_owned(),
        app: Some(name),
        before: Some(shown),
        after: Some(after),
        ..Note::default()
    };
    audit::append(tx, actor, note)?;
    let mut documents = None;
    // Disabling or enabling an app changes its rules on nodes, so it publishes a version.
    if before.state != app.state {
        rollout_rows::supersede(tx, actor, &app, &app.state)?;
        documents = Some(versions::publish(tx, actor, &app, "publish", &app.state, &[])?);
        app = get(tx, actor, Role::Admin, name)?;
    }
    Ok(Committed { value: app, documents })
}
