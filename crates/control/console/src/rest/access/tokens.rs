//! Tokens.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::tokens::{self, Token, TokenInput};
use tollgate_control::{ControlError, Fault, FieldFault};
use tollgate_http_kit::{Reply, reply};

use super::users::bindings;
use crate::console::Console;
use crate::rest::body::read;
use crate::rest::lists::{limit, next};
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, limit, before) = (visit.claim()?, limit(visit)?, visit.parameter("cursor").to_owned());
    let listed = console
        .control
        .read_as(&claim, move |tx, actor| Ok((tokens::list(tx, actor, &before, limit)?, tx.now_ms())));
    let (tokens, now_ms) = listed.await?;
    let next = next(&tokens, limit, |token| token.id.clone());
    let tokens: Vec<Value> = tokens.iter().map(|it| shown(it, now_ms)).collect();
    Ok(reply::json(StatusCode::OK, &json!({"tokens": tokens, "next": next})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenBody {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    rights: Vec<Right>,
    #[serde(default)]
    days: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Right {
    app: String,
    role: String,
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
    let body = json!({"token": shown(&token, token.created_at), "secret": secret});
    Ok(reply::json(StatusCode::CREATED, &body))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, id) = (visit.claim()?, visit.segment(3));
    let got =
        console.control.read_as(&claim, move |tx, actor| Ok((tokens::get(tx, actor, &id)?, tx.now_ms())));
    let (token, now_ms) = got.await?;
    Ok(reply::json(StatusCode::OK, &shown(&token, now_ms)))
}

pub(super) async fn revoke(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let token = console.control.revoke_token(&visit.claim()?, &visit.segment(3)).await?;
    Ok(reply::json(StatusCode::OK, &shown(&token, i64::MAX)))
}

fn shown(token: &Token, now_ms: i64) -> Value {
    json!({
        "id": token.id, "kind": token.kind.name(), "name": token.name, "prefix": token.prefix,
        "owner": token.owner, "rights": bindings(&token.rights), "created_at": token.created_at,
        "expires_at": token.expires_at, "last_used_at": token.last_used_at, "revoked_at": token.revoked_at,
        "is_valid": token.is_valid(now_ms),
    })
}
