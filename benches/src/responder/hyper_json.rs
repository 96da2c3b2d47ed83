//! The floor of `/v1/check` behind hyper: reads the same JSON by `serde_json`, and replies with a constant of
//! the same fields and size.

use std::borrow::Cow;
use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Deserialize;

/// A reply of `/v1/check` to one descriptor.
const BODY: &[u8] = br#"{"outcome":"admit","limit":4000000000,"remaining":3999999999,"delay_ms":0,"retry_after_ms":0,"reset_after_ms":78901957,"rule":"key","degraded":null,"descriptors":[{"outcome":"admit","limit":4000000000,"remaining":3999999999,"delay_ms":0,"retry_after_ms":0,"reset_after_ms":78901957,"rule":"key","degraded":null}]}"#;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

#[derive(Deserialize)]
struct Check<'b> {
    #[serde(borrow)]
    domain: Cow<'b, str>,
    #[serde(borrow)]
    descriptors: Vec<Vec<JsonEntry<'b>>>,
}

#[derive(Deserialize)]
struct JsonEntry<'b> {
    #[serde(borrow)]
    key: Cow<'b, str>,
    #[serde(borrow)]
    value: Cow<'b, str>,
}

impl Check<'_> {
    fn is_empty(&self) -> bool {
        let is_empty = |entry: &JsonEntry<'_>| entry.key.is_empty() && entry.value.is_empty();
        self.domain.is_empty() && self.descriptors.iter().flatten().all(is_empty)
    }
}

pub(super) async fn answer(
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let is_check = serde_json::from_slice::<Check<'_>>(&body).is_ok_and(|check| !check.is_empty());
    let mut reply = http::Response::new(Full::new(Bytes::from_static(if is_check { BODY } else { b"" })));
    let fields = reply.headers_mut();
    fields.insert(LIMIT, HeaderValue::from_static("4000000000"));
    fields.insert(REMAINING, HeaderValue::from_static("3999999999"));
    fields.insert(RESET, HeaderValue::from_static("78902"));
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(reply)
}
