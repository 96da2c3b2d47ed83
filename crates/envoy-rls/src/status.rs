//! gRPC statuses: how a call ends when it does not end well. Not here: statuses of descriptors, which are answers.

use std::borrow::Cow;

use http::header::HeaderValue;

/// Status codes of gRPC that this crate sends. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request can never be answered as it is.
    InvalidArgument = 3,
    /// The call took longer than its deadline.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// Larger than a limit of this server allows.
    ResourceExhausted = 8,
    /// No such method, or a feature that is not there.
    Unimplemented = 12,
    /// A fault of this server.
    Internal = 13,
    /// Not now: the store is silent, or the server is going away.
    Unavailable = 14,
}

impl Code {
    /// The code as `grpc-status` writes it.
    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::from(self as u16)
    }
}

/// How a call ends when it does not end well: a code, and a sentence for people.
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

    /// The request can never be answered as it is.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The message as `grpc-message` writes it: percent-encoded, at most 1,000 bytes of it.
    pub(crate) fn header_message(&self) -> HeaderValue {
        let mut text = String::with_capacity(self.message.len());
        for &byte in self.message.as_bytes().iter().take(1_000) {
            if matches!(byte, b' '..=b'~') && byte != b'%' {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
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
