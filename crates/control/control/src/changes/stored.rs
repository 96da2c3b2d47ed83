//! Rules in the database: the current ones, and those of every version.

use std::collections::{BTreeMap, HashMap};

use tollgate_db::{Columns, Select, Tx, columns, insert, query_value, query_values, row, select};
use tollgate_model::hash::sha256;
use tollgate_model::table_rule::{TableRule, Trial};
use tollgate_model::{App, Content, FileRule, RuleKind};

use crate::access::actor::Actor;
use crate::error::{ControlError, DocFault};
use crate::ids::new_id;
use crate::published::Document;

/// A change of one rule.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A new rule, or other content for one that is there.
    Put(Put),
    Delete {
        rule_id: String,
        kind: RuleKind,
        key: String,
    },
}

/// The new content of a rule, with everything that can be worked out before the transaction.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    rule_id: String,
    content: Content,
    body: String,
    sha256: String,
    was: Was,
}

/// Whether a rule that is put exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    New,
    There,
    /// It may have been deleted before.
    Either,
}

impl Op {
    /// A new rule.
    pub(crate) fn create(now_ms: i64, content: Content) -> Result<Self, ControlError> {
        Ok(Self::with(new_id(now_ms)?, content, Was::New))
    }

    /// Other content for a rule that is there.
    pub(crate) fn replace(rule_id: String, content: Content) -> Self {
        Self::with(rule_id, content, Was::There)
    }

    /// Content for a rule that is there, or was deleted before.
    pub(crate) fn bring_back(rule_id: String, content: Content) -> Self {
        Self::with(rule_id, content, Was::Either)
    }

    fn with(rule_id: String, content: Content, was: Was) -> Self {
        let body = content.body();
        Self::Put(Put { rule_id, sha256: sha256(&body), body, content, was })
    }

    pub(crate) const fn is_put(&self) -> bool {
        matches!(self, Self::Put(_))
    }

    pub(crate) const fn kind(&self) -> RuleKind {
        match self {
            Self::Put(Put { content, .. }) => content.kind(),
            Self::Delete { kind, .. } => *kind,
        }
    }

    pub(crate) fn rule_id(&self) -> &str {
        match self {
            Self::Put(Put { rule_id, .. }) | Self::Delete { rule_id, .. } => rule_id,
        }
    }

    /// The new content of the rule; `None` deletes it.
    pub(crate) const fn put(&self) -> Option<&Content> {
        match self {
            Self::Put(Put { content, .. }) => Some(content),
            Self::Delete { .. } => None,
        }
    }

    /// Whether both do the same. A new rule may have another id.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_new = |op: &Self| matches!(op, Self::Put(Put { was: Was::New, .. }));
        let is_rule = self.rule_id() == other.rule_id() || (is_new(self) && is_new(other));
        is_rule && (self.kind(), self.key(), self.put()) == (other.kind(), other.key(), other.put())
    }

    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Put(Put { content, .. }) => content.key(),
            Self::Delete { key, .. } => key,
        }
    }
}

/// A rule that is there.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) rule_id: String,
    /// The version of its app that wrote it, which is its etag.
    pub(crate) from_version: i64,
    pub(crate) content: Content,
}

/// Most versions that are read for rules that were deleted, by one change set.
const MAX_WRITTEN: usize = 20;

/// By kind and key.
pub(crate) type ByName<T> = BTreeMap<(RuleKind, String), T>;

/// Applies `op` as part of `version` of `app`.
pub(crate) fn apply(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    version: i64,
    op: &Op,
) -> Result<(), ControlError> {
    match op {
        Op::Put(it) => put(tx, actor, app, version, it),
        Op::Delete { rule_id, kind, key } => {
            close(tx, app, version, rule_id)?;
            match kind {
                RuleKind::TableRule => tx.execute(
                    "DELETE FROM car WHERE rule_id = $1 AND edition = $2",
                    &[rule_id.into(), (&app.edition).into()],
                )?,
                RuleKind::File => {
                    tx.execute(
                        "DELETE FROM domains WHERE domain = $1 AND app_id = $2",
                        &[key.into(), (&app.id).into()],
                    )?;
                    tx.execute("DELETE FROM rule_files WHERE rule_id = $1", &[rule_id.into()])?
                }
            };
            Ok(())
        }
    }
}

fn put(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    version: i64,
    Put { rule_id, content, body, sha256, was }: &Put,
) -> Result<(), ControlError> {
    match content {
        Content::TableRule(table_rule) => put_table_rule(tx, actor, app, version, rule_id, table_rule)?,
        Content::File(file) => put_file(tx, actor, app, version, rule_id, file)?,
    }
    if *was != Was::New {
        close(tx, app, version, rule_id)?;
    }
    insert!(tx, "rule_versions" {
        rule_id,
        from_version: version,
        app_id: &app.id,
        to_version: None::<i64>,
        body,
        sha256,
    })?;
    Ok(())
}

fn put_table_rule(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    version: i64,
    rule_id: &str,
    table_rule: &TableRule,
) -> Result<(), ControlError> {
    let search = format!("{} {} {}", app.name, table_rule.key, table_rule.description).to_lowercase();

    insert!(tx, "car" {
        rule_id,
        app_id: &app.id,
        key: &table_rule.key,
        rate: table_rule.rate,
        max_permits: table_rule.max_permits,
        need_permits: table_rule.need_permits,
        pre_permits: table_rule.pre_permits,
        g_micro: table_rule.g_micro,
        u_micro: table_rule.u_micro,
        extras: &table_rule.extras,
        description: &table_rule.description,
        per: &table_rule.per,
        sharing: &table_rule.sharing,
        on_store_failure: &table_rule.on_store_failure,
        state: &table_rule.state,
        search,
        etag: version, // unlike a count, it is new also for a row that is brought back
        updated_at: tx.now_ms(),
        updated_by: &actor.name,
        bucket: &table_rule.bucket,
        trial_rate: table_rule.trial.map_or(0, |it| it.rate), // 0: no trial
        trial_max_permits: table_rule.trial.map_or(0, |it| it.max_permits),
        post_paid: i64::from(table_rule.post_paid),
        edition: &app.edition,
    }, "ON CONFLICT (rule_id, edition) DO UPDATE SET rate = excluded.rate, \
         max_permits = excluded.max_permits, need_permits = excluded.need_permits, \
         pre_permits = excluded.pre_permits, g_micro = excluded.g_micro, \
         u_micro = excluded.u_micro, extras = excluded.extras, \
         description = excluded.description, per = excluded.per, sharing = excluded.sharing, \
         on_store_failure = excluded.on_store_failure, state = excluded.state, \
         search = excluded.search, etag = excluded.etag, updated_at = excluded.updated_at, \
         updated_by = excluded.updated_by, bucket = excluded.bucket, \
         trial_rate = excluded.trial_rate, trial_max_permits = excluded.trial_max_permits, \
         post_paid = excluded.post_paid")?;
    Ok(())
}

/// Copies the row of a rule from one edition to another.
pub(crate) fn copy(tx: &mut dyn Tx, rule_id: &str, (from, to): (&str, &str)) -> Result<(), ControlError> {
    tx.execute(
        "INSERT INTO car (rule_id, app_id, key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, \
         extras, description, per, sharing, on_store_failure, state, search, etag, updated_at, updated_by, \
         bucket, trial_rate, trial_max_permits, post_paid, edition) \
         SELECT rule_id, app_id, key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro, extras, \
         description, per, sharing, on_store_failure, state, search, etag, updated_at, updated_by, bucket, \
         trial_rate, trial_max_permits, post_paid, $1 FROM car WHERE rule_id = $2 AND edition = $3",
        &[to.into(), rule_id.into(), from.into()],
    )?;
    Ok(())
}

fn put_file(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    version: i64,
    rule_id: &str,
    file: &FileRule,
) -> Result<(), ControlError> {
    own(tx, app, file)?;
    insert!(tx, "rule_files" {
        rule_id,
        app_id: &app.id,
        domain: &file.domain,
        text: &file.text,
        description: &file.description,
        state: &file.state,
        etag: version,
        updated_at: tx.now_ms(),
        updated_by: &actor.name,
    }, "ON CONFLICT (rule_id) DO UPDATE SET text = excluded.text, \
         description = excluded.description, state = excluded.state, etag = excluded.etag, \
         updated_at = excluded.updated_at, updated_by = excluded.updated_by")?;
    Ok(())
}

/// Makes the app the owner of the file's domain. A domain has one owner, whichever node it reaches.
fn own(tx: &mut dyn Tx, app: &App, file: &FileRule) -> Result<(), ControlError> {
    insert!(tx, "domains" { domain: &file.domain, app_id: &app.id }, "ON CONFLICT (domain) DO NOTHING")?;
    let owner = owner_of(tx, &file.domain)?;
    let fault = if owner.as_deref() != Some(&*app.id) {
        "this domain belongs to another app; choose another name"
    } else if file.domain == app.name {
        "this domain belongs to the limits of the app itself; choose another name"
    } else {
        return Ok(());
    };
    Err(ControlError::Faulty(vec![DocFault::at_domain(&file.domain, &file.text, fault)]))
}

/// Keeps domains for the app that the current version gives up: nodes may still have the version before.
pub(crate) fn keep_domains(tx: &mut dyn Tx, app_id: &str, before: &[Document]) -> Result<(), ControlError> {
    for document in before {
        insert!(tx, "domains" { domain: document.domain(), app_id }, "ON CONFLICT (domain) DO NOTHING")?;
    }
    Ok(())
}

/// Frees the domains of the app that it has no file of.
pub(crate) fn free_domains(tx: &mut dyn Tx, app: &App) -> Result<(), ControlError> {
    tx.execute(
        "DELETE FROM domains WHERE app_id = $1 AND domain <> $2 \
         AND domain NOT IN (SELECT domain FROM rule_files WHERE app_id = $1)",
        &[(&app.id).into(), (&app.name).into()],
    )?;
    Ok(())
}

/// Whether a file of this domain could be one of the app.
pub(crate) fn may_own(tx: &mut dyn Tx, app: &App, domain: &str) -> Result<bool, ControlError> {
    let owner = owner_of(tx, domain)?;
    Ok(domain != app.name && owner.is_none_or(|owner| owner == app.id))
}

/// The id of the app that owns a domain.
fn owner_of(tx: &mut dyn Tx, domain: &str) -> Result<Option<String>, ControlError> {
    Ok(query_value(tx, "SELECT app_id FROM domains WHERE domain = $1", &[domain.into()])?)
}

/// Ends what the rule has said until now, or until a version that has not been published.
fn close(tx: &mut dyn Tx, app: &App, version: i64, rule_id: &str) -> Result<(), ControlError> {
    tx.execute(
        "UPDATE rule_versions SET to_version = $1 WHERE rule_id = $2 AND (to_version IS NULL \
         OR to_version IN (SELECT version FROM staged WHERE app_id = $3))",
        &[version.into(), rule_id.into(), (&app.id).into()],
    )?;
    Ok(())
}

/// The rows of an app in the order of their keys.
pub(crate) fn table_rules(tx: &mut dyn Tx, app: &App) -> Result<Vec<TableRule>, ControlError> {
    let rows = select!(TableRuleRow: "FROM car WHERE app_id = $1 AND edition = $2 ORDER BY key");
    let rows = rows.all(tx, &[(&app.id).into(), (&app.edition).into()])?;
    Ok(rows.into_iter().map(|TableRuleRow(table_rule)| table_rule).collect())
}

/// The files of an app in the order of their domains.
pub(crate) fn files(tx: &mut dyn Tx, app_id: &str) -> Result<Vec<FileRule>, ControlError> {
    let rows = select!(FileRow: "FROM rule_files WHERE app_id = $1 ORDER BY domain");
    let rows = rows.all(tx, &[app_id.into()])?;
    Ok(rows.into_iter().map(|FileRow(file)| file).collect())
}

/// The rule of this key, if it is there now.
pub(crate) fn current(
    tx: &mut dyn Tx,
    app: &App,
    kind: RuleKind,
    key: &str,
) -> Result<Option<Stored>, ControlError> {
    let row = match kind {
        RuleKind::TableRule => {
            select!(StoredRow: FROM_TABLE, "WHERE car.app_id = $1 AND car.edition = $2 AND car.key = $3")
                .first(tx, &[(&app.id).into(), (&app.edition).into(), key.into()])?
        }
        RuleKind::File => {
            select!(StoredRow: FROM_FILES, "WHERE rule_files.app_id = $1 AND rule_files.domain = $2")
                .first(tx, &[(&app.id).into(), key.into()])?
        }
    };
    row.map(|row| row.stored(app)).transpose()
}

row! {
    /// A rule that is there: its version says the same in every table.
    struct StoredRow { rule_id: String = "rule_versions.rule_id", from_version: i64, body: String }
}

const FROM_TABLE: &str = "FROM car JOIN rule_versions \
     ON rule_versions.rule_id = car.rule_id AND from_version = car.etag ";
const FROM_FILES: &str = "FROM rule_files JOIN rule_versions \
     ON rule_versions.rule_id = rule_files.rule_id AND from_version = rule_files.etag ";
const CURRENT_ALL: Select<StoredRow> = select!(StoredRow:
    FROM_TABLE, "WHERE car.app_id = $1 AND car.edition = $2 UNION ALL SELECT ", StoredRow::COLUMNS, " ",
    FROM_FILES, "WHERE rule_files.app_id = $1");

impl StoredRow {
    fn stored(self, app: &App) -> Result<Stored, ControlError> {
        let Self { rule_id, from_version, body } = self;
        Ok(Stored { rule_id, from_version, content: Content::read(&app.name, &body)? })
    }
}

/// Every rule that is there now, by kind and key.
pub(crate) fn current_all(tx: &mut dyn Tx, app: &App) -> Result<ByName<Stored>, ControlError> {
    let rows = CURRENT_ALL.all(tx, &[(&app.id).into(), (&app.edition).into()])?;
    let named = |row: StoredRow| {
        let stored = row.stored(app)?;
        Ok(((stored.content.kind(), stored.content.key().to_owned()), stored))
    };
    rows.into_iter().map(named).collect()
}

/// Rules as older versions of an app wrote them.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Whole versions, which are read for rules that are not there any more.
    versions: HashMap<i64, ByName<Content>>,
}

impl Written {
    /// The rule of this key as version `from_version` of the app wrote it. Reads the whole version only for a
    /// rule that was deleted since, and each version once.
    pub(crate) fn get(
        &mut self,
        tx: &mut dyn Tx,
        app: &App,
        (kind, key): (RuleKind, &str),
        from_version: i64,
    ) -> Result<Option<Content>, ControlError> {
        let body = query_value::<String>(
            tx,
            "SELECT body FROM rule_versions WHERE from_version = $1 AND rule_id = (SELECT rule_id FROM car \
             WHERE $2 = 'car' AND app_id = $3 AND edition = $4 AND key = $5 \
             UNION ALL SELECT rule_id FROM rule_files WHERE $2 = 'file' AND app_id = $3 AND domain = $5) \
             AND from_version NOT IN (SELECT version FROM staged WHERE app_id = $3)",
            &[from_version.into(), kind.name().into(), (&app.id).into(), (&app.edition).into(), key.into()],
        )?;
        if let Some(body) = body {
            return Ok(Some(Content::read(&app.name, &body)?));
        }
        if !self.versions.contains_key(&from_version) {
            if self.versions.len() >= MAX_WRITTEN {
                let max = i64::try_from(MAX_WRITTEN).unwrap_or(i64::MAX);
                return Err(ControlError::Cap {
                    what: "versions that operations on deleted rules begin with",
                    max,
                });
            }
            let bodies = query_values::<String>(
                tx,
                "SELECT body FROM rule_versions WHERE app_id = $1 AND from_version = $2 \
                 AND from_version NOT IN (SELECT version FROM staged WHERE app_id = $1)",
                &[(&app.id).into(), from_version.into()],
            )?;
            let named = |body: &String| {
                let content = Content::read(&app.name, body)?;
                Ok(((content.kind(), content.key().to_owned()), content))
            };
            let version = bodies.iter().map(named).collect::<Result<_, ControlError>>()?;
            self.versions.insert(from_version, version);
        }
        let version = self.versions.get(&from_version);
        Ok(version.and_then(|it| it.get(&(kind, key.to_owned()))).cloned())
    }
}

/// The rules of version `version` by kind and key, each with its id.
pub(crate) fn at(
    tx: &mut dyn Tx,
    app: &App,
    version: i64,
) -> Result<ByName<(String, Content)>, ControlError> {
    let rows = select!(BodyRow:
        "FROM rule_versions WHERE app_id = $1 AND from_version <= $2 \
         AND (to_version IS NULL OR to_version > $2 \
         OR to_version IN (SELECT version FROM staged WHERE app_id = $1)) \
         AND from_version NOT IN (SELECT version FROM staged WHERE app_id = $1)");
    let rows = rows.all(tx, &[(&app.id).into(), version.into()])?;
    let named = |BodyRow { rule_id, body }| {
        let content = Content::read(&app.name, &body)?;
        Ok(((content.kind(), content.key().to_owned()), (rule_id, content)))
    };
    rows.into_iter().map(named).collect()
}

row! {
    struct BodyRow { rule_id: String, body: String }
}

/// A row of the table of committed rates.
pub(crate) struct TableRuleRow(pub(crate) TableRule);

/// The trial of a row; its rate is 0 without one.
struct TrialRow(Trial);

/// A rule file.
pub(crate) struct FileRow(pub(crate) FileRule);

columns! {
    TableRuleRow(TableRule) {
        key = "car.key",
        rate = "car.rate",
        max_permits = "car.max_permits",
        need_permits = "car.need_permits",
        pre_permits = "car.pre_permits",
        g_micro = "car.g_micro",
        u_micro = "car.u_micro",
        extras = "car.extras",
        description = "car.description",
        per = "car.per",
        sharing = "car.sharing",
        on_store_failure = "car.on_store_failure",
        state = "car.state",
        bucket = "car.bucket",
        trial = TrialRow::COLUMNS => |TrialRow(trial)| (trial.rate > 0).then_some(trial),
        post_paid = "car.post_paid",
    }
}

columns! { TrialRow(Trial) { rate = "car.trial_rate", max_permits = "car.trial_max_permits" } }

columns! {
    FileRow(FileRule) {
        domain = "rule_files.domain",
        text = "rule_files.text",
        description = "rule_files.description",
        state = "rule_files.state",
    }
}
