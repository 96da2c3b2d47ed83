//! Reports that wait to be written, and the groups in which they are.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tollgate_db::Db;
use tollgate_fleet_proto::Report;

use super::group::{self, Added, Arrived};
use super::names::Names;
use crate::error::ControlError;

/// Most reports that wait; each stream has at most one here.
const MOST_WAITING: usize = 20_000;
/// Most counts of rules that one transaction adds, each in one row of a resolution.
const MOST_ROWS: usize = 40_000;
/// After this many failures in a row, the nodes send their reports again later.
const MOST_FAILURES: u32 = 20;

/// Why a report is not stored. Its node keeps it and sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// Too many reports wait.
    #[error("too many reports wait for the database")]
    Busy,
    /// The database does not take it; the log has the reason.
    #[error("the database does not take reports")]
    NotWritten,
}

/// Reports that wait to be written.
#[derive(Debug, Default)]
pub struct Ingest(Mutex<IngestState>);

#[derive(Debug, Default)]
struct IngestState {
    waiting: VecDeque<Waiting>,
    /// Failures since the last group that was written.
    failures: u32,
    /// Counts that got no row of their own.
    left_out: u64,
}

#[derive(Debug)]
struct Waiting {
    arrived: Arrived,
    stored: oneshot::Sender<Result<(), IngestError>>,
}

impl Ingest {
    /// Waits until `report` is in the database, which it is also when it was before. Someone must call
    /// [`write`](Self::write) again and again.
    ///
    /// # Errors
    /// [`IngestError`]: it may or may not be stored, and must be sent again.
    pub async fn store(
        &self,
        node: &str,
        incarnation: u64,
        report: Report,
        at_ms: i64,
    ) -> Result<(), IngestError> {
        let incarnation = i64::try_from(incarnation).unwrap_or(i64::MAX);
        let (stored, written) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if state.waiting.len() >= MOST_WAITING {
                // Those of streams that are closed come again.
                state.waiting.retain(|it| !it.stored.is_closed());
            }
            if state.waiting.len() >= MOST_WAITING {
                return Err(IngestError::Busy);
            }
            let arrived = Arrived { node: node.to_owned(), incarnation, report, at_ms };
            state.waiting.push_back(Waiting { arrived, stored });
        }
        written.await.unwrap_or(Err(IngestError::NotWritten))
    }

    /// Reports that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Counts of rules that were added to `(others)`, or of domains that got no row, since the start.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.0.lock().left_out
    }

    /// Writes what waits, in one or several transactions. `names` are those of published rules. Returns how
    /// many reports counted. After a failure the reports wait for the next call.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn write(&self, db: &Db, names: &Arc<Names>) -> Result<usize, ControlError> {
        let mut reports = 0;
        loop {
            let group = self.take();
            if group.is_empty() {
                return Ok(reports);
            }
            let (arrived, waiting): (Vec<Arrived>, Vec<_>) =
                group.into_iter().map(|it| (it.arrived, it.stored)).unzip();
            let arrived = Arc::new(arrived);
            let written = Arc::clone(&arrived);
            let names = Arc::clone(names);
            match db.write(move |tx| group::write(tx, &written, &names)).await {
                Ok(Added { reports: added, left_out, .. }) => {
                    let mut state = self.0.lock();
                    (state.failures, state.left_out) = (0, state.left_out + left_out);
                    drop(state);
                    reports += added;
                    for stored in waiting {
                        let _ = stored.send(Ok(())); // the stream may be closed
                    }
                }
                Err(error) => {
                    let arrived = Arc::unwrap_or_clone(arrived);
                    self.put_back(arrived.into_iter().zip(waiting));
                    return Err(error);
                }
            }
        }
    }

    fn take(&self) -> Vec<Waiting> {
        let mut state = self.0.lock();
        let mut group = Vec::new();
        let mut rows = 0;
        while let Some(next) = state.waiting.front() {
            let parts = (next.arrived.report.span_ms / 10_000).clamp(1, 60) as usize;
            rows += next.arrived.report.rules.len().saturating_mul(parts);
            if rows > MOST_ROWS && !group.is_empty() {
                break;
            }
            group.extend(state.waiting.pop_front());
        }
        group
    }

    fn put_back(
        &self,
        group: impl DoubleEndedIterator<Item = (Arrived, oneshot::Sender<Result<(), IngestError>>)>,
    ) {
        let mut state = self.0.lock();
        state.failures += 1;
        for (arrived, stored) in group.rev() {
            state.waiting.push_front(Waiting { arrived, stored });
        }
        if state.failures >= MOST_FAILURES {
            state.failures = 0;
            for Waiting { stored, .. } in state.waiting.drain(..) {
                let _ = stored.send(Err(IngestError::NotWritten)); // the stream may be closed
            }
        }
    }
}
