//! Rule files, requests to explain, and whole apps as YAML.

use crate::calls::{Call, FileCall as C, TransferCall};
use crate::describe::{Describe as _, creates, replies, replies_text};
use crate::params::{ExplainQuery, ExportQuery, FileBody, ImportQuery};
use crate::rows::{ApiOperation, delete, get, post, put};
use crate::views::{Explanation, File, Files, Imported, PublishedVersion};

const FILE: &str =
    r#"{"text": "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n"}"#;

pub(super) fn rows() -> Vec<ApiOperation> {
    vec![
        get(
            "/api/v1/apps/{app}/files",
            Call::File(C::List),
            "listFiles",
            "Lists the rule files of an app",
            replies::<Files>,
        ),
        post(
            "/api/v1/apps/{app}/files",
            Call::File(C::Create),
            "createFile",
            "Adds a rule file, whose text names its domain",
            || creates::<File>().takes_body::<FileBody>(FILE).publishes_or_waits(),
        ),
        get(
            "/api/v1/apps/{app}/files/{domain}",
            Call::File(C::Get),
            "getFile",
            "Returns a rule file with its ETag",
            replies::<File>,
        ),
        put(
            "/api/v1/apps/{app}/files/{domain}",
            Call::File(C::Change),
            "changeFile",
            "Replaces a rule file; needs If-Match",
            || replies::<File>().or_stale::<File>().takes_body::<FileBody>(FILE).publishes_or_waits(),
        ),
        delete(
            "/api/v1/apps/{app}/files/{domain}",
            Call::File(C::Delete),
            "deleteFile",
            "Deletes a rule file; needs If-Match",
            || replies::<PublishedVersion>().or_stale::<File>().publishes_or_waits(),
        ),
        get(
            "/api/v1/explain",
            Call::File(C::Explain),
            "explain",
            "Which rule in force applies to a request, and why",
            || replies::<Explanation>().queried_by::<ExplainQuery>(),
        ),
        get(
            "/api/v1/export",
            Call::Transfer(TransferCall::Export),
            "exportApp",
            "All rules of an app as one YAML document, sorted by key",
            || replies_text("application/yaml").queried_by::<ExportQuery>(),
        ),
        post(
            "/api/v1/import",
            Call::Transfer(TransferCall::Import),
            "importApp",
            "Makes an app equal to a YAML document, as one change set; `dry_run=true` only shows the difference",
            || replies::<Imported>().queried_by::<ImportQuery>().publishes_or_waits(),
        ),
    ]
}
