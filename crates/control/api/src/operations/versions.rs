//! Versions of an app.

use crate::calls::{Call, VersionCall as C};
use crate::describe::{Describe as _, replies};
use crate::params::{RollbackBody, VersionDiffQuery};
use crate::rows::{ApiOperation, get, post};
use crate::views::{PublishedVersion, VersionDiff, VersionDocuments, Versions};

pub(super) fn rows() -> Vec<ApiOperation> {
    vec![
        get(
            "/api/v1/apps/{app}/versions",
            Call::Version(C::List),
            "listVersions",
            "Lists the versions of an app, the newest first; its ETag is the current version",
            replies::<Versions>,
        ),
        get(
            "/api/v1/apps/{app}/versions/{version}",
            Call::Version(C::Get),
            "getVersion",
            "The documents of a version",
            replies::<VersionDocuments>,
        ),
        get(
            "/api/v1/apps/{app}/versions/{version}/diff",
            Call::Version(C::Diff),
            "diffVersions",
            "What differs from the version `against`, by default the one before",
            || replies::<VersionDiff>().queried_by::<VersionDiffQuery>(),
        ),
        post(
            "/api/v1/apps/{app}/versions/{version}/rollback",
            Call::Version(C::RollBack),
            "rollBack",
            "Publishes the rules of an old version as a new one; needs If-Match with the current version, and a reason",
            || {
                replies::<PublishedVersion>()
                    .or_stale::<PublishedVersion>()
                    .takes_body::<RollbackBody>(r#"{"reason": "too low for agoda"}"#)
                    .publishes()
            },
        ),
    ]
}
