//! Overrides: blocks and allowances of a key, a caller or a whole domain, for a time, whatever the rules say.
//!
//! They are not rules: they skip versions and rollouts, and each ends by itself. Who may do what is asked for
//! the app that owns the domain. Not here: what a node does with them (`limiter`).

use serde_json::json;
use tollgate_db::{Tx, insert, query_any, query_int, query_value, row, select};
use tollgate_fleet_proto::{self as proto, Action as Does, Label};
use tollgate_model::{Role, fields};

use crate::access::actor::{Actor, EVERY_APP};
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::fleet::nodes::Nodes;
use crate::ids::new_id;

/// Most overrides in force.
pub const MAX_OVERRIDES: i64 = 50_000;
/// Most bytes of those in force together.
const MAX_BYTES: i64 = proto::MAX_OVERRIDE_BYTES as i64;
/// Longest duration of an editor's override, in minutes.
pub const EDITOR_MINUTES: i64 = 24 * 60;
/// Longest duration of any override, in minutes.
pub const MAX_MINUTES: i64 = 30 * 24 * 60;
/// Most entries that one names.
pub const MAX_ENTRIES: usize = 16;
/// Most bytes of a key or a value.
const MAX_TEXT: usize = 1_024;
/// Most rows of a list.
pub const MAX_LISTED: i64 = 500;

/// The effect of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Block,
    /// Admits, and counts nothing.
    Allow,
}

impl Action {
    /// Its name in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Allow => "allow",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Block, Self::Allow].into_iter().find(|action| action.name() == name)
    }
}

/// An override as people and programs enter it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideInput {
    pub domain: String,
    /// The first entries of a descriptor, as `key=value`; none for the whole domain.
    pub entries: Vec<String>,
    /// `block` or `allow`.
    pub action: String,
    /// For how many minutes.
    pub minutes: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub id: String,
    pub domain: String,
    /// The first entries of a descriptor, as key and value; none for the whole domain.
    pub entries: Vec<(String, String)>,
    /// The app that owns the domain; [`EVERY_APP`] if none does.
    pub app: String,
    pub action: Action,
    /// When it ends, in milliseconds UTC.
    pub until: i64,
    pub reason: String,
    /// Who made it.
    pub author: String,
    /// Milliseconds UTC.
    pub created_at: i64,
}

row! {
    struct OverrideRow {
        id: String,
        domain: String,
        entries: String,
        app: String,
        action: String,
        until: i64,
        reason: String,
        author: String,
        created_at: i64,
    }
}

row! {
    /// The size of the overrides in force.
    #[derive(Default)]
    struct SizeRow {
        count: i64 = "COUNT(*)",
        bytes: i64 = "COALESCE(SUM(OCTET_LENGTH(domain) + OCTET_LENGTH(entries) + 40), 0)",
    }
}

impl Override {
    /// The entries as `key=value`, with blanks between.
    #[must_use]
    pub fn named(&self) -> String {
        let pairs = self.entries.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    }

    fn read(row: OverrideRow) -> Result<Self, ControlError> {
        let broken = |reason| ControlError::Document { app: String::new(), reason };
        Ok(Self {
            id: row.id,
            domain: row.domain,
            entries: serde_json::from_str(&row.entries).map_err(|error| broken(error.to_string()))?,
            app: row.app,
            action: Action::of(&row.action).ok_or_else(|| broken("unknown action".to_owned()))?,
            until: row.until,
            reason: row.reason,
            author: row.author,
            created_at: row.created_at,
        })
    }

    fn shown(&self) -> serde_json::Value {
        let minutes = (self.until - self.created_at) / 60_000;
        json!({
            "domain": self.domain, "entries": self.entries, "action": self.action.name(), "minutes": minutes,
            "until": self.until,
        })
    }
}

/// The app whose rights apply to a domain; [`EVERY_APP`] where no app owns it, or a node has it from its own
/// files. Those belong to nobody here, and the app that writes the domain first is not asked whether they
/// exist. An app of that name may be created all the same, to move the domain here: that takes the rights
/// over every app anyway.
///
/// # Errors
/// [`ControlError::Db`].
pub fn owner(tx: &mut dyn Tx, nodes: &dyn Nodes, domain: &str) -> Result<String, ControlError> {
    if nodes.is_local(domain) {
        return Ok(EVERY_APP.to_owned());
    }
    let owner = "SELECT apps.name FROM domains JOIN apps ON apps.id = domains.app_id \
         WHERE domains.domain = $1 UNION ALL SELECT name FROM apps WHERE name = $1";
    Ok(query_value(tx, owner, &[domain.into()])?.unwrap_or_else(|| EVERY_APP.to_owned()))
}

/// Reads entries as `key=value`.
///
/// # Errors
/// A [`Fault`].
pub fn read_entries(texts: &[String]) -> Result<Vec<(String, String)>, Fault> {
    if texts.len() > MAX_ENTRIES {
        return Err(Fault::Entries { max: MAX_ENTRIES });
    }
    texts
        .iter()
        .map(|text| {
            let (key, value) = text.split_once('=').ok_or(Fault::Entries { max: MAX_ENTRIES })?;
            if key.is_empty() {
                return Err(Fault::Entries { max: MAX_ENTRIES });
            }
            if text.chars().any(char::is_control) {
                return Err(Fault::Characters { allowed: "text without control characters" });
            }
            if key.len() > MAX_TEXT || value.len() > MAX_TEXT {
                return Err(Fault::TooLong { max: MAX_TEXT });
            }
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Reads the name of a domain, which nodes may also have from files of their own.
///
/// # Errors
/// A [`Fault`].
pub fn read_domain(text: &str) -> Result<String, Fault> {
    if text.is_empty() {
        return Err(Fault::Required);
    }
    fields::text(text, 256)
}

/// Checks an override and returns it as it would be; changes nothing. Needs editor of the domain's app, and
/// approver for more than a day.
///
/// # Errors
/// [`ControlError`].
pub fn check(
    tx: &mut dyn Tx,
    nodes: &dyn Nodes,
    actor: &Actor,
    input: &OverrideInput,
) -> Result<Override, ControlError> {
    let mut faults = FieldFaults::default();
    let domain = faults.take("domain", read_domain(&input.domain), String::new());
    let app = if domain.is_empty() { EVERY_APP.to_owned() } else { owner(tx, nodes, &domain)? };
    actor.must(Role::Editor, &app)?;
    let entries = faults.take("entries", read_entries(&input.entries), Vec::new());
    let action = Action::of(&input.action).ok_or(Fault::Choice { expected: "block, allow" });
    let action = faults.take("action", action, Action::Block);
    let max = if actor.may(Role::Approver, &app) { MAX_MINUTES } else { EDITOR_MINUTES };
    let minutes = faults.take("minutes", fields::whole(&input.minutes, None, 1, max), 1);
    let reason = fields::text(&input.reason, fields::MAX_DESCRIPTION);
    let reason = reason.and_then(|it| if it.trim().is_empty() { Err(Fault::Required) } else { Ok(it) });
    let reason = faults.take("reason", reason, String::new());
    faults.check()?;
    let now = tx.now_ms();
    let text = json!(entries).to_string();
    let is_there = query_any(
        tx,
        "SELECT id FROM overrides WHERE domain = $1 AND entries = $2 AND until > $3 AND removed_at IS NULL",
        &[(&domain).into(), (&text).into(), now.into()],
    )?;
    if is_there {
        return Err(invalid("entries", Fault::Duplicate));
    }
    let in_force = select!(SizeRow: "FROM overrides WHERE until > $1 AND removed_at IS NULL");
    let SizeRow { count, bytes } = in_force.first(tx, &[now.into()])?.unwrap_or_default();
    if count >= MAX_OVERRIDES {
        return Err(ControlError::Cap { what: "overrides", max: MAX_OVERRIDES });
    }
    // They travel to each node as one message, and the node takes no larger one.
    let own = domain.len() + text.len() + 40;
    if bytes + i64::try_from(own).unwrap_or(i64::MAX) > MAX_BYTES {
        return Err(ControlError::Cap { what: "bytes of overrides", max: MAX_BYTES });
    }
    Ok(Override {
        id: new_id(now)?,
        domain,
        entries,
        app,
        action,
        until: now + minutes * 60_000,
        reason,
        author: actor.name.clone(),
        created_at: now,
    })
}

/// Puts an override in force. Needs editor of the domain's app, and approver for more than a day.
///
/// # Errors
/// [`ControlError`].
pub fn create(
    tx: &mut dyn Tx,
    nodes: &dyn Nodes,
    actor: &Actor,
    input: &OverrideInput,
) -> Result<Override, ControlError> {
    let made = check(tx, nodes, actor, input)?;
    let now = made.created_at;
    let text = json!(made.entries).to_string();
    // Ended ones are kept for a while, and in the audit for good.
    let old = now - MAX_MINUTES * 60_000;
    tx.execute("DELETE FROM overrides WHERE until < $1 OR removed_at < $1", &[old.into()])?;
    insert!(tx, "overrides" {
        id: &made.id,
        domain: &made.domain,
        entries: text,
        app: &made.app,
        action: made.action.name(),
        until: made.until,
        reason: &made.reason,
        author: &made.author,
        created_at: made.created_at,
        removed_at: None::<i64>,
    })?;
    note(tx, actor, "override.create", &made, &made.reason)?;
    Ok(made)
}

/// Ends an override before its time. Needs editor of the domain's app. Returns what it was.
///
/// # Errors
/// [`ControlError`]; [`ControlError::NotFound`] if it has ended.
pub fn end(tx: &mut dyn Tx, nodes: &dyn Nodes, actor: &Actor, id: &str) -> Result<Override, ControlError> {
    let now = tx.now_ms();
    let row = select!(OverrideRow: "FROM overrides WHERE id = $1 AND until > $2 AND removed_at IS NULL");
    let row = row.first(tx, &[id.into(), now.into()])?;
    let unknown = || ControlError::NotFound { what: "override", name: id.to_owned() };
    let ended = Override::read(row.ok_or_else(unknown)?)?;
    let app = owner(tx, nodes, &ended.domain)?;
    actor.must(Role::Editor, &app)?;
    tx.execute("UPDATE overrides SET removed_at = $1 WHERE id = $2", &[now.into(), id.into()])?;
    note(tx, actor, "override.end", &ended, "")?;
    Ok(ended)
}

fn note(
    tx: &mut dyn Tx,
    actor: &Actor,
    action: &str,
    of: &Override,
    reason: &str,
) -> Result<(), ControlError> {
    let target = format!("{} {}", of.domain, of.named());
    let app = if of.app == EVERY_APP { None } else { Some(&*of.app) };
    audit::append(tx, actor, Note { action, target, app, after: Some(of.shown()), reason, ..Note::default() })
}

/// Those in force that the actor may see and that contain `search`, the last made first: at most `limit`, and
/// how many there are.
///
/// # Errors
/// [`ControlError`].
pub fn list(
    tx: &mut dyn Tx,
    actor: &Actor,
    search: &str,
    limit: i64,
) -> Result<(Vec<Override>, i64), ControlError> {
    let values = [
        tx.now_ms().into(),
        crate::changes::rules::pattern(search).into(),
        actor.may_everywhere(Role::Viewer).into(),
        actor.apps().into(),
        limit.clamp(1, MAX_LISTED).into(),
    ];
    let count = query_int(
        tx,
        "SELECT COUNT(*) FROM overrides WHERE until > $1 AND removed_at IS NULL \
         AND ($2 = '' OR lower(domain || ' ' || entries || ' ' || reason) LIKE $2 ESCAPE '\\') \
         AND ($3 = 1 OR REPLACE($4, '/' || app || '/', '') <> $4)",
        &values[..4],
    )?;
    let rows = select!(OverrideRow:
        "FROM overrides WHERE until > $1 AND removed_at IS NULL \
         AND ($2 = '' OR lower(domain || ' ' || entries || ' ' || reason) LIKE $2 ESCAPE '\\') \
         AND ($3 = 1 OR REPLACE($4, '/' || app || '/', '') <> $4) \
         ORDER BY created_at DESC, id DESC LIMIT $5");
    let overrides = rows.all(tx, &values)?.into_iter().map(Override::read).collect::<Result<_, _>>()?;
    Ok((overrides, count))
}

/// All in force, as nodes take them. For the program itself.
pub(crate) fn in_force(tx: &mut dyn Tx) -> Result<proto::Overrides, ControlError> {
    let revision = query_int(tx, "SELECT value FROM sequences WHERE name = 'overrides'", &[])?;
    let in_force = select!(OverrideRow:
        "FROM overrides WHERE until > $1 AND removed_at IS NULL ORDER BY id LIMIT 50000");
    let now = tx.now_ms();
    let rows = in_force.all(tx, &[now.into()])?;
    let overrides = rows.into_iter().map(|row| Override::read(row).map(Override::into_proto));
    Ok(proto::Overrides {
        revision: revision.unsigned_abs(),
        overrides: overrides.collect::<Result<_, _>>()?,
    })
}

/// Notes a change, and returns all that are in force after it.
pub(crate) fn changed(tx: &mut dyn Tx) -> Result<proto::Overrides, ControlError> {
    tx.execute("UPDATE sequences SET value = value + 1 WHERE name = 'overrides'", &[])?;
    in_force(tx)
}

impl Override {
    fn into_proto(self) -> proto::Override {
        let does = match self.action {
            Action::Block => Does::Deny,
            Action::Allow => Does::Allow,
        };
        let entries = self.entries.into_iter().map(|(key, value)| Label { key, value }).collect();
        proto::Override {
            domain: self.domain,
            entries,
            action: does as i32,
            until_ms: self.until.unsigned_abs(),
        }
    }
}
