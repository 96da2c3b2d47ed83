//! Logs of requests as evidence: whether a limiter kept its bound, and what rules would have done to
//! yesterday's traffic.
//!
//! A log is read once, line by line, in bounded memory. Not here: deciding (`limiter`), the grammar of rules
//! (`rule-files`), the binary's other commands (`server`).

mod command;
mod contest;
mod format;
mod generate;
mod html;
mod instant;
mod mapping;
mod note;
mod preview;
mod reader;
mod report;
mod reserving;
mod row;
mod run;
mod side;
mod source;
mod suggest;
mod tally;
mod texts;
mod timeline;
mod track;
mod verify;

pub use command::{Bound, CommandOutcome, Replay};
pub use note::Note;
pub use preview::{Preview, Previewed, preview};
pub use report::{Compared, Difference, Report, RuleReport, SideReport, Suggested, TopDenied, WorstWindow};
pub use reserving::Settled;
pub use tally::{Broken, Tally};
pub use timeline::{Span, Timeline};
pub use tollgate_charts::Language;
pub use verify::{Claim, Verdict, Verifier, Worst};
