//! Exact arithmetic that limiters are measured against: every take of one key in the last window, and the
//! most by which admissions ever were above a bucket. Shares no code with the algorithms that it judges.

mod exact_log;
mod line;

pub use exact_log::ExactLog;
pub use line::Line;
