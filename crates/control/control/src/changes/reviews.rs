//! Reviews of change sets: approvers approve one content, or reject it with a reason.

use tollgate_db::Tx;
use tollgate_model::Role;
use tollgate_model::change_set::{ChangeSet, State};

use crate::access::actor::Actor;
use crate::changes::change_set::get;
use crate::changes::steps::{event, in_state, prose, reached, step};
use crate::error::ControlError;
use crate::published::Committed;

/// Approves the content as it is now; an edit voids that. Needs approver; nobody approves their own.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one, so nobody approves what they
/// have not seen.
pub fn approve(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    comment: &str,
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = reviewed(tx, actor, id, etag, &[State::Submitted, State::Approved])?;
    if before.is_by(&actor.user_id) {
        return Err(ControlError::OwnChange);
    }
    let comment = prose("comment", comment, false)?;
    event(tx, actor, id, "approve", &comment)?;
    let state = reached(&get(tx, actor, id)?);
    let change = step(tx, actor, &before, state, "change.approve", &comment)?;
    Ok(Committed { value: change, documents: None })
}

/// Rejects it; its author may edit it and submit it again. Needs approver, and a comment.
///
/// # Errors
/// [`ControlError`].
pub fn reject(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    comment: &str,
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = reviewed(tx, actor, id, etag, &[State::Submitted, State::Approved])?;
    let comment = prose("comment", comment, true)?;
    event(tx, actor, id, "reject", &comment)?;
    let change = step(tx, actor, &before, State::Rejected, "change.reject", &comment)?;
    Ok(Committed { value: change, documents: None })
}

fn reviewed(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    states: &[State],
) -> Result<ChangeSet, ControlError> {
    let app = get(tx, actor, id)?.app;
    actor.must(Role::Approver, &app)?;
    in_state(tx, actor, id, etag, states, "only what was submitted is reviewed")
}
