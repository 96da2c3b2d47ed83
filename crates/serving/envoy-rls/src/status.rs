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
    /// The requested name does not exist.
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

impl Code {
    /// The name that gRPC has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// Kind of failure, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The bytes do not follow the protocol.
    Malformed,
    /// Larger, or of more parts, than a bound allows.
    TooLarge,
    /// The content is invalid.
    Invalid,
    /// There is no such service or thing.
    Unknown,
    /// It did not arrive, or was not decided, in time.
    Late,
    /// All clients together have exceeded a shared bound.
    Overload,
    /// The rules or the store are missing.
    Unavailable,
    /// A bug of this server.
    Internal,
}

impl Reason {
    /// As metrics and logs call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
            Self::Late => "late",
            Self::Overload => "overload",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// Whether a client behind a proxy can cause it, so that the call is answered with a decision.
    pub(crate) const fn is_of_client(self) -> bool {
        matches!(self, Self::TooLarge | Self::Overload)
    }

    const fn of(code: Code) -> Self {
        match code {
            Code::InvalidArgument => Self::Invalid,
            Code::DeadlineExceeded => Self::Late,
            Code::NotFound | Code::Unimplemented => Self::Unknown,
            Code::ResourceExhausted => Self::Overload,
            Code::Internal => Self::Internal,
            Code::Unavailable => Self::Unavailable,
        }
    }
}

/// Why a call failed: a code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Status {
    pub code: Code,
    /// For people. Holds nothing that the caller did not send or may not know.
    pub message: Cow<'static, str>,
    pub reason: Reason,
}

impl Status {
    /// A status whose reason follows from its code.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), reason: Reason::of(code) }
    }

    /// Replaces the reason that the code implies.
    #[must_use]
    pub const fn because(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
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
