//! Errors of executors, jobs and results.

use std::any::Any;
use std::time::Duration;

use tollgate_core::QuotaError;

/// Why an executor cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The rate or the batch is out of its bounds.
    #[error(transparent)]
    Rate(#[from] QuotaError),
    /// The capacity or the number of workers is 0: no job would ever leave.
    #[error("invalid {setting} 0: expected 1 or more")]
    Zero {
        /// Name of the setting.
        setting: &'static str,
    },
    /// There is no tokio runtime here.
    #[error("an executor needs a tokio runtime with time enabled; start it within one")]
    NoRuntime,
}

/// Why a job was not taken. It has not run, and was dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The most jobs wait already.
    #[error("{capacity} jobs wait already; retry later, or raise the capacity")]
    Full {
        /// Most jobs that may wait.
        capacity: usize,
    },
    /// The executor takes no jobs any more.
    #[error("the executor is shut down")]
    ShutDown,
}

/// Why a job that was taken has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// Its turn did not come in time. It has not run.
    #[error("the job's turn did not come within {max_wait:?}; it has not run")]
    Expired {
        /// Longest wait of a job.
        max_wait: Duration,
    },
    /// The executor was shut down while the job waited. It has not run.
    #[error("the executor was shut down while the job waited; it has not run")]
    ShutDown,
    /// The job panicked while it ran.
    #[error("the job panicked: {message}")]
    Panicked {
        /// Message of the panic.
        message: String,
    },
    /// The runtime was shut down. The job may have run in part.
    #[error("the runtime was shut down; the job may have run in part")]
    Lost,
}

impl JobError {
    pub(super) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { message: text.unwrap_or("no message").to_owned() }
    }
}
