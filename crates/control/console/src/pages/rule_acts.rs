//! Actions on a rule's page beside its form: another state or a trial by one click, and the same rule
//! as YAML.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::publishing::Intent;
use tollgate_control::rules::{self, Rule};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::trials::{self, TrialStep};
use tollgate_control::{DocFault, ModelError, Role, table_rule_yaml};
use tollgate_http_kit::Reply;

use super::change_forms::{after, intent_of};
use super::hrefs::rule_href;
use super::rule_form::show_entered;
use super::rule_trial::Entered;
use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::changes::Texts;
use crate::web::{Failure, Outcome, Visit, redirect, unless_stale};

/// An action on a rule.
#[derive(Clone, Copy, Debug)]
pub enum RuleAct {
    /// On, shadow or off.
    State,
    /// Numbers in shadow beside those in force.
    Trial,
    /// Shows the rule as YAML.
    Yaml,
    /// Saves its YAML.
    SaveYaml,
}

pub(super) async fn answer(console: &Console, act: RuleAct, visit: &Visit) -> Result<Reply, Failure> {
    match act {
        RuleAct::State => set_state(console, visit).await,
        RuleAct::Trial => trial(console, visit).await,
        RuleAct::Yaml => {
            let rule = read(console, visit).await?;
            let text = table_rule_yaml::write(&rule.row.to_input());
            show(visit, StatusCode::OK, &rule, rule.etag, text, &[], None)
        }
        RuleAct::SaveYaml => save(console, visit).await,
    }
}

async fn read(console: &Console, visit: &Visit) -> Result<Rule, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let key = visit.segment(3);
    Ok(console.control.read_as(&claim, move |tx, actor| rules::get(tx, actor, &app, &key)).await?)
}

async fn set_state(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(1);
    let etag = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let rule = read(console, visit).await?;
    let href = rule_href(&rule.app, &rule.row.key);
    let input = TableRuleInput { state: visit.field("state").to_owned(), ..rule.row.to_input() };
    let done = console.commit(visit, move |tx, actor| {
        rules::propose_update(tx, actor, &app, etag, &input, Intent::Publish)
    });
    Ok(match unless_stale(done.await)?.flatten() {
        Some(done) => after(&done, &href),
        // The page shows what is there now, with its state.
        None => redirect(&href),
    })
}

#[derive(Template)]
#[template(path = "rule_yaml.html")]
struct YamlPage {
    f: Frame,
    c: &'static Texts,
    app: String,
    key: String,
    href: String,
    etag: i64,
    text: String,
    lines: Vec<bool>,
    faults: Vec<String>,
    notice: Option<(&'static str, String)>,
    may_edit: bool,
}

fn show(
    visit: &Visit,
    status: StatusCode,
    rule: &Rule,
    etag: i64,
    text: String,
    faults: &[DocFault],
    notice: Option<(&'static str, String)>,
) -> Result<Reply, Failure> {
    let c = Texts::of(visit.lang);
    let lines = 1..=u32::try_from(text.lines().count().max(1)).unwrap_or(1);
    let yaml = YamlPage {
        f: Frame::new(visit, "rules", format!("{} / {}", rule.app, rule.row.key)),
        c,
        app: rule.app.clone(),
        key: rule.row.key.clone(),
        href: rule_href(&rule.app, &rule.row.key),
        etag,
        lines: lines.map(|line| faults.iter().any(|it| it.line == line)).collect(),
        text,
        faults: faults.iter().map(ToString::to_string).collect(),
        notice,
        may_edit: visit.who()?.may(Role::Editor, &rule.app),
    };
    page(status, &yaml)
}

async fn save(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(1);
    let etag = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let rule = read(console, visit).await?;
    console.must(visit, Role::Editor, &rule.app).await?;
    let text = visit.field("text").replace("\r\n", "\n");
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    let input = match table_rule_yaml::read(&text) {
        Ok(input) => input,
        Err(ModelError::Faulty(faults)) => {
            return show(visit, unprocessable, &rule, etag, text, &faults, None);
        }
        Err(error) => return Err(error.into()),
    };
    let at = |field: &str, message: String| {
        let line = text.lines().position(|line| line.trim_start().starts_with(&format!("{field}:")));
        let line = line.map_or(1, |index| u32::try_from(index + 1).unwrap_or(1));
        DocFault { domain: String::new(), line, column: 1, path: field.to_owned(), message }
    };
    if input.key != rule.row.key {
        let fault = at("key", "a rule keeps its key; make a new rule for another key".to_owned());
        return show(visit, unprocessable, &rule, etag, text, &[fault], None);
    }
    let href = format!("{}/yaml", rule_href(&rule.app, &rule.row.key));
    let intent = intent_of(visit);
    let changed =
        console.commit(visit, move |tx, actor| rules::propose_update(tx, actor, &app, etag, &input, intent));
    match Outcome::of(changed.await)? {
        Outcome::Done(Some(done)) => Ok(after(&done, &href)),
        Outcome::Done(None) => Ok(redirect(&href)),
        Outcome::Invalid(faults) => {
            let faults: Vec<_> = faults.iter().map(|it| at(it.field, visit.lang.fault(&it.fault))).collect();
            show(visit, unprocessable, &rule, etag, text, &faults, None)
        }
        Outcome::Stale => {
            let notice = Some(("warn", visit.lang.texts().stale.to_owned()));
            show(visit, StatusCode::PRECONDITION_FAILED, &rule, rule.etag, text, &[], notice)
        }
    }
}

async fn trial(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let app = visit.segment(1);
    let key = visit.segment(3);
    let etag = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let href = rule_href(&app, &key);
    let rate = visit.field("try_rate").to_owned();
    let max_permits = visit.field("try_max_permits").to_owned();
    let step = match visit.field("action") {
        "start" => TrialStep::Start { rate: rate.clone(), max_permits: max_permits.clone() },
        "adopt" => TrialStep::Adopt,
        "end" => TrialStep::End,
        _ => return Err(Failure::Bad("unknown action".to_owned())),
    };
    let is_start = matches!(step, TrialStep::Start { .. });
    let done =
        console.commit(visit, move |tx, actor| trials::change(tx, actor, (&app, &key), etag, &step)).await;
    match Outcome::of(done)? {
        Outcome::Done(Some(done)) => Ok(after(&done, &href)),
        Outcome::Invalid(faults) if is_start => {
            show_entered(console, visit, &Entered { rate, max_permits, faults }).await
        }
        // The page shows what is there now, also where the trial has ended meanwhile.
        Outcome::Done(None) | Outcome::Stale | Outcome::Invalid(_) => Ok(redirect(&href)),
    }
}
