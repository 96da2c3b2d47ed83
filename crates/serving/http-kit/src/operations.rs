//! One row for each operation of a surface: requests are routed by it, and the start page and the OpenAPI
//! description are made of it. A path may have segments in braces, such as `/apps/{app}`; each stands for any
//! one segment, and `{*}` at the end for everything that follows.
//! [`Request::segment`](crate::Request::segment) reads them.

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
    /// The whole path, perhaps with `{name}` for any segment and `{*}` for the rest. Paths without braces are
    /// found first, and among the others those that come first in the table.
    pub path: &'static str,
    /// Identifies the operation in [`Api::answer`](crate::Api::answer).
    pub route: R,
    /// Who may call it.
    pub access: Access,
    /// Its name in code that is generated from the description.
    pub id: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// Makes its description: parameters, body and replies.
    pub describe: fn() -> Description,
}

/// The operations of a path.
pub(crate) fn at<'o, R>(
    operations: &'static [Operation<R>],
    path: &'o str,
) -> impl Iterator<Item = &'static Operation<R>> + Clone + use<'o, R> {
    let is_it = move |pattern: &str| pattern == path || (!pattern.ends_with("{*}") && matches(pattern, path));
    operations.iter().filter(move |operation| is_it(operation.path))
}

/// Whether `path` has the form of `pattern`, which has braces in it.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    if !pattern.contains('{') {
        return false;
    }
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        let Some(segment) = segments.next() else { return false };
        match wanted {
            "{*}" => return true,
            _ if wanted.starts_with('{') => {
                if segment.is_empty() {
                    return false;
                }
            }
            _ if wanted == segment => {}
            _ => return false,
        }
    }
    segments.next().is_none()
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

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_segment_in_braces_is_any_one_segment_and_a_star_is_the_rest() {
        for (pattern, path, want) in [
            ("/apps/{app}", "/apps/shop", true),
            ("/apps/{app}", "/apps/a%2Fb", true),
            ("/apps/{app}", "/apps/", false),
            ("/apps/{app}", "/apps", false),
            ("/apps/{app}", "/apps/a/b", false),
            ("/apps/{app}/rules/{key}", "/apps/a/rules/b", true),
            ("/apps/{app}/rules/{key}", "/apps/a/users/b", false),
            ("/{*}", "/", true),
            ("/{*}", "/a/b/c", true),
            ("/apps", "/apps", false), // compared as a whole before
        ] {
            assert_eq!(matches(pattern, path), want, "{pattern} {path}");
        }
    }
}
