//! Logging in and other operations that need more than a transaction: passwords, cookies and tokens are part
//! of them.

use tollgate_db::{Tx, query_any, query_value};
use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP, Who};
use crate::access::claim::Claim;
use crate::access::entered::{Entered, Origin};
use crate::access::links::{self, Held};
use crate::access::preferences::Preferences;
use crate::access::tokens::{self, Token, TokenInput};
use crate::access::users::{self, User};
use crate::access::{logins, passwords, setup, token_text};
use crate::audit::{self, Note};
use crate::control::{Control, resolved};
use crate::error::{ControlError, Fault, FieldFaults, invalid};
use crate::ids::secret;
use crate::tasks::events::Topic;

impl Control {
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
        from: Origin<'_>,
        code: &str,
        name: &str,
        password: &str,
        again: &str,
    ) -> Result<String, ControlError> {
        self.begin_attempt(from.ip, "").await?;
        let given = code.to_owned();
        self.read(move |tx| setup::must_be_valid(tx, &given)).await?; // before any work on the password
        self.attempts.succeeded(from.ip, ""); // only wrong codes are attempts
        let name = checked(name, password, Some(again))?;
        let hash = self.passwords.hash(password).await?;
        let code = code.to_owned();
        let user = move |tx: &mut dyn Tx, ip: &str| setup::first_admin(tx, ip, &code, &name, &hash);
        self.begin_login(from, user).await
    }

    /// Begins a login of the user that `user` returns, given the address. Returns the secret of the cookie.
    async fn begin_login(
        &self,
        from: Origin<'_>,
        user: impl Fn(&mut dyn Tx, &str) -> Result<User, ControlError> + Send + 'static,
    ) -> Result<String, ControlError> {
        let cookie = secret()?;
        let ip = from.ip.to_owned();
        let agent = agent_name(from);
        let given = cookie.clone();
        let request = from.request_id.to_owned();
        let work = move |tx: &mut dyn Tx| {
            let user = user(tx, &ip)?;
            logins::begin(tx, &acting(&user, &ip, &request), &agent, &given)
        };
        self.db.write(work).await?;
        Ok(cookie)
    }

    /// Checks a name and a password and begins a login. Returns the secret of the cookie.
    ///
    /// # Errors
    /// [`ControlError::WrongLogin`], [`ControlError::TooMany`] and others.
    pub async fn log_in(&self, from: Origin<'_>, name: &str, password: &str) -> Result<String, ControlError> {
        // As it is stored: blanks and capitals make no other name. `?` is in no name.
        let name = users::user_name(name).unwrap_or_else(|_| "?".to_owned());
        self.begin_attempt(from.ip, &name).await?;
        let ip = from.ip.to_owned();
        let request = from.request_id.to_owned();
        let Some((user, hash)) = self.user_with(&name, password).await? else {
            let work = move |tx: &mut dyn Tx| {
                // An unknown name could be a password in the wrong field.
                let known = users::find(tx, &name)?.map_or_else(|| "(unknown)".to_owned(), |user| user.name);
                let ip = ip.clone();
                let request_id = request.clone();
                let nobody = Who { roles: Vec::new(), ip, request_id, ..Who::system() };
                audit::append(
                    tx,
                    &nobody.acting(),
                    Note { action: "login.failed", target: known, ..Note::default() },
                )
            };
            self.db.write(work).await?;
            return Err(ControlError::WrongLogin);
        };
        self.attempts.succeeded(from.ip, &user.name);
        let cookie = secret()?;
        let agent = agent_name(from);
        let given = cookie.clone();
        let begin = move |tx: &mut dyn Tx| {
            if !has_password(tx, &user.id, &hash)? {
                return Err(ControlError::WrongLogin);
            }
            logins::begin(tx, &acting(&user, &ip, &request), &agent, &given)
        };
        self.db.write(begin).await?;
        Ok(cookie)
    }

    /// The active user of this name, if the password is right, with the hash that it was compared with. That
    /// takes a while, so what is written then has to look again, by [`has_password`].
    async fn user_with(&self, name: &str, password: &str) -> Result<Option<(User, String)>, ControlError> {
        let asked = name.to_owned();
        let found = self.read(move |tx| {
            let Some(user) = users::find(tx, &asked)?.filter(|user| user.state == "active") else {
                return Ok(None);
            };
            let hash = "SELECT password_hash FROM users WHERE id = $1";
            let hash = query_value(tx, hash, &[(&user.id).into()])?.flatten();
            Ok(Some((user, hash)))
        });
        let (user, hash) = found.await?.map_or((None, None), |(user, hash)| (Some(user), hash));
        // Unknown names take as long, so that a wrong name looks like a wrong password.
        let is_right = password.len() <= 4_096 && self.passwords.is(password, hash.clone()).await?;
        Ok(user.zip(hash).filter(|_| is_right))
    }

    /// Who a claim is from now, and how they like pages; `None` if its login or token has ended. Records that
    /// it was used. What a request does then resolves the claim again.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn enter(&self, claim: &Claim) -> Result<Option<(Who, Preferences)>, ControlError> {
        let asked = claim.clone();
        let found = self.db.read(move |tx| asked.enter(tx)).await?;
        let Some(Entered { who, preferences, is_stale }) = found else { return Ok(None) };
        if is_stale {
            let used = claim.clone();
            self.db.write(move |tx| used.touch(tx)).await?;
        }
        Ok(Some((who, preferences)))
    }

    /// Makes a token, and returns it with its text, which is not stored. Needs a login.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn create_token(
        &self,
        claim: &Claim,
        input: TokenInput,
    ) -> Result<(Token, String), ControlError> {
        let text = token_text::make()?;
        let given = text.clone();
        let work = resolved(claim, move |tx, actor| tokens::create(tx, actor, &input, &given));
        let token = self.change_tokens(work).await?;
        self.live().events.note(Topic::Changes);
        Ok((token, text))
    }

    /// Ends a token at once.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn revoke_token(&self, claim: &Claim, id: &str) -> Result<Token, ControlError> {
        let id = id.to_owned();
        let work = resolved(claim, move |tx, actor| tokens::revoke(tx, actor, &id));
        let token = self.change_tokens(work).await?;
        self.live().events.note(Topic::Changes);
        Ok(token)
    }

    /// A token for the first node, if there is none for nodes yet.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn first_node_token(&self) -> Result<Option<String>, ControlError> {
        if !self.read(tokens::of_nodes).await?.is_empty() {
            return Ok(None);
        }
        let kind = "node".to_owned();
        let name = "first".to_owned();
        let input = TokenInput { kind, name, ..TokenInput::default() };
        Ok(Some(self.create_token(&Claim::program("tollgate"), input).await?.1))
    }

    /// Ends the login of this cookie.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn log_out(&self, claim: &Claim, cookie: &str) -> Result<(), ControlError> {
        let cookie = cookie.to_owned();
        let ended = self.write_as(claim, move |tx, actor| logins::end(tx, actor, &cookie)).await;
        if let Err(ControlError::NoLogin) = ended { Ok(()) } else { ended }
    }

    /// Adds a user with a password that the caller chose: for the program itself. Needs admin of every app.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn create_user(&self, claim: &Claim, name: &str, password: &str) -> Result<User, ControlError> {
        // Before any work on the password.
        self.read_as(claim, |_, actor| actor.must(Role::Admin, EVERY_APP)).await?;
        let name = checked(name, password, None)?;
        let hash = self.passwords.hash(password).await?;
        self.write_as(claim, move |tx, actor| users::create(tx, actor, &name, Some(&hash))).await
    }

    /// Adds a user with one role, and returns the code of the link by which the user chooses a password.
    /// Needs admin of every app, and a login.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn invite(
        &self,
        claim: &Claim,
        name: &str,
        app: &str,
        role: &str,
    ) -> Result<(User, String), ControlError> {
        let code = secret()?;
        let name = name.to_owned();
        let app = app.to_owned();
        let role = role.to_owned();
        let given = code.clone();
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            actor.must(Role::Admin, EVERY_APP)?;
            let mut faults = FieldFaults::default();
            let name = faults.take("name", users::user_name(&name), String::new());
            let role = faults.take("role", users::role(&role), None);
            let app = faults.take("app", users::bound(&app), String::new());
            faults.check()?;
            users::create(tx, actor, &name, None)?;
            if role.is_some() {
                users::set_role(tx, actor, &name, &app, role)?;
            }
            links::issue(tx, actor, &name, &given)
        };
        Ok((self.write_as(claim, work).await?, code))
    }

    /// Ends the password and all logins of a user, and returns the code of a link for a new password. Needs
    /// admin of every app, and a login. With `etag`, the user must be as the caller read it.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn reset_password(
        &self,
        claim: &Claim,
        name: &str,
        etag: Option<i64>,
    ) -> Result<(User, String), ControlError> {
        let name = name.to_owned();
        let code = secret()?;
        let given = code.clone();
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            if let Some(etag) = etag {
                users::get_at(tx, actor, &name, etag)?;
            }
            links::issue(tx, actor, &name, &given)
        };
        Ok((self.write_as(claim, work).await?, code))
    }

    /// Sets the password of the user whose link holds `code`, and logs in. Returns the secret of the cookie.
    ///
    /// # Errors
    /// [`ControlError::WrongLink`], [`ControlError::Invalid`] and others.
    pub async fn redeem_link(
        &self,
        from: Origin<'_>,
        code: &str,
        password: &str,
        again: &str,
        held: Held,
    ) -> Result<String, ControlError> {
        self.begin_attempt(from.ip, "").await?;
        let given = code.to_owned();
        let user = self.read(move |tx| links::user_of(tx, &given)).await?; // before any work on the password
        self.attempts.succeeded(from.ip, ""); // only wrong codes are attempts
        checked(&user.name, password, Some(again))?;
        let hash = self.passwords.hash(password).await?;
        let code = code.to_owned();
        let user = move |tx: &mut dyn Tx, ip: &str| links::redeem(tx, ip, &code, &hash, held);
        self.begin_login(from, user).await
    }

    /// Changes the actor's own password, which ends all other logins. Needs a login, and the password of now.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] and others.
    pub async fn change_password(
        &self,
        claim: &Claim,
        cookie: &str,
        current: &str,
        password: &str,
        again: &str,
        held: Held,
    ) -> Result<(), ControlError> {
        let asked = self.read_as(claim, |_, actor| {
            actor.must_be_logged_in()?;
            Ok((actor.name.clone(), actor.ip.clone()))
        });
        let (name, ip) = asked.await?;
        checked(&name, password, Some(again))?;
        self.begin_attempt(&ip, &name).await?;
        let Some((_, compared)) = self.user_with(&name, current).await? else {
            return Err(invalid("current", Fault::WrongPassword));
        };
        self.attempts.succeeded(&ip, &name);
        let hash = self.passwords.hash(password).await?;
        let cookie = cookie.to_owned();
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            if !has_password(tx, &actor.user_id, &compared)? {
                return Err(invalid("current", Fault::WrongPassword));
            }
            links::set_password(tx, &actor.user_id, &hash)?;
            logins::end_others(tx, &actor.user_id, &cookie)?;
            links::note_password(tx, actor, held)
        };
        self.write_as(claim, work).await
    }

    async fn begin_attempt(&self, ip: &str, name: &str) -> Result<(), ControlError> {
        let now_ms = self.read(|tx| Ok(tx.now_ms())).await?;
        self.attempts.begin(ip, name, now_ms)
    }
}

/// Whether the user is active and still has the password with this hash: it may have been reset meanwhile.
fn has_password(tx: &mut dyn Tx, user_id: &str, hash: &str) -> Result<bool, ControlError> {
    let values = [user_id.into(), hash.into()];
    let found = "SELECT 1 FROM users WHERE id = $1 AND password_hash = $2 AND state = 'active'";
    Ok(query_any(tx, found, &values)?)
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
fn acting(user: &User, ip: &str, request_id: &str) -> Actor {
    let who = Who {
        kind: "user",
        user_id: user.id.clone(),
        name: user.name.clone(),
        roles: user.roles.clone(),
        ip: ip.to_owned(),
        request_id: request_id.to_owned(),
        ..Who::system()
    };
    who.acting()
}

/// The part of a browser's name that people recognise.
fn agent_name(from: Origin<'_>) -> String {
    from.agent.chars().filter(|it| !it.is_control()).take(200).collect()
}
