//! Change sets, checks of operations, and traces.

use tollgate_http_kit::openapi::Description;

use crate::calls::{Call, ChangeCall as C};
use crate::describe::{Describe as _, creates, replies};
use crate::params::{ChangeBody, ChangesQuery, CommentBody, PreviewBody, PublishBody, ResolveBody};
use crate::rows::{ApiOperation, get, post, put};
use crate::views::{ChangeSet, ChangeSets, Checked, Diff, Traces};

const CREATE: &str = r#"{
    "app": "SIP_HOTEL", "title": "more for pushGeo",
    "ops": [{"op": "put", "key": "pushGeo", "base": 7, "rule": {"max_permits": 100, "rate": 50}}]
}"#;
const EDIT: &str = r#"{
    "title": "more for pushGeo", "comment": "measured",
    "ops": [{"op": "put", "key": "pushGeo", "base": 7, "rule": {"max_permits": 100, "rate": 50}}]
}"#;
const CHECK: &str = r#"{
    "app": "SIP_HOTEL",
    "ops": [{"op": "put", "key": "pushGeo", "base": 7, "rule": {"max_permits": 100, "rate": 50}}]
}"#;
const RESOLVE: &str = r#"{"choices": [{"kind": "car", "key": "pushGeo", "keep": "yours"}]}"#;
const PUBLISH: &str = r#"{"rollout": {"steps": ["1 node", "10 %", "all"], "soak_s": 60}}"#;

fn stepped() -> Description {
    replies::<ChangeSet>().or_stale::<ChangeSet>()
}

fn commented() -> Description {
    stepped().takes_body::<CommentBody>(r#"{"comment": "too low for agoda"}"#)
}

fn checked() -> Description {
    replies::<Checked>().takes_body::<PreviewBody>(CHECK)
}

pub(super) fn rows() -> Vec<ApiOperation> {
    let mut rows = vec![
        get(
            "/api/v1/changes",
            Call::Change(C::List),
            "listChanges",
            "Lists change sets, the newest first",
            || replies::<ChangeSets>().queried_by::<ChangesQuery>(),
        ),
        post(
            "/api/v1/changes",
            Call::Change(C::Create),
            "createChange",
            "Begins a change set; with `intent: publish` it is published at once where no approval is needed",
            || creates::<ChangeSet>().takes_body::<ChangeBody>(CREATE).publishes(),
        ),
        get(
            "/api/v1/changes/{id}",
            Call::Change(C::Get),
            "getChange",
            "Returns a change set with its ETag",
            replies::<ChangeSet>,
        ),
        put(
            "/api/v1/changes/{id}",
            Call::Change(C::Edit),
            "editChange",
            "Replaces title, comment and operations, which voids approvals; needs If-Match",
            || stepped().takes_body::<ChangeBody>(EDIT),
        ),
        get(
            "/api/v1/changes/{id}/diff",
            Call::Change(C::Diff),
            "diffChange",
            "What it changes, by rule and field",
            replies::<Diff>,
        ),
        post(
            "/api/v1/changes/{id}/check",
            Call::Change(C::Check),
            "checkChange",
            "Whether nodes would take it, with line and column, and its conflicts",
            replies::<Checked>,
        ),
        post(
            "/api/v1/check",
            Call::Change(C::CheckOps),
            "check",
            "Checks operations: faults with line and column, conflicts, differences",
            checked,
        ),
        post(
            "/api/v1/preview",
            Call::Change(C::Preview),
            "preview",
            "The documents that nodes would get with these operations; with `trace`, what they would have done to it",
            checked,
        ),
        get(
            "/api/v1/traces",
            Call::Change(C::Traces),
            "listTraces",
            "Lists the recorded traces that rules can be replayed on",
            replies::<Traces>,
        ),
    ];
    rows.extend(steps());
    rows
}

/// The steps of a change set.
fn steps() -> Vec<ApiOperation> {
    vec![
        post(
            "/api/v1/changes/{id}/submit",
            Call::Change(C::Submit),
            "submitChange",
            "Asks for approvals; needs If-Match",
            stepped,
        ),
        post(
            "/api/v1/changes/{id}/approve",
            Call::Change(C::Approve),
            "approveChange",
            "Approves its content; needs If-Match",
            commented,
        ),
        post(
            "/api/v1/changes/{id}/reject",
            Call::Change(C::Reject),
            "rejectChange",
            "Rejects it with a comment; needs If-Match",
            commented,
        ),
        post(
            "/api/v1/changes/{id}/publish",
            Call::Change(C::Publish),
            "publishChange",
            "Publishes it; needs If-Match; 409 with all sides of each conflict",
            || stepped().takes_body::<PublishBody>(PUBLISH).publishes(),
        ),
        post(
            "/api/v1/changes/{id}/abandon",
            Call::Change(C::Abandon),
            "abandonChange",
            "Gives it up; needs If-Match",
            commented,
        ),
        post(
            "/api/v1/changes/{id}/comment",
            Call::Change(C::Comment),
            "commentChange",
            "Adds a comment",
            || replies::<ChangeSet>().takes_body::<CommentBody>(r#"{"comment": "too low for agoda"}"#),
        ),
        post(
            "/api/v1/changes/{id}/resolve",
            Call::Change(C::Resolve),
            "resolveChange",
            "Decides conflicts: yours or theirs for each rule; needs If-Match",
            || stepped().takes_body::<ResolveBody>(RESOLVE),
        ),
    ]
}
