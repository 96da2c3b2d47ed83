//! A user's own account: preferences and logins.

use serde_json::json;
use tollgate_db::{Tx, columns, row, select};
use tollgate_model::hash::sha256;

use crate::access::actor::Actor;
use crate::access::logins;
use crate::access::preferences::Preferences;
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, FieldFaults, must_match};
use crate::published::Committed;

/// A user, as the user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// For logging in.
    pub name: String,
    /// Language, theme and time zone of pages.
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

columns! { Me { name, preferences = Preferences::COLUMNS, etag } }

row! {
    struct LoginRow {
        sha256: String,
        created_at: i64,
        last_seen: i64,
        expires_at: i64,
        ip: String,
        agent: String,
    }
}

/// Digits of a login's hash that name it.
const ID: usize = 16;

/// The actor's own user.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor) -> Result<Me, ControlError> {
    let me = select!(Me: "FROM users WHERE id = $1").first(tx, &[(&actor.user_id).into()])?;
    me.ok_or_else(|| ControlError::NotFound { what: "user", name: actor.name.clone() })
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
) -> Result<Committed<Me>, ControlError> {
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
        return Ok(Committed { value: before, documents: None });
    }
    tx.execute(
        "UPDATE users SET locale = $1, theme = $2, zone = $3, etag = etag + 1 WHERE id = $4",
        &[(&new.locale).into(), (&new.theme).into(), (&new.zone).into(), (&actor.user_id).into()],
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
    Ok(Committed { value: get(tx, actor)?, documents: None })
}

/// The actor's logins that are in force, the last used first. `cookie` marks the one that asks.
///
/// # Errors
/// [`ControlError::Db`].
pub fn logins(tx: &mut dyn Tx, actor: &Actor, cookie: &str) -> Result<Vec<MyLogin>, ControlError> {
    let now = tx.now_ms();
    let this = sha256(cookie);
    let (idle_ms, _) = logins::times(tx)?;
    let in_force = select!(LoginRow:
        "FROM logins WHERE user_id = $1 AND expires_at > $2 AND last_seen > $3 \
         ORDER BY last_seen DESC, sha256");
    let in_force = in_force.all(tx, &[(&actor.user_id).into(), now.into(), (now - idle_ms).into()])?;
    let shown = |row: LoginRow| MyLogin {
        id: row.sha256.chars().take(ID).collect(),
        created_at: row.created_at,
        last_seen: row.last_seen,
        expires_at: row.expires_at,
        ip: row.ip,
        agent: row.agent,
        is_this: row.sha256 == this,
    };
    Ok(in_force.into_iter().map(shown).collect())
}

/// Ends a login of the actor.
///
/// # Errors
/// [`ControlError::NotFound`], [`ControlError::Db`].
pub fn end_login(tx: &mut dyn Tx, actor: &Actor, id: &str) -> Result<Committed<()>, ControlError> {
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
    Ok(Committed { value: (), documents: None })
}
