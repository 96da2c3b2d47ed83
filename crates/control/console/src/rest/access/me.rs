//! The user itself: preferences, password, logins; and how users begin.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::me::{self, Me};
use tollgate_control::{ControlError, Held, Preferences, Who};
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
    #[serde(default)]
    end_tokens: bool,
}

pub(super) async fn redeem_link(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let LinkBody { code, password, end_tokens } = read(visit)?;
    let held = held(end_tokens);
    let secret = console.control.redeem_link(visit.origin(), &code, &password, &password, held).await?;
    Ok(with_login(console, reply::json(StatusCode::OK, &json!({})), &secret))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let read = console.control.read_as(&claim, |tx, actor| Ok((me::get(tx, actor)?, Who::clone(actor))));
    let (me, who) = read.await?;
    Ok(tagged(StatusCode::OK, &shown(&who, &me), me.etag))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeBody {
    locale: Option<String>,
    theme: Option<String>,
    zone: Option<String>,
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, etag) = (visit.claim()?, if_match(visit)?);
    let MeBody { locale, theme, zone } = read(visit)?;
    let changed = console.control.change_as(&claim, move |tx, actor| {
        let before = me::get(tx, actor)?.preferences;
        let new = Preferences {
            locale: locale.clone().unwrap_or(before.locale),
            theme: theme.clone().unwrap_or(before.theme),
            zone: zone.clone().unwrap_or(before.zone),
        };
        me::prefer(tx, actor, Some(etag), &new, |name| zone_of(name).is_some())
    });
    match changed.await {
        Ok(me) => Ok(tagged(StatusCode::OK, &shown(visit.who()?, &me), me.etag)),
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
    #[serde(default)]
    end_tokens: bool,
}

const fn held(end_tokens: bool) -> Held {
    if end_tokens { Held::Ended } else { Held::Kept }
}

pub(super) async fn change_password(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let PasswordBody { current, password, end_tokens } = read(visit)?;
    let cookie = visit.cookie.clone().unwrap_or_default();
    console
        .control
        .change_password(&claim, &cookie, &current, &password, &password, held(end_tokens))
        .await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

pub(super) async fn logins(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (claim, cookie) = (visit.claim()?, visit.cookie.clone().unwrap_or_default());
    let logins = console.control.read_as(&claim, move |tx, actor| me::logins(tx, actor, &cookie)).await?;
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
    let (claim, id) = (visit.claim()?, visit.segment(4));
    console.control.change_as(&claim, move |tx, actor| me::end_login(tx, actor, &id)).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

fn shown(who: &Who, me: &Me) -> Value {
    let Preferences { locale, theme, zone } = &me.preferences;
    json!({
        "name": me.name, "locale": locale, "theme": theme, "zone": zone, "roles": bindings(&who.roles),
        "token": who.via,
    })
}
