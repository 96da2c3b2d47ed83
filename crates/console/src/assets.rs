//! What pages load besides themselves, in the binary.

use std::sync::LazyLock;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use tollgate_control::sha256;
use tollgate_http_kit::{Reply, reply::reply};

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// Changes with every asset, so that browsers may keep them for ever.
pub(crate) static VERSION: LazyLock<String> =
    LazyLock::new(|| sha256(&[STYLE, SCRIPT, ICON].concat())[..12].to_owned());

/// The asset of this name.
pub(crate) fn asset(name: &str) -> Option<Reply> {
    let (content_type, text) = match name {
        "console.css" => ("text/css; charset=utf-8", STYLE),
        "console.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    };
    let mut asset = reply(StatusCode::OK, HeaderValue::from_static(content_type), text);
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    asset.headers_mut().insert(CACHE_CONTROL, forever);
    Some(asset)
}
