//! `tollgate control user` and `tollgate control audit`: for those who can read the folder of the data.

use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;

use tollgate_control::actor::EVERY_APP;
use tollgate_control::audit::Chain;
use tollgate_control::{Claim, Control, ControlError, KnownNodes, Lost, Recorded, Role};
use tollgate_db::{Comparison, Difference, TimeSource};

use super::damage;
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
    /// Role of the user: viewer, editor, approver or admin; each includes those before it.
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
  tollgate control audit compare
  tollgate control audit head >> /elsewhere/heads
  tollgate control audit verify --head $(tail -1 /elsewhere/heads)
  tollgate control --data-dir /var/lib/tollgate audit verify")]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum AuditAction {
    /// Walk the chain of all entries. Exit 0: whole. 1: an entry was changed or is missing, or records an
    /// edit by another program that was not accepted. 2: the database cannot be read.
    Verify {
        /// An entry that must be there: what `audit head` has printed before.
        #[arg(long, value_name = "NUMBER:DIGEST", value_parser = entry)]
        head: Option<(i64, String)>,
    },
    /// Compare every row of the database with what the change that made it has left. Exit 0: all are so. 1: a
    /// row was edited by another program, also if a change has overwritten it and that was not accepted. 2:
    /// the database cannot be read.
    Compare,
    /// Print number and digests of the end of the audit, to be kept where those who write the database cannot
    /// write.
    Head,
    /// Accept that the last entries are missing, after a copy was restored or a log was damaged, and rows
    /// that another program has edited. The audit records it.
    Accept {
        /// Why, for the audit.
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// Result of checking the audit.
enum AuditCheck {
    Head(Option<(i64, String)>),
    Accepted(Option<Lost>, Option<Comparison>),
    Rows(Comparison, Recorded),
    Chain(Chain, Recorded),
    /// The entry of `--head` is missing.
    NotThere(i64),
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
        let by = Claim::program("command line");
        let found = on_database(folder, async |control| match self.action {
            AuditAction::Head => control.audit_head().await.map(AuditCheck::Head),
            AuditAction::Compare => {
                let rows = control.compare_rows(&by).await?;
                Ok(AuditCheck::Rows(rows, control.recorded_edits().await?))
            }
            AuditAction::Accept { reason } => accept(&control, &by, &reason).await,
            AuditAction::Verify { head } => {
                let chain = control.verify_audit(&by, |_, _| ()).await?;
                match head {
                    Some((seq, hash)) if !control.audit_has(seq, &hash).await? => {
                        Ok(AuditCheck::NotThere(seq))
                    }
                    _ => Ok(AuditCheck::Chain(chain, control.recorded_edits().await?)),
                }
            }
        })?;
        // An intact audit ends with yes, damage with no, and an audit that cannot be read is undecided.
        let (text, ending) = match found {
            Ok(AuditCheck::Head(None)) => ("0:".to_owned(), Ending::Yes),
            Ok(AuditCheck::Head(Some((seq, hash)))) => (format!("{seq}:{hash}"), Ending::Yes),
            Ok(AuditCheck::Accepted(lost, edited)) => {
                let lost = lost.map(|it| format!("accepted: {}", missing(it.found, it.seq)));
                let edited = edited.map(|it| match it.differ {
                    0 => "accepted: edits by another program that the audit has recorded".to_owned(),
                    rows => format!("accepted: rows that another program has edited: {rows}"),
                });
                let accepted: Vec<_> = lost.into_iter().chain(edited).collect();
                let nothing = "nothing to accept: no entry is missing, and no row was edited";
                (if accepted.is_empty() { nothing.to_owned() } else { accepted.join("\n") }, Ending::Yes)
            }
            Ok(AuditCheck::Rows(rows, edits)) => {
                let (text, ending) = compared(&rows);
                recorded(text, ending, &edits)
            }
            Ok(AuditCheck::Chain(Chain::Whole(entries), edits)) => {
                let whole = format!("whole: {entries} entries, each with the digest of the one before");
                recorded(whole, Ending::Yes, &edits)
            }
            Ok(AuditCheck::Chain(Chain::BrokenAt(entry), _)) => {
                (format!("broken at entry {entry}: it was changed, or it is missing"), Ending::No)
            }
            Ok(AuditCheck::Chain(Chain::Cut(found, acknowledged), _)) => {
                let missing = missing(found, acknowledged);
                (
                    format!(
                        "cut: {missing}, and were acknowledged: a copy was restored, or the write-ahead log was damaged; \
                         `tollgate control audit accept` accepts it"
                    ),
                    Ending::No,
                )
            }
            Ok(AuditCheck::NotThere(seq)) => {
                (format!("entry {seq} is missing, or another one than that of --head"), Ending::No)
            }
            Err(error) => {
                writeln!(talk, "{error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        writeln!(out, "{text}")?;
        Ok(ending)
    }
}

/// Accepts the entries that are missing and the rows that were edited, as far as there are any.
async fn accept(control: &Control, by: &Claim, reason: &str) -> Result<AuditCheck, ControlError> {
    let lost = match control.audit_lost() {
        Some(_) => Some(control.accept_lost(by, reason).await?),
        None => None,
    };
    match control.accept_edits(by, reason).await {
        Ok(edited) => Ok(AuditCheck::Accepted(lost, Some(edited))),
        Err(ControlError::NotFound { .. }) => Ok(AuditCheck::Accepted(lost, None)),
        Err(error) => Err(error),
    }
}

/// Changes without an entry of their own, such as drafts, may be missing too.
fn missing(found: i64, acknowledged: i64) -> String {
    if found < acknowledged {
        format!("entries {} to {acknowledged} are missing", found + 1)
    } else {
        format!("changes after entry {found} are missing")
    }
}

/// With edits that a change has overwritten, and the audit has recorded.
fn recorded(text: String, ending: Ending, edits: &Recorded) -> (String, Ending) {
    let Recorded { entries, first, open } = edits;
    if *entries == 0 {
        return (text, ending);
    }
    let named = format!(
        "{text}\nedits by another program that the audit has recorded: {entries}, the first is entry {first}"
    );
    if *open == 0 {
        return (format!("{named}; all are accepted"), ending);
    }
    let way_out = "`tollgate control audit accept` accepts them";
    (format!("{named}; not accepted: {open}; {way_out}"), Ending::No)
}

fn compared(found: &Comparison) -> (String, Ending) {
    if let Some(seal) = found.broken_at {
        let text =
            format!("broken at seal {seal}: it was changed, or it is missing; restore a copy from before");
        return (text, Ending::No);
    }
    if found.is_whole() {
        let rows = found.rows;
        let seals = found.seals;
        return (format!("whole: {rows} rows as {seals} changes have left them"), Ending::Yes);
    }
    let mut text = String::new();
    for Difference { table, key, what, .. } in &found.differences {
        text += &format!("{}: {table} {key}\n", what.name());
    }
    let rows = found.differ;
    let shown = match found.differences.len() as u64 {
        shown if shown < rows => format!(" (the first {shown} are above)"),
        _ => String::new(),
    };
    text += &format!(
        "rows that another program has edited: {rows}{shown}; undo that, or accept it by `tollgate control audit accept`"
    );
    (text, Ending::No)
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
    if let Some(what) = damage::of(folder) {
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

fn entry(text: &str) -> Result<(i64, String), String> {
    let read = text.split_once(':').and_then(|(seq, hash)| Some((seq.parse().ok()?, hash.to_owned())));
    read.ok_or_else(|| format!("invalid entry {text:?}: expected what `tollgate control audit head` prints"))
}
