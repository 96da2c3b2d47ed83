//! The fill of everything that has a cap, for metrics.

use crate::control::Control;
use crate::error::ControlError;
use crate::fleet::figures::Counted;

/// Numbers of things that wait or are kept, now. Each has a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Apps that are published.
    pub apps: usize,
    /// Blocks and allowances in force when they last changed.
    pub overrides: usize,
    /// Reports of nodes that wait to be stored.
    pub reports_waiting: usize,
    /// Transactions that wait to write.
    pub writes_waiting: usize,
    /// Transactions that wait to read.
    pub reads_waiting: usize,
    /// Windows of login attempts.
    pub attempts: usize,
    /// Counts of rules that were added to `(others)`, or had no row, since the start.
    pub history_left_out: u64,
    /// Rejected changes and nodes that are not in the audit, since too many came in a minute.
    pub rejections_left_out: u64,
    /// Number of the last entry of the audit that this process knows.
    pub audit_entries: u64,
    /// Figures of the database, as of the last look.
    pub counted: Counted,
    /// Free bytes of the disk with the data, as far as that is known.
    pub disk_free: Option<u64>,
}

impl Control {
    /// Counts what [`Load::counted`] shows.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub(crate) async fn count(&self) -> Result<(), ControlError> {
        let counted = self
            .read(|tx| {
                let hour = tx.now_ms() / 3_600_000;
                let mut count = |statement, values: &[tollgate_db::Value]| {
                    Ok::<_, ControlError>(tollgate_db::query_int(tx, statement, values)?.unsigned_abs())
                };
                Ok(Counted {
                    history_rules: count(
                        "SELECT COUNT(*) FROM series WHERE hour >= $1 AND rule <> '' AND rule <> '(others)'",
                        &[hour.into()],
                    )?,
                    history_domains: count(
                        "SELECT COUNT(*) FROM series WHERE hour >= $1 AND rule = ''",
                        &[hour.into()],
                    )?,
                    most_rules: count(
                        "SELECT COALESCE(MAX(rules), 0) FROM \
                         (SELECT COUNT(*) AS rules FROM car GROUP BY app_id, edition) AS apps",
                        &[],
                    )?,
                })
            })
            .await?;
        self.live().counted(counted);
        Ok(())
    }

    /// The current fill of everything that has a cap.
    #[must_use]
    pub fn load(&self) -> Load {
        let (writes_waiting, reads_waiting) = self.db().waiting();
        let ingest = &self.live().ingest;
        Load {
            apps: self.published().borrow().apps.len(),
            overrides: self.overrides().borrow().overrides.len(),
            reports_waiting: ingest.waiting(),
            writes_waiting,
            reads_waiting,
            attempts: self.attempts.remembered(),
            history_left_out: ingest.left_out(),
            rejections_left_out: self.rejections.left_out(),
            audit_entries: self.head.last().map_or(0, |(seq, _)| seq.unsigned_abs()),
            counted: self.live().last_counted(),
            disk_free: self.live().surroundings().disk.map(|it| it.0),
        }
    }
}
