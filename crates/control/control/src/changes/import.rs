//! Imports. Everything that can be worked out before the transaction is: others write meanwhile, and the
//! transaction only looks whether the app is still the one that it was.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use tollgate_db::Tx;
use tollgate_model::change_set::{ChangeOp, ChangeSet, content_hash};
use tollgate_model::table_rule::TableRule;
use tollgate_model::{App, Compiled, Content, FileRule, Role, RuleKind, fields};

use crate::access::actor::Actor;
use crate::access::claim::Claim;
use crate::access::settings;
use crate::changes::operations::{MAX_OPS, must_be_valid};
use crate::changes::publishing::{self, Intent, Ready};
use crate::changes::staging::{self, Staged, Wanted};
use crate::changes::stored::{self, ByName, Stored};
use crate::changes::transfer::{self, Imported};
use crate::changes::{apps, checks};
use crate::control::Control;
use crate::error::{ControlError, Fault, invalid};
use crate::fleet::levels::OldNodes;
use crate::ids::new_id;
use crate::published::Committed;

/// Times that an import is worked out anew because the app has changed meanwhile. After that, one transaction
/// does all of it.
const ATTEMPTS: usize = 3;

/// An import, worked out for an app as it was.
struct Prepared {
    app: Option<App>,
    /// `None` if the app is equal already.
    ready: Option<Ready>,
    /// The rules that stay as they are.
    unchanged: Vec<String>,
    now_ms: i64,
    /// That a new app needs.
    approvals: i64,
}

impl Control {
    /// Makes the app equal to the document, as one change set; `None` when it is equal already. Needs editor;
    /// of every app if the app is new.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn import(
        &self,
        claim: &Claim,
        old_nodes: OldNodes,
        all: Imported,
    ) -> Result<Option<ChangeSet>, ControlError> {
        let all = Arc::new(all);
        for _ in 0..ATTEMPTS {
            let prepared = Arc::new(self.prepare(claim, &all).await?);
            let staged = match self.write_ahead(claim, &all.app, &prepared).await? {
                Some(None) => continue,
                written => written.flatten().map(Arc::new),
            };
            let document = Arc::clone(&all);
            let work = move |tx: &mut dyn Tx, actor: &Actor| {
                import(tx, actor, &document.app, &prepared, staged.as_deref())
            };
            if let Some(done) = self.commit_beside_as(claim, old_nodes, work).await? {
                return Ok(done);
            }
        }
        let work = move |tx: &mut dyn Tx, actor: &Actor| transfer::import(tx, actor, &all, Intent::Publish);
        self.commit_beside_as(claim, old_nodes, work).await
    }

    async fn prepare(&self, claim: &Claim, all: &Arc<Imported>) -> Result<Prepared, ControlError> {
        let name = all.app.clone();
        let read = self.read_as(claim, move |tx, actor| {
            actor.must(Role::Editor, &name)?;
            let app = apps::find(tx, &name)?;
            let now = app.as_ref().map(|app| stored::current_all(tx, app)).transpose()?.unwrap_or_default();
            Ok((app, now, tx.now_ms(), settings::get(tx)?.0.approvals))
        });
        let (app, now, now_ms, approvals) = read.await?;
        let all = Arc::clone(all);
        // It takes a second of 20,000 rules: not on a thread that serves.
        let worked = tokio::task::spawn_blocking(move || {
            let unchanged = unchanged_ids(&now, &all);
            let ready = prepare(app.as_ref(), now, &all, now_ms)?;
            Ok(Prepared { app, ready, unchanged, now_ms, approvals })
        });
        worked.await.unwrap_or(Err(ControlError::Db(tollgate_db::DbError::Panicked)))
    }

    /// Writes the rows of a large import; `None` of a small one, and `Some(None)` if the app has changed.
    async fn write_ahead(
        &self,
        claim: &Claim,
        name: &str,
        prepared: &Prepared,
    ) -> Result<Option<Option<Staged>>, ControlError> {
        let Some(ready) = prepared.ready.as_ref().filter(|it| self.is_large(it.ops.len())) else {
            return Ok(None);
        };
        let app = match &prepared.app {
            Some(app) => app.clone(),
            None => App { approvals: prepared.approvals, ..App::new(new_id(prepared.now_ms)?, name) },
        };
        let is_new = prepared.app.is_none();
        let ops = ready.ops.clone();
        let (writes, unchanged) = match app.approvals {
            0 => (ready.writes.clone(), prepared.unchanged.clone()),
            _ => Default::default(), // it is proposed
        };
        self.stage(claim, Wanted { app, is_new, writes, unchanged, ops }).await.map(Some)
    }
}

/// The ids of rows that the document has as they are.
fn unchanged_ids(now: &ByName<Stored>, all: &Imported) -> Vec<String> {
    let same = |rule: &Content| {
        let now = now.get(&(rule.kind(), rule.key().to_owned()))?;
        (now.content == *rule && rule.kind() == RuleKind::TableRule).then(|| now.rule_id.clone())
    };
    all.rules.iter().filter_map(same).collect()
}

/// The change that makes an app with the rules `now` equal to the document; `None` if it is equal.
fn prepare(
    app: Option<&App>,
    mut now: ByName<Stored>,
    all: &Imported,
    now_ms: i64,
) -> Result<Option<Ready>, ControlError> {
    let mut seen = BTreeSet::new();
    let mut ops = Vec::new();
    let mut current = ByName::new();
    for rule in &all.rules {
        let name = (rule.kind(), rule.key().to_owned());
        if !seen.insert(name.clone()) {
            return Err(invalid("key", Fault::Duplicate));
        }
        let before = now.remove(&name);
        if before.as_ref().is_some_and(|it| it.content == *rule) {
            continue;
        }
        fields::rule_key(rule.key()).map_err(|fault| invalid("key", fault))?;
        must_be_valid(&all.app, rule)?;
        ops.push(change(&name, before.as_ref(), Some(rule.clone())));
        current.extend(before.map(|it| (name, it)));
    }
    // Rules that the document does not name are deleted.
    for (name, before) in now {
        ops.push(change(&name, Some(&before), None));
        current.insert(name, before);
    }
    if ops.is_empty() {
        return Ok(None);
    }
    if ops.len() > MAX_OPS {
        let max = i64::try_from(MAX_OPS).unwrap_or(i64::MAX);
        return Err(ControlError::Cap { what: "operations of a change set", max });
    }
    // The hash must not depend on the order of the document.
    ops.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    let writes = publishing::writes(&mut current, &ops, now_ms)?;
    let documents = match app {
        Some(app) if app.state != "active" => Vec::new(),
        _ => {
            let (rows, files) = parts(all);
            let changed: HashSet<&str> = ops.iter().map(|it| &*it.key).collect();
            checks::documents_of(&all.app, &rows, files, &changed)?
        }
    };
    let sha256 = app.map(|app| content_hash(&app.id, &ops));
    Ok(Some(Ready { ops, sha256, writes, compiled: Compiled::of(documents) }))
}

fn change(name: &(crate::RuleKind, String), before: Option<&Stored>, after: Option<Content>) -> ChangeOp {
    ChangeOp {
        kind: name.0,
        key: name.1.clone(),
        base: before.map(|it| it.from_version),
        before: before.map(|it| it.content.clone()),
        after,
    }
}

/// The rows and the files of a document, each in their order.
fn parts(all: &Imported) -> (Vec<TableRule>, Vec<FileRule>) {
    let mut rows = Vec::new();
    let mut files = Vec::new();
    for rule in &all.rules {
        match rule {
            Content::TableRule(row) => rows.push((**row).clone()),
            Content::File(file) => files.push(file.clone()),
        }
    }
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    files.sort_by(|a, b| a.domain.cmp(&b.domain));
    (rows, files)
}

/// `None` if the app is not the one that the import was worked out for. Nothing is written then.
fn import(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    prepared: &Prepared,
    staged: Option<&Staged>,
) -> Result<Committed<Option<Option<ChangeSet>>>, ControlError> {
    actor.must(Role::Editor, app)?;
    let now = apps::find(tx, app)?;
    let is_same = match (&now, &prepared.app) {
        (Some(now), Some(then)) => staging::is_same(now, then),
        (now, then) => now.is_none() && then.is_none(),
    };
    let is_written = match staged {
        Some(staged) => {
            let approvals = settings::get(tx)?.0.approvals;
            staged.is_for(tx, now.as_ref(), approvals)?
        }
        None => true,
    };
    if !is_same || !is_written {
        return Ok(Committed { value: None, documents: None });
    }
    let Some(ready) = &prepared.ready else { return Ok(Committed { value: Some(None), documents: None }) };
    let Committed { value, documents } = publishing::propose_ready(tx, actor, app, "import", ready, staged)?;
    Ok(Committed { value: Some(Some(value)), documents })
}
