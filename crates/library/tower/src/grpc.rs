//! A gRPC call that is not passed on: its status, as header fields of a response without a body.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The codes that are needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// The message `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The message `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// True for a call of gRPC, in any of its encodings.
pub(crate) fn is_call(fields: &HeaderMap) -> bool {
    fields.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The status in the fields or trailers of a response.
pub(crate) fn status(fields: &HeaderMap) -> Option<&[u8]> {
    fields.get(STATUS).map(HeaderValue::as_bytes)
}

/// True if the fields of a response say that the call exceeded a limit.
pub(crate) fn is_exhausted(fields: &HeaderMap) -> bool {
    status(fields) == Some(b"8")
}

/// The wait in the details of a response's fields.
pub(crate) fn retry_delay(fields: &HeaderMap) -> Option<Duration> {
    let details = STANDARD_NO_PAD.decode(fields.get(DETAILS)?.as_bytes().trim_ascii_end()).ok()?;
    let status = Status::decode(details.as_slice()).ok()?;
    let info = status.details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
    let delay = RetryInfo::decode(info.value.as_slice()).ok()?.retry_delay?;
    Duration::try_from(delay).ok()
}

/// Adds a status to the fields of a response.
pub(crate) fn write(code: Code, message: &str, retry_after: Option<Duration>, fields: &mut HeaderMap) {
    /// Characters that gRPC wants escaped: all but printable ASCII, and the percent sign.
    const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
    fields.insert(CONTENT_TYPE, GRPC);
    fields.insert(STATUS, HeaderValue::from(code as u16));
    let escaped = utf8_percent_encode(message, ESCAPED).to_string();
    fields.extend(HeaderValue::try_from(escaped).ok().map(|value| (MESSAGE, value)));
    let Some(delay) = retry_after.and_then(|span| prost_types::Duration::try_from(span).ok()) else { return };
    let info = RetryInfo { retry_delay: Some(delay) };
    let detail = prost_types::Any { type_url: RETRY_INFO.to_owned(), value: info.encode_to_vec() };
    let status = Status { code: code as i32, message: message.to_owned(), details: vec![detail] };
    let encoded = STANDARD_NO_PAD.encode(status.encode_to_vec());
    fields.extend(HeaderValue::try_from(encoded).ok().map(|value| (DETAILS, value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_delay_reads_back_and_malformed_details_say_nothing() {
        let mut fields = HeaderMap::new();
        let wait = Duration::new(2, 500_000_000);
        write(Code::ResourceExhausted, "90 % of it, süß", Some(wait), &mut fields);
        assert!(is_exhausted(&fields));
        assert_eq!(retry_delay(&fields), Some(wait));
        assert_eq!(fields["grpc-message"], "90 %25 of it, s%C3%BC%C3%9F");
        for text in ["", "!", "CAg", "AAAA"] {
            fields.insert(DETAILS, text.parse().expect("a value"));
            assert_eq!(retry_delay(&fields), None, "{text}");
        }
    }
}
