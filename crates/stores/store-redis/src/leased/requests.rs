//! The calls of a node to its ledgers: operations on a key, and requests for permits.

use tollgate_lease::{LeaseRequest, LedgerCall, Mono, Op};

use super::ledger_script::{self, LedgerJob};
use super::local::LocalLeases;
use super::outgoing::{OutgoingRequest, PendingSends};
use super::table::{LeasedKey, RequestId, SharedTerms};
use crate::call::ScriptCall;

impl LocalLeases {
    /// One operation on the ledger of a key.
    pub(super) fn call(&self, key: &LeasedKey, op: Op, now: Mono) -> ScriptCall {
        let SharedTerms { quota, terms, .. } = &*key.shared;
        let window_ends_us = terms.window_ends_us(quota, key.clock.time_at(now));
        self.script_call(key, LedgerJob::Call(LedgerCall { op, window_ends_us }), now)
    }

    /// The call that forgets a key.
    pub(super) fn reset_call(&self, key: &LeasedKey, now: Mono) -> ScriptCall {
        self.script_call(key, LedgerJob::Reset, now)
    }

    fn script_call(&self, key: &LeasedKey, job: LedgerJob, now: Mono) -> ScriptCall {
        let now_us = self.clock.ledger_time_us(now);
        ledger_script::encode(key.redis_key.clone(), key.shared.packed.clone(), job, now_us)
    }

    /// Sends a request of this key.
    pub(super) fn send(
        &self,
        key: &mut LeasedKey,
        request: LeaseRequest,
        now: Mono,
        sends: &mut PendingSends,
    ) {
        sends.requests.push(self.lease_request(key, request, now));
        sends.watch(key);
    }

    /// Sends a request that no caller waits for. For a moment after a request has failed it is left out, and
    /// made again later.
    pub(super) fn send_ahead(
        &self,
        key: &mut LeasedKey,
        request: LeaseRequest,
        now: Mono,
        sends: &mut PendingSends,
    ) {
        if now < key.pause_until {
            key.node.on_lost(&key.shared.terms, request.seq);
            sends.watch(key);
        } else {
            self.send(key, request, now, sends);
        }
    }

    /// Sends the returns of keys that have left the table.
    pub(super) fn send_returns(
        &self,
        returns: Vec<(LeasedKey, LeaseRequest)>,
        now: Mono,
        sends: &mut PendingSends,
    ) {
        for (mut key, request) in returns {
            sends
                .requests
                .push(OutgoingRequest { is_orphan: true, ..self.lease_request(&mut key, request, now) });
        }
    }

    pub(super) fn lease_request(
        &self,
        key: &mut LeasedKey,
        request: LeaseRequest,
        now: Mono,
    ) -> OutgoingRequest {
        // The ledger need not be asked once for each caller.
        let (first, all) = key.permits_waited_for();
        let request = key.node.cover(&key.shared.terms, request, first, all);
        let id = RequestId::of(&request);
        key.in_flight = Some(id);
        self.counts.requests.add(1);
        OutgoingRequest {
            key: key.key.clone(),
            id,
            call: self.call(key, Op::Lease(request), now),
            is_orphan: false,
        }
    }
}
