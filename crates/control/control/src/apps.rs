//! Apps: the unit of rights, versions and publication. The domain of an app's rows has its name.

use serde_json::json;
use tollgate_db::{Tx, insert, query_any, query_int, row, select};

use crate::actor::{Actor, EVERY_APP};
use crate::audit::{self, Note};
use crate::car;
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::ids::id;
use crate::published::Change;
use crate::role::Role;
use crate::rollout::Plan;
use crate::settings;

/// Most apps.
pub const MAX_APPS: i64 = 1_000;

/// An app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    pub(crate) id: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// The version that nodes should have; 0 before the first change.
    pub version: i64,
    /// Approvals that a change needs, 0 to 2.
    pub approvals: i64,
    /// `active` or `disabled`; a disabled app has no rule on any node.
    pub state: String,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// How many rules it has.
    pub rules: i64,
    /// How its versions reach the nodes, unless a change says otherwise.
    pub rollout: Plan,
    /// The edition of its rows.
    pub(crate) edition: String,
    /// The highest number that a large change has taken, whether it became a version or not.
    pub(crate) reserved: i64,
}

row! {
    struct AppRow {
        id: String,
        name: String,
        description: String,
        version: i64,
        approvals: i64,
        state: String,
        etag: i64,
        updated_at: i64,
        rules: i64 =
            "(SELECT COUNT(*) FROM car WHERE car.app_id = apps.id AND car.edition = apps.edition)",
        /// A plan as JSON, or empty.
        rollout: String,
        edition: String,
        reserved: i64,
    }
}

row! {
    struct NameRow { name: String, is_disabled: bool = "state = 'disabled'" }
}

impl App {
    fn read(row: AppRow) -> Result<Self, ControlError> {
        let AppRow { name, rollout, .. } = row;
        let rollout = if rollout.is_empty() { Plan::default() } else { Plan::read(&name, &rollout)? };
        Ok(Self {
            id: row.id,
            name,
            description: row.description,
            version: row.version,
            approvals: row.approvals,
            state: row.state,
            etag: row.etag,
            updated_at: row.updated_at,
            rules: row.rules,
            rollout,
            edition: row.edition,
            reserved: row.reserved,
        })
    }

    /// As it is made.
    pub(crate) fn new(id: String, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            description: String::new(),
            version: 0,
            state: "active".to_owned(),
            etag: 1,
            updated_at: 0,
            approvals: 0,
            rules: 0,
            rollout: Plan::default(),
            edition: String::new(),
            reserved: 0,
        }
    }

    /// The number of its next version.
    pub(crate) fn next(&self) -> i64 {
        self.version.max(self.reserved) + 1
    }

    /// Whether no node has a rule of it.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.state == "disabled"
    }

    pub(crate) fn shown(&self) -> serde_json::Value {
        let Self { name, description, state, approvals, rollout, .. } = self;
        json!({
            "name": name, "description": description, "state": state, "approvals": approvals,
            "rollout": rollout.json(),
        })
    }
}

/// The app of this name, for an actor with at least `need` there.
///
/// # Errors
/// [`ControlError::NoRight`], [`ControlError::NotFound`], [`ControlError::Db`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, need: Role, name: &str) -> Result<App, ControlError> {
    actor.must(need, name)?;
    find(tx, name)?
        .map(|app| numbered(actor, app))
        .ok_or_else(|| ControlError::NotFound { what: "app", name: name.to_owned() })
}

/// The app with the number of its next version, if that is taken already for this change.
fn numbered(actor: &Actor, app: App) -> App {
    let taken = actor.known().and_then(|it| it.taken.as_ref());
    match taken.filter(|it| it.app_id == app.id && it.version == app.reserved) {
        Some(taken) => App { reserved: taken.version - 1, ..app },
        None => app,
    }
}

pub(crate) fn find(tx: &mut dyn Tx, name: &str) -> Result<Option<App>, ControlError> {
    let row = select!(AppRow: "FROM apps WHERE name = $1").first(tx, &[name.into()])?;
    row.map(App::read).transpose()
}

/// The apps that the actor may see, by name.
///
/// # Errors
/// [`ControlError::Db`].
pub fn list(tx: &mut dyn Tx, actor: &Actor) -> Result<Vec<App>, ControlError> {
    let rows = select!(AppRow: "FROM apps ORDER BY name").all(tx, &[])?;
    let apps: Vec<App> = rows.into_iter().map(App::read).collect::<Result<_, _>>()?;
    Ok(apps.into_iter().filter(|app| actor.may(Role::Viewer, &app.name)).collect())
}

/// The names of the apps that the actor may see, in their order, and whether each is disabled. Costs less
/// than [`list`], which counts their rules.
///
/// # Errors
/// [`ControlError::Db`].
pub fn names(tx: &mut dyn Tx, actor: &Actor) -> Result<Vec<(String, bool)>, ControlError> {
    let all = select!(NameRow: "FROM apps ORDER BY name").all(tx, &[])?;
    let seen = all.into_iter().filter(|row| actor.may(Role::Viewer, &row.name));
    Ok(seen.map(|row| (row.name, row.is_disabled)).collect())
}

/// Whether there is an app of this name, and it is disabled.
pub(crate) fn is_disabled(tx: &mut dyn Tx, name: &str) -> Result<bool, ControlError> {
    let found = "SELECT 1 FROM apps WHERE name = $1 AND state = 'disabled'";
    Ok(query_any(tx, found, &[name.into()])?)
}

/// Creates an app without rules. Needs admin of that app.
///
/// # Errors
/// [`ControlError`].
pub fn create(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    description: &str,
) -> Result<Change<App>, ControlError> {
    let mut faults = FieldFaults::default();
    let name = faults.take("app", car::app_name(name), String::new());
    let description = faults.take("description", car::text(description, car::MAX_DESCRIPTION), String::new());
    faults.check()?;
    actor.must(Role::Admin, &name)?;
    let id = id(tx.now_ms())?;
    let app = insert(tx, actor, id, &name, &description)?;
    Ok(Change { value: app, documents: None })
}

/// The app of this name, created if it does not exist yet: the form of a rule does both in one step,
/// for editors of every app.
pub(crate) fn get_or_create(tx: &mut dyn Tx, actor: &Actor, name: &str) -> Result<App, ControlError> {
    let taken = actor.known().and_then(|it| it.taken.as_ref()).filter(|it| it.is_new && it.app == name);
    get_or_create_as(tx, actor, name, taken.map(|it| &*it.app_id))
}

/// As [`get_or_create`]; a new app has this id.
pub(crate) fn get_or_create_as(
    tx: &mut dyn Tx,
    actor: &Actor,
    name: &str,
    new_id: Option<&str>,
) -> Result<App, ControlError> {
    let name = car::app_name(name).map_err(|fault| invalid("app", fault))?;
    actor.must(Role::Editor, &name)?;
    match find(tx, &name)? {
        Some(app) => Ok(numbered(actor, app)),
        None => {
            actor.must(Role::Editor, EVERY_APP)?;
            let id = new_id.map_or_else(|| id(tx.now_ms()), |id| Ok(id.to_owned()))?;
            insert(tx, actor, id, &name, "")
        }
    }
}

/// The app of this name, which is a valid one; created if it does not exist yet. Asks for no right.
pub(crate) fn find_or_insert(tx: &mut dyn Tx, actor: &Actor, name: &str) -> Result<App, ControlError> {
    match find(tx, name)? {
        Some(app) => Ok(app),
        None => {
            let id = id(tx.now_ms())?;
            insert(tx, actor, id, name, "")
        }
    }
}

fn insert(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: String,
    name: &str,
    description: &str,
) -> Result<App, ControlError> {
    if find(tx, name)?.is_some() {
        return Err(invalid("app", Fault::Duplicate));
    }
    // The domain of its limits has the name of the app, and a domain has one owner.
    if query_any(tx, "SELECT 1 FROM domains WHERE domain = $1", &[name.into()])? {
        return Err(invalid("app", Fault::Duplicate));
    }
    let count = query_int(tx, "SELECT COUNT(*) FROM apps", &[])?;
    if count >= MAX_APPS {
        return Err(ControlError::Cap { what: "apps", max: MAX_APPS });
    }
    let (now, approvals) = (tx.now_ms(), settings::get(tx)?.0.approvals);
    insert!(tx, "apps" {
        id: &id,
        name,
        description,
        version: 0,
        state: "active",
        source: "console",
        approvals,
        etag: 1,
        created_at: now,
        updated_at: now,
    })?;
    insert!(tx, "domains" { domain: name, app_id: &id })?;
    let description = description.to_owned();
    let app = App { description, updated_at: now, approvals, ..App::new(id, name) };
    let (target, after) = (name.to_owned(), Some(app.shown()));
    audit::append(
        tx,
        actor,
        Note { action: "app.create", target, app: Some(name), after, ..Note::default() },
    )?;
    Ok(app)
}

/// # Errors
/// [`ControlError::Stale`] when the etags differ.
pub(crate) const fn must_match(expected: i64, now: i64) -> Result<(), ControlError> {
    if expected == now { Ok(()) } else { Err(ControlError::Stale { expected, now }) }
}
