//! Tokens.

use hyper::StatusCode;
use serde_json::Value;
use tollgate_api::params::{PageQuery, TokenBody};
use tollgate_api::{query, views};
use tollgate_control::tokens::{self, TokenInput};
use tollgate_control::{ControlError, Fault, FieldFault};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::rest::body::read;
use crate::rest::json::{json, ok};
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let PageQuery { limit, cursor } = PageQuery::read(visit)?;
    let listed = console
        .control
        .read_as(&claim, move |tx, actor| Ok((tokens::list(tx, actor, &cursor, limit)?, tx.now_ms())));
    let (tokens, now_ms) = listed.await?;
    let next = query::next(&tokens, limit, |token| token.id.clone());
    let tokens = tokens.into_iter().map(|it| views::Token::new(it, now_ms)).collect();
    Ok(ok(&views::Tokens { tokens, next }))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let TokenBody { name, kind, rights, days } = read(visit)?;
    let days = match days {
        Value::Null => String::new(),
        Value::Number(days) => days.to_string(),
        _ => {
            let fault = Fault::Whole { min: 1, max: tokens::MAX_DAYS };
            return Err(ControlError::Invalid(vec![FieldFault { field: "days", fault }]).into());
        }
    };
    let rights = rights.into_iter().map(|it| (it.app, it.role)).collect();
    let (token, secret) =
        console.control.create_token(&claim, TokenInput { kind, name, rights, days }).await?;
    let now_ms = token.created_at;
    Ok(json(StatusCode::CREATED, &views::NewToken { token: views::Token::new(token, now_ms), secret }))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let id = visit.segment(3);
    let got =
        console.control.read_as(&claim, move |tx, actor| Ok((tokens::get(tx, actor, &id)?, tx.now_ms())));
    let (token, now_ms) = got.await?;
    Ok(ok(&views::Token::new(token, now_ms)))
}

pub(super) async fn revoke(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let token = console.control.revoke_token(&visit.claim()?, &visit.segment(3)).await?;
    Ok(ok(&views::Token::new(token, i64::MAX)))
}
