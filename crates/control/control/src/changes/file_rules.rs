//! Rule files of an app: their input, and the stored files.

use tollgate_db::{Select, Tx, columns, select};
use tollgate_model::{FileRule, Role, fields};
use tollgate_rule_files::parse_text;

use crate::access::actor::{Actor, EVERY_APP};
use crate::changes::apps;
use crate::changes::stored::FileRow;
use crate::error::{ControlError, DocFault, Fault, FieldFaults};

/// Most bytes of a file.
pub const MAX_TEXT: usize = 512 * 1024;

/// Most files of an app.
pub const MAX_FILES: usize = 500;

/// A file as people and programs enter it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInput {
    /// The domain that the text must have; empty for a new file, whose text says it.
    pub domain: String,
    /// The rule file, as YAML.
    pub text: String,
    pub description: String,
    /// `on` or `off`; empty means `on`.
    pub state: String,
}

/// A file with its place in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The name of its app.
    pub app: String,
    /// The version of its app.
    pub version: i64,
    /// The file itself.
    pub file: FileRule,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// Who changed it last.
    pub updated_by: String,
    /// Its app is disabled, so it is on no node, whatever its state.
    pub is_app_disabled: bool,
}

impl FileInput {
    /// The file, if nodes can read it.
    ///
    /// # Errors
    /// [`ControlError::Faulty`] with every fault of the text, [`ControlError::Invalid`] for the other fields.
    ///
    /// # Example
    /// ```
    /// # use tollgate_control::{ControlError, file_rules::FileInput};
    /// let rule = "{key: user, rate_limit: {unit: minut, requests_per_unit: 3}}";
    /// let text = format!("domain: shop\ndescriptors:\n  - {rule}\n");
    /// let checked = FileInput { text, ..FileInput::default() }.check();
    /// let Err(ControlError::Faulty(faults)) = checked else { panic!() };
    /// assert_eq!((faults[0].line, &*faults[0].path), (3, "descriptors[0].rate_limit.unit"));
    /// ```
    pub fn check(&self) -> Result<FileRule, ControlError> {
        let mut faults = FieldFaults::default();
        let description = fields::text(&self.description, fields::MAX_DESCRIPTION);
        let description = faults.take("description", description, String::new());
        let state = if self.state.is_empty() { "on" } else { &*self.state };
        if !["on", "off"].contains(&state) {
            faults.add("state", Fault::Choice { expected: "on, off" });
        }
        if self.text.trim().is_empty() {
            faults.add("text", Fault::Required);
        } else if self.text.len() > MAX_TEXT {
            faults.add("text", Fault::TooLong { max: MAX_TEXT });
        }
        faults.check()?;
        let policy = parse_text(&self.domain, &*self.text).map_err(|found| {
            ControlError::Faulty(found.as_slice().iter().map(|it| DocFault::of(&self.domain, it)).collect())
        })?;
        let domain = policy.domains().first().map_or("", |domain| domain.name()).to_owned();
        let file = FileRule { domain, text: self.text.clone(), description, state: state.to_owned() };
        let is_name = fields::rule_key(&file.domain).is_ok();
        let fault = if !is_name {
            "expected a domain of 1 to 128 characters: A-Z a-z 0-9 _ . : / -"
        } else if !self.domain.is_empty() && file.domain != self.domain {
            "a file keeps its domain; make a new file for another domain"
        } else {
            return Ok(file);
        };
        Err(ControlError::Faulty(vec![DocFault::at_domain(&file.domain, &file.text, fault)]))
    }
}

columns! {
    StoredFile {
        app = "apps.name",
        version = "apps.version",
        etag = "rule_files.etag",
        updated_at = "rule_files.updated_at",
        updated_by = "rule_files.updated_by",
        file = FileRow::COLUMNS => |FileRow(file)| file,
        is_app_disabled = "apps.state = 'disabled'",
    }
}

const ALL: Select<StoredFile> = select!(StoredFile:
    "FROM rule_files JOIN apps ON apps.id = rule_files.app_id \
     WHERE ($1 = '' OR apps.name = $1) ORDER BY apps.name, domain LIMIT 2000");
const ONE: Select<StoredFile> = select!(StoredFile:
    "FROM rule_files JOIN apps ON apps.id = rule_files.app_id WHERE apps.name = $1 AND domain = $2");

/// The files of an app, or those of all apps that the actor may see; at most 2,000.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<Vec<StoredFile>, ControlError> {
    if !app.is_empty() {
        apps::get(tx, actor, Role::Viewer, app)?;
    }
    let files = ALL.all(tx, &[app.into()])?;
    let sees_all = actor.may(Role::Viewer, EVERY_APP);
    Ok(files.into_iter().filter(|it| sees_all || actor.may(Role::Viewer, &it.app)).collect())
}

/// One file. Needs viewer.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, app: &str, domain: &str) -> Result<StoredFile, ControlError> {
    actor.must(Role::Viewer, app)?;
    let found = ONE.first(tx, &[app.into(), domain.into()])?;
    found.ok_or_else(|| ControlError::NotFound { what: "file", name: format!("{app} {domain}") })
}
