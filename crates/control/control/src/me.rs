//! What users see and change of themselves: preferences and logins.

use serde_json::json;
use tollgate_db::{Row, Tx};

use crate::actor::Actor;
use crate::apps::must_match;
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, FieldFaults};
use crate::ids::sha256;
use crate::logins;
use crate::preferences::{Preferences, read_preferences};
use crate::published::Change;

/// A user, as the user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// For logging in.
    pub name: String,
    /// How pages look.
    pub preferences: Preferences,
    /// Goes up with each change of the user.
    pub etag: i64,
}

/// A login of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MyLogin {
    /// Names it; says nothing about its cookie.
    pub id: String,
    /// Milliseconds UTC.
    pub created_at: i64,
    /// Milliseconds UTC, to a minute.
    pub last_seen: i64,
    /// Milliseconds UTC, unless it is idle for too long before.
    pub expires_at: i64,
    /// Where it began.
    pub ip: String,
    /// The browser or program, as it named itself.
    pub agent: String,
    /// Whether it is the one that asks.
    pub is_this: bool,
}

/// Digits of a login's hash that name it.
const ID: usize = 16;

/// The actor's own user.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor) -> Result<Me, ControlError> {
    let row = tx.query_one(
        "SELECT name, locale, theme, zone, etag FROM users WHERE id = $1",
        &[(&actor.user_id).into()],
    )?;
    let row = row.ok_or_else(|| ControlError::NotFound { what: "user", name: actor.name.clone() })?;
    Ok(Me { name: row.text(0)?, preferences: read_preferences(&row, 1)?, etag: row.int(4)? })
}

/// Changes preferences. `is_zone` knows the names of time zones. Without `etag`, whatever they were.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn prefer(
    tx: &mut dyn Tx,
    actor: &Actor,
    etag: Option<i64>,
    new: &Preferences,
    is_zone: fn(&str) -> bool,
) -> Result<Change<Me>, ControlError> {
    actor.must_be_logged_in()?;
    let before = get(tx, actor)?;
    if let Some(etag) = etag {
        must_match(etag, before.etag)?;
    }
    let mut faults = FieldFaults::default();
    if !["", "zh", "en"].contains(&&*new.locale) {
        faults.add("locale", Fault::Choice { expected: "zh, en, or nothing" });
    }
    if !["", "light", "dark"].contains(&&*new.theme) {
        faults.add("theme", Fault::Choice { expected: "light, dark, or nothing" });
    }
    if !new.zone.is_empty() && (new.zone.len() > 64 || !is_zone(&new.zone)) {
        faults.add("zone", Fault::Zone);
    }
    faults.check()?;
    if before.preferences == *new {
        return Ok(Change { value: before, documents: None });
    }
    tx.execute(
        "UPDATE users SET locale = $2, theme = $3, zone = $4, etag = etag + 1 WHERE id = $1",
        &[(&actor.user_id).into(), (&new.locale).into(), (&new.theme).into(), (&new.zone).into()],
    )?;
    let shown = |it: &Preferences| Some(json!({"locale": it.locale, "theme": it.theme, "zone": it.zone}));
    let note = Note {
        action: "user.preferences",
        target: actor.name.clone(),
        before: shown(&before.preferences),
        after: shown(new),
        ..Note::default()
    };
    audit::append(tx, actor, note)?;
    Ok(Change { value: get(tx, actor)?, documents: None })
}

/// The actor's logins that are in force, the last used first. `cookie` marks the one that asks.
///
/// # Errors
/// [`ControlError::Db`].
pub fn logins(tx: &mut dyn Tx, actor: &Actor, cookie: &str) -> Result<Vec<MyLogin>, ControlError> {
    let (now, this, (idle_ms, _)) = (tx.now_ms(), sha256(cookie), logins::times(tx)?);
    let rows = tx.query(
        "SELECT sha256, created_at, last_seen, expires_at, ip, agent FROM logins WHERE user_id = $1 \
         AND expires_at > $2 AND last_seen > $3 ORDER BY last_seen DESC, sha256",
        &[(&actor.user_id).into(), now.into(), (now - idle_ms).into()],
    )?;
    let read = |row: &Row| {
        let hash = row.text(0)?;
        Ok(MyLogin {
            id: hash.chars().take(ID).collect(),
            created_at: row.int(1)?,
            last_seen: row.int(2)?,
            expires_at: row.int(3)?,
            ip: row.text(4)?,
            agent: row.text(5)?,
            is_this: hash == this,
        })
    };
    rows.iter().map(read).collect()
}

/// Ends a login of the actor.
///
/// # Errors
/// [`ControlError::NotFound`], [`ControlError::Db`].
pub fn end_login(tx: &mut dyn Tx, actor: &Actor, id: &str) -> Result<Change<()>, ControlError> {
    actor.must_be_logged_in()?;
    let unknown = || ControlError::NotFound { what: "login", name: id.to_owned() };
    if id.len() != ID || !id.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(unknown());
    }
    let ended = tx.execute(
        "DELETE FROM logins WHERE user_id = $1 AND SUBSTR(sha256, 1, 16) = $2",
        &[(&actor.user_id).into(), id.into()],
    )?;
    if ended == 0 {
        return Err(unknown());
    }
    let target = actor.name.clone();
    audit::append(tx, actor, Note { action: "login.end", target, ..Note::default() })?;
    Ok(Change { value: (), documents: None })
}
