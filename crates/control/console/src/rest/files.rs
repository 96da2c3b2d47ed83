//! Rule files as JSON, and what they make of a request.

use hyper::StatusCode;
use tollgate_api::params::{ExplainQuery, FileBody};
use tollgate_api::{FileCall, views};
use tollgate_control::change_set::ChangeSet;
use tollgate_control::changes::{ChangeInput, OpInput};
use tollgate_control::file_rules::{self, StoredFile};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::{Content, ControlError, Fault, FieldFault, RuleKind};
use tollgate_http_kit::Reply;

use super::body::read;
use super::changes::made_reply;
use super::etag::{if_match, tagged};
use super::json::ok;
use crate::console::Console;
use crate::explaining::explain;
use crate::web::{Failure, Visit};

pub(super) async fn answer(console: &Console, call: FileCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        FileCall::List => list(console, visit).await,
        FileCall::Create => {
            let file = read::<FileBody>(visit)?.input(None).check()?;
            write(console, visit, StatusCode::CREATED, file.domain.clone(), None, Some(Content::File(file)))
                .await
        }
        FileCall::Get => Ok(shown(StatusCode::OK, current(console, visit).await?)),
        FileCall::Change => {
            visit.claim()?;
            let domain = visit.segment(5);
            let etag = if_match(visit)?;
            let file = read::<FileBody>(visit)?.input(Some(domain.clone())).check()?;
            let after = Some(Content::File(file));
            write(console, visit, StatusCode::OK, domain, Some(etag), after).await
        }
        FileCall::Delete => {
            let domain = visit.segment(5);
            let etag = if_match(visit)?;
            write(console, visit, StatusCode::OK, domain, Some(etag), None).await
        }
        FileCall::Explain => {
            visit.claim()?;
            let ExplainQuery { app, domain, entry } = ExplainQuery::read(visit);
            let found = explain(console, visit, &app, &domain, &entry.join("\n")).await?;
            let app_disabled = found.is_app_disabled;
            Ok(ok(&views::Explanation { explanation: found.text, app_disabled }))
        }
    }
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let found = console.control.read_as(&claim, move |tx, actor| file_rules::list(tx, actor, &app)).await?;
    Ok(ok(&views::Files { files: found.into_iter().map(views::File::from).collect() }))
}

async fn current(console: &Console, visit: &Visit) -> Result<StoredFile, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    let domain = visit.segment(5);
    Ok(console.control.read_as(&claim, move |tx, actor| file_rules::get(tx, actor, &app, &domain)).await?)
}

/// Publishes or submits one operation; an old etag returns 412 with the newer file.
async fn write(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    key: String,
    base: Option<i64>,
    after: Option<Content>,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(3);
    if base.is_some() {
        let now = current(console, visit).await?;
        if base != Some(now.etag) {
            return Ok(shown(StatusCode::PRECONDITION_FAILED, now));
        }
    }
    let is_there = after.is_some();
    let op = OpInput { kind: RuleKind::File, key: key.clone(), base, after };
    let input = ChangeInput { ops: vec![op], ..ChangeInput::default() };
    let name = app.clone();
    let done = console
        .commit(visit, move |tx, actor| publishing::propose(tx, actor, &name, &input, Intent::Publish))
        .await;
    let done = match done {
        // For a single new file a conflict means that it exists.
        Err(ControlError::Conflict(_)) if base.is_none() => return Err(duplicate().into()),
        done => done?,
    };
    let Some(version) = done.published_version else { return Ok(waits(done)) };
    if !is_there {
        return Ok(ok(&views::PublishedVersion { version }));
    }
    let found =
        console.control.read_as(&claim, move |tx, actor| file_rules::get(tx, actor, &app, &key)).await?;
    Ok(shown(status, found))
}

fn duplicate() -> ControlError {
    ControlError::Invalid(vec![FieldFault { field: "domain", fault: Fault::Duplicate }])
}

/// 202: the change waits for approvals.
pub(super) fn waits(change: ChangeSet) -> Reply {
    made_reply(StatusCode::ACCEPTED, change)
}

fn shown(status: StatusCode, file: StoredFile) -> Reply {
    let etag = file.etag;
    tagged(status, &views::File::from(file), etag)
}
