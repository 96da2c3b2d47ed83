//! The text that scrapers read: OpenMetrics, or the format of Prometheus before it.

use std::fmt::Write as _;

use prometheus_client::registry::Registry;

/// A format of [`Metrics::render_as`](crate::Metrics::render_as).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, which every scraper reads.
    Text,
}

impl Format {
    /// Its content type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Everything in `registry` in this format.
    #[must_use]
    pub fn render(self, registry: &Registry) -> String {
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, registry).is_err() {
            // Writing to a string does not fail; a collector that does must not take the rest with it.
            let _ = writeln!(text, "# EOF");
        }
        match self {
            Self::OpenMetrics => text,
            Self::Text => text_of(&text),
        }
    }
}

/// `openmetrics` in the text format 0.0.4. Samples are the same in both; families are named as their samples,
/// and have other types.
///
/// Metrics that OpenMetrics cannot call counters, since their names do not end in `_total`, are counters
/// here: the metrics with the names of envoyproxy/ratelimit, which are all that have an unknown type.
pub(crate) fn text_of(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "counter"),
                _ => ("", kind),
            };
            // Writing to a string cannot fail.
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                let _ = writeln!(text, "# HELP {name}{suffix} {help}");
            }
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_their_samples_and_have_types_of_the_format() {
        let mut openmetrics = String::new();
        let mut text = String::new();
        for (family, in_text, help, samples) in [
            ("a_b counter", "a_b_total counter", "Bees, and \\\\ more", "a_b_total{c=\"x # y\"} 1\n"),
            ("d gauge", "d gauge", "Where", "d 2\n"),
            ("e info", "e_info gauge", "Version", "e_info{version=\"1\"} 1\n"),
            ("f histogram", "f histogram", "Long", "f_sum 1.5\nf_count 1\nf_bucket{le=\"+Inf\"} 1\n"),
            ("g_total_hits unknown", "g_total_hits counter", "Hits", "g_total_hits 7\n"),
        ] {
            let name = |family: &'static str| family.split(' ').next().unwrap_or_default();
            let unit = format!("# UNIT {} bytes\n", name(family));
            for (to, family, unit) in [(&mut openmetrics, family, &*unit), (&mut text, in_text, "")] {
                *to += &format!("# HELP {} {help}\n# TYPE {family}\n{unit}{samples}", name(family));
            }
        }
        openmetrics += "# EOF\n";
        assert_eq!(text_of(&openmetrics), text);
    }
}
