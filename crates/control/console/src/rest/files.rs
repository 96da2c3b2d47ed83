//! Rule files as JSON, and what they make of a request.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_control::change_set::ChangeSet;
use tollgate_control::changes::{ChangeInput, OpInput};
use tollgate_control::file_rules::{self, StoredFile};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::{Content, ControlError, Kind};
use tollgate_http_kit::{Reply, reply};

use super::body::read;
use super::changes::made_reply;
use super::content::FileBody;
use super::etag::{if_match, tagged};
use crate::console::Console;
use crate::explaining::explain;
use crate::web::{Failure, Visit};

/// An operation on rule files.
#[derive(Clone, Copy, Debug)]
pub enum FileCall {
    /// Lists those of an app.
    List,
    /// Adds one.
    Create,
    /// Returns one.
    Get,
    /// Replaces one.
    Change,
    /// Removes one.
    Delete,
    /// What the rules in force make of a request.
    Explain,
}

type Row = (Method, &'static str, FileCall, &'static str, &'static str);

/// Method, path, call, id, summary.
pub(super) static ROWS: &[Row] = &[
    (Method::GET, "/api/v1/apps/{app}/files", FileCall::List, "listFiles", "Lists the rule files of an app"),
    (
        Method::POST,
        "/api/v1/apps/{app}/files",
        FileCall::Create,
        "createFile",
        "Adds a rule file, whose text names its domain",
    ),
    (
        Method::GET,
        "/api/v1/apps/{app}/files/{domain}",
        FileCall::Get,
        "getFile",
        "Returns a rule file with its ETag",
    ),
    (
        Method::PUT,
        "/api/v1/apps/{app}/files/{domain}",
        FileCall::Change,
        "changeFile",
        "Replaces a rule file; needs If-Match",
    ),
    (
        Method::DELETE,
        "/api/v1/apps/{app}/files/{domain}",
        FileCall::Delete,
        "deleteFile",
        "Deletes a rule file; needs If-Match",
    ),
    (
        Method::GET,
        "/api/v1/explain",
        FileCall::Explain,
        "explain",
        "Which rule in force applies to a request, and why",
    ),
];

pub(super) async fn answer(console: &Console, call: FileCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        FileCall::List => {
            let (claim, app) = (visit.claim()?, visit.segment(3));
            let found =
                console.control.read_as(&claim, move |tx, actor| file_rules::list(tx, actor, &app)).await?;
            let files: Vec<Value> = found.iter().map(shown).collect();
            Ok(reply::json(StatusCode::OK, &json!({"files": files})))
        }
        FileCall::Create => {
            let file = read::<FileBody>(visit)?.input(None).check()?;
            write(console, visit, StatusCode::CREATED, file.domain.clone(), None, Some(Content::File(file)))
                .await
        }
        FileCall::Get => {
            let found = current(console, visit).await?;
            Ok(tagged(StatusCode::OK, &shown(&found), found.etag))
        }
        FileCall::Change => {
            visit.claim()?;
            let (domain, etag) = (visit.segment(5), if_match(visit)?);
            let file = read::<FileBody>(visit)?.input(Some(domain.clone())).check()?;
            let after = Some(Content::File(file));
            write(console, visit, StatusCode::OK, domain, Some(etag), after).await
        }
        FileCall::Delete => {
            let (domain, etag) = (visit.segment(5), if_match(visit)?);
            write(console, visit, StatusCode::OK, domain, Some(etag), None).await
        }
        FileCall::Explain => {
            visit.claim()?;
            let (app, domain) = (visit.parameter("app"), visit.parameter("domain"));
            let entries = visit.parameters("entry").join("\n");
            let found = explain(console, visit, app, domain, &entries).await?;
            let body = json!({"explanation": found.text, "app_disabled": found.is_app_disabled});
            Ok(reply::json(StatusCode::OK, &body))
        }
    }
}

async fn current(console: &Console, visit: &Visit) -> Result<StoredFile, Failure> {
    let (claim, app, domain) = (visit.claim()?, visit.segment(3), visit.segment(5));
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
    let (claim, app) = (visit.claim()?, visit.segment(3));
    if base.is_some() {
        let now = current(console, visit).await?;
        if base != Some(now.etag) {
            return Ok(tagged(StatusCode::PRECONDITION_FAILED, &shown(&now), now.etag));
        }
    }
    let is_there = after.is_some();
    let op = OpInput { kind: Kind::File, key: key.clone(), base, after };
    let input = ChangeInput { ops: vec![op], ..ChangeInput::default() };
    let name = app.clone();
    let done = console
        .change(visit, move |tx, actor| publishing::propose(tx, actor, &name, &input, Intent::Publish))
        .await;
    let done = match done {
        // Of a single new file this means that it is there.
        Err(ControlError::Conflict(_)) if base.is_none() => return Err(duplicate().into()),
        done => done?,
    };
    let Some(version) = done.published_version else { return Ok(waits(&done)) };
    if !is_there {
        return Ok(reply::json(StatusCode::OK, &json!({"version": version})));
    }
    let found =
        console.control.read_as(&claim, move |tx, actor| file_rules::get(tx, actor, &app, &key)).await?;
    Ok(tagged(status, &shown(&found), found.etag))
}

fn duplicate() -> ControlError {
    let fault = tollgate_control::FieldFault { field: "domain", fault: tollgate_control::Fault::Duplicate };
    ControlError::Invalid(vec![fault])
}

/// 202: the change waits for approvals.
pub(super) fn waits(change: &ChangeSet) -> Reply {
    made_reply(StatusCode::ACCEPTED, change)
}

fn shown(it: &StoredFile) -> Value {
    let file = &it.file;
    json!({
        "app": it.app, "domain": file.domain, "text": file.text, "description": file.description,
        "state": file.state, "version": it.version, "updated_at": it.updated_at, "updated_by": it.updated_by,
    })
}
