//! The table of operations: method, path, name, summary, and the types of what each takes and replies.
//!
//! Among paths with braces, those that come first are found first.

mod access;
mod apps;
mod changes;
mod files;
mod nodes;
mod rollouts;
mod traffic;
mod versions;

use std::sync::LazyLock;

use tollgate_http_kit::Operation;

use crate::calls::Call;
use crate::describe::replies;
use crate::rows::get;
use crate::views::ApiDescription;

/// Every operation of the API.
#[must_use]
pub fn operations() -> &'static [Operation<Call>] {
    &OPERATIONS
}

static OPERATIONS: LazyLock<Vec<Operation<Call>>> = LazyLock::new(|| {
    let mut all =
        vec![get("/openapi.json", Call::OpenApi, "openapi", "This description", replies::<ApiDescription>)];
    all.extend(apps::rows());
    all.extend(traffic::rows());
    all.extend(nodes::rows());
    all.extend(changes::rows());
    all.extend(versions::rows());
    all.extend(rollouts::rows());
    all.extend(files::rows());
    all.extend(access::rows());
    all
});
