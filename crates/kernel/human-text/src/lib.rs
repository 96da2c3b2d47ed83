//! Text that people write and read: durations such as `1h30m`, rates such as `100/s`, suggestions for
//! misspelt names, numbers of things, shortened quotes, errors with their causes.
//!
//! For rule files, settings, queries and error messages alike. Not here: any format, or which names are
//! known.
#![deny(missing_docs)] // it is published

mod address;
mod bytes;
mod causes;
mod counted;
mod duration;
mod names;
mod quote;
mod rate;

pub use address::{FromTheRight, ReadAddress, address_of_entry, forwarded_address, read_address};
pub use bytes::{bytes_as_text, lossy, read_bytes, show_bytes};
pub use causes::with_causes;
pub use counted::counted;
pub use duration::{parse_duration, show_duration};
pub use names::{Nearest, did_you_mean, nearest, one_of};
pub use quote::{InQuotes, Quoted, clip, clip_to, is_hidden, shorten, shorten_to};
pub use rate::{NotARate, Per, PerUnit, Rate, parse_rate, rate_meant_by, unit_by_other_name, whole_number};
