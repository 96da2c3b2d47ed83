//! In place of `otlp` where the build has no feature of that name: says so.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What became of spans: nothing, there are none.
#[derive(Debug, Default)]
pub struct Counts {
    /// Always 0.
    pub sent: AtomicU64,
    /// Always 0.
    pub failed: AtomicU64,
    /// Always 0.
    pub dropped: AtomicU64,
}

/// Cannot be had.
#[derive(Debug)]
pub struct Traces(std::convert::Infallible);

impl Traces {
    /// # Errors
    /// Always.
    pub fn start(_collector: &str) -> io::Result<Self> {
        Err(io::Error::other("this build sends no traces; build it with `--features otlp`"))
    }

    /// Never asked.
    #[must_use]
    pub fn layer(&self) -> tracing_subscriber::layer::Identity {
        match self.0 {}
    }

    /// Never asked.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        match self.0 {}
    }

    /// Never asked.
    pub fn stop(self, _at_most: Duration) {}
}
