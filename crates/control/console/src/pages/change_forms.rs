//! Forms that change rules: what they ask for, and where they lead.

use tollgate_control::change_set::ChangeSet;
use tollgate_control::publishing::Intent;
use tollgate_http_kit::Reply;

use super::hrefs::change_href;
use crate::web::{Visit, query_of, redirect};

/// The intent of a form: to publish, or to keep a draft.
pub(super) fn intent_of(visit: &Visit) -> Intent {
    if visit.field("action") == "draft" { Intent::Draft } else { Intent::Publish }
}

/// The page to go to after a change: the version that it became, or the change set that waits.
pub(super) fn after(change: &ChangeSet, back: &str) -> Reply {
    match change.published_version {
        Some(version) => {
            redirect(&query_of(back, &[("saved", &change.app), ("version", &version.to_string())]))
        }
        None => redirect(&change_href(&change.id)),
    }
}
