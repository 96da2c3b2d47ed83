//! An app as one YAML document, and back: every rule, sorted by key, `extras` and rule files byte for byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tollgate_db::Tx;
use tollgate_model::change_set::{ChangeOp, ChangeSet};
use tollgate_model::table_rule_yaml::{self, quoted};
use tollgate_model::{App, Content, FileRule, Role, RuleKind, fields};
use tollgate_rule_files::{YamlKind, YamlValue, read_large_yaml};

use crate::access::actor::Actor;
use crate::changes::checks::Preview;
use crate::changes::drafts::ChangeInput;
use crate::changes::file_rules::FileInput;
use crate::changes::operations::{self, Look, OpInput};
use crate::changes::publishing::{self, Intent};
use crate::changes::{apps, stored};
use crate::error::{ControlError, DocFault, MAX_FAULTS};
use crate::published::Committed;

/// The form of the document.
const FORM: &str = "1";

/// Most rules of a kind.
const MAX_RULES: usize = 20_000;

/// Most bytes of a document.
pub const MAX_IMPORT: usize = 64 << 20;

/// A document that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The name of the app.
    pub app: String,
    /// All of its rules.
    pub rules: Vec<Content>,
}

/// The rules of an app as a document. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn export(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<String, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let rows = stored::table_rules(tx, &app)?;
    let files = stored::files(tx, &app.id)?;
    let rules = rows.into_iter().map(|it| Content::TableRule(Box::new(it)));
    let rules = rules.chain(files.into_iter().map(Content::File)).collect();
    Ok(write(&Imported { app: app.name, rules }))
}

/// The document of these rules.
///
/// # Example
/// ```
/// # use tollgate_control::{Content, table_rule::TableRuleInput, transfer};
/// let (key, max_permits) = ("push".into(), "10".into());
/// let row = TableRuleInput { key, max_permits, ..TableRuleInput::default() }.check()?;
/// let all = transfer::Imported { app: "shop".into(), rules: vec![Content::TableRule(Box::new(row))] };
/// let yaml = transfer::write(&all);
/// assert!(yaml.starts_with("tollgate: 1\napp: \"shop\"\ncar:\n  - key: \"push\"\n    rate: 1\n"));
/// assert_eq!(transfer::read(&yaml)?, all);
/// # Ok::<(), tollgate_control::ControlError>(())
/// ```
#[must_use]
pub fn write(all: &Imported) -> String {
    let mut yaml = format!("tollgate: {FORM}\napp: {}\n", quoted(&all.app));
    let mut section = |name: &str, items: Vec<String>| {
        if items.is_empty() {
            return;
        }
        // Writing to a string does not fail.
        let _ = writeln!(yaml, "{name}:");
        for item in items {
            for (index, line) in item.lines().enumerate() {
                let _ = writeln!(yaml, "  {} {line}", if index == 0 { "-" } else { " " });
            }
        }
    };
    let of = |kind: RuleKind| {
        let mut rules: Vec<&Content> = all.rules.iter().filter(|it| it.kind() == kind).collect();
        rules.sort_by_key(|it| it.key());
        rules
    };
    section("car", of(RuleKind::TableRule).into_iter().map(Content::yaml).collect());
    let file = |it: &Content| match it {
        Content::File(FileRule { domain, text, description, state }) => format!(
            "domain: {}\nstate: {state}\ndescription: {}\ntext: {}\n",
            quoted(domain),
            quoted(description),
            quoted(text)
        ),
        Content::TableRule(_) => String::new(),
    };
    section("files", of(RuleKind::File).into_iter().map(file).collect());
    yaml
}

/// The app that a document names, without reading the rest: for who may not see it, that is all the work.
#[must_use]
pub fn app_of(yaml: &str) -> Option<String> {
    let line = yaml.lines().take(1_000).find_map(|line| line.strip_prefix("app:"))?;
    fields::app_name(line.trim().trim_matches(['"', '\''])).ok()
}

/// The rules of a document, each checked by itself. Stops after 100 faults.
///
/// # Errors
/// [`ControlError::Faulty`] with the place of everything that is wrong.
pub fn read(yaml: &str) -> Result<Imported, ControlError> {
    let mut faults = Vec::new();
    let root = read_large_yaml("import.yaml".as_ref(), yaml, MAX_IMPORT).map_err(|found| {
        ControlError::Faulty(found.iter().take(MAX_FAULTS).map(|it| DocFault::of("", it)).collect())
    })?;
    let mut all = Imported { app: String::new(), rules: Vec::new() };
    let mut form = None;
    for (name, value) in entries(&root, "", &mut faults) {
        if faults.len() >= MAX_FAULTS {
            break;
        }
        match (&**name, &value.kind) {
            ("tollgate", YamlKind::Text(text)) => form = Some(text.clone()),
            ("app", YamlKind::Text(text)) => match fields::app_name(text) {
                Ok(app) => all.app = app,
                Err(fault) => faults.push(at(value, "app", fault.to_string())),
            },
            ("car" | "files", YamlKind::Null) => {}
            ("car" | "files", YamlKind::List(items)) => {
                if items.len() > MAX_RULES {
                    let message = format!("{} rules; an app has at most {MAX_RULES}", items.len());
                    faults.push(at(value, name, message));
                    continue;
                }
                for (index, item) in items.iter().enumerate() {
                    if faults.len() >= MAX_FAULTS {
                        break;
                    }
                    let path = format!("{name}[{index}]");
                    all.rules.extend(rule(name, item, &path, &mut faults));
                }
            }
            ("tollgate" | "app" | "car" | "files", _) => {
                faults.push(at(value, name, "expected a text, or a list of rules".to_owned()));
            }
            _ => {
                let message = "unknown key; expected tollgate, app, car or files".to_owned();
                faults.push(at(value, name, message));
            }
        }
    }
    if faults.len() >= MAX_FAULTS {
        faults.truncate(MAX_FAULTS);
        return Err(ControlError::Faulty(faults));
    }
    if form.as_deref() != Some(FORM) {
        faults.push(at(&root, "tollgate", format!("expected `tollgate: {FORM}`, the form of the document")));
    }
    // An invalid app is a fault already.
    if all.app.is_empty() && faults.is_empty() {
        faults.push(at(&root, "app", "required".to_owned()));
    }
    if faults.is_empty() { Ok(all) } else { Err(ControlError::Faulty(faults)) }
}

fn rule(section: &str, item: &YamlValue, path: &str, faults: &mut Vec<DocFault>) -> Option<Content> {
    let before = faults.len();
    let fields = entries(item, path, faults);
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in fields {
        match &value.kind {
            YamlKind::Text(text) => drop(texts.insert(name, text)),
            YamlKind::Null => {}
            _ => faults.push(at(value, &format!("{path}.{name}"), "expected a text".to_owned())),
        }
    }
    let place = |field: &str| fields.iter().find(|(name, _)| name == field).map_or(item, |(_, value)| value);
    let checked = if section == "car" {
        let row = table_rule_yaml::of_texts(&texts).and_then(|input| input.check());
        row.map(|row| Content::TableRule(Box::new(row))).map_err(ControlError::from)
    } else {
        file(&texts).and_then(|input| input.check()).map(Content::File)
    };
    let error = match checked {
        Ok(content) if faults.len() == before => return Some(content),
        Ok(_) => return None,
        Err(error) => error,
    };
    match error {
        ControlError::Invalid(found) => {
            for it in found {
                faults.push(at(place(it.field), &format!("{path}.{}", it.field), it.fault.to_string()));
            }
        }
        // The places in a text of several lines between quotes are those of the text.
        ControlError::Faulty(found) => {
            for it in found {
                faults.push(at(place(&it.path), path, it.to_string()));
            }
        }
        other => faults.push(at(item, path, other.to_string())),
    }
    None
}

fn file(texts: &BTreeMap<&str, &str>) -> Result<FileInput, ControlError> {
    let mut input = FileInput::default();
    for (name, value) in texts {
        let slot = match *name {
            "domain" => &mut input.domain,
            "text" => &mut input.text,
            "description" => &mut input.description,
            "state" => &mut input.state,
            other => {
                let path = other.to_owned();
                let message = "unknown key".to_owned();
                let fault = DocFault { domain: String::new(), line: 1, column: 1, path, message };
                return Err(ControlError::Faulty(vec![fault]));
            }
        };
        (*value).clone_into(slot);
    }
    Ok(input)
}

fn entries<'v>(value: &'v YamlValue, path: &str, faults: &mut Vec<DocFault>) -> &'v [(String, YamlValue)] {
    match &value.kind {
        YamlKind::Map(entries) => entries,
        _ => {
            faults.push(at(value, path, "expected names and values".to_owned()));
            &[]
        }
    }
}

fn at(value: &YamlValue, path: &str, message: String) -> DocFault {
    let line = value.place.line;
    let column = value.place.column;
    DocFault { domain: String::new(), line, column, path: path.to_owned(), message }
}

/// The operations that would make the app equal to the document, and the check as nodes make it. Needs
/// viewer.
///
/// # Errors
/// [`ControlError`].
pub fn dry_run(tx: &mut dyn Tx, actor: &Actor, all: &Imported) -> Result<Look, ControlError> {
    actor.must(Role::Viewer, &all.app)?;
    let Some(app) = apps::find(tx, &all.app)? else {
        let ops = all.rules.iter().map(|it| ChangeOp {
            kind: it.kind(),
            key: it.key().to_owned(),
            base: None,
            before: None,
            after: Some(it.clone()),
        });
        return Ok(Look { ops: ops.collect(), preview: Preview::default(), conflicts: Vec::new() });
    };
    let ops = ops_for(tx, &app, all)?;
    operations::look(tx, actor, &app.name, &ops)
}

/// Makes the app equal to the document, as one change set; `None` when it is equal already. Needs editor; of
/// every app if the app is new.
///
/// # Errors
/// [`ControlError`].
pub fn import(
    tx: &mut dyn Tx,
    actor: &Actor,
    all: &Imported,
    intent: Intent,
) -> Result<Committed<Option<ChangeSet>>, ControlError> {
    actor.must(Role::Editor, &all.app)?;
    let ops = match apps::find(tx, &all.app)? {
        Some(app) => ops_for(tx, &app, all)?,
        None => all.rules.iter().map(|it| put(it.clone(), None)).collect(),
    };
    if ops.is_empty() {
        return Ok(Committed { value: None, documents: None });
    }
    let title = "import".to_owned();
    let comment = String::new();
    let input = ChangeInput { title, comment, ops };
    let Committed { value, documents } = publishing::propose(tx, actor, &all.app, &input, intent)?;
    Ok(Committed { value: Some(value), documents })
}

fn put(content: Content, base: Option<i64>) -> OpInput {
    OpInput { kind: content.kind(), key: content.key().to_owned(), base, after: Some(content) }
}

fn ops_for(tx: &mut dyn Tx, app: &App, all: &Imported) -> Result<Vec<OpInput>, ControlError> {
    let mut now = stored::current_all(tx, app)?;
    let mut ops = Vec::new();
    for rule in &all.rules {
        match now.remove(&(rule.kind(), rule.key().to_owned())) {
            Some(it) if it.content == *rule => {}
            Some(it) => ops.push(put(rule.clone(), Some(it.from_version))),
            None => ops.push(put(rule.clone(), None)),
        }
    }
    ops.extend(now.into_iter().map(|((kind, key), it)| {
        let base = Some(it.from_version);
        OpInput { kind, key, base, after: None }
    }));
    Ok(ops)
}
