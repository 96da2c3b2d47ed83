//! Replaces `otlp` in builds without that feature: starting it is an error.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::span_counts::SpanCounts;

/// Cannot be created.
#[derive(Debug)]
pub struct Traces(std::convert::Infallible);

impl Traces {
    /// # Errors
    /// Always: this build has no exporter.
    pub fn start(_collector: &str) -> io::Result<Self> {
        Err(io::Error::other("this build cannot send traces; build it with `--features otlp`"))
    }

    pub fn layer(&self) -> tracing_subscriber::layer::Identity {
        match self.0 {}
    }

    pub fn counts(&self) -> Arc<SpanCounts> {
        match self.0 {}
    }

    pub fn stop(self, _at_most: Duration) {}
}
