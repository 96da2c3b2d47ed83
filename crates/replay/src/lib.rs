//! Logs of requests as evidence: whether a limiter kept its bound, and what rules would have done to
//! yesterday's traffic.
//!
//! A log is read once, line by line, in bounded memory. Not here: deciding (`limiter`), the grammar of rules
//! (`rule-files`), the binary's other commands (`server`).

mod command;
mod exact_log;
mod format;
mod instant;
mod line;
mod mapping;
mod reader;
mod row;
mod source;
mod verify;

pub use command::{Bound, Outcome};
pub use exact_log::ExactLog;
pub use line::Line;
pub use verify::{Claim, Verdict, Verifier, Worst};
