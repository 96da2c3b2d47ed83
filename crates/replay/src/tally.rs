//! What became of the lines of a log.

/// A broken line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Broken {
    pub(crate) line: u64,
    pub(crate) why: String,
    pub(crate) quote: String,
}

/// What became of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Tally {
    /// Lines, without empty ones and the heading.
    pub(crate) lines: u64,
    /// Those that were requests.
    pub(crate) requests: u64,
    /// Those that the mapping says were not admitted.
    pub(crate) not_admitted: u64,
    pub(crate) broken: u64,
    /// The first broken lines.
    pub(crate) first_broken: Vec<Broken>,
    /// Requests whose time is before that of a line above.
    pub(crate) back: u64,
    /// By how much, at most.
    pub(crate) most_back_ns: u64,
    /// Those that were more than the tolerance back.
    pub(crate) late: u64,
    /// Why the log ended before its end.
    pub(crate) cut_off: Option<String>,
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: u64,
}
