//! `GET /`: a small page that says what runs here and links on. No scripts, nothing from elsewhere.

use std::fmt::Write as _;

use tollgate_store::Store;

use crate::algorithm_table;
use crate::api::HttpApi;
use crate::operations::{Access, OPERATIONS};

/// Nothing but the page's own style.
pub(crate) const SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Tollgate</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; color-scheme: light dark }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25em .75em .25em 0; vertical-align: top }
code, pre { font-family: ui-monospace, monospace; font-size: 90% } pre { overflow-x: auto; padding: .75em; border: 1px solid }
</style>
";

impl<S: Store> HttpApi<S> {
    /// The page.
    pub(crate) fn page(&self) -> String {
        let rules = self.limiter.rules();
        let (policy, state) = (rules.policy(), self.node.state());
        let ready = match (state.is_ready, state.is_draining) {
            (_, true) => "draining: new requests should go elsewhere",
            (true, _) => "ready",
            (false, _) => "not ready: it has no rules",
        };
        let mut page = HEAD.to_owned();
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "<h1>Tollgate</h1>\n<p>A rate limiter: it says of each request whether it may pass now, later, or not at all.\n\
             <table>\n<tr><th>state<td>{ready}\n<tr><th>version<td>{}\n<tr><th>rules<td>{} in {} domains, version \
             <code>{}</code>\n",
            env!("CARGO_PKG_VERSION"),
            policy.domains().iter().map(|domain| domain.rules().len()).sum::<usize>(),
            policy.domains().len(),
            escape(policy.version()),
        );
        if let Some(error) = &state.last_error {
            let _ = writeln!(page, "<tr><th>faulty files<td><pre>{}</pre>", escape(error));
        }
        page.push_str("</table>\n<h2>What there is</h2>\n<table>\n");
        for operation in OPERATIONS {
            let (method, path) = (&operation.method, operation.path);
            let path = if *method == hyper::Method::GET {
                format!("<a href=\"{path}\">{path}</a>")
            } else {
                path.to_owned()
            };
            let token = if operation.access == Access::Admin { " (admin)" } else { "" };
            let _ = writeln!(page, "<tr><td><code>{method} {path}</code><td>{}{token}", operation.summary);
        }
        page.push_str("</table>\n<h2>Which algorithm?</h2>\n");
        page.push_str(&algorithm_table::table());
        page
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
