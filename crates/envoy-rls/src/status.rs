//! gRPC statuses: how a call fails. Not here: statuses of descriptors, which are part of a reply.

use std::borrow::Cow;

use http::header::HeaderValue;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

/// Bytes that `grpc-message` escapes besides those outside ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
/// Bytes of a message that are sent.
const MAX_MESSAGE: usize = 1_000;

/// Status codes of gRPC that this crate sends. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is invalid.
    InvalidArgument = 3,
    /// The call took longer than its deadline.
    DeadlineExceeded = 4,
    /// Unknown name.
    NotFound = 5,
    /// Larger than a limit of this server allows.
    ResourceExhausted = 8,
    /// Unknown method or unsupported feature.
    Unimplemented = 12,
    /// A bug of this server.
    Internal = 13,
    /// The store is unavailable, or the server is shutting down.
    Unavailable = 14,
}

impl Code {
    /// The code as `grpc-status` writes it.
    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::from(self as u16)
    }
}

/// Why a call failed: a code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Status {
    /// For programs.
    pub code: Code,
    /// For people. Holds nothing that the caller did not send or may not know.
    pub message: Cow<'static, str>,
}

impl Status {
    /// A status.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// The request is invalid.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The message as `grpc-message` writes it: percent-encoded, at most 1,000 bytes of it.
    pub(crate) fn header_message(&self) -> HeaderValue {
        let bytes = self.message.as_bytes();
        let text = percent_encode(&bytes[..bytes.len().min(MAX_MESSAGE)], ESCAPED).to_string();
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_into_a_header_whatever_it_holds() {
        for (message, want) in [
            ("domain is empty", "domain is empty"),
            ("100% of \"it\"", "100%25 of \"it\""),
            ("line\nbreak", "line%0Abreak"),
            ("naïve", "na%C3%AFve"),
        ] {
            assert_eq!(Status::invalid(message).header_message(), want);
        }
    }
}
