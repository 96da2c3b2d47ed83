//! One row for each operation of a surface: requests are routed by it, and the start page and the OpenAPI
//! description are made of it. Not here: paths with parameters in them; no surface has any yet.

use hyper::Method;

use crate::description::Description;

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the port.
    Anyone,
    /// The holder of the admin token; see [`AdminAccess`](crate::AdminAccess).
    Admin,
}

/// One method of one path.
#[derive(Debug)]
pub struct Operation<R> {
    /// HEAD goes with GET, OPTIONS with all.
    pub method: Method,
    /// The whole path.
    pub path: &'static str,
    /// What [`Api::answer`](crate::Api::answer) calls it.
    pub route: R,
    /// Who may call it.
    pub access: Access,
    /// Its name in code that is generated from the description.
    pub id: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it takes and answers.
    pub describe: fn() -> Description,
}

/// The operations of a path.
pub(crate) fn at<'o, R>(
    operations: &'static [Operation<R>],
    path: &'o str,
) -> impl Iterator<Item = &'static Operation<R>> + Clone + use<'o, R> {
    operations.iter().filter(move |operation| operation.path == path)
}

/// The methods of these operations, as `Allow` lists them.
pub(crate) fn allowed<R: 'static>(operations: impl Iterator<Item = &'static Operation<R>>) -> String {
    let mut methods = Vec::new();
    for operation in operations {
        let method = operation.method.as_str();
        for method in [Some(method), (method == "GET").then_some("HEAD")].into_iter().flatten() {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
    }
    methods.push("OPTIONS");
    methods.join(", ")
}
