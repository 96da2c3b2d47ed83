//! `GET /`: what runs here, for people.

use std::fmt::Write as _;

use tollgate_http_kit::page::{self, escape};
use tollgate_store::Store;

use crate::algorithm_table;
use crate::api::HttpApi;
use crate::operations::OPERATIONS;
use crate::status::shown_error;

impl<S: Store> HttpApi<S> {
    /// The page. `with_files`: the caller may see paths of files and what is in them.
    pub(crate) fn page(&self, with_files: bool) -> String {
        let rules = self.limiter.rules();
        let policy = rules.policy();
        let state = self.node.state();
        let ready = match (state.is_ready, state.is_draining) {
            (_, true) => "draining: send new requests elsewhere",
            (true, _) => "ready",
            (false, _) => "not ready: no rules are loaded",
        };
        let mut html = page::head("Tollgate");
        // Writing to a string cannot fail.
        let _ = write!(
            html,
            "<h1>Tollgate</h1>\n<p>A distributed rate limiter: it decides whether a request may pass now, later, or not \
             at all.\n<table>\n<tr><th>state<td>{ready}\n<tr><th>version<td>{}\n<tr><th>rules<td>{} in {} domains, \
             version <code>{}</code>\n",
            env!("CARGO_PKG_VERSION"),
            policy.domains().iter().map(|domain| domain.rules().len()).sum::<usize>(),
            policy.domains().len(),
            escape(policy.version()),
        );
        if let Some(error) = &state.last_error {
            let _ = writeln!(
                html,
                "<tr><th>invalid rule files<td><pre>{}</pre>",
                escape(&shown_error(error, with_files))
            );
        }
        html.push_str("</table>\n<h2>Operations</h2>\n");
        html.push_str(&page::operations(OPERATIONS));
        html.push_str("<h2>Which algorithm?</h2>\n");
        html.push_str(&algorithm_table::table());
        html
    }
}
