//! In place of `otlp` where the build has no feature of that name: says so.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What became of spans: nothing, there are none.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Always 0.
    pub(crate) sent: AtomicU64,
    /// Always 0.
    pub(crate) failed: AtomicU64,
    /// Always 0.
    pub(crate) dropped: AtomicU64,
}

/// Cannot be had.
#[derive(Debug)]
pub(crate) struct Traces(std::convert::Infallible);

impl Traces {
    /// # Errors
    /// Always.
    pub(crate) fn start(_collector: &str) -> io::Result<Self> {
        Err(io::Error::other("this build sends no traces; build it with `--features otlp`"))
    }

    /// Never asked.
    pub(crate) fn layer(&self) -> tracing_subscriber::layer::Identity {
        match self.0 {}
    }

    /// Never asked.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        match self.0 {}
    }

    /// Never asked.
    pub(crate) fn stop(self, _at_most: Duration) {}
}
