//! Blocks and allowances: the list with what is left of each, adding one, ending one early.

use hyper::StatusCode;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::overrides::{self, Action, Override, OverrideInput};
use tollgate_control::{ControlError, FieldFault, Role};
use tollgate_http_kit::Reply;

use super::confirm::{ConfirmPage, Second};
use super::table::{TablePage, cell};
use crate::blocking::{Met, find_met};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::Lang;
use crate::texts::overrides::{Texts, left};
use crate::web::{Failure, Visit, query_of, redirect};

pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().map(|it| it.trim_end_matches('\r')).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// The inputs of a new one, with what was entered, or what the query suggests.
pub(super) fn inputs(lang: Lang, faults: &[FieldFault], value: impl Fn(&str) -> String) -> Vec<Field> {
    let t = Texts::of(lang);
    let minutes = value("minutes");
    let minutes = if minutes.is_empty() { "60" } else { &minutes };
    let inputs = vec![
        Field::text("domain", t.domain, t.domain_hint, &value("domain")).required().mono(),
        Field::text("entries", t.entries, t.entries_hint, &value("entries")).area(),
        Field::text("action", t.action, "", &value("action")).of(&[("block", t.block), ("allow", t.allow)]),
        Field::text("minutes", t.minutes, t.minutes_hint, minutes).required().number(),
        Field::text("reason", t.reason, "", &value("reason")).required(),
    ];
    inputs.into_iter().map(|it| it.faulted(lang, faults)).collect()
}

pub(super) async fn list(console: &Console, visit: &Visit, faults: &[FieldFault]) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let lang = visit.lang;
    let t = Texts::of(visit.lang);
    let who = visit.who()?;
    let search = visit.parameter("search").to_owned();
    let read = console.control.read_as(&claim, move |tx, actor| {
        let found = overrides::list(tx, actor, &search, overrides::MAX_LISTED)?;
        Ok((found, tx.now_ms()))
    });
    let ((found, _), now_ms) = read.await?;
    let mut list =
        TablePage::new(Frame::new(visit, "overrides", t.title), format!("{} / {}", t.crumb, t.title));
    list.empty = (t.empty, t.about, String::new());
    list.head = vec![
        (t.domain, false),
        (t.entries, false),
        (t.action, false),
        (t.left, false),
        (t.until, false),
        (t.reason, false),
        (t.author, false),
        ("", false),
    ];
    for one in found {
        let named = if one.entries.is_empty() { t.whole_domain.to_owned() } else { one.named() };
        let (tag, text) = match one.action {
            Action::Block => ("tag bad", t.block),
            Action::Allow => ("tag ok", t.allow),
        };
        let end = match who.may(Role::Editor, &one.app) {
            true => cell(t.end).post(format!("/overrides/{}/end", one.id), "end", "1"),
            false => cell(""),
        };
        list.rows.push(vec![
            cell(&one.domain).class("mono"),
            cell(named).class("mono"),
            cell(text).tag(tag),
            cell(left(lang, one.until - now_ms)),
            cell(visit.time(one.until)).class("time").title(one.until.to_string()),
            cell(&one.reason).class("text"),
            cell(&one.author),
            end,
        ]);
    }
    let may_add = who.may(Role::Editor, EVERY_APP) || who.roles.iter().any(|it| it.1 >= Role::Editor);
    if may_add {
        list.form_title = t.add;
        list.action = "/overrides";
        list.button = t.add;
        let of_form = !visit.is_safe;
        list.inputs = inputs(lang, faults, |name| {
            if of_form { visit.field(name) } else { visit.parameter(name) }.to_owned()
        });
    }
    page(if faults.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }, &list)
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let input = OverrideInput {
        domain: visit.field("domain").to_owned(),
        entries: lines(visit.field("entries")),
        action: visit.field("action").to_owned(),
        minutes: visit.field("minutes").to_owned(),
        reason: visit.field("reason").to_owned(),
    };
    let claim = visit.claim()?;
    let checked = match console.control.check_override(&claim, input.clone()).await {
        Ok(checked) => checked,
        Err(ControlError::Invalid(faults)) => return list(console, visit, &faults).await,
        Err(error) => return Err(error.into()),
    };
    let made = if visit.field("across") == "yes" {
        let met = find_met(console, &checked).await;
        let entries =
            |it: Vec<(String, String)>| it.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let one = |it| OverrideInput { entries: entries(it), ..input.clone() };
        console.control.create_overrides(&claim, met.across.into_iter().map(one).collect()).await.map(|_| ())
    } else if visit.field("confirmed") == "yes" {
        console.control.create_override(&claim, input).await.map(|_| ())
    } else {
        let met = find_met(console, &checked).await;
        return ask(visit, &checked, &met);
    };
    match made {
        Ok(()) => Ok(redirect("/overrides")),
        Err(ControlError::Invalid(faults)) => list(console, visit, &faults).await,
        Err(error) => Err(error.into()),
    }
}

/// Asks before a block or an allowance is made: the page says which rules it goes before.
fn ask(visit: &Visit, made: &Override, met: &Met) -> Result<Reply, Failure> {
    let lang = visit.lang;
    let t = Texts::of(visit.lang);
    let is_block = made.action == Action::Block;
    let whole = made.entries.is_empty();
    let mut hidden: Vec<(String, String)> = visit
        .fields("")
        .into_iter()
        .filter(|(name, _)| !["confirmed", "across"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let again: Vec<(&str, &str)> =
        hidden.iter().map(|(name, value)| (&**name, &**value)).filter(|it| it.0 != "etag").collect();
    let back = query_of("/overrides", &again);
    hidden.push(("confirmed".to_owned(), "yes".to_owned()));
    let rules = match met.total {
        0 => t.met_none.to_owned(),
        total => lang.rules_met(&met.rules, total),
    };
    let minutes = (made.until - made.created_at) / 60_000;
    let confirm = ConfirmPage {
        f: Frame::new(visit, "overrides", if is_block { t.block_title } else { t.allow_title }),
        crumb: format!("{} / {}", t.crumb, t.title),
        fault: match (whole, met.total) {
            (true, _) => Some(t.whole_warning.to_owned()),
            (false, 0) if met.is_published => Some(t.met_none_warning.to_owned()),
            (false, 0) => Some(t.unknown_domain_warning.to_owned()),
            _ => None,
        },
        action: "/overrides".to_owned(),
        question: if is_block { t.block_question } else { t.allow_question },
        facts: vec![
            (t.domain, made.domain.clone()),
            (t.entries, if whole { t.whole_domain.to_owned() } else { made.named() }),
            (t.rules_met, rules),
            (t.left, left(lang, minutes * 60_000)),
            (t.reason, made.reason.clone()),
        ],
        consequence: if is_block { t.block_consequence } else { t.allow_consequence },
        etag: 0,
        second: (!met.across.is_empty()).then(|| {
            let text = lang.across(met.across.len());
            Second { name: "across", value: "yes", text }
        }),
        picks: Vec::new(),
        picks_title: String::new(),
        asks_reason: false,
        hidden,
        button: if is_block { t.block } else { t.allow },
        back,
    };
    page(StatusCode::OK, &confirm)
}

pub(super) async fn end(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    console.control.end_override(&visit.claim()?, &visit.segment(1)).await?;
    Ok(redirect("/overrides"))
}
