//! Bounds of requests, and the header fields of replies. Not here: bounds of connections (`http_kit`).

use tollgate_headers::Style;

/// Caps on requests, and the style of replies.
///
/// # Example
/// ```
/// # use tollgate_http_api::HttpSettings;
/// let settings = HttpSettings { max_batch: 100, ..HttpSettings::default() };
/// assert_eq!(settings.max_body_bytes, 4_194_304);
/// ```
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Which header fields describe the limits.
    pub style: Style,
    /// Bytes of one request's body, also of a batch of one; a larger batch may have
    /// [`max_batch_bytes`](Self::max_batch_bytes), and the texts of each of its requests this many.
    pub max_body_bytes: usize,
    /// Bytes of the body of a batch.
    pub max_batch_bytes: usize,
    /// Requests of one batch.
    pub max_batch: usize,
    /// Descriptors of one request.
    pub max_descriptors: usize,
    /// Entries of one body, over all its descriptors and requests.
    pub max_entries: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            style: Style::default(),
            max_body_bytes: 4 * 1024 * 1024,
            max_batch_bytes: 16 * 1024 * 1024,
            max_batch: 1_000,
            max_descriptors: 1_000,
            max_entries: 10_000,
        }
    }
}
