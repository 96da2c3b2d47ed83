//! The rule that applies to a request, and why, without counting anything.

use std::sync::Arc;

use tollgate_control::{Actor, ControlError, Fault, FieldFault, Role, apps};
use tollgate_db::Tx;
use tollgate_limiter::explain::explain as explain_request;
use tollgate_policy::{Entry, Policy, Unmatched};
use tollgate_rule_files::{Options, RuleFile, parse};

use crate::console::Console;
use crate::web::{Failure, Visit};

/// Most entries of a request.
const MAX_ENTRIES: usize = 32;

/// The effect of published rules on a request.
pub(crate) struct Explained {
    pub(crate) text: String,
    /// The app is disabled, so that none of its rules is published.
    pub(crate) is_app_disabled: bool,
}

/// The effect of the published rules of `app` on a request: `entries` has one `key=value` on each line.
pub(crate) async fn explain(
    console: &Console,
    visit: &Visit,
    app: &str,
    domain: &str,
    entries: &str,
) -> Result<Explained, Failure> {
    let name = app.to_owned();
    let read = move |tx: &mut dyn Tx, actor: &Actor| apps::get(tx, actor, Role::Viewer, &name);
    if console.control.read_as(&visit.claim()?, read).await?.is_disabled() {
        let text = format!("the app {app:?} is disabled, so none of its rules is in force on any node");
        return Ok(Explained { text, is_app_disabled: true });
    }
    let published = console.control.published().borrow().clone();
    let found = published.apps.iter().find(|it| it.app == app);
    let unknown = || ControlError::NotFound { what: "app", name: app.to_owned() };
    let documents = &found.ok_or_else(unknown)?.documents;
    let policy = match console.explained.find(documents) {
        Some(policy) => policy,
        None => {
            let files: Vec<RuleFile> = documents
                .iter()
                .map(|it| RuleFile { name: it.domain().into(), text: it.yaml().to_owned() })
                .collect();
            // Megabytes of rules: not on a thread that serves.
            let read =
                move || parse(&files, &Options::default()).map(|rules| rules.policy).unwrap_or_default();
            let policy = tokio::task::spawn_blocking(read).await.map_err(|_| Failure::Panic)?;
            console.explained.keep(documents, Arc::new(policy))
        }
    };
    let text = explain_by(&policy, domain, entries)?;
    Ok(Explained { text, is_app_disabled: false })
}

/// The effect of a text that is not saved yet on a request.
pub(crate) fn explain_text(text: &str, domain: &str, entries: &str) -> Result<String, Failure> {
    let file = RuleFile { name: "file.yaml".into(), text: text.to_owned() };
    let policy = parse(&[file], &Options::default()).map(|rules| rules.policy).unwrap_or_default();
    explain_by(&policy, domain, entries)
}

fn explain_by(policy: &Policy, domain: &str, entries: &str) -> Result<String, Failure> {
    let wrong = || {
        let fault =
            FieldFault { field: "entry", fault: Fault::Characters { allowed: "key=value on each line" } };
        Failure::Control(ControlError::Invalid(vec![fault]))
    };
    let lines = entries.lines().map(str::trim).filter(|line| !line.is_empty());
    let read = |line| match str::split_once(line, '=') {
        Some((key, value)) if !key.is_empty() => Ok(Entry::new(key, value)),
        _ => Err(wrong()),
    };
    let entries: Vec<Entry<'_>> = lines.take(MAX_ENTRIES).map(read).collect::<Result<_, _>>()?;
    if entries.is_empty() {
        return Err(wrong());
    }
    Ok(explain_request(policy, domain, &entries, Unmatched::Admit).to_string())
}
