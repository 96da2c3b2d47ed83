//! Reasons why the service has not answered, and the fate of the permits.

use std::time::Duration;

use tollgate_tls::TlsError;

/// Fate of the permits of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permits {
    /// No permit was taken: a retry is safe.
    Untaken,
    /// Permits may have been taken: a retry may take them twice.
    Unknown,
}

/// Why the service has not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// There is no connection to it, or there was none a moment ago.
    #[error("the service is unreachable; no permits were taken: {cause}")]
    Unreachable {
        /// The error of the attempt to connect.
        cause: String,
    },
    /// The deadline passed before the question was sent.
    #[error("the question was not sent within {waited:?}; no permits were taken")]
    NotSent {
        /// The deadline of the call.
        waited: Duration,
    },
    /// The deadline passed after the question was sent.
    #[error("no answer within {waited:?}; permits may have been taken")]
    NoAnswer {
        /// The deadline of the call.
        waited: Duration,
    },
    /// The connection broke after the question was sent, or the answer is invalid.
    #[error("the answer was lost; permits may have been taken: {cause}")]
    Lost {
        /// The error of the connection, or the fault in the answer.
        cause: String,
    },
    /// The service rejected the question: a domain or key that is too long, for example.
    #[error("the service rejected the question with status {status}; no permits were taken: {detail}")]
    Rejected {
        /// The status: of HTTP, or of gRPC (below 100).
        status: u16,
        /// The service's own message.
        detail: String,
    },
    /// The most calls wait already.
    #[error("{waiting} calls wait for the service already; no permits were taken")]
    Busy {
        /// Number of calls that wait.
        waiting: usize,
    },
}

impl RemoteError {
    /// Says whether permits may have been taken.
    #[must_use]
    pub const fn permits(&self) -> Permits {
        match self {
            Self::NoAnswer { .. } | Self::Lost { .. } => Permits::Unknown,
            _ => Permits::Untaken,
        }
    }
}

/// Why there is no service at an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not an address of a service.
    #[error("invalid address {0:?}: expected something like http://127.0.0.1:8080 or grpcs://tollgate:8081")]
    Invalid(String),
    /// There are files for TLS, but the address is not encrypted.
    #[error("{0:?} is not encrypted, so that TLS files mean nothing; expected grpcs:// or https://")]
    NotEncrypted(String),
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The calls need a runtime.
    #[error("no tokio runtime here: call it from async code")]
    NoRuntime,
}
