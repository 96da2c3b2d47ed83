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

impl From<tollgate_load::RunOutcome> for Ending {
    fn from(outcome: tollgate_load::RunOutcome) -> Self {
        match outcome {
            tollgate_load::RunOutcome::Answered => Self::Yes,
            tollgate_load::RunOutcome::Errors => Self::No,
            tollgate_load::RunOutcome::CouldNotRun => Self::CouldNotTell,
        }
    }
}

impl From<tollgate_replay::CommandOutcome> for Ending {
    fn from(outcome: tollgate_replay::CommandOutcome) -> Self {
        match outcome {
            tollgate_replay::CommandOutcome::Yes => Self::Yes,
            tollgate_replay::CommandOutcome::No => Self::No,
            tollgate_replay::CommandOutcome::CouldNotTell => Self::CouldNotTell,
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

impl From<tollgate_simulate::CommandOutcome> for Ending {
    fn from(outcome: tollgate_simulate::CommandOutcome) -> Self {
        match outcome {
            tollgate_simulate::CommandOutcome::Yes => Self::Yes,
            tollgate_simulate::CommandOutcome::CouldNotTell => Self::CouldNotTell,
        }
    }
}
