//! The service: the database, what is published of it, and what needs more than a transaction.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tollgate_db::{Db, TimeSource, Tx};

use crate::actor::{Actor, EVERY_APP};
use crate::attempts::Attempts;
use crate::audit::{self, Note};
use crate::epoch;
use crate::error::{ControlError, Fault, FieldFaults};
use crate::ids::secret;
use crate::logins::{self, Login};
use crate::nodes::Nodes;
use crate::passwords::{self, Passwords};
use crate::published::{AppDocuments, Change, Published};
use crate::role::Role;
use crate::schema::MIGRATIONS;
use crate::setup;
use crate::users::{self, User};
use crate::versions;

/// The control plane without its surfaces.
pub struct Control {
    db: Db,
    /// What `published` holds; under a lock, so that commits are published in the order of their versions.
    current: Mutex<Published>,
    published: watch::Sender<Arc<Published>>,
    nodes: Arc<dyn Nodes>,
    passwords: Passwords,
    attempts: Attempts,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("db", &self.db).finish_non_exhaustive()
    }
}

impl Control {
    /// Opens or creates `control.db` in `folder`, and publishes what it holds.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn open(folder: &Path, time: TimeSource, nodes: Arc<dyn Nodes>) -> Result<Self, ControlError> {
        let db = Db::open(&folder.join("control.db"), MIGRATIONS, time)?;
        let current = Published { apps: db.read(versions::published).await? };
        let published = watch::Sender::new(Arc::new(current.clone()));
        let (passwords, attempts) = (Passwords::default(), Attempts::default());
        Ok(Self { db, current: Mutex::new(current), published, nodes, passwords, attempts })
    }

    /// The name of the database, by which nodes know whether versions compare.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn epoch(&self) -> Result<String, ControlError> {
        self.db.write(epoch::epoch).await
    }

    /// The documents that nodes should have, now and after each change.
    #[must_use]
    pub fn published(&self) -> watch::Receiver<Arc<Published>> {
        self.published.subscribe()
    }

    /// What nodes said last.
    #[must_use]
    pub fn nodes(&self) -> &dyn Nodes {
        &*self.nodes
    }

    /// Runs a function that changes nothing.
    ///
    /// # Errors
    /// What `work` returns, and [`ControlError::Db`].
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.db.read(work).await
    }

    /// Runs a change in one transaction, and publishes its documents once they are on the disk.
    ///
    /// # Errors
    /// What `work` returns, and [`ControlError::Db`].
    pub async fn change<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<Change<T>, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        let change = self.db.write(work).await?;
        if let Some(documents) = change.documents {
            self.publish(documents);
        }
        Ok(change.value)
    }

    fn publish(&self, documents: AppDocuments) {
        let mut current = self.current.lock();
        if current.take(documents) {
            self.published.send_replace(Arc::new(current.clone()));
        }
    }

    /// A new setup code, if there is no user yet: for the link that the program prints.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn setup_code(&self) -> Result<Option<String>, ControlError> {
        let code = secret()?;
        let issued = code.clone();
        let is_valid = self.db.write(move |tx| setup::issue(tx, &issued)).await?;
        Ok(is_valid.then_some(code))
    }

    /// Makes the first admin and logs it in. Returns the secret of the cookie.
    ///
    /// # Errors
    /// [`ControlError::WrongCode`], [`ControlError::Invalid`] and others.
    pub async fn set_up(
        &self,
        ip: &str,
        code: &str,
        name: &str,
        password: &str,
        again: &str,
    ) -> Result<String, ControlError> {
        self.begin_attempt(ip, "").await?;
        let given = code.to_owned();
        self.read(move |tx| setup::must_be_valid(tx, &given)).await?; // before any work on the password
        let name = checked(name, password, Some(again))?;
        let hash = self.passwords.hash(password).await?;
        let (cookie, ip, code) = (secret()?, ip.to_owned(), code.to_owned());
        let given = cookie.clone();
        let work = move |tx: &mut dyn Tx| {
            let user = setup::first_admin(tx, &ip, &code, &name, &hash)?;
            let actor = acting(&user, &ip);
            logins::begin(tx, &actor, &user.id, &given)
        };
        self.db.write(work).await?;
        Ok(cookie)
    }

    /// Checks a name and a password and begins a login. Returns the secret of the cookie.
    ///
    /// # Errors
    /// [`ControlError::WrongLogin`], [`ControlError::TooMany`] and others.
    pub async fn log_in(&self, ip: &str, name: &str, password: &str) -> Result<String, ControlError> {
        self.begin_attempt(ip, name).await?;
        let name = users::user_name(name).unwrap_or_default();
        let asked = name.clone();
        let found = self
            .read(move |tx| {
                let Some(user) = users::find(tx, &asked)?.filter(|user| user.state == "active") else {
                    return Ok(None);
                };
                let row =
                    tx.query_one("SELECT password_hash FROM users WHERE id = $1", &[(&user.id).into()])?;
                Ok(Some((user, row.map(|row| row.opt_text(0)).transpose()?.flatten())))
            })
            .await?;
        let (user, hash) = found.map_or((None, None), |(user, hash)| (Some(user), hash));
        // Unknown names take as long, so that a wrong name looks like a wrong password.
        let is_right = password.len() <= 4_096 && self.passwords.is(password, hash).await?;
        let ip = ip.to_owned();
        let Some(user) = user.filter(|_| is_right) else {
            let work = move |tx: &mut dyn Tx| {
                // An unknown name could be a password in the wrong field.
                let known = users::find(tx, &name)?.map_or_else(|| "(unknown)".to_owned(), |user| user.name);
                let nobody = Actor { roles: Vec::new(), ip: ip.clone(), ..Actor::system() };
                audit::append(tx, &nobody, Note { action: "login.failed", target: known, ..Note::default() })
            };
            self.db.write(work).await?;
            return Err(ControlError::WrongLogin);
        };
        self.attempts.succeeded(&ip, &user.name);
        let cookie = secret()?;
        let given = cookie.clone();
        let actor = acting(&user, &ip);
        self.db.write(move |tx| logins::begin(tx, &actor, &user.id, &given)).await?;
        Ok(cookie)
    }

    /// Who acts with this cookie.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn actor(
        &self,
        cookie: &str,
        ip: &str,
        request_id: &str,
    ) -> Result<Option<Actor>, ControlError> {
        if cookie.len() != 64 {
            return Ok(None);
        }
        let given = cookie.to_owned();
        let Some(Login { mut actor, is_stale }) = self.read(move |tx| logins::resume(tx, &given)).await?
        else {
            return Ok(None);
        };
        if is_stale {
            let given = cookie.to_owned();
            self.db.write(move |tx| logins::touch(tx, &given)).await?;
        }
        (actor.ip, actor.request_id) = (ip.to_owned(), request_id.to_owned());
        Ok(Some(actor))
    }

    /// Ends the login of this cookie.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn log_out(&self, actor: &Actor, cookie: &str) -> Result<(), ControlError> {
        let (actor, cookie) = (actor.clone(), cookie.to_owned());
        self.db.write(move |tx| logins::end(tx, &actor, &cookie)).await
    }

    /// Adds a user with a password. Needs admin of every app.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn create_user(&self, actor: &Actor, name: &str, password: &str) -> Result<User, ControlError> {
        actor.must(Role::Admin, EVERY_APP)?; // before any work on the password
        let name = checked(name, password, None)?;
        let hash = self.passwords.hash(password).await?;
        let actor = actor.clone();
        self.change(move |tx| users::create(tx, &actor, &name, &hash)).await
    }

    async fn begin_attempt(&self, ip: &str, name: &str) -> Result<(), ControlError> {
        let now_ms = self.read(|tx| Ok(tx.now_ms())).await?;
        self.attempts.begin(ip, name, now_ms)
    }
}

/// The name, if it and the password may be used.
fn checked(name: &str, password: &str, again: Option<&str>) -> Result<String, ControlError> {
    let mut faults = FieldFaults::default();
    let name = faults.take("name", users::user_name(name), String::new());
    faults.take("password", passwords::check(&name, password), ());
    if again.is_some_and(|again| again != password) {
        faults.add("again", Fault::Differs);
    }
    faults.check()?;
    Ok(name)
}

/// A user at the beginning of a login.
fn acting(user: &User, ip: &str) -> Actor {
    Actor {
        kind: "user",
        user_id: user.id.clone(),
        name: user.name.clone(),
        roles: user.roles.clone(),
        ip: ip.to_owned(),
        request_id: String::new(),
    }
}
