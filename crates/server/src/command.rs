//! The commands, one struct each: parsed by clap, writing to the streams that they are given.

mod check;
mod completions;
mod explain;
pub(crate) mod flags;
mod import;
mod man;
mod serve;

pub(crate) use check::Check;
pub(crate) use completions::Completions;
pub(crate) use explain::Explain;
pub(crate) use import::Import;
pub(crate) use man::Man;
pub(crate) use serve::Serve;
