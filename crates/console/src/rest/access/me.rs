//! The user itself: preferences, password, logins; and how users begin.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::me::{self, Me};
use tollgate_control::{Actor, ControlError, Preferences};
use tollgate_http_kit::{Reply, reply};

use super::users::bindings;
use crate::console::Console;
use crate::pages::with_login;
use crate::rest::body::read;
use crate::rest::etag::{if_match, tagged};
use crate::web::{Failure, Visit, zone_of};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetupBody {
    code: String,
    name: String,
    password: String,
}

pub(super) async fn set_up(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let SetupBody { code, name, password } = read(visit)?;
    let secret = console.control.set_up(visit.origin(), &code, &name, &password, &password).await?;
    let name = name.trim_matches(' ').to_ascii_lowercase();
    Ok(with_login(console, reply::json(StatusCode::CREATED, &json!({"name": name})), &secret))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    code: String,
    password: String,
}

pub(super) async fn redeem_link(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let LinkBody { code, password } = read(visit)?;
    let secret = console.control.redeem_link(visit.origin(), &code, &password, &password).await?;
    Ok(with_login(console, reply::json(StatusCode::OK, &json!({})), &secret))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let actor = visit.actor()?;
    let of = actor.clone();
    let me = console.control.read(move |tx| me::get(tx, &of)).await?;
    Ok(tagged(StatusCode::OK, &shown(&actor, &me), me.etag))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeBody {
    locale: Option<String>,
    theme: Option<String>,
    zone: Option<String>,
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (actor, etag) = (visit.actor()?, if_match(visit)?);
    let MeBody { locale, theme, zone } = read(visit)?;
    let by = actor.clone();
    let changed = console.control.change(move |tx| {
        let before = me::get(tx, &by)?.preferences;
        let new = Preferences {
            locale: locale.clone().unwrap_or(before.locale),
            theme: theme.clone().unwrap_or(before.theme),
            zone: zone.clone().unwrap_or(before.zone),
        };
        me::prefer(tx, &by, Some(etag), &new, |name| zone_of(name).is_some())
    });
    match changed.await {
        Ok(me) => Ok(tagged(StatusCode::OK, &shown(&actor, &me), me.etag)),
        Err(ControlError::Stale { .. }) => {
            let mut now = get(console, visit).await?;
            *now.status_mut() = StatusCode::PRECONDITION_FAILED;
            Ok(now)
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PasswordBody {
    current: String,
    password: String,
}

pub(super) async fn change_password(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let actor = visit.actor()?;
    let PasswordBody { current, password } = read(visit)?;
    let cookie = visit.cookie.clone().unwrap_or_default();
    console.control.change_password(&actor, &cookie, &current, &password, &password).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

pub(super) async fn logins(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (actor, cookie) = (visit.actor()?, visit.cookie.clone().unwrap_or_default());
    let logins = console.control.read(move |tx| me::logins(tx, &actor, &cookie)).await?;
    let logins: Vec<Value> = logins
        .iter()
        .map(|it| {
            json!({
                "id": it.id, "created_at": it.created_at, "last_seen": it.last_seen,
                "expires_at": it.expires_at, "ip": it.ip, "agent": it.agent, "is_this": it.is_this,
            })
        })
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({"logins": logins})))
}

pub(super) async fn end_login(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (actor, id) = (visit.actor()?, visit.segment(4));
    console.control.change(move |tx| me::end_login(tx, &actor, &id)).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

fn shown(actor: &Actor, me: &Me) -> Value {
    let Preferences { locale, theme, zone } = &me.preferences;
    json!({
        "name": me.name, "locale": locale, "theme": theme, "zone": zone, "roles": bindings(&actor.roles),
        "token": actor.via,
    })
}
