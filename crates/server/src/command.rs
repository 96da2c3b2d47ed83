//! The commands, one struct each: parsed by clap, writing to the streams that they are given.

mod check;
mod explain;
mod serve;

pub(crate) use check::Check;
pub(crate) use explain::Explain;
pub(crate) use serve::Serve;

use tollgate_rule_files::LoadError;

/// Number of faults in `error`.
pub(crate) fn fault_count(error: &LoadError) -> usize {
    match error {
        LoadError::Faulty(faults) => faults.as_slice().len(),
        _ => 1,
    }
}
