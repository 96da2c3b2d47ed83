//! Scripts, styles and pictures of the pages, in the binary, compressed once.

use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Body as _;
use hyper::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use hyper::{HeaderMap, StatusCode};
use tollgate_control::sha256;
use tollgate_http_kit::reply::{HTML, Reply, reply};

/// One style sheet; `assets/README.md` lists its classes.
const STYLE: &str = concat!(
    include_str!("../assets/css/base.css"),
    include_str!("../assets/css/frame.css"),
    include_str!("../assets/css/form.css"),
    include_str!("../assets/css/table.css"),
    include_str!("../assets/css/parts.css"),
    include_str!("../assets/css/code.css"),
    include_str!("../assets/css/chart.css"),
);

/// One script; each part is a block of its own.
const SCRIPT: &str = concat!(
    include_str!("../assets/js/page.js"),
    include_str!("../assets/js/keys.js"),
    include_str!("../assets/js/away.js"),
    include_str!("../assets/js/editor.js"),
    include_str!("../assets/js/live.js"),
    include_str!("../assets/js/tokens.js"),
);

/// Name, type, text.
const ASSETS: &[(&str, &str, &str)] = &[
    ("console.css", "text/css; charset=utf-8", STYLE),
    ("console.js", "text/javascript; charset=utf-8", SCRIPT),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Changes with every asset, so that browsers may keep them for ever.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all: Vec<_> = ASSETS.iter().map(|it| it.2).collect();
    sha256(&all.concat())[..12].to_owned()
});

static COMPRESSED: LazyLock<Vec<Bytes>> =
    LazyLock::new(|| ASSETS.iter().map(|it| compressed(it.2.as_bytes(), Compression::best())).collect());

/// The asset of this name.
pub(crate) fn asset(name: &str, accepts_gzip: bool) -> Option<Reply> {
    let index = ASSETS.iter().position(|it| it.0 == name)?;
    let (_, content_type, text) = ASSETS[index];
    let content_type = HeaderValue::from_static(content_type);
    let mut asset = if accepts_gzip {
        let mut asset = reply(StatusCode::OK, content_type, COMPRESSED[index].clone());
        asset.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        asset
    } else {
        reply(StatusCode::OK, content_type, text)
    };
    let fields = asset.headers_mut();
    fields.insert(VARY, HeaderValue::from_static("accept-encoding"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    Some(asset)
}

/// A text that is the same for all visitors, plain and compressed.
#[derive(Debug)]
pub(crate) struct MadeOnce {
    content_type: HeaderValue,
    plain: Bytes,
    short: Bytes,
}

impl MadeOnce {
    pub(crate) fn new(content_type: &'static str, text: String) -> Self {
        let short = compressed(text.as_bytes(), Compression::best());
        Self { content_type: HeaderValue::from_static(content_type), plain: text.into(), short }
    }
}

/// The reply with a text that was made once.
pub(crate) fn made_once(of: &MadeOnce, accepts_gzip: bool) -> Reply {
    let body = if accepts_gzip { &of.short } else { &of.plain };
    let mut made = reply(StatusCode::OK, of.content_type.clone(), body.clone());
    if accepts_gzip {
        made.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    made.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    made
}

/// A page as gzip, if it is long enough to gain from it. Not for replies to posts: some show a secret
/// once, and the length of a compressed page would give parts of it away.
pub(crate) async fn shortened(reply: Reply) -> Reply {
    let is_page = reply.headers().get(CONTENT_TYPE) == Some(&HTML);
    if !is_page || reply.body().size_hint().lower() < 1_000 {
        return reply;
    }
    let (mut parts, body) = reply.into_parts();
    // A whole body in memory does not fail.
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    Reply::from_parts(parts, Full::new(compressed(&body, Compression::new(5))))
}

/// `body` as gzip.
pub(crate) fn compressed(body: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 3), level);
    // Writing to memory does not fail.
    if encoder.write_all(body).is_err() {
        return Bytes::new();
    }
    encoder.finish().map(Bytes::from).unwrap_or_default()
}

/// Whether a request accepts gzip.
pub(crate) fn accepts_gzip(fields: &HeaderMap) -> bool {
    let values = fields.get_all(ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|it| it.split(',')).any(|it| {
        let mut parts = it.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let is_off = |it: &str| it.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0_f32));
        is_gzip && !parts.any(is_off)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_accept_it() {
        for (value, want) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.8", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("", false),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(ACCEPT_ENCODING, value.parse().expect("a value"));
            assert_eq!(accepts_gzip(&fields), want, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
