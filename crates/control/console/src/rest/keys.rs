//! Keys as JSON: what nodes count, resetting it, those that a store lists, and the buckets of an app's
//! request classes.

use tollgate_api::params::{KeyQuery, LiveKeysQuery, ScanQuery};
use tollgate_api::views;
use tollgate_control::history;
use tollgate_control::keys::Question;
use tollgate_http_kit::Reply;

use super::json::ok;
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(super) async fn inspect(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let _place = console.rooms.look_up(visit)?;
    let question = KeyQuery::read(visit).question();
    let answers = console.control.inspect_key(&visit.claim()?, &question).await?;
    Ok(ok(&views::Key::from(&answers)))
}

pub(super) async fn reset(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let _place = console.rooms.look_up(visit)?;
    let question = KeyQuery::read(visit).question();
    let answers = console.control.reset_key(&visit.claim()?, &question).await?;
    Ok(ok(&views::Key::from(&answers)))
}

pub(super) async fn scan(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let ScanQuery { domain, entry, cursor } = ScanQuery::read(visit);
    let _place = console.rooms.look_up(visit)?;
    let question = Question { domain, entries: entry };
    let found = console.control.scan_keys(&visit.claim()?, &question, &cursor).await?;
    Ok(ok(&views::ListedKeys::from(found)))
}

pub(super) async fn live(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let LiveKeysQuery { key: keys } = LiveKeysQuery::read(visit)?;
    let asked: Vec<_> = keys.iter().map(|key| (app.clone(), key.clone())).collect();
    let used =
        console.control.read_as(&claim, move |tx, actor| history::last_used(tx, actor, &asked)).await?;
    let _place = console.rooms.look_up(visit)?;
    let found = console.control.live_keys(&claim, &app, &keys).await?;
    let keys = keys.into_iter().zip(&found).map(|(key, answers)| {
        let tokens = answers.tokens(0);
        views::LiveKey {
            tokens: tokens.map(|it| it.least),
            tokens_most: tokens.map(|it| it.most),
            nodes: answers.nodes.len(),
            local: answers.is_local,
            last_used: used.iter().find(|it| it.key == key).map(|it| it.used_ms),
            key,
        }
    });
    Ok(ok(&views::LiveKeys { keys: keys.collect(), app }))
}
