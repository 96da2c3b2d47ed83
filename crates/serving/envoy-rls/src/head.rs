//! The header of a call, before its path: is it gRPC, can its messages be read, how long may it take.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method, StatusCode};

use crate::status::{Code, Status};

static GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
static GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Why a call is not read any further.
#[derive(Debug, PartialEq)]
pub(crate) enum Rejection {
    /// Not a gRPC call; the reply is plain HTTP.
    NotGrpc(StatusCode),
    Status(Status),
}

/// Checks the header. Returns the timeout of the call, if it has one.
pub(crate) fn admit(method: &Method, headers: &HeaderMap) -> Result<Option<Duration>, Rejection> {
    if method != Method::POST {
        return Err(Rejection::NotGrpc(StatusCode::METHOD_NOT_ALLOWED));
    }
    if !headers.get(CONTENT_TYPE).is_some_and(|value| is_grpc(value.as_bytes())) {
        return Err(Rejection::NotGrpc(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if headers.get(&GRPC_ENCODING).is_some_and(|value| value != "identity") {
        let message = "compressed messages are not supported; send grpc-encoding: identity";
        return Err(Rejection::Status(Status::new(Code::Unimplemented, message)));
    }
    let Some(timeout) = headers.get(&GRPC_TIMEOUT) else { return Ok(None) };
    match parse_timeout(timeout.as_bytes()) {
        Some(timeout) => Ok(Some(timeout)),
        None => Err(Rejection::Status(Status::invalid(
            "invalid grpc-timeout: expected up to 8 digits and one of H, M, S, m, u, n",
        ))),
    }
}

/// `application/grpc`, alone or with `+proto` or parameters.
fn is_grpc(content_type: &[u8]) -> bool {
    let Some(rest) = content_type.strip_prefix(b"application/grpc") else { return false };
    let rest = rest.strip_prefix(b"+proto").unwrap_or(rest);
    matches!(rest.first(), None | Some(b';' | b' '))
}

fn parse_timeout(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let mut number = 0;
    for digit in digits {
        number = number * 10 + u64::from(char::from(*digit).to_digit(10)?);
    }
    Some(match unit {
        b'H' => Duration::from_secs(number * 3_600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_up_to_eight_digits_and_a_unit() {
        for (text, want) in [
            ("20m", Some(Duration::from_millis(20))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("1S", Some(Duration::from_secs(1))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("m", None),
            ("123456789m", None),
            ("1", None),
            ("-1m", None),
            ("1 m", None),
        ] {
            assert_eq!(parse_timeout(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn only_grpc_with_protobuf_is_grpc() {
        for (text, want) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc; charset=utf-8", true),
            ("application/grpc+json", false),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(text.as_bytes()), want, "{text}");
        }
    }
}
