//! Counts of the lines of a log.

/// A broken line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Broken {
    /// Its number, from 1.
    pub line: u64,
    /// The error in it.
    pub why: String,
    /// Its beginning, in quotes.
    pub quote: String,
}

/// Lines of a log, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Tally {
    /// Lines, without empty ones and the heading.
    pub lines: u64,
    /// Those that were requests.
    pub requests: u64,
    /// Those that the mapping says were not admitted.
    pub not_admitted: u64,
    /// Lines that are broken.
    pub broken: u64,
    /// The first broken lines.
    pub first_broken: Vec<Broken>,
    /// Requests whose time is before that of a line above.
    pub back: u64,
    /// The longest of these steps back, in nanoseconds.
    pub most_back_ns: u64,
    /// Requests that were further back than the tolerance.
    pub late: u64,
    /// Why the log ended before its end.
    #[schema(required)]
    pub cut_off: Option<String>,
    /// The time of the first request.
    #[schema(required)]
    pub first_ns: Option<u64>,
    /// The latest time.
    pub last_ns: u64,
    /// The line that has it: if it is wrong, all lines after it seem late.
    pub latest_line: u64,
}
