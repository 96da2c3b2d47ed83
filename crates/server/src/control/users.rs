//! `tollgate control user` and `tollgate control audit`: for those who can read the folder of the data.

use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;

use tollgate_control::actor::EVERY_APP;
use tollgate_control::audit::{self, Chain};
use tollgate_control::{Actor, Claim, Control, ControlError, KnownNodes, Role};
use tollgate_db::TimeSource;

use crate::ending::Ending;
use crate::settings::ControlSettings;
use crate::worker::small_runtime;

/// Add users, or let them choose a new password, without the console.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate control user add ann
  tollgate control --data-dir /var/lib/tollgate user add ann --role editor --app shop
  tollgate control user reset-password ann")]
pub(crate) struct UserCommand {
    #[command(subcommand)]
    action: UserAction,
}

#[derive(Debug, clap::Subcommand)]
enum UserAction {
    /// Add a user, and print the link by which the user chooses a password within 72 hours.
    Add(AddUser),
    /// End a user's password and logins, and print a link for a new password.
    ResetPassword(ResetPassword),
}

#[derive(Debug, clap::Args)]
struct ResetPassword {
    /// Name of the user.
    name: String,
}

#[derive(Debug, clap::Args)]
struct AddUser {
    /// Name of the user, for logins and the audit.
    name: String,
    /// What the user may do: viewer, editor, approver or admin; each includes those before it.
    #[arg(long, default_value = "viewer", value_parser = role)]
    role: Role,
    /// App that the role is for; `*` is every app.
    #[arg(long, default_value = EVERY_APP)]
    app: String,
}

/// Check the audit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate control audit verify
  tollgate control --data-dir /var/lib/tollgate audit verify")]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Clone, Copy, Debug, clap::Subcommand)]
enum AuditAction {
    /// Walk the chain of all entries. Exit 0: whole. 1: an entry was changed or is missing. 2: the database
    /// cannot be read.
    Verify,
}

impl UserCommand {
    /// Works on the database of `settings`.
    pub(crate) fn run(
        self,
        settings: &ControlSettings,
        out: &mut dyn Write,
        talk: &mut dyn Write,
    ) -> io::Result<Ending> {
        let claim = Claim::program("command line");
        let invited = on_database(&settings.data_dir, async |control| match self.action {
            UserAction::Add(AddUser { name, role, app }) => {
                control.invite(&claim, &name, &app, role.name()).await
            }
            UserAction::ResetPassword(ResetPassword { name }) => {
                control.reset_password(&claim, &name, None).await
            }
        })?;
        match invited {
            Ok((user, code)) => {
                writeln!(out, "user {}", user.name)?;
                writeln!(out, "link {}/link?code={code}", settings.url())?;
                Ok(Ending::Yes)
            }
            Err(error) => {
                writeln!(talk, "{error}")?;
                Ok(Ending::CouldNotTell)
            }
        }
    }
}

impl AuditCommand {
    /// Reads the database in `folder`.
    pub(crate) fn run(self, folder: &Path, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        let AuditAction::Verify = self.action;
        let verified = on_database(folder, async |control| {
            control.read(|tx| audit::verify(tx, &Actor::system())).await
        })?;
        match verified {
            Ok(Chain::Whole(entries)) => {
                writeln!(out, "whole: {entries} entries, each with the digest of the one before")?;
                Ok(Ending::Yes)
            }
            Ok(Chain::BrokenAt(entry)) => {
                writeln!(out, "broken at entry {entry}: it was changed, or it is missing")?;
                Ok(Ending::No)
            }
            Err(error) => {
                writeln!(talk, "{error}")?;
                Ok(Ending::CouldNotTell)
            }
        }
    }
}

/// Runs `work` on the database in `folder`, which must be there.
fn on_database<T>(
    folder: &Path,
    work: impl AsyncFnOnce(Control) -> Result<T, ControlError>,
) -> io::Result<Result<T, String>> {
    if !folder.join("control.db").exists() {
        let folder = folder.display();
        let what =
            format!("{folder} holds no database; start `tollgate control` once, or give its --data-dir");
        return Ok(Err(what));
    }
    let done = small_runtime()?.block_on(async {
        let control = Control::open(folder, TimeSource::Database, Arc::new(KnownNodes::default())).await?;
        work(control).await
    });
    Ok(done.map_err(|error| error.to_string()))
}

fn role(name: &str) -> Result<Role, String> {
    Role::from_str(name)
        .map_err(|()| format!("unknown role {name:?}: expected viewer, editor, approver or admin"))
}
