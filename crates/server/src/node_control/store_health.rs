//! Health of a node's store in its reports, also without requests.

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_fleet_agent::{Sample, sample};
use tollgate_http_api::StoreStatus;

use crate::any_store::NodeLimiter;

/// Samples `limiter`. Without decisions the last call to the store is outdated, so an idle node reports the
/// state of its connections, as its readiness does.
pub(super) fn sampler(limiter: Arc<NodeLimiter>) -> Box<dyn FnMut(Timestamp) -> Sample + Send> {
    let mut decided_before = 0;
    Box::new(move |now| {
        let mut sample = sample(&limiter, now);
        let counts = sample.rules.iter().map(|it| it.counts);
        let decided = counts.fold(0_u64, |sum, it| {
            sum.wrapping_add(it.admitted).wrapping_add(it.denied).wrapping_add(it.shadow_denied)
        });
        let is_idle = std::mem::replace(&mut decided_before, decided) == decided;
        if let Some(store) = &mut sample.store {
            let is_down = matches!(limiter.store().view().status, StoreStatus::Down { .. });
            store.available = !is_down && (is_idle || store.available);
        }
        sample
    })
}
