//! A start page without scripts, and with nothing from elsewhere: the surface's own content, and its
//! operations.

use std::fmt::Write as _;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue};

use crate::operations::{Access, Operation};
use crate::reply::{HTML, Reply, reply};

/// Nothing but the page's own style.
const SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const STYLE: &str = "<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; color-scheme: light dark }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25em .75em .25em 0; vertical-align: top }
code, pre { font-family: ui-monospace, monospace; font-size: 90% } pre { overflow-x: auto; padding: .75em; border: 1px solid }
</style>
";

/// The head of a page with this title, up to where its content begins.
#[must_use]
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{}</title>\n{STYLE}",
        escape(title)
    )
}

/// A table of all operations; those that a browser can ask for are links.
#[must_use]
pub fn operations<R>(operations: &[Operation<R>]) -> String {
    let mut table = String::from("<table>\n");
    for Operation { method, path, access, summary, .. } in operations {
        let path = if *method == hyper::Method::GET {
            format!("<a href=\"{path}\">{path}</a>")
        } else {
            (*path).to_owned()
        };
        let token = if *access == Access::Admin { " (admin)" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "<tr><td><code>{method} {path}</code><td>{summary}{token}");
    }
    table + "</table>\n"
}

/// The page as a reply, which may load nothing and is not cached.
#[must_use]
pub fn page(html: String) -> Reply {
    let mut page = reply(StatusCode::OK, HTML, html);
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, SECURITY_POLICY);
    page.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}

/// A text for a place in HTML or in a quoted attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
