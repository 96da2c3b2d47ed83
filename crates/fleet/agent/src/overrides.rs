//! Blocks and allowances of the control plane, as the limiter takes them.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Clock, Timestamp};
use tollgate_fleet_proto::{Action, Overrides};
use tollgate_human_text::read_bytes;
use tollgate_limiter::{Intervened, Intervention, Limiter, Observer};
use tollgate_store::Store;

/// Returns the [`Seams::overrides`](crate::Seams::overrides) of a node with this limiter.
pub fn put_in_force<S: Store, O: Observer>(
    limiter: Arc<Limiter<S, O>>,
    clock: Arc<dyn Clock>,
) -> Box<dyn FnMut(Overrides) + Send> {
    Box::new(move |overrides| {
        let revision = overrides.revision;
        let result = limiter.intervene(interventions(overrides), clock.now());
        if result.dropped > 0 {
            let in_force = result.in_force;
            let dropped = result.dropped;
            tracing::error!(
                revision,
                in_force,
                dropped,
                "blocks and allowances above a cap are not in force"
            );
        }
    })
}

/// The limiter's form of `overrides`, whose entries are texts in the spelling of `show_bytes`. Overrides with
/// an action from a later release are left out.
#[must_use]
pub fn interventions(overrides: Overrides) -> Vec<Intervention> {
    let one = |one: tollgate_fleet_proto::Override| {
        let action = match Action::try_from(one.action) {
            Ok(Action::Allow) => Intervened::Allowed,
            Ok(Action::Deny) => Intervened::Blocked,
            Err(_) => return None,
        };
        let bytes = |text: &str| read_bytes(text).into_owned();
        let entries = one.entries.iter().map(|it| (bytes(&it.key), bytes(&it.value))).collect();
        let until = Timestamp::ZERO + Duration::from_millis(one.until_ms);
        Some(Intervention { domain: one.domain, entries, action, until })
    };
    overrides.overrides.into_iter().filter_map(one).collect()
}
