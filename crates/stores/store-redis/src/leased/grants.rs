//! The outcomes of requests for permits: grants, failures, and returns of idle permits.

use std::time::Duration;

use tollgate_lease::{LedgerReply, Mono};
use tollgate_store::StoreError;

use super::clock::Moment;
use super::local::LocalLeases;
use super::outgoing::{OutgoingRequest, PendingSends};
use super::table::{LeasedKey, RequestId};

/// Pause of requests ahead of need after one has failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);
/// Lifetime of a key that holds nothing after its last use, in taus.
const KEPT_TAUS: u32 = 20;

impl LocalLeases {
    /// Handles the result of a lease request. The pending sends then include the next request, where callers
    /// still wait.
    pub(super) fn on_lease_reply(
        &self,
        request: &OutgoingRequest,
        result: Result<LedgerReply, StoreError>,
    ) -> PendingSends {
        let mut sends = PendingSends::default();
        if request.is_orphan {
            return sends;
        }
        let now = self.clock.now();
        let mut shard = self.table.shard(&request.key);
        let Some(key) = shard.keys.get_mut(&*request.key) else { return sends };
        if key.in_flight != Some(request.id) {
            return sends; // given up meanwhile
        }
        key.in_flight = None;
        match result {
            Ok(reply) => self.on_granted(key, request.id, &reply, now),
            Err(error) => self.on_lease_failed(key, request.id, &error, now),
        }
        self.deal(key, now, &mut sends);
        shard.watched.append(&mut sends.watched);
        sends
    }

    fn on_granted(&self, key: &mut LeasedKey, id: RequestId, reply: &LedgerReply, now: Mono) {
        let terms = &key.shared.terms;
        if !key.node.on_grant(terms, reply, now) {
            key.node.on_lost(terms, id.seq); // not the reply to this request, and no other will come
        }
        self.counts.granted.add(reply.granted);
        if reply.rejected {
            key.clock = Moment::of_ledger(reply, now);
        }
    }

    fn on_lease_failed(&self, key: &mut LeasedKey, id: RequestId, error: &StoreError, now: Mono) {
        key.node.on_lost(&key.shared.terms, id.seq);
        key.pause_until = now.after(PAUSE_AFTER_FAILURE);
        for waiter in key.waiting.drain(..) {
            waiter.to.send(Err(self.client.nothing_taken(error))).ok();
        }
    }

    /// Gives back the idle permits of one shard; `evicts`: also removes the keys that were long not used.
    pub(super) fn reap(&self, shard: usize, evicts: bool) -> PendingSends {
        let now = self.clock.now();
        let mut sends = PendingSends::default();
        let mut guard = self.table.nth(shard);
        let shard = &mut *guard;
        for name in std::mem::take(&mut shard.watched) {
            let Some(key) = shard.keys.get_mut(&*name) else { continue };
            if let Some(request) = key.node.on_time(&key.shared.terms, now) {
                self.send_ahead(key, request, now, &mut sends);
            }
            key.is_watched = key.in_flight.is_some() || key.node.wakes_at(&key.shared.terms).is_some();
            if key.is_watched {
                shard.watched.push(name);
            }
        }
        if evicts {
            let long = self.timing.tau * KEPT_TAUS;
            let old = shard.remove_idle(now, |key| key.used.after(long) <= now && !key.is_watched);
            self.send_returns(old, now, &mut sends);
        }
        sends
    }

    /// The requests that give back all permits held.
    pub(super) fn give_all_back(&self) -> Vec<OutgoingRequest> {
        let now = self.clock.now();
        let mut requests = Vec::new();
        for mut shard in self.table.shards() {
            for key in shard.keys.values_mut() {
                if let Some(request) = key.node.give_up(&key.shared.terms, now) {
                    requests.push(self.lease_request(key, request, now));
                }
            }
        }
        requests
    }
}
