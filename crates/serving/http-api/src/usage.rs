//! `/v1/usage`: decisions by rule since the process started, as CSV for a spreadsheet. Not here: the counts
//! (`limiter`), their history (Prometheus has it).

use std::fmt::Write as _;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use tollgate_http_kit::Reply;
use tollgate_http_kit::reply::reply;
use tollgate_limiter::Totals;
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::status::shown_time;

const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8; header=present");

const HEAD: &str = "from,to,domain,rule,name,admitted,denied,shadow_denied,degraded\r\n";

impl<S: Store> HttpApi<S> {
    /// Answers `/v1/usage`. Slow with many rules.
    pub(crate) fn usage(&self) -> Reply {
        let now = self.clock.now();
        let report = self.limiter.report(now);
        let [from, to] = [self.started, now].map(|time| shown_time(time).unwrap_or_default());
        let mut csv = HEAD.to_owned();
        let mut row = |domain: &str, rule: &str, name: &str, totals: Totals| {
            let Totals { admitted, denied, shadow_denied, degraded, .. } = totals;
            let [domain, rule, name] = [domain, rule, name].map(field);
            // Writing to a string cannot fail.
            let _ = write!(csv, "{from},{to},{domain},{rule},{name},");
            let _ = write!(csv, "{admitted},{denied},{shadow_denied},{degraded}\r\n");
        };
        for domain in &report.domains {
            // Rules above the cap on series share their counts, which would appear once for each.
            for rule in domain.rules.iter().filter(|rule| !rule.is_shared) {
                row(&domain.name, &rule.rule, &rule.name, rule.totals);
            }
        }
        if let Some(shared) = report.domains.iter().flat_map(|it| &it.rules).find(|rule| rule.is_shared) {
            row("", "(others)", "", shared.totals);
        }
        row("", tollgate_limiter::THROTTLE, "", report.throttle);
        reply(StatusCode::OK, CSV, csv)
    }
}

/// A field as RFC 4180 has it, and without what spreadsheets take for a formula.
fn field(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be_and_are_no_formulas() {
        for (text, want) in [
            ("api_key", "api_key"),
            ("a,b", "\"a,b\""),
            ("quo\"te", "\"quo\"\"te\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("", ""),
        ] {
            assert_eq!(field(text), want);
        }
    }
}
