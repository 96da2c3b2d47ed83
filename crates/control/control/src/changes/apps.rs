//! Apps: the unit of rights, versions and publication. The domain of an app's rows has its name.

use tollgate_db::{Tx, insert, query_any, query_int, row, select};
use tollgate_model::rollout::Plan;
use tollgate_model::{Role, fields};

use crate::access::actor::{Actor, EVERY_APP};
use crate::access::settings;
use crate::audit::{self, Note};
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::ids::new_id;
use crate::published::Committed;

pub use tollgate_model::App;

pub const MAX_APPS: i64 = 1_000;

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

impl AppRow {
    fn app(self) -> Result<App, ControlError> {
        let Self { name, rollout, .. } = self;
        let rollout = if rollout.is_empty() { Plan::default() } else { Plan::read(&name, &rollout)? };
        Ok(App {
            id: self.id,
            name,
            description: self.description,
            version: self.version,
            approvals: self.approvals,
            state: self.state,
            etag: self.etag,
            updated_at: self.updated_at,
            rules: self.rules,
            rollout,
            edition: self.edition,
            reserved: self.reserved,
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
    row.map(AppRow::app).transpose()
}

/// The apps that the actor may see, by name.
///
/// # Errors
/// [`ControlError::Db`].
pub fn list(tx: &mut dyn Tx, actor: &Actor) -> Result<Vec<App>, ControlError> {
    let rows = select!(AppRow: "FROM apps ORDER BY name").all(tx, &[])?;
    let apps: Vec<App> = rows.into_iter().map(AppRow::app).collect::<Result<_, _>>()?;
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
) -> Result<Committed<App>, ControlError> {
    let mut faults = FieldFaults::default();
    let name = faults.take("app", fields::app_name(name), String::new());
    let description =
        faults.take("description", fields::text(description, fields::MAX_DESCRIPTION), String::new());
    faults.check()?;
    actor.must(Role::Admin, &name)?;
    let id = new_id(tx.now_ms())?;
    let app = insert(tx, actor, id, &name, &description)?;
    Ok(Committed { value: app, documents: None })
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
    id_of_new: Option<&str>,
) -> Result<App, ControlError> {
    let name = fields::app_name(name).map_err(|fault| invalid("app", fault))?;
    actor.must(Role::Editor, &name)?;
    match find(tx, &name)? {
        Some(app) => Ok(numbered(actor, app)),
        None => {
            actor.must(Role::Editor, EVERY_APP)?;
            let id = id_of_new.map_or_else(|| new_id(tx.now_ms()), |id| Ok(id.to_owned()))?;
            insert(tx, actor, id, &name, "")
        }
    }
}

/// The app of this name, which is a valid one; created if it does not exist yet. Asks for no right.
pub(crate) fn find_or_insert(tx: &mut dyn Tx, actor: &Actor, name: &str) -> Result<App, ControlError> {
    match find(tx, name)? {
        Some(app) => Ok(app),
        None => {
            let id = new_id(tx.now_ms())?;
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
    let now = tx.now_ms();
    let approvals = settings::get(tx)?.0.approvals;
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
    let target = name.to_owned();
    let after = Some(app.shown());
    audit::append(
        tx,
        actor,
        Note { action: "app.create", target, app: Some(name), after, ..Note::default() },
    )?;
    Ok(app)
}
