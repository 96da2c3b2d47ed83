//! The user itself: preferences, password, logins; and how users begin.

use hyper::StatusCode;
use tollgate_api::params::{LinkBody, MeBody, PasswordBody, SetupBody};
use tollgate_api::views;
use tollgate_control::{Held, Preferences, Who, me};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::pages::with_login;
use crate::rest::body::read;
use crate::rest::etag::{if_match, tagged};
use crate::rest::json::{json, ok};
use crate::web::{Failure, Visit, unless_stale, zone_of};

pub(super) async fn set_up(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let SetupBody { code, name, password } = read(visit)?;
    let secret = console.control.set_up(visit.origin(), &code, &name, &password, &password).await?;
    let name = name.trim_matches(' ').to_ascii_lowercase();
    Ok(with_login(console, json(StatusCode::CREATED, &views::Name { name }), &secret))
}

pub(super) async fn redeem_link(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let LinkBody { code, password, end_tokens } = read(visit)?;
    let held = held_if(end_tokens);
    let secret = console.control.redeem_link(visit.origin(), &code, &password, &password, held).await?;
    Ok(with_login(console, ok(&views::Done {}), &secret))
}

pub(super) async fn get(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let read = console.control.read_as(&claim, |tx, actor| Ok((me::get(tx, actor)?, Who::clone(actor))));
    let (me, who) = read.await?;
    Ok(shown(&who, me))
}

pub(super) async fn change(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let etag = if_match(visit)?;
    let MeBody { locale, theme, zone } = read(visit)?;
    let changed = console.control.commit_as(&claim, move |tx, actor| {
        let before = me::get(tx, actor)?.preferences;
        let new = Preferences {
            locale: locale.clone().unwrap_or(before.locale),
            theme: theme.clone().unwrap_or(before.theme),
            zone: zone.clone().unwrap_or(before.zone),
        };
        me::prefer(tx, actor, Some(etag), &new, |name| zone_of(name).is_some())
    });
    if let Some(me) = unless_stale(changed.await)? {
        return Ok(shown(visit.who()?, me));
    }
    let mut now = get(console, visit).await?;
    *now.status_mut() = StatusCode::PRECONDITION_FAILED;
    Ok(now)
}

const fn held_if(end_tokens: bool) -> Held {
    if end_tokens { Held::Ended } else { Held::Kept }
}

pub(super) async fn change_password(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let PasswordBody { current, password, end_tokens } = read(visit)?;
    let cookie = visit.cookie.clone().unwrap_or_default();
    console
        .control
        .change_password(&claim, &cookie, &current, &password, &password, held_if(end_tokens))
        .await?;
    Ok(ok(&views::Done {}))
}

pub(super) async fn logins(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let cookie = visit.cookie.clone().unwrap_or_default();
    let logins = console.control.read_as(&claim, move |tx, actor| me::logins(tx, actor, &cookie)).await?;
    Ok(ok(&views::Logins { logins: logins.into_iter().map(views::Login::from).collect() }))
}

pub(super) async fn end_login(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let id = visit.segment(4);
    console.control.commit_as(&claim, move |tx, actor| me::end_login(tx, actor, &id)).await?;
    Ok(ok(&views::Done {}))
}

fn shown(who: &Who, me: me::Me) -> Reply {
    let etag = me.etag;
    tagged(StatusCode::OK, &views::Me::new(who, me), etag)
}
