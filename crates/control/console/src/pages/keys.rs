//! Key look-up: what nodes count for a descriptor, resetting it, and the way to block or allow it.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::keys::{Answers, Question};
use tollgate_control::{ControlError, FieldFault};
use tollgate_http_kit::Reply;

use super::overrides::lines;
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::Lang;
use crate::texts::overrides::{Texts, left};
use crate::web::{Failure, Visit, query_of};

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage {
    f: Frame,
    t: &'static Texts,
    notice: Option<(&'static str, String)>,
    inputs: Vec<Field>,
    found: Option<KeyCounters>,
    /// To the listing of the domain.
    list: String,
}

/// The counters of a key.
struct KeyCounters {
    domain: String,
    entries: String,
    rule: String,
    /// Why nothing is counted.
    none: String,
    rows: Vec<CounterRow>,
    overridden: Option<(&'static str, String)>,
    /// A node knows a counter to reset.
    may_reset: bool,
    /// To the form of a block.
    block: String,
}

struct CounterRow {
    limit: String,
    counter: String,
    node: String,
    tokens: String,
    full: String,
    note: String,
}

pub(super) async fn look_up(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let mut question = question_of(visit.parameter("domain"), visit.parameter("entries"));
    question.entries.extend(visit.parameters("entry"));
    if question == Question::default() {
        return shown(visit, &question, None, &[], None);
    }
    match console.control.inspect_key(&visit.claim()?, &question).await {
        Ok(answers) => shown(visit, &question, Some(&answers), &[], None),
        Err(ControlError::Invalid(faults)) => shown(visit, &question, None, &faults, None),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn reset(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let question = question_of(visit.field("domain"), visit.field("entries"));
    match console.control.reset_key(&visit.claim()?, &question).await {
        Ok(answers) => {
            let is_done = answers.nodes.iter().all(|it| it.known.is_ok()) && !answers.nodes.is_empty();
            let done = is_done.then(|| ("ok", Texts::of(visit.lang).reset_done.to_owned()));
            shown(visit, &question, Some(&answers), &[], done)
        }
        Err(ControlError::Invalid(faults)) => shown(visit, &question, None, &faults, None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn question_of(domain: &str, entries: &str) -> Question {
    Question { domain: domain.trim().to_owned(), entries: lines(entries) }
}

fn shown(
    visit: &Visit,
    question: &Question,
    answers: Option<&Answers>,
    faults: &[FieldFault],
    mut notice: Option<(&'static str, String)>,
) -> Result<Reply, Failure> {
    let lang = visit.lang;
    let t = Texts::of(visit.lang);
    let entries = question.entries.join("\n");
    let inputs = [
        Field::text("domain", t.domain, t.domain_hint, &question.domain).required().mono(),
        Field::text("entries", t.entries, t.key_entries_hint, &entries).area(),
    ];
    if answers.is_some_and(|it| it.live == 0) {
        notice = Some(("warn", t.no_nodes.to_owned()));
    }
    if answers.is_some_and(|it| it.is_app_disabled) {
        notice = Some(("warn", lang.texts().app_disabled_text.to_owned()));
    }
    let found = answers.filter(|it| it.live > 0).map(|it| found(lang, question, &entries, it));
    let page_of = KeysPage {
        f: Frame::new(visit, "keys", t.keys),
        t,
        notice,
        inputs: inputs.into_iter().map(|it| it.faulted(lang, faults)).collect(),
        found,
        list: query_of("/keys/scan", &[("domain", &question.domain)]),
    };
    page(if faults.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }, &page_of)
}

fn found(lang: Lang, question: &Question, entries: &str, answers: &Answers) -> KeyCounters {
    let t = Texts::of(lang);
    let known = answers.known();
    let mut rows = Vec::new();
    for answer in &answers.nodes {
        let counters = match &answer.known {
            Ok(known) => &known.limits,
            Err(error) => {
                let node = answer.node.clone();
                let note = error.clone();
                let none = String::new;
                rows.push(CounterRow {
                    limit: none(),
                    counter: none(),
                    node,
                    tokens: none(),
                    full: none(),
                    note,
                });
                continue;
            }
        };
        for counter in counters {
            let full = match counter.reset_after_ms {
                Some(ms) => left(lang, i64::try_from(ms).unwrap_or(i64::MAX)),
                None => t.never.to_owned(),
            };
            rows.push(CounterRow {
                limit: counter.limit.clone(),
                counter: counter.key.clone(),
                node: if counter.local { answer.node.clone() } else { t.all_nodes.to_owned() },
                tokens: format!("{} / {}", counter.tokens, counter.max),
                full,
                note: match (&counter.degraded, counter.tracked) {
                    (Some(_), _) => t.degraded.to_owned(),
                    (None, false) => t.unused.to_owned(),
                    (None, true) => String::new(),
                },
            });
        }
    }
    if answers.nodes.len() > 1 {
        for (at, counter) in known.iter().flat_map(|it| it.limits.iter().enumerate()) {
            let Some(tokens) = answers.tokens(at) else { continue };
            let limit = counter.limit.clone();
            let counter = counter.key.clone();
            let full = String::new();
            let note = String::new();
            rows.push(CounterRow {
                limit,
                counter,
                node: t.sum.to_owned(),
                tokens: tokens.sum.to_string(),
                full,
                note,
            });
        }
    }
    let overridden = known.and_then(|it| it.overridden.as_ref()).map(|it| {
        let text = if it.action == "block" { t.block } else { t.allow };
        let span = left(lang, i64::try_from(it.left_ms).unwrap_or(i64::MAX));
        (if it.action == "block" { "bad" } else { "ok" }, format!("{text} · {} {span}", t.left))
    });
    KeyCounters {
        domain: question.domain.clone(),
        entries: entries.to_owned(),
        rule: known.and_then(|it| it.rule.clone()).unwrap_or_default(),
        // For a disabled app the notice says why.
        none: known.and_then(|it| it.none.clone()).filter(|_| !answers.is_app_disabled).unwrap_or_default(),
        rows,
        overridden,
        may_reset: known.is_some_and(|it| !it.limits.is_empty()),
        block: query_of("/overrides", &[("domain", &question.domain), ("entries", entries)]),
    }
}
