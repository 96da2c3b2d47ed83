//! Steps of change sets from state to state, each with its entry in the audit, and their events: comments and
//! verdicts. Not here: the steps that authors (`drafts`) and approvers (`reviews`) take.

use tollgate_db::{Tx, query_int};
use tollgate_model::Role;
use tollgate_model::change_set::{ChangeSet, State};

use crate::access::actor::Actor;
use crate::audit::{self, Note};
use crate::changes::change_set::get;
use crate::error::{ControlError, Fault, invalid, must_match};

/// Most events of a change set.
const MAX_EVENTS: i64 = 1_000;

/// Longest comment, in characters.
const MAX_COMMENT: usize = 4_000;

/// The state of a change set that waits: approved as soon as it has the approvals that its app needs.
pub(crate) fn reached(change: &ChangeSet) -> State {
    let count = i64::try_from(change.approved_by().len()).unwrap_or(i64::MAX);
    if count >= change.needed { State::Approved } else { State::Submitted }
}

/// The change set, if `etag` is the current one and it is in one of these states.
pub(crate) fn in_state(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    states: &[State],
    needed: &'static str,
) -> Result<ChangeSet, ControlError> {
    let change = get(tx, actor, id)?;
    // Rights first: what it is in must not show to those who may not act on it.
    actor.must(Role::Editor, &change.app)?;
    must_match(etag, change.etag)?;
    if !states.contains(&change.state) {
        return Err(ControlError::WrongState { state: change.state.name().to_owned(), needed });
    }
    Ok(change)
}

/// Moves it to `state`, with an entry of the audit.
pub(crate) fn step(
    tx: &mut dyn Tx,
    actor: &Actor,
    before: &ChangeSet,
    state: State,
    action: &str,
    reason: &str,
) -> Result<ChangeSet, ControlError> {
    tx.execute(
        "UPDATE changes SET state = $1, etag = etag + 1, updated_at = $2 WHERE id = $3",
        &[state.name().into(), tx.now_ms().into(), (&before.id).into()],
    )?;
    let change = get(tx, actor, &before.id)?;
    note(tx, actor, &change, action, reason)?;
    Ok(change)
}

/// Records what somebody said of it or did with it.
pub(crate) fn event(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    verdict: &str,
    comment: &str,
) -> Result<(), ControlError> {
    let count = query_int(tx, "SELECT COUNT(*) FROM approvals WHERE change_id = $1", &[id.into()])?;
    if count >= MAX_EVENTS {
        return Err(ControlError::Cap { what: "events of a change set", max: MAX_EVENTS });
    }
    tx.execute(
        "INSERT INTO approvals (change_id, seq, user_id, user_name, verdict, comment, content_sha256, at) \
         SELECT $1, $2, $3, $4, $5, $6, content_sha256, $7 FROM changes WHERE id = $1",
        &[
            id.into(),
            (count + 1).into(),
            (&actor.user_id).into(),
            (&actor.name).into(),
            verdict.into(),
            comment.into(),
            tx.now_ms().into(),
        ],
    )?;
    Ok(())
}

pub(super) fn note(
    tx: &mut dyn Tx,
    actor: &Actor,
    change: &ChangeSet,
    action: &str,
    reason: &str,
) -> Result<(), ControlError> {
    let target = change.app.clone();
    let after = Some(change.shown());
    audit::append(tx, actor, Note { action, target, app: Some(&change.app), before: None, after, reason })
}

/// Text of several lines.
pub(crate) fn prose(field: &'static str, text: &str, is_required: bool) -> Result<String, ControlError> {
    let text = text.replace("\r\n", "\n");
    let text = text.trim();
    let is_odd = |it: char| it.is_control() && it != '\n' && it != '\t';
    if is_required && text.is_empty() {
        Err(invalid(field, Fault::Required))
    } else if text.chars().any(is_odd) {
        Err(invalid(field, Fault::Characters { allowed: "text without control characters" }))
    } else if text.chars().count() > MAX_COMMENT {
        Err(invalid(field, Fault::TooLong { max: MAX_COMMENT }))
    } else {
        Ok(text.to_owned())
    }
}
