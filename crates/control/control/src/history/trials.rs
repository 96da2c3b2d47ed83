//! Trials: numbers that a row of the table counts in shadow beside those in force, what both have denied, and
//! what becomes of the candidate. Each step is a change of the row like any other.

use tollgate_db::Tx;
use tollgate_model::change_set::ChangeSet;
use tollgate_model::compile::path_of;
use tollgate_model::table_rule::{TableRule, TableRuleInput, Trial};
use tollgate_model::{Content, RuleKind};

use crate::access::actor::Actor;
use crate::changes::publishing::Intent;
use crate::changes::rules::{self, Past};
use crate::error::{ControlError, Fault, invalid};
use crate::history::{self, History, HistoryQuery, Resolution, Scope};
use crate::published::Committed;

/// Nodes report every five seconds.
const REPORT_MS: i64 = 5_000;

/// A step of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialStep {
    /// Numbers are tried; in place of others, if there are any.
    Start {
        /// The rate, as entered.
        rate: String,
        /// The burst, as entered.
        max_permits: String,
    },
    /// The numbers that are tried replace those in force.
    Adopt,
    /// The numbers that are tried are dropped.
    End,
}

/// Denials of the same requests by a trial and by the numbers in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The numbers that are tried.
    pub trial: Trial,
    /// Whether nodes count it: the row is `on`.
    pub is_running: bool,
    /// Since when the row has these numbers, in ms UTC.
    pub since_ms: i64,
    /// Decisions since then, without the last seconds, whose reports are not complete.
    pub history: History,
}

/// Changes the trial of a row. Needs editor. `None` when nothing changes.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one, and
/// [`ControlError::Invalid`] for numbers that the row cannot have, or without a trial to adopt.
pub fn change(
    tx: &mut dyn Tx,
    actor: &Actor,
    (app, key): (&str, &str),
    etag: i64,
    step: &TrialStep,
) -> Result<Committed<Option<ChangeSet>>, ControlError> {
    let before = rules::get(tx, actor, app, key)?.row;
    let mut input = before.to_input();
    match step {
        TrialStep::Start { rate, max_permits } => {
            for (field, text) in [("trial_rate", rate), ("trial_max_permits", max_permits)] {
                if text.trim().is_empty() {
                    return Err(invalid(field, Fault::Required));
                }
            }
            (input.trial_rate, input.trial_max_permits) = (rate.clone(), max_permits.clone());
        }
        TrialStep::Adopt => input = adopted(input, &before)?,
        TrialStep::End => (input.trial_rate, input.trial_max_permits) = (String::new(), String::new()),
    }
    rules::propose_update(tx, actor, app, etag, &input, Intent::Publish)
}

/// The row with the numbers of its trial.
fn adopted(input: TableRuleInput, before: &TableRule) -> Result<TableRuleInput, ControlError> {
    let trial = before.trial.ok_or_else(|| invalid("trial_rate", Fault::Required))?;
    Ok(TableRuleInput {
        rate: trial.rate.to_string(),
        max_permits: trial.max_permits.to_string(),
        trial_rate: String::new(),
        trial_max_permits: String::new(),
        ..input
    })
}

/// Denials by the trial of a row and by the numbers in force since both began; `None` without a trial. Needs
/// viewer.
///
/// # Errors
/// [`ControlError`].
pub fn compared(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    key: &str,
) -> Result<Option<Compared>, ControlError> {
    let row = rules::get(tx, actor, app, key)?.row;
    let Some(trial) = row.trial else { return Ok(None) };
    let past = rules::past(tx, actor, app, RuleKind::TableRule, key)?;
    let since_ms = since(&past, &row);
    let step_ms = Resolution::TenSeconds.ms();
    let to_ms = (tx.now_ms() - step_ms).div_euclid(step_ms) * step_ms;
    let mut found = History { step_ms, points: Vec::new() };
    if to_ms > since_ms {
        let scope = Scope::Rule(app.to_owned(), path_of(key));
        let from_ms = since_ms.max(to_ms - Resolution::Hour.kept_ms());
        found = history::history(tx, actor, &HistoryQuery { scope, from_ms, to_ms, step_ms: 0 })?;
        // Denials from before the candidate cannot be compared.
        found.points.retain(|point| point.at_ms >= since_ms + REPORT_MS);
    }
    Ok(Some(Compared { trial, is_running: row.state == "on", since_ms, history: found }))
}

/// When the numbers of `now` began, by the versions of the row, the newest first.
fn since(past: &[Past], now: &TableRule) -> i64 {
    let counts_alike = |it: &&Past| match &it.content {
        Content::TableRule(row) => {
            let numbers =
                |row: &TableRule| (row.rate, row.max_permits, row.need_permits, row.pre_permits, row.trial);
            let others = |row: &TableRule| (row.per.clone(), row.state.clone(), row.post_paid);
            numbers(row) == numbers(now) && others(row) == others(now)
        }
        Content::File(_) => false,
    };
    past.iter().take_while(counts_alike).last().map_or(0, |it| it.at)
}
