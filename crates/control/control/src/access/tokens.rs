//! Tokens: programs use the API with them, in the name of the user who made them, and nodes attach with them.
//! The database has the SHA-256 of each; the token itself is shown once.

use std::str::FromStr as _;

use serde_json::{Value as Json, json};
use subtle::ConstantTimeEq as _;
use tollgate_db::{Select, Tx, columns, insert, query_any, query_int, row, select};
use tollgate_model::hash::sha256;
use tollgate_model::{Role, fields};

use crate::access::actor::{Actor, EVERY_APP, Who, both};
use crate::access::bindings::roles_of;
use crate::access::entered::Entered;
use crate::access::preferences::Preferences;
use crate::access::settings;
use crate::access::token_text::SHOWN;
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, FieldFaults};
use crate::ids::new_id;

pub use crate::access::token_text::text_of;

/// Most days that a token is valid.
pub const MAX_DAYS: i64 = 365;

/// Most days in which nodes can join with a token for joining. It is one day unless its maker says otherwise.
pub const MAX_JOIN_DAYS: i64 = 30;

/// Most tokens in force of one owner.
pub const MAX_TOKENS: i64 = 100;

/// Most apps that a token names.
const MAX_RIGHTS: usize = 100;

/// Time for which a token is listed after its end.
const KEPT_MS: i64 = 90 * DAY_MS;

/// Age that the record of the last use may have.
const SEEN_MS: i64 = 60_000;

const DAY_MS: i64 = 24 * 3_600_000;

/// The purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// For the API, with the rights that it names.
    Api,
    /// For nodes: it may attach, and nothing else.
    Node,
    /// As [`TokenKind::Node`], and it ends: then only nodes that have joined with it may attach with it.
    Join,
}

impl TokenKind {
    /// Its name in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Node => "node",
            Self::Join => "join",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Api, Self::Node, Self::Join].into_iter().find(|it| it.name() == name)
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The id never changes.
    pub id: String,
    pub kind: TokenKind,
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// The name of the user who made it; `None` for one that the program made.
    pub owner: Option<String>,
    /// Apps by name or `*`, and the role there. It never has more than its owner.
    pub rights: Vec<(String, Role)>,
    /// Milliseconds UTC.
    pub created_at: i64,
    /// Milliseconds UTC; `None` for never, which only tokens of nodes have.
    pub expires_at: Option<i64>,
    /// Milliseconds UTC, to a minute.
    pub last_used_at: Option<i64>,
    /// Milliseconds UTC.
    pub revoked_at: Option<i64>,
}

impl Token {
    /// Whether it is in force.
    #[must_use]
    pub fn is_valid(&self, now_ms: i64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| at > now_ms)
    }

    /// Whether nodes attach with it at most because they joined before its end.
    #[must_use]
    pub fn admits_known_nodes_only(&self, now_ms: i64) -> bool {
        self.kind == TokenKind::Join && self.revoked_at.is_none() && !self.is_valid(now_ms)
    }

    fn shown(&self) -> Json {
        let rights: Vec<_> =
            self.rights.iter().map(|(app, role)| json!({"app": app, "role": role.name()})).collect();
        json!({"name": self.name, "kind": self.kind.name(), "rights": rights, "expires_at": self.expires_at})
    }
}

/// A new token as entered: texts that are not checked yet.
#[derive(Clone, Debug, Default)]
pub struct TokenInput {
    /// `api`, `node`, `join`; empty for `api`.
    pub kind: String,
    pub name: String,
    /// Apps or `*`, and roles; for the API only.
    pub rights: Vec<(String, String)>,
    /// Until it expires; empty for the default.
    pub days: String,
}

/// Makes the token whose text is `secret`. One for the API needs the rights that it gets, and one for nodes
/// needs admin of every app. Needs a login.
pub(crate) fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    input: &TokenInput,
    secret: &str,
) -> Result<Token, ControlError> {
    actor.must_be_logged_in()?;
    let mut faults = FieldFaults::default();
    let kind = if input.kind.is_empty() { Some(TokenKind::Api) } else { TokenKind::named(&input.kind) };
    let kind = kind.ok_or(Fault::Choice { expected: "api, node, join" });
    let kind = faults.take("kind", kind, TokenKind::Api);
    let name = faults.take("name", token_name(&input.name), String::new());
    let rights = faults.take("rights", rights(kind, &input.rights), Vec::new());
    let days = faults.take("days", days(kind, &input.days, settings::get(tx)?.0.token_days), None);
    faults.check()?;
    if kind != TokenKind::Api {
        actor.must(Role::Admin, EVERY_APP)?;
    }
    for (app, role) in &rights {
        actor.must(*role, app)?;
    }
    let now = tx.now_ms();
    tx.execute(
        "DELETE FROM tokens WHERE revoked_at <= $1 OR \
         (expires_at <= $1 AND (kind <> 'join' OR COALESCE(last_used_at, 0) <= $1))",
        &[(now - KEPT_MS).into()],
    )?;
    let owner = (!actor.user_id.is_empty()).then(|| actor.user_id.clone());
    must_have_room(tx, owner.as_deref(), now)?;
    let token = Token {
        id: new_id(now)?,
        kind,
        name,
        prefix: secret.chars().take(SHOWN).collect(),
        owner: owner.is_some().then(|| actor.name.clone()),
        rights,
        created_at: now,
        expires_at: days.map(|days| now + days * DAY_MS),
        last_used_at: None,
        revoked_at: None,
    };
    let rights: Vec<_> = token.rights.iter().map(|(app, role)| json!([app, role.name()])).collect();
    // Only the hash of the secret is stored; the prefix lets its owner recognize it.
    insert!(tx, "tokens" {
        id: &token.id,
        kind: kind.name(),
        name: &token.name,
        sha256: sha256(secret),
        prefix: &token.prefix,
        owner,
        rights: Json::from(rights).to_string(),
        created_at: now,
        expires_at: token.expires_at,
    })?;
    let target = named(&token.name, &token.prefix);
    let after = Some(token.shown());
    audit::append(tx, actor, Note { action: "token.create", target, after, ..Note::default() })?;
    Ok(token)
}

/// A token for joining counts as long as nodes may use it.
fn must_have_room(tx: &mut dyn Tx, owner: Option<&str>, now: i64) -> Result<(), ControlError> {
    let count = query_int(
        tx,
        "SELECT COUNT(*) FROM tokens WHERE COALESCE(owner, '') = $1 AND revoked_at IS NULL \
         AND (expires_at IS NULL OR expires_at > $2 OR kind = 'join')",
        &[owner.unwrap_or_default().into(), now.into()],
    )?;

    if count >= MAX_TOKENS { Err(ControlError::Cap { what: "tokens", max: MAX_TOKENS }) } else { Ok(()) }
}

fn token_name(text: &str) -> Result<String, Fault> {
    let text = text.trim();
    if text.is_empty() { Err(Fault::Required) } else { fields::text(text, 64) }
}

fn rights(kind: TokenKind, given: &[(String, String)]) -> Result<Vec<(String, Role)>, Fault> {
    if kind != TokenKind::Api {
        // A token that could do more than attach would be a token of the API.
        return if given.is_empty() { Ok(Vec::new()) } else { Err(Fault::NodeRights) };
    }
    if given.is_empty() {
        return Err(Fault::Required);
    }
    if given.len() > MAX_RIGHTS {
        return Err(Fault::TooMany { max: MAX_RIGHTS });
    }
    let mut rights: Vec<(String, Role)> = Vec::with_capacity(given.len());
    for (app, role) in given {
        let app = if app == EVERY_APP { app.clone() } else { fields::app_name(app)? };
        let expected = "viewer, editor, approver, admin";
        let role = Role::from_str(role).map_err(|()| Fault::Choice { expected })?;
        if rights.iter().any(|(known, _)| *known == app) {
            return Err(Fault::Duplicate);
        }
        rights.push((app, role));
    }
    Ok(rights)
}

fn days(kind: TokenKind, text: &str, default: i64) -> Result<Option<i64>, Fault> {
    let text = text.trim();
    let (default, max) = match kind {
        TokenKind::Api => (Some(default), MAX_DAYS),
        TokenKind::Node => (None, MAX_DAYS),
        TokenKind::Join => (Some(1), MAX_JOIN_DAYS),
    };
    if text.is_empty() {
        return Ok(default);
    }
    let is_digits = text.bytes().all(|it| it.is_ascii_digit());
    let days = is_digits.then(|| text.parse().ok()).flatten().filter(|it| (1..=max).contains(it));
    days.map(Some).ok_or(Fault::Whole { min: 1, max })
}

fn named(name: &str, prefix: &str) -> String {
    format!("{name} ({prefix})")
}

columns! {
    Token {
        id = "tokens.id",
        kind => |kind: String| TokenKind::named(&kind).unwrap_or(TokenKind::Api),
        name = "tokens.name",
        prefix,
        owner = "users.name",
        rights => |rights: String| read_rights(&rights),
        created_at = "tokens.created_at",
        expires_at,
        last_used_at,
        revoked_at,
    }
}

const ALL: Select<Token> = select!(Token:
    "FROM tokens LEFT JOIN users ON users.id = tokens.owner \
     WHERE ($1 = 1 OR tokens.owner = $2) AND ($3 = '' OR tokens.id < $3) ORDER BY tokens.id DESC LIMIT $4");
const ONE: Select<Token> = select!(Token:
    "FROM tokens LEFT JOIN users ON users.id = tokens.owner \
     WHERE ($1 = 1 OR tokens.owner = $2) AND tokens.id = $3");

/// The newest tokens before the one whose id is `before`, or from the newest on; at most `limit`, which is at
/// most 500. Admins of every app see all, others their own.
///
/// # Errors
/// [`ControlError::Db`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, before: &str, limit: i64) -> Result<Vec<Token>, ControlError> {
    let is_admin = actor.may_everywhere(Role::Admin);
    let values = [is_admin.into(), (&actor.user_id).into(), before.into(), limit.clamp(1, 500).into()];
    Ok(ALL.all(tx, &values)?)
}

/// One token: of the actor, or any for admins of every app.
///
/// # Errors
/// [`ControlError::NotFound`], [`ControlError::Db`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, id: &str) -> Result<Token, ControlError> {
    let values = [actor.may_everywhere(Role::Admin).into(), (&actor.user_id).into(), id.into()];
    let token = ONE.first(tx, &values)?;
    token.ok_or_else(|| ControlError::NotFound { what: "token", name: id.to_owned() })
}

/// Ends a token at once: one of the actor, or any for admins of every app. Needs a login.
///
/// # Errors
/// [`ControlError::NotFound`], [`ControlError::Db`].
pub(crate) fn revoke(tx: &mut dyn Tx, actor: &Actor, id: &str) -> Result<Token, ControlError> {
    actor.must_be_logged_in()?;
    let mut token = get(tx, actor, id)?;
    if token.revoked_at.is_some() {
        return Ok(token);
    }
    let now = tx.now_ms();
    tx.execute("UPDATE tokens SET revoked_at = $1 WHERE id = $2", &[now.into(), id.into()])?;
    let target = named(&token.name, &token.prefix);
    let before = Some(token.shown());
    token.revoked_at = Some(now);
    audit::append(tx, actor, Note { action: "token.revoke", target, before, ..Note::default() })?;
    Ok(token)
}

row! {
    struct InForce {
        name: String = "tokens.name",
        prefix: String,
        user_id: String = "users.id",
        user: String = "users.name",
        rights: String,
        last_used_at: Option<i64>,
        sha256: String,
    }
}

/// The token of the API of this hash, if it and its owner are in force.
pub(crate) fn resume(tx: &mut dyn Tx, hash: &str) -> Result<Option<Entered>, ControlError> {
    let now = tx.now_ms();
    // Found by its hash: how long an index takes says nothing about the token itself.
    let in_force = select!(InForce:
        "FROM tokens JOIN users ON users.id = tokens.owner WHERE sha256 = $1 AND kind = 'api' \
         AND revoked_at IS NULL AND expires_at > $2 AND users.state = 'active'");
    let Some(token) = in_force.first(tx, &[hash.into(), now.into()])? else { return Ok(None) };
    if !bool::from(token.sha256.as_bytes().ct_eq(hash.as_bytes())) {
        return Ok(None);
    }
    let InForce { name, prefix, user_id, user, rights, last_used_at, .. } = token;
    let roles = both(&roles_of(tx, &user_id)?, &read_rights(&rights));
    let via = named(&name, &prefix);
    let who = Who { kind: "token", user_id, name: user, via, roles, ..Who::system() };
    let is_stale = last_used_at.is_none_or(|at| now - at >= SEEN_MS);
    Ok(Some(Entered { who, preferences: Preferences::default(), is_stale }))
}

/// Records that the token of this hash was used now.
pub(crate) fn touch_by_hash(tx: &mut dyn Tx, hash: &str) -> Result<(), ControlError> {
    let values = [tx.now_ms().into(), hash.into()];
    tx.execute(
        "UPDATE tokens SET last_used_at = MAX(COALESCE(last_used_at, 0), $1) WHERE sha256 = $2",
        &values,
    )?;
    Ok(())
}

/// Records that a token was used at `at`.
pub(crate) fn touch(tx: &mut dyn Tx, id: &str, at: i64) -> Result<(), ControlError> {
    tx.execute(
        "UPDATE tokens SET last_used_at = $1 WHERE id = $2 AND COALESCE(last_used_at, 0) < $1",
        &[at.into(), id.into()],
    )?;
    Ok(())
}

/// Ends the tokens of the API of a user, and returns how many there were. Tokens of nodes belong to the fleet
/// and stay.
pub(crate) fn end_all(tx: &mut dyn Tx, user_id: &str) -> Result<u64, ControlError> {
    let now = tx.now_ms();
    Ok(tx.execute(
        "UPDATE tokens SET revoked_at = $1 WHERE owner = $2 AND kind = 'api' AND revoked_at IS NULL \
         AND expires_at > $1",
        &[now.into(), user_id.into()],
    )?)
}

/// Whether a user has tokens of the API in force.
pub(crate) fn has_any(tx: &mut dyn Tx, user_id: &str) -> Result<bool, ControlError> {
    let values = [user_id.into(), tx.now_ms().into()];
    Ok(query_any(
        tx,
        "SELECT 1 FROM tokens WHERE owner = $1 AND kind = 'api' AND revoked_at IS NULL AND expires_at > $2 \
         LIMIT 1",
        &values,
    )?)
}

row! {
    /// A token of nodes that is not revoked.
    #[derive(Debug)]
    pub(crate) struct OfNodes {
        pub(crate) id: String,
        pub(crate) sha256: String,
        pub(crate) expires_at: Option<i64>,
        /// Nodes that have joined with it may use it after its end.
        pub(crate) is_for_joining: bool = "kind" => |kind: String| kind == TokenKind::Join.name(),
    }
}

/// Each token of nodes that is not revoked.
pub(crate) fn of_nodes(tx: &mut dyn Tx) -> Result<Vec<OfNodes>, ControlError> {
    let tokens = select!(OfNodes: "FROM tokens WHERE kind <> 'api' AND revoked_at IS NULL ORDER BY id");
    Ok(tokens.all(tx, &[])?)
}

/// Rights that cannot be read grant nothing.
fn read_rights(text: &str) -> Vec<(String, Role)> {
    let pairs: Vec<(String, String)> = serde_json::from_str(text).unwrap_or_default();
    pairs.into_iter().filter_map(|(app, role)| Some((app, Role::from_str(&role).ok()?))).collect()
}
