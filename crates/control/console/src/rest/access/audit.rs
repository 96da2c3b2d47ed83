//! The audit: lists, export, and the state of the chain.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK};
use tollgate_api::params::{AuditExportQuery, AuditQuery};
use tollgate_api::{query, views};
use tollgate_control::audit::{self, MAX_EXPORT};
use tollgate_http_kit::{Reply, reply};

use crate::console::Console;
use crate::rest::json::{ok, sorted};
use crate::web::{Failure, Visit};

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let asked = AuditQuery::read(visit)?;
    let limit = asked.limit;
    let before = asked.cursor;
    let filter = asked.filter();
    let found = console
        .control
        .read_as(&claim, move |tx, actor| audit::find(tx, actor, &filter, before, limit))
        .await?;
    let next = query::next(&found, limit, |entry| entry.seq.to_string());
    Ok(ok(&views::Entries { entries: found.into_iter().map(views::Entry::from).collect(), next }))
}

pub(super) async fn export(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let AuditExportQuery { after } = AuditExportQuery::read(visit)?;
    let part =
        console.control.read_as(&claim, move |tx, actor| audit::export(tx, actor, after, MAX_EXPORT)).await?;
    // A full part is followed by another one.
    let last = part.last().filter(|_| part.len() as i64 == MAX_EXPORT).map(|it| it.seq);
    let mut lines = String::new();
    for entry in part {
        lines += &sorted(&views::Entry::from(entry)).to_string();
        lines.push('\n');
    }
    let mut reply = reply::reply(StatusCode::OK, NDJSON, lines);
    if let Some(last) = last {
        let next = format!("</api/v1/audit/export?after={last}>; rel=\"next\"");
        if let Ok(next) = HeaderValue::try_from(next) {
            reply.headers_mut().insert(LINK, next);
        }
    }
    Ok(reply)
}

pub(super) async fn chain(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let chain = console.control.verify_audit(&visit.claim()?, |_, _| {}).await?;
    Ok(ok(&views::AuditChain::from(chain)))
}
