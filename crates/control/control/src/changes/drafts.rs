//! Change sets of their authors: begin, edit, submit, resolve, comment, abandon.

use tollgate_db::{Tx, insert, query_int, query_value};
use tollgate_model::change_set::{ChangeOp, ChangeSet, State, content_hash};
use tollgate_model::{App, Role, RuleKind, fields};

use crate::access::actor::Actor;
use crate::changes::change_set::{self, get};
use crate::changes::known::keep;
use crate::changes::operations::{Checked, OpInput, checked_ops, write_ops};
use crate::changes::steps::{event, in_state, note, prose, reached, step};
use crate::changes::{ahead, apps, stored};
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::ids::new_id;
use crate::published::Committed;

/// Most change sets of an app that are open.
pub const MAX_OPEN: i64 = 500;

/// Longest title, in characters.
const MAX_TITLE: usize = 200;

/// A change set as people and programs ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeInput {
    /// A title in one line; empty: made of the keys.
    pub title: String,
    pub comment: String,
    /// At most one for each rule.
    pub ops: Vec<OpInput>,
}

/// Which side of a conflict stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// That of the change set, which then begins with what is there now.
    Yours,
    /// The current content: the change set leaves the rule alone.
    Theirs,
}

/// The side that one rule keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub kind: RuleKind,
    /// The key of the rule.
    pub key: String,
    pub keep: Keep,
}

/// Begins a change set. Needs editor.
///
/// # Errors
/// [`ControlError`].
pub fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    input: &ChangeInput,
) -> Result<Committed<ChangeSet>, ControlError> {
    let app = apps::get(tx, actor, Role::Editor, app)?;
    let change = insert(tx, actor, &app, input)?;
    note(tx, actor, &change, "change.create", "")?;
    Ok(Committed { value: change, documents: None })
}

/// Writes a new draft, without an entry of the audit.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    input: &ChangeInput,
) -> Result<ChangeSet, ControlError> {
    must_have_room(tx, actor, app)?;
    let (title, comment) = texts(input)?;
    let checked = checked_ops(tx, actor, app, &input.ops)?;
    let Checked { ops, sha256, .. } = &*checked;
    let written = ahead::written_ops(tx, actor, app, ops)?;
    let id = written.clone().map_or_else(|| new_id(tx.now_ms()), Ok)?;
    let change = insert_checked(tx, actor, app, &id, (title, comment), ops, sha256)?;
    if written.is_none() {
        write_ops(tx, &id, ops)?;
    }
    keep(actor.known(), ops.len(), || change_set::ops_name(&id, sha256), || ops.clone());
    Ok(change)
}

/// Whether the actor may begin one more change set of the app.
pub(crate) fn must_have_room(tx: &mut dyn Tx, actor: &Actor, app: &App) -> Result<(), ControlError> {
    let open = query_int(
        tx,
        "SELECT COUNT(*) FROM changes WHERE app_id = $1 AND state IN ('draft', 'submitted', 'approved', \
         'rejected')",
        &[(&app.id).into()],
    )?;

    // Administrators of the app have the last tenth, and no user has more than are free.
    let most = if actor.may(Role::Admin, &app.name) { MAX_OPEN } else { MAX_OPEN - MAX_OPEN / 10 };
    if open >= most {
        return Err(ControlError::Cap { what: "open change sets of an app", max: most });
    }
    let own = query_int(
        tx,
        "SELECT COUNT(*) FROM changes WHERE app_id = $1 AND author_id = $2 AND state IN ('draft', 'submitted', \
         'approved', 'rejected')",
        &[(&app.id).into(), (&actor.user_id).into()],
    )?;

    if own >= most - open && !actor.user_id.is_empty() {
        return Err(ControlError::Cap { what: "open change sets of one user in an app", max: own });
    }
    Ok(())
}

/// As [`insert`], of operations that are checked against this version of the app, and are written by others.
pub(crate) fn insert_checked(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    id: &str,
    (title, comment): (String, String),
    ops: &[ChangeOp],
    sha256: &str,
) -> Result<ChangeSet, ControlError> {
    let now = tx.now_ms();
    insert!(tx, "changes" {
        id,
        app_id: &app.id,
        state: "draft",
        title: &title,
        comment: &comment,
        author_id: &actor.user_id,
        author: &actor.name,
        base_version: app.version,
        published_version: None::<i64>,
        content_sha256: sha256,
        etag: 1,
        created_at: now,
        updated_at: now,
    })?;
    // Not read again: it may have 20,000 operations.
    Ok(ChangeSet {
        id: id.to_owned(),
        app_id: app.id.clone(),
        app: app.name.clone(),
        state: State::Draft,
        title,
        comment,
        author_id: actor.user_id.clone(),
        author: actor.name.clone(),
        base_version: app.version,
        published_version: None,
        content_sha256: sha256.to_owned(),
        etag: 1,
        created_at: now,
        updated_at: now,
        ops: ops.to_vec(),
        events: Vec::new(),
        rules: i64::try_from(ops.len()).unwrap_or(i64::MAX),
        needed: app.approvals,
    })
}

/// Replaces title, comment and operations; it is a draft again, and approvals of other content do not count.
/// For its author.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn update(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    input: &ChangeInput,
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = own(tx, actor, id, etag)?;
    let app = apps::get(tx, actor, Role::Editor, &before.app)?;
    let (title, comment) = texts(input)?;
    let ops = checked_ops(tx, actor, &app, &input.ops)?;
    replace(tx, actor, &app, &before, (&title, &comment), &ops.ops)
}

fn replace(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    before: &ChangeSet,
    (title, comment): (&str, &str),
    ops: &[ChangeOp],
) -> Result<Committed<ChangeSet>, ControlError> {
    tx.execute("DELETE FROM change_ops WHERE change_id = $1", &[(&before.id).into()])?;
    write_ops(tx, &before.id, ops)?;
    let sha256 = content_hash(&app.id, ops);
    keep(
        actor.known(),
        ops.len(),
        || change_set::ops_name(&before.id, &sha256),
        || {
            let mut ops = ops.to_vec();
            ops.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key))); // as they are read
            ops
        },
    );
    tx.execute(
        "UPDATE changes SET title = $1, comment = $2, content_sha256 = $3, state = 'draft', etag = etag + 1, \
         base_version = $4, updated_at = $5 WHERE id = $6",
        &[
            title.into(),
            comment.into(),
            sha256.into(),
            app.version.into(),
            tx.now_ms().into(),
            (&before.id).into(),
        ],
    )?;
    event(tx, actor, &before.id, "edit", "")?;
    let change = get(tx, actor, &before.id)?;
    note(tx, actor, &change, "change.edit", "")?;
    Ok(Committed { value: change, documents: None })
}

/// Adds an operation to a draft, in place of one of the same rule. For its author.
///
/// # Errors
/// [`ControlError`].
pub fn add_op(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    op: &OpInput,
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = get(tx, actor, id)?;
    let before = own(tx, actor, id, before.etag)?;
    let app = apps::get(tx, actor, Role::Editor, &before.app)?;
    let mut ops: Vec<ChangeOp> =
        before.ops.iter().filter(|it| (it.kind, &it.key) != (op.kind, &op.key)).cloned().collect();
    ops.extend(checked_ops(tx, actor, &app, std::slice::from_ref(op))?.ops.iter().cloned());
    replace(tx, actor, &app, &before, (&before.title, &before.comment), &ops)
}

/// The draft of the actor in this app that was changed last.
///
/// # Errors
/// [`ControlError`].
pub fn own_draft(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<Option<ChangeSet>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let draft = query_value::<String>(
        tx,
        "SELECT id FROM changes WHERE app_id = $1 AND state = 'draft' AND author_id = $2 \
         ORDER BY updated_at DESC, id DESC LIMIT 1",
        &[(&app.id).into(), (&actor.user_id).into()],
    )?;
    draft.map(|id| get(tx, actor, &id)).transpose()
}

/// Decides conflicts: each rule that was changed meanwhile keeps one side. It is a draft again. For its
/// author.
///
/// # Errors
/// [`ControlError`].
pub fn resolve(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    choices: &[Choice],
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = own(tx, actor, id, etag)?;
    let app = apps::get(tx, actor, Role::Editor, &before.app)?;
    let mut ops = Vec::with_capacity(before.ops.len());
    for mut op in before.ops.clone() {
        let choice = choices.iter().find(|it| it.kind == op.kind && it.key == op.key);
        match choice.map(|it| it.keep) {
            Some(Keep::Theirs) => continue,
            Some(Keep::Yours) => {
                let now = stored::current(tx, &app, op.kind, &op.key)?;
                op.base = now.as_ref().map(|it| it.from_version);
                op.before = now.map(|it| it.content);
                // Deleting a rule that is already gone changes nothing.
                if op.before.is_none() && op.after.is_none() {
                    continue;
                }
            }
            None => {}
        }
        ops.push(op);
    }
    replace(tx, actor, &app, &before, (&before.title, &before.comment), &ops)
}

/// Asks for approvals; with none needed, it is approved. For editors.
///
/// # Errors
/// [`ControlError`].
pub fn submit(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = in_state(tx, actor, id, etag, &[State::Draft], "only a draft is submitted")?;
    actor.must(Role::Editor, &before.app)?;
    if before.ops.is_empty() {
        return Err(invalid("ops", Fault::Required));
    }
    event(tx, actor, id, "submit", "")?;
    let state = reached(&get(tx, actor, id)?);
    let change = step(tx, actor, &before, state, "change.submit", "")?;
    Ok(Committed { value: change, documents: None })
}

/// As [`submit`], of a change set that was made in this transaction, in an app that needs approvals.
pub(crate) fn submit_new(
    tx: &mut dyn Tx,
    actor: &Actor,
    mut change: ChangeSet,
) -> Result<Committed<ChangeSet>, ControlError> {
    note(tx, actor, &change, "change.create", "")?;
    event(tx, actor, &change.id, "submit", "")?;
    tx.execute(
        "UPDATE changes SET state = $1, etag = etag + 1, updated_at = $2 WHERE id = $3",
        &[State::Submitted.name().into(), tx.now_ms().into(), (&change.id).into()],
    )?;
    (change.state, change.etag) = (State::Submitted, change.etag + 1);
    change.events = change_set::events(tx, &change.id)?;
    note(tx, actor, &change, "change.submit", "")?;
    Ok(Committed { value: change, documents: None })
}

/// Gives it up. For its author, and for admins of the app.
///
/// # Errors
/// [`ControlError`].
pub fn abandon(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    comment: &str,
) -> Result<Committed<ChangeSet>, ControlError> {
    let open = [State::Draft, State::Submitted, State::Approved, State::Rejected];
    let before = in_state(tx, actor, id, etag, &open, "it is closed already")?;
    actor.must(if before.is_by(&actor.user_id) { Role::Editor } else { Role::Admin }, &before.app)?;
    let comment = prose("comment", comment, false)?;
    event(tx, actor, id, "abandon", &comment)?;
    let change = step(tx, actor, &before, State::Abandoned, "change.abandon", &comment)?;
    Ok(Committed { value: change, documents: None })
}

/// Adds a comment. Needs editor.
///
/// # Errors
/// [`ControlError`].
pub fn comment(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    text: &str,
) -> Result<Committed<ChangeSet>, ControlError> {
    let before = get(tx, actor, id)?;
    actor.must(Role::Editor, &before.app)?;
    let text = prose("comment", text, true)?;
    event(tx, actor, id, "comment", &text)?;
    note(tx, actor, &before, "change.comment", &text)?;
    Ok(Committed { value: get(tx, actor, id)?, documents: None })
}

fn own(tx: &mut dyn Tx, actor: &Actor, id: &str, etag: i64) -> Result<ChangeSet, ControlError> {
    let editable = [State::Draft, State::Submitted, State::Approved, State::Rejected];
    let change = in_state(tx, actor, id, etag, &editable, "it is closed; begin a new change set")?;
    if !change.is_by(&actor.user_id) {
        return Err(ControlError::NotAuthor { author: change.author });
    }
    Ok(change)
}

fn texts(input: &ChangeInput) -> Result<(String, String), ControlError> {
    let mut faults = FieldFaults::default();
    let title = if input.title.trim().is_empty() { keys(&input.ops) } else { input.title.trim().to_owned() };
    let title = faults.take("title", fields::text(&title, MAX_TITLE), String::new());
    faults.check()?;
    Ok((title, prose("comment", &input.comment, false)?))
}

/// The first keys, as a title.
fn keys(ops: &[OpInput]) -> String {
    let names: Vec<&str> = ops.iter().take(3).map(|op| &*op.key).collect();
    let more = ops.len().saturating_sub(3);
    let title = names.join(", ") + &(if more > 0 { format!(" +{more}") } else { String::new() });
    title.chars().take(MAX_TITLE).collect()
}
