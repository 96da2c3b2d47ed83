//! `tollgate control user` and `tollgate control audit`: for those who can read the folder of the data.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use tollgate_control::actor::EVERY_APP;
use tollgate_control::audit::{self, Chain};
use tollgate_control::{Actor, Control, ControlError, KnownNodes, Role, users};
use tollgate_db::TimeSource;

use crate::ending::Ending;
use crate::worker::small_runtime;

/// Longest file of a password.
const MAX_PASSWORD: u64 = 4096;

/// Add users, without the console.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate control user add ann
  tollgate control --data-dir /var/lib/tollgate user add ann --role editor --app shop
  pass show tollgate/ann | tollgate control user add ann --role admin --password-file -")]
pub(crate) struct UserCommand {
    #[command(subcommand)]
    action: UserAction,
}

#[derive(Debug, clap::Subcommand)]
enum UserAction {
    /// Add a user and print a password for the first login.
    Add(AddUser),
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
    /// File whose first line is the password, at least 12 characters; `-` is standard input. Without it, a
    /// random password is made and printed.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
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
    /// Works on the database in `folder`.
    pub(crate) fn run(self, folder: &Path, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        let UserAction::Add(add) = self.action;
        let AddUser { name, role, app, password_file } = add;
        let given = match password_file.as_deref().map(password).transpose() {
            Ok(given) => given,
            Err(error) => {
                writeln!(talk, "the password cannot be read: {error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let is_given = given.is_some();
        let added = on_database(folder, async |control| {
            let password = match given {
                Some(password) => password,
                None => tollgate_control::secret()?[..24].to_owned(),
            };
            let actor = Actor { name: "command line".to_owned(), ..Actor::system() };
            let user = control.create_user(&actor, &name, &password).await?;
            let of = user.name.clone();
            control.change(move |tx| users::set_role(tx, &actor, &of, &app, Some(role))).await?;
            Ok((user.name, password))
        })?;
        match added {
            Ok((name, password)) => {
                writeln!(out, "added {name}")?;
                if !is_given {
                    writeln!(out, "password {password}")?;
                }
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

/// The first line of a file.
fn password(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    match path.as_os_str() == "-" {
        true => io::stdin().take(MAX_PASSWORD).read_to_string(&mut text)?,
        false => std::fs::File::open(path)?.take(MAX_PASSWORD).read_to_string(&mut text)?,
    };
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn role(name: &str) -> Result<Role, String> {
    Role::from_str(name)
        .map_err(|()| format!("unknown role {name:?}: expected viewer, editor, approver or admin"))
}
