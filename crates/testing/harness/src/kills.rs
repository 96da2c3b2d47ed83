//! Tests that another test of the same binary runs as a process, which ends or is killed in the middle.
//!
//! The test of the process is ignored, begins with [`folder`], and prints a mark and a text after each thing
//! that it has done. Its parent calls [`kill_after`].

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_control::audit::{self, AuditEntry, Chain, MAX_EXPORT};
use tollgate_control::{Actor, Claim, Control};

const FOLDER: &str = "TOLLGATE_TEST_FOLDER";

/// The folder that the parent gave; `None` if there is no parent, so that there is nothing to do.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs an ignored test of this binary on a folder.
#[must_use]
pub fn process(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    command.args(["--ignored", "--exact", "--nocapture", test]).env(FOLDER, folder);
    command
}

/// Runs a test that never ends, and kills it once it has printed `count` marks. Returns the text behind each
/// mark.
#[must_use]
pub fn kill_after(count: usize, mark: &str, test: &str, folder: &Path) -> Vec<String> {
    let mut child = process(test, folder).stdout(Stdio::piped()).spawn().expect("a process");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let lines = output.lines().map_while(Result::ok);
    let marked = lines.filter_map(|line| Some(line.split_once(mark)?.1.to_owned()));
    let marked: Vec<_> = marked.take(count).collect();
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(marked.len(), count, "{test} ended early: {marked:?}");
    marked
}

/// All entries of the audit of a control plane that nobody else uses. Fails if their chain is broken or cut,
/// or if a row is not as a change has left it.
pub async fn whole_audit(control: &Control) -> Vec<AuditEntry> {
    let program = Claim::program("tollgate");
    let chain = control.verify_audit(&program, |_, _| {}).await.expect("walked");
    let compared = control.compare_rows(&program).await.expect("compared");
    assert!(compared.is_whole(), "{compared:?}");
    let read = control.read(|tx| {
        let mut entries: Vec<AuditEntry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |it| it.seq);
            let part = audit::export(tx, &Actor::system(), after, MAX_EXPORT)?;
            if part.is_empty() {
                return Ok(entries);
            }
            entries.extend(part);
        }
    });
    let entries = read.await.expect("the audit");
    assert_eq!(chain, Chain::Whole(entries.len() as i64));
    entries
}
