//! `/metrics`: in the format that the scraper asks for, and compressed if it can read that.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderName, HeaderValue, VARY};
use hyper::{HeaderMap, StatusCode};
use tollgate_http_kit::Reply;
use tollgate_http_kit::reply::reply;
use tollgate_limiter::{Format, Metrics};

/// Format and compression that a scraper accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    format: Format,
    is_gzipped: bool,
}

impl Wanted {
    /// By `Accept`: OpenMetrics if it is named and not less wanted than text, and else text. By
    /// `Accept-Encoding`: gzip if it is named.
    pub(crate) fn by(fields: &HeaderMap) -> Self {
        let open = weight(fields, ACCEPT, "application/openmetrics-text");
        let text = weight(fields, ACCEPT, "text/plain");
        let format = if open > 0.0 && open >= text { Format::OpenMetrics } else { Format::Text };
        Self { format, is_gzipped: weight(fields, ACCEPT_ENCODING, "gzip") > 0.0 }
    }

    /// The reply. Slow.
    pub(crate) fn reply(self, metrics: &Metrics) -> Reply {
        let text = metrics.render_as(self.format);
        let content_type = HeaderValue::from_static(self.format.content_type());
        // Compressing into memory cannot fail.
        let gzipped = self.is_gzipped.then(|| gzip(&text).ok()).flatten();
        let is_gzipped = gzipped.is_some();
        let body = gzipped.unwrap_or_else(|| text.into_bytes());
        let mut reply = reply(StatusCode::OK, content_type, body);
        let fields = reply.headers_mut();
        fields.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if is_gzipped {
            fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        reply
    }
}

fn gzip(text: &str) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// The largest weight that the fields `name` give to `what` (RFC 9110, 12.4.2); 0 if they do not name it.
fn weight(fields: &HeaderMap, name: HeaderName, what: &str) -> f32 {
    let lines = fields.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    let weights = lines.flat_map(|line| line.split(',')).filter_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        parts.next().filter(|named| named.eq_ignore_ascii_case(what))?;
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        weight.map_or(Some(1.0), |weight| weight.parse().ok())
    });
    weights.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_prefers_and_others_get_text() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Text),
            ("text/plain", Format::Text),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text;q=0.2, text/plain;version=0.0.4", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=often", Format::Text),
        ] {
            for (encoding, is_gzipped) in [
                ("", false),
                ("gzip", true),
                ("deflate, GZIP;q=0.5", true),
                ("gzip;q=0", false),
                ("identity", false),
                ("br, zstd", false),
            ] {
                let mut fields = HeaderMap::new();
                fields.insert(ACCEPT, HeaderValue::from_static(accept));
                fields.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
                let want = Wanted { format, is_gzipped };
                assert_eq!(Wanted::by(&fields), want, "{accept:?}, {encoding:?}");
            }
        }
        assert_eq!(Wanted::by(&HeaderMap::new()), Wanted { format: Format::Text, is_gzipped: false });
    }
}
