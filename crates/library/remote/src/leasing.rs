//! Checks over gRPC, from leases if there are any.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::answer::{Answer, DecidedBy};
use crate::error::RemoteError;
use crate::grpc::{Channel, LeaseRequest};
use crate::lease::{Lease, Leases, Offer, Over, Taken};
use crate::question::Question;

/// Time limit of a request for a lease, and of the return of one.
const WITHIN: Duration = Duration::from_secs(1);

/// A service, and the leases from it.
#[derive(Debug)]
pub(crate) struct Leasing {
    pub(crate) channel: Arc<Channel>,
    pub(crate) runtime: Handle,
    leases: Leases,
}

impl Leasing {
    pub(crate) fn new(channel: Arc<Channel>, runtime: Handle) -> Self {
        Self { channel, runtime, leases: Leases::default() }
    }

    /// Takes permits of a lease, or asks the service within `deadline`.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: &Question<'_>,
        deadline: Duration,
    ) -> Result<Answer, RemoteError> {
        let key = question.key();
        let ends = Instant::now() + deadline;
        match self.leases.take(&key, question.hits, Instant::now()) {
            Taken::Here => return Ok(of_a_lease()),
            Taken::Ask(None) => {}
            Taken::Ask(Some(Over { id, good, used })) => {
                let channel = Arc::clone(&self.channel);
                // Permits whose return fails count as used.
                let returned = self.runtime.spawn(async move { channel.give_back(id, used, WITHIN).await });
                if good > 0 {
                    // The bucket of the service must not lack them for this question.
                    drop(tokio::time::timeout_at(ends, returned).await);
                }
            }
        }
        let left = ends.saturating_duration_since(Instant::now());
        let (answer, offer) = self.channel.check(question, left).await?;
        if let Some(offer) = offer {
            self.lease(&key, question, offer);
        }
        Ok(answer)
    }

    /// Leases the permits of an offer that are worth it, while the caller continues.
    fn lease(self: &Arc<Self>, key: &str, question: &Question<'_>, offer: Offer) {
        let began = Instant::now();
        let Some(permits) = self.leases.want(key, offer, began) else { return };
        let leasing = Arc::clone(self);
        let key = key.to_owned();
        let wanted = LeaseRequest::new(question, permits);
        self.runtime.spawn(async move {
            let lease = match leasing.channel.lease(&wanted, WITHIN).await {
                Ok(Some((id, refill))) => Some(Lease { id, permits, refill, began, used: 0 }),
                // Permits that were taken nevertheless count as used.
                Ok(None) | Err(_) => None,
            };
            leasing.leases.keep(&key, lease);
        });
    }
}

fn of_a_lease() -> Answer {
    Answer {
        is_admitted: true,
        limit: None,
        remaining: None,
        owed: 0,
        delay: Duration::ZERO,
        retry_after: Some(Duration::ZERO),
        rule: None,
        decided_by: DecidedBy::Lease,
    }
}
