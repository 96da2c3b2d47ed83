//! Settings that people change while the program runs; those of its start are options of the command.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_db::{Tx, insert, row, select};
use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP};
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, FieldFaults};
use crate::published::Committed;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The language of users who chose none: `zh`, `en`, or empty for what the browser prefers.
    pub language: String,
    /// A login ends after this long without a request.
    pub login_idle_minutes: i64,
    /// A login ends after this long in any case.
    pub login_days: i64,
    /// Days that a token is valid unless its maker says otherwise.
    pub token_days: i64,
    /// Approvals that changes of a new app need.
    pub approvals: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            language: String::new(),
            login_idle_minutes: 12 * 60,
            login_days: 7,
            token_days: 90,
            approvals: 0,
        }
    }
}

/// The bounds of a number.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The name of the setting.
    pub name: &'static str,
    pub min: i64,
    pub max: i64,
}

/// The settings that are numbers.
pub const NUMBERS: [Bounds; 4] = [
    Bounds { name: "login_idle_minutes", min: 5, max: 7 * 24 * 60 },
    Bounds { name: "login_days", min: 1, max: 30 },
    Bounds { name: "token_days", min: 1, max: 365 },
    Bounds { name: "approvals", min: 0, max: 2 },
];

impl Settings {
    /// A setting that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        match name {
            "login_idle_minutes" => self.login_idle_minutes,
            "login_days" => self.login_days,
            "token_days" => self.token_days,
            _ => self.approvals,
        }
    }
}

/// The settings and their etag, which is 0 until they are changed for the first time. They hold no secret:
/// every user may see them.
///
/// # Errors
/// [`ControlError::Db`].
pub fn get(tx: &mut dyn Tx) -> Result<(Settings, i64), ControlError> {
    let row = select!(SettingsRow: "FROM settings WHERE name = 'settings'").first(tx, &[])?;
    let Some(SettingsRow { value, etag }) = row else { return Ok((Settings::default(), 0)) };
    // A later release may have had others; then these are their defaults.
    Ok((serde_json::from_str(&value).unwrap_or_default(), etag))
}

row! {
    struct SettingsRow { value: String, etag: i64 }
}

/// Replaces the settings. Needs admin of every app.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one.
pub fn update(
    tx: &mut dyn Tx,
    actor: &Actor,
    etag: i64,
    new: &Settings,
) -> Result<Committed<(Settings, i64)>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let (before, now) = get(tx)?;
    if etag != now {
        return Err(ControlError::Stale { expected: etag, now });
    }
    let mut faults = FieldFaults::default();
    if !["", "zh", "en"].contains(&&*new.language) {
        faults.add("language", Fault::Choice { expected: "zh, en, or nothing" });
    }
    for Bounds { name, min, max } in NUMBERS {
        if !(min..=max).contains(&new.number(name)) {
            faults.add(name, Fault::Whole { min, max });
        }
    }
    faults.check()?;
    if before == *new {
        return Ok(Committed { value: (before, now), documents: None });
    }
    let value = serde_json::to_string(new).unwrap_or_default(); // texts and numbers cannot fail
    insert!(tx, "settings" {
        name: "settings",
        value,
        etag: now + 1,
    }, "ON CONFLICT (name) DO UPDATE SET value = excluded.value, etag = excluded.etag")?;
    let note = Note {
        action: "settings.update",
        target: "settings".to_owned(),
        before: Some(json!(before)),
        after: Some(json!(new)),
        ..Note::default()
    };
    audit::append(tx, actor, note)?;
    Ok(Committed { value: (new.clone(), now + 1), documents: None })
}
