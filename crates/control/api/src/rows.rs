//! Rows of the table of operations, by method.

use hyper::Method;
use tollgate_http_kit::openapi::Description;
use tollgate_http_kit::{Access, Operation};

use crate::calls::Call;

/// A row of the table of operations.
pub(crate) type ApiOperation = Operation<Call>;

type Text = &'static str;

fn row(
    method: Method,
    path: Text,
    route: Call,
    words: (Text, Text),
    describe: fn() -> Description,
) -> ApiOperation {
    let (id, summary) = words;
    Operation { method, path, route, access: Access::Anyone, id, summary, describe }
}

pub(crate) fn get(
    path: Text,
    route: Call,
    id: Text,
    summary: Text,
    describe: fn() -> Description,
) -> ApiOperation {
    row(Method::GET, path, route, (id, summary), describe)
}

pub(crate) fn post(
    path: Text,
    route: Call,
    id: Text,
    summary: Text,
    describe: fn() -> Description,
) -> ApiOperation {
    row(Method::POST, path, route, (id, summary), describe)
}

pub(crate) fn put(
    path: Text,
    route: Call,
    id: Text,
    summary: Text,
    describe: fn() -> Description,
) -> ApiOperation {
    row(Method::PUT, path, route, (id, summary), describe)
}

pub(crate) fn patch(
    path: Text,
    route: Call,
    id: Text,
    summary: Text,
    describe: fn() -> Description,
) -> ApiOperation {
    row(Method::PATCH, path, route, (id, summary), describe)
}

pub(crate) fn delete(
    path: Text,
    route: Call,
    id: Text,
    summary: Text,
    describe: fn() -> Description,
) -> ApiOperation {
    row(Method::DELETE, path, route, (id, summary), describe)
}
