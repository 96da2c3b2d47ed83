//! The decisions of a node about one key: takes that its lease can pay for, and the waits of the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_core::{Cost, Decision};
use tollgate_lease::{Mono, Verdict};

use super::local::LocalLeases;
use super::outgoing::PendingSends;
use super::table::LeasedKey;
use super::take::{Begun, DeniedHit, LeasedTake, PendingTake, WaitingTake};

impl LocalLeases {
    pub(super) fn take(
        &self,
        key: &mut LeasedKey,
        take: LeasedTake,
        now: Mono,
        sends: &mut PendingSends,
    ) -> Begun {
        let terms = &key.shared.terms;
        let is_bucket = terms.per_us() > 0; // a bucket counts no denied hits
        let hit = if is_bucket { DeniedHit::Counts } else { take.hit };
        let take = LeasedTake { hit, ..take };
        let cost = take.cost;
        let can_wait = cost.permits() > 0 && cost.permits() <= terms.burst();
        if !key.waiting.is_empty() && can_wait {
            key.node.queue(terms, cost, now);
            return self.wait(&mut key.waiting, take);
        }
        if hit != DeniedHit::Counts
            && let Some(denial) = key.node.denies(terms, cost, now)
        {
            return Begun::Done(Ok(denial));
        }
        let step = key.node.take(terms, cost, now);
        if let Some(request) = step.send {
            if step.verdict == Verdict::Wait {
                self.send(key, request, now, sends);
            } else {
                self.send_ahead(key, request, now, sends);
            }
        }
        match step.verdict {
            Verdict::Decided(decision) => Begun::Done(Ok(decision)),
            Verdict::Wait => self.wait(&mut key.waiting, take),
            Verdict::Central => {
                let begun = self.wait(&mut key.central, take);
                if matches!(begun, Begun::Waits(_)) {
                    sends.start_central(key);
                }
                begun
            }
        }
    }

    /// Puts a take into a queue of its key.
    fn wait(&self, queue: &mut VecDeque<WaitingTake>, take: LeasedTake) -> Begun {
        let waiting = queue.len();
        if waiting >= self.client.max_queued() {
            let why = format!("{waiting} takes of one key are waiting already");
            return Begun::Done(Err(self.client.queue_full(&why)));
        }
        let (to, answer) = oneshot::channel();
        let sent = Arc::new(AtomicBool::new(false));
        let by = Instant::now() + self.client.patience();
        queue.push_back(WaitingTake { take, to, sent: sent.clone(), by });
        Begun::Waits(PendingTake { answer, sent, by })
    }

    /// Deals out the available permits, in order of arrival; after a request has ended, or the lease was
    /// dropped.
    pub(super) fn deal(&self, key: &mut LeasedKey, now: Mono, sends: &mut PendingSends) {
        let mut request = None;
        let mut is_answered = false;
        while let Some(waiter) = key.waiting.front() {
            if waiter.to.is_closed() {
                key.waiting.pop_front();
                continue;
            }
            let step = key.node.retake(&key.shared.terms, waiter.take.cost, now);
            request = step.send.or(request);
            is_answered = matches!(step.verdict, Verdict::Decided(_));
            if step.verdict == Verdict::Wait {
                break;
            }
            let Some(waiter) = key.waiting.pop_front() else { break };
            match step.verdict {
                Verdict::Decided(decision) => answer(key, waiter, decision, now),
                _ => {
                    key.central.push_back(waiter);
                    sends.start_central(key);
                }
            }
        }
        if let Some(request) = request {
            self.send(key, request, now, sends);
        } else if is_answered && let Some(request) = key.node.dealt(&key.shared.terms, now) {
            self.send_ahead(key, request, now, sends);
        }
    }
}

/// Answers a take that waited for a grant.
fn answer(key: &mut LeasedKey, waiter: WaitingTake, decision: Decision, now: Mono) {
    let cost: Cost = waiter.take.cost;
    if let Err(Ok(decision)) = waiter.to.send(Ok(decision))
        && decision.is_admitted()
    {
        // The caller has just stopped waiting: others can have its permits.
        key.node.give_back(&key.shared.terms, cost, now).ok();
    }
}
