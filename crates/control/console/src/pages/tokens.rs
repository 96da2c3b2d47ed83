//! Tokens: one's own, and for admins of every app all.

use hyper::StatusCode;
use tollgate_control::actor::EVERY_APP;
use tollgate_control::tokens::{self, Token, TokenInput, TokenKind};
use tollgate_control::{ControlError, FieldFault, Role};
use tollgate_http_kit::Reply;

use super::sections::{Form, Secret, Section, SectionsPage};
use super::table::{Cell, cell};
use super::users::{role_options, roles_text};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::access;
use crate::web::{Failure, Visit, query_of, redirect};

/// Tokens of a page.
const SIZE: i64 = 100;

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    show(console, visit, StatusCode::OK, &[], None).await
}

async fn show(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    faults: &[FieldFault],
    secret: Option<String>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let lang = visit.lang;
    let a = access::Texts::of(visit.lang);
    let before = visit.parameter("before").to_owned();
    let read = console
        .control
        .read_as(&claim, move |tx, actor| Ok((tokens::list(tx, actor, &before, SIZE)?, tx.now_ms())));
    let (listed, now_ms) = read.await?;
    let mut shown =
        SectionsPage::new(Frame::new(visit, "tokens", a.tokens), format!("{} / {}", t.system, a.tokens));
    shown.secret = secret.map(|text| Secret { title: a.token_title, hint: a.token_hint.to_owned(), text });
    let more = listed.last().filter(|_| listed.len() as i64 == SIZE);
    let table = Section {
        head: vec![
            (a.token_name, false),
            (a.token, false),
            (a.token_kind, false),
            (a.owner, false),
            (t.roles, false),
            (a.expires, false),
            (a.last_used, false),
            (t.state, false),
            ("", false),
        ],
        rows: listed.iter().map(|it| row(visit, it, now_ms)).collect(),
        empty: (a.no_tokens, a.no_tokens_text),
        more: more.map(|it| (query_of("/tokens", &[("before", &it.id)]), t.older)),
        ..Section::default()
    };
    let mut kinds = vec![("api", a.kind_api)];
    if visit.who()?.may(Role::Admin, EVERY_APP) {
        kinds.extend([("node", a.kind_node), ("join", a.kind_join)]);
    }
    let or = |name: &str, default: &'static str| match visit.field(name) {
        "" => default.to_owned(),
        value => value.to_owned(),
    };
    let apps = if visit.sent_field("apps").is_some() {
        visit.field("apps").to_owned()
    } else {
        EVERY_APP.to_owned()
    };
    let mut inputs = vec![
        Field::text("name", a.token_name, a.token_name_hint, visit.field("name")).required(),
        Field::text("kind", a.token_kind, "", &or("kind", "api")).of(&kinds),
        Field::text("role", t.role, "", &or("role", "viewer")).of(&role_options(lang)),
        Field::text("apps", a.token_apps, a.token_apps_hint, &apps).mono(),
        Field::text("days", a.token_days, a.token_days_hint, visit.field("days")).number(),
    ];
    for input in &mut inputs {
        // The rights are entered as a role and apps.
        let name = if input.name == "apps" { "rights" } else { input.name };
        let fault = faults.iter().find(|it| it.field == name);
        input.fault = fault.map(|it| lang.fault(&it.fault));
    }
    let form = Form {
        action: "/tokens".to_owned(),
        inputs,
        button: a.new_token,
        class: "primary",
        ..Form::default()
    };
    shown.sections = vec![
        table,
        Section { title: a.new_token, about: a.tokens_about, forms: vec![form], ..Section::default() },
    ];
    page(status, &shown)
}

fn row(visit: &Visit, token: &Token, now_ms: i64) -> Vec<Cell> {
    let a = access::Texts::of(visit.lang);
    let time = |at: Option<i64>, none: &str| {
        let text = at.map_or_else(|| none.to_owned(), |at| visit.time(at));
        cell(text).class("time").title(at.map_or_else(String::new, |at| at.to_string()))
    };
    let state = match token.revoked_at {
        Some(_) => cell(a.revoked).tag("tag off"),
        None if token.is_valid(now_ms) => cell(a.valid).tag("tag on"),
        None if token.admits_known_nodes_only(now_ms) => cell(a.joining_ended).tag("tag warn"),
        None => cell(a.expired).tag("tag off"),
    };
    vec![
        cell(&token.name).class("text"),
        cell(format!("{}…", token.prefix)).tag("mono"),
        cell(match token.kind {
            TokenKind::Api => a.kind_api,
            TokenKind::Node => a.kind_node_short,
            TokenKind::Join => a.kind_join_short,
        }),
        cell(token.owner.as_deref().unwrap_or(a.by_program)),
        cell(roles_text(visit.lang, &token.rights)).class("text"),
        time(token.expires_at, a.never),
        time(token.last_used_at, a.unused),
        state,
        if token.is_valid(now_ms) || token.admits_known_nodes_only(now_ms) {
            cell(a.revoke).post(format!("/tokens/{}/revoke", token.id), "id", &*token.id)
        } else {
            cell("")
        },
    ]
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let field = |name| visit.field(name).to_owned();
    let apps = visit.field("apps").split([',', '，']).map(str::trim).filter(|it| !it.is_empty());
    let rights = apps.map(|app| (app.to_owned(), field("role"))).collect();
    let input = TokenInput { kind: field("kind"), name: field("name"), rights, days: field("days") };
    match console.control.create_token(&claim, input).await {
        Ok((_, secret)) => show(console, visit, StatusCode::CREATED, &[], Some(secret)).await,
        Err(ControlError::Invalid(faults)) => {
            show(console, visit, StatusCode::UNPROCESSABLE_ENTITY, &faults, None).await
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn revoke(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    console.control.revoke_token(&visit.claim()?, &visit.segment(1)).await?;
    Ok(redirect("/tokens"))
}
