//! Why there was no measurement.

use std::io;

use crate::{Protocol, Target};

/// There was no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The target's protocol has no such request.
    #[error("{0}")]
    Ask(&'static str),
    /// The target does not accept connections.
    #[error("{target} cannot be reached: {cause}{hint}")]
    Unreachable {
        target: Target,
        /// The error of the system.
        cause: io::Error,
        /// Advice on starting such a server.
        hint: String,
    },
    /// TLS cannot be used with the given files.
    #[error("TLS: {what}")]
    Tls {
        /// The reason, for people.
        what: String,
    },
    /// A thread cannot be pinned to a core.
    #[error("core {core}")]
    Pin {
        /// Number of the core.
        core: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// The system gives no thread, runtime or timer.
    #[error("cannot start")]
    System(#[from] io::Error),
}

impl RunError {
    pub(crate) fn unreachable(target: &Target, cause: io::Error) -> Self {
        let flag = match target.protocol {
            Protocol::Grpc => "--grpc",
            Protocol::Http => "--http",
            Protocol::Resp => "--resp",
        };
        // A socket that no server has made yet is not found.
        let hint = if matches!(cause.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) {
            format!("; start a server there: tollgate serve --rules DIR {flag} {}", target.place)
        } else {
            String::new()
        };
        Self::Unreachable { target: target.clone(), cause, hint }
    }
}
