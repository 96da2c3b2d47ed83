//! Results of commands.

use std::process::ExitCode;

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Yes, or done.
    Yes,
    /// No: errors were found, or nothing matched.
    No,
    /// Undecided: a file cannot be read, or an argument is invalid.
    CouldNotTell,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Yes => 0,
            Ending::No => 1,
            Ending::CouldNotTell => 2,
        })
    }
}

impl From<tollgate_load::Outcome> for Ending {
    fn from(outcome: tollgate_load::Outcome) -> Self {
        match outcome {
            tollgate_load::Outcome::Answered => Self::Yes,
            tollgate_load::Outcome::Errors => Self::No,
            tollgate_load::Outcome::CouldNotRun => Self::CouldNotTell,
        }
    }
}

impl From<tollgate_replay::Outcome> for Ending {
    fn from(outcome: tollgate_replay::Outcome) -> Self {
        match outcome {
            tollgate_replay::Outcome::Yes => Self::Yes,
            tollgate_replay::Outcome::No => Self::No,
            tollgate_replay::Outcome::CouldNotTell => Self::CouldNotTell,
        }
    }
}

impl From<tollgate_top::Ending> for Ending {
    fn from(ending: tollgate_top::Ending) -> Self {
        match ending {
            tollgate_top::Ending::Done => Self::Yes,
            tollgate_top::Ending::No => Self::No,
            tollgate_top::Ending::CouldNotTell => Self::CouldNotTell,
        }
    }
}

impl From<tollgate_simulate::Outcome> for Ending {
    fn from(outcome: tollgate_simulate::Outcome) -> Self {
        match outcome {
            tollgate_simulate::Outcome::Yes => Self::Yes,
            tollgate_simulate::Outcome::CouldNotTell => Self::CouldNotTell,
        }
    }
}
