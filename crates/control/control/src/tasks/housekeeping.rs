//! Keeps the history: writes reports of nodes, and removes old rows.

use std::sync::Arc;
use std::time::Duration;

use tollgate_fleet_proto::Report;

use crate::control::Control;
use crate::history::{IngestError, Sweep, sweep};
use crate::tasks::events::Topic;

/// Reports wait this long for others, so that they share a transaction.
const GROUP: Duration = Duration::from_millis(500);
/// Groups between two looks for old rows.
const SWEEP_EVERY: u32 = 120;
/// Groups between two looks at problems.
const PROBLEMS_EVERY: u32 = 10;

impl Control {
    /// Waits until a node's report, which came at `at_ms`, is in the database. It then counts once, whether
    /// it comes once or several times. [`keep_history`](Self::keep_history) must run.
    ///
    /// # Errors
    /// [`IngestError`]: it may or may not be stored, and must be sent again.
    pub async fn store_report(
        &self,
        node: &str,
        incarnation: u64,
        report: Report,
        at_ms: i64,
    ) -> Result<(), IngestError> {
        self.live().reported(node, incarnation, &report, at_ms);
        self.rollout_counts().reported(node, incarnation, &report, at_ms);
        self.live().ingest.store(node, incarnation, report, at_ms).await
    }

    /// Writes reports in groups, removes old rows, and looks for problems, until the future is dropped.
    pub async fn keep_history(&self) {
        let mut ticks = tokio::time::interval(GROUP);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_failing = false;
        let mut logged = None;
        for tick in (0..SWEEP_EVERY * PROBLEMS_EVERY).cycle() {
            ticks.tick().await;
            if self.live().surroundings().has_room() {
                let written = self.write_reports().await;
                match &written {
                    Err(error) if !is_failing => tracing::warn!(%error, "reports cannot be stored"),
                    Ok(_) if is_failing => tracing::info!("reports are stored again"),
                    _ => {}
                }
                is_failing = written.is_err();
            } else {
                if !is_failing {
                    tracing::warn!("reports are not stored: the disk is nearly full");
                }
                is_failing = true;
            }
            if tick % PROBLEMS_EVERY == 0
                && let Err(error) = self.look_for_problems().await
            {
                tracing::debug!(%error, "problems cannot be read");
            }
            if tick % PROBLEMS_EVERY == 0
                && let Err(error) = self.count().await
            {
                tracing::debug!(%error, "rules and series cannot be counted");
            }
            if tick % SWEEP_EVERY == 0 {
                let head = self.head.last();
                if let Some((seq, hash)) = head.as_ref().filter(|_| head != logged) {
                    tracing::info!(seq, hash, "last entry of the audit");
                }
                logged = head;
                self.sweep_history().await;
            }
        }
    }

    /// Writes what waits, once. Returns how many reports counted.
    ///
    /// # Errors
    /// [`ControlError::Db`](crate::ControlError::Db); the reports wait.
    pub async fn write_reports(&self) -> Result<usize, crate::ControlError> {
        let published = Arc::clone(&self.published().borrow());
        let names = match self.live().names.known(&published) {
            Some(names) => names,
            None => {
                let live = self.live_shared();
                let read = tokio::task::spawn_blocking(move || live.names.read(&published)).await;
                read.map_err(|_| tollgate_db::DbError::Panicked)?
            }
        };
        let written = self.live().ingest.write(self.db(), &names).await?;
        if written > 0 {
            self.live().events.note(Topic::History);
        }
        Ok(written)
    }

    /// Removes old rows, in short transactions.
    async fn sweep_history(&self) {
        let mut from = Some(Sweep::default());
        while let Some(at) = from {
            from = match self.db().write(move |tx| sweep(tx, at)).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "old history cannot be removed");
                    None
                }
            };
        }
    }
}
