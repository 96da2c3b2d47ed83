//! Where the reports of nodes go.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_control::Control;
use tollgate_core::Timestamp;
use tollgate_fleet_hub::{Reports, ReportsError};
use tollgate_fleet_proto::Report;

/// Reports of nodes in the database.
#[derive(Debug)]
pub(crate) struct StoredReports(pub(crate) Arc<Control>);

impl Reports for StoredReports {
    fn store<'a>(
        &'a self,
        node: &'a str,
        incarnation: u64,
        report: Report,
        at: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<(), ReportsError>> + Send + 'a>> {
        let at_ms = i64::try_from(at.as_nanos() / 1_000_000).unwrap_or(i64::MAX);
        Box::pin(async move {
            let stored = self.0.store_report(node, incarnation, report, at_ms).await;
            stored.map_err(|error| ReportsError(Box::new(error)))
        })
    }
}
