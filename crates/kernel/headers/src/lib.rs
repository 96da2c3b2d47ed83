//! A decision as HTTP fields and problem+json, and back; and the client in the fields of proxies.
//!
//! [`write()`] makes header fields, [`problem`] and [`fill`] a body; [`read`] is the client's side and knows
//! every generation of these fields. `docs/headers.md` shows what each setting sends. Not here: HTTP itself,
//! rules, which limits apply.
#![deny(missing_docs)] // it is published

mod fill;
mod forwarded;
mod limit;
mod problem;
mod read;
mod span;
mod structured;
mod style;
mod template;
mod write;

pub use fill::{Values, fill, fill_header};
pub use forwarded::forwarded_client;
pub use limit::{LimitState, most_restrictive};
pub use problem::{BLOCKED, PROBLEM_JSON, detail, problem, problem_without_limit};
pub use read::{Generation, Reading, read};
pub use span::MAX_SECONDS;
pub use style::{Ietf, Style, UnknownStyle};
pub use template::{Content, Part, Placeholder, Template, TemplateError};
pub use tollgate_core::RetryAfter;
pub use write::{DEGRADED, EXCESS, MAX_LISTED, write};
