//! Questions to the service.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::error::RemoteError;

/// A request for permits of one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) domain: &'a str,
    pub(crate) entries: &'a [(&'a str, &'a str)],
    pub(crate) hits: u64,
    /// The hits are used already.
    pub(crate) is_consumed: bool,
    /// Longest wait at the service for its turn; zero for no wait.
    pub(crate) max_wait: Duration,
}

/// An entry of a descriptor, as `/v1/check` reads it.
#[derive(Debug, Serialize)]
struct JsonEntry<'a> {
    key: &'a str,
    value: &'a str,
}

/// A request, as `/v1/check` reads it.
#[derive(Debug, Serialize)]
struct Body<'a> {
    domain: &'a str,
    descriptors: [&'a [JsonEntry<'a>]; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_wait_ms: Option<u64>,
}

impl Question<'_> {
    /// Unique to each domain and descriptor.
    pub(crate) fn key(&self) -> String {
        let mut key = String::with_capacity(64);
        let texts = self.entries.iter().flat_map(|&(key, value)| [key, value]);
        for text in std::iter::once(self.domain).chain(texts) {
            // Writing to a text cannot fail.
            let _ = write!(key, "{}:{text}", text.len());
        }
        key
    }

    /// The question as the HTTP API reads it. If a request has several questions, none of them can wait.
    pub(crate) fn json(&self) -> Result<Vec<u8>, RemoteError> {
        let entries: Vec<_> = self.entries.iter().map(|&(key, value)| JsonEntry { key, value }).collect();
        let max_wait = (!self.max_wait.is_zero()).then_some(self.max_wait);
        let body = Body {
            domain: self.domain,
            descriptors: [&entries],
            hits: (!self.is_consumed).then_some(self.hits),
            consumed: self.is_consumed.then_some(self.hits),
            max_wait_ms: max_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        };
        serde_json::to_vec(&body)
            .map_err(|error| RemoteError::Rejected { status: 400, detail: error.to_string() })
    }
}
