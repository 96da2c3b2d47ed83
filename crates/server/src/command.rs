//! The commands, one struct each: parsed by clap, writing to the streams that they are given.

mod check;
mod explain;
mod import;
mod serve;

pub(crate) use check::Check;
pub(crate) use explain::Explain;
pub(crate) use import::Import;
pub(crate) use serve::Serve;
