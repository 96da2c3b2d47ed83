//! Checks of the rules of an app as nodes make them: the same parser, all documents of the app together.

use std::collections::{BTreeMap, HashSet};

use tollgate_db::Tx;
use tollgate_model::change_set::ChangeOp;
use tollgate_model::table_rule::TableRule;
use tollgate_model::{App, Content, FileRule, ModelError, Role, RuleKind, buckets, compile};
use tollgate_rule_files::{Options, RuleFile, parse};

use crate::access::actor::Actor;
use crate::changes::{apps, stored};
use crate::error::{ControlError, DocFault, MAX_FAULTS};
use crate::published::Document;

/// The faults of these files, checked together by the parser of the nodes.
#[must_use]
pub fn faults(files: &[FileRule]) -> Vec<DocFault> {
    let texts: Vec<RuleFile> = files
        .iter()
        .map(|file| RuleFile { name: file.domain.clone().into(), text: file.text.clone() })
        .collect();
    match parse(&texts, &Options::default()) {
        Ok(_) => Vec::new(),
        Err(faults) => {
            let domain = |fault: &tollgate_rule_files::Fault| fault.place.file.to_string_lossy().into_owned();
            let found = faults.as_slice().iter().take(MAX_FAULTS);
            found.map(|fault| DocFault::of(&domain(fault), fault)).collect()
        }
    }
}

/// An app as a change would make it.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// Why nodes would reject it.
    pub faults: Vec<DocFault>,
    /// The documents for nodes, if there is no fault.
    pub documents: Vec<Document>,
}

/// The app with these operations in force. Needs viewer; changes nothing.
///
/// # Errors
/// [`ControlError`].
pub fn preview(tx: &mut dyn Tx, actor: &Actor, app: &str, ops: &[ChangeOp]) -> Result<Preview, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let mut table_rules: BTreeMap<String, TableRule> =
        stored::table_rules(tx, &app)?.into_iter().map(|it| (it.key.clone(), it)).collect();
    let mut files: BTreeMap<String, FileRule> =
        stored::files(tx, &app.id)?.into_iter().map(|it| (it.domain.clone(), it)).collect();
    let mut preview = Preview::default();
    for op in ops {
        match (op.kind, &op.after) {
            (RuleKind::TableRule, None) => drop(table_rules.remove(&op.key)),
            (RuleKind::File, None) => drop(files.remove(&op.key)),
            (_, Some(Content::TableRule(row))) => drop(table_rules.insert(op.key.clone(), (**row).clone())),
            (_, Some(Content::File(file))) => {
                if !stored::may_own(tx, &app, &file.domain)? {
                    let message = "this domain belongs to another app or to the limits of this one";
                    preview.faults.push(DocFault::at_domain(&file.domain, &file.text, message));
                }
                files.insert(op.key.clone(), file.clone());
            }
        }
    }
    let files: Vec<FileRule> = files.into_values().filter(|it| it.state == "on").collect();
    preview.faults.extend(faults(&files));
    let table_rules: Vec<TableRule> = table_rules.into_values().collect();
    let changed: HashSet<&str> =
        ops.iter().filter(|op| op.kind == RuleKind::TableRule).map(|op| &*op.key).collect();
    let is_changed = |key: &str| changed.contains(key);
    // Compared when all operations are applied: a change set may change all rows of a bucket.
    preview.faults.extend(buckets::differences(&table_rules, is_changed).into_iter().map(|it| DocFault {
        domain: app.name.clone(),
        line: 1,
        column: 1,
        path: it.field.to_owned(),
        message: it.fault.to_string(),
    }));
    match compile::documents(&app.name, &table_rules) {
        Ok(documents) => preview.documents = documents,
        Err(ModelError::Document { reason, .. }) => {
            let domain = app.name;
            preview.faults.push(DocFault {
                domain,
                line: 1,
                column: 1,
                path: String::new(),
                message: reason,
            });
        }
        Err(error) => return Err(error.into()),
    }
    preview.documents.extend(files.into_iter().map(document));
    Ok(preview)
}

fn document(FileRule { domain, text, .. }: FileRule) -> Document {
    Document::new(domain, text)
}

/// The documents that nodes get of the current rules of an app, checked. The rows of these keys are new.
///
/// # Errors
/// [`ControlError::Invalid`] where rows of a bucket differ, [`ControlError::Faulty`],
/// [`ControlError::Document`], [`ControlError::Db`].
pub(crate) fn documents(
    tx: &mut dyn Tx,
    app: &App,
    changed: &HashSet<&str>,
) -> Result<Vec<Document>, ControlError> {
    documents_of(&app.name, &stored::table_rules(tx, app)?, stored::files(tx, &app.id)?, changed)
}

/// As [`documents`], of these rows, which are in the order of their keys, and files.
pub(crate) fn documents_of(
    app: &str,
    rows: &[TableRule],
    files: Vec<FileRule>,
    changed: &HashSet<&str>,
) -> Result<Vec<Document>, ControlError> {
    let differing = buckets::differences(rows, |key| changed.contains(key));
    if !differing.is_empty() {
        return Err(ControlError::Invalid(differing));
    }
    let mut documents = compile::documents(app, rows)?;
    let files: Vec<_> = files.into_iter().filter(|it| it.state == "on").collect();
    if !files.is_empty() {
        let found = faults(&files);
        if !found.is_empty() {
            return Err(ControlError::Faulty(found));
        }
    }
    documents.extend(files.into_iter().map(document));
    Ok(documents)
}
