//! Replaces `otlp` in builds without that feature: starting it is an error.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Counts of spans, always 0.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Always 0.
    pub(crate) sent: AtomicU64,
    /// Always 0.
    pub(crate) failed: AtomicU64,
    /// Always 0.
    pub(crate) dropped: AtomicU64,
}

/// Cannot be created.
#[derive(Debug)]
pub(crate) struct Traces(std::convert::Infallible);

impl Traces {
    /// # Errors
    /// Always.
    pub(crate) fn start(_collector: &str) -> io::Result<Self> {
        Err(io::Error::other("this build cannot send traces; build it with `--features otlp`"))
    }

    /// Never called.
    pub(crate) fn layer(&self) -> tracing_subscriber::layer::Identity {
        match self.0 {}
    }

    /// Never called.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        match self.0 {}
    }

    /// Never called.
    pub(crate) fn stop(self, _at_most: Duration) {}
}
