//! A request on its way through the queue: it arrives, waits, is asked for again, gives up.

use std::future::Future;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Outcome, Timestamp};
use tollgate_observe::Observer;
use tollgate_policy::{Charge, Domain};
use tollgate_store::Store;

use super::ahead::Asking;
use super::alike::Alike;
use super::asked::{Asked, Paid};
use super::claim::{Claims, claims};
use super::events::{End, NoWait};
use super::grant::Grant;
use super::patience::Patience;
use super::ticket::{Joining, Ticket};
use super::waiting::{Planned, Waiting, Wake};
use crate::limiter::Limiter;
use crate::plan::make_together;
use crate::request::Request;
use crate::rules::Rules;
use crate::scratch::Scratch;
use crate::settle;

/// A request that a rule with a queue matches, until it is answered.
pub(super) struct Queued<'l, S: Store, O: Observer, F, T> {
    limiter: &'l Limiter<S, O>,
    request: &'l Request<'l>,
    arrived: Timestamp,
    /// `None`: it does not wait.
    patience: Option<&'l Patience<'l, F>>,
    pub(super) now: Timestamp,
    /// It is asked for before its turn.
    is_early: bool,
    stage: Stage<'l, S, O, F, T>,
    pub(super) paid: Option<Paid>,
}

enum Stage<'l, S: Store, O: Observer, F, T> {
    /// It has no place in its lines.
    Arrived,
    /// It is to be asked for at its place.
    Waiting(Waiting<'l, S, O, F, T>),
    /// It is to be denied, and keeps its place until then.
    GivesUp(Waiting<'l, S, O, F, T>, End),
    /// It is to be denied although it was granted these permits, which it has given up with its place.
    Forgoes(Grant),
}

pub(super) enum NextStep<'l, S: Store, O: Observer, F, T> {
    /// To plan it by the rules that are in force now, and to ask for it.
    Plan,
    /// To [wait](Queued::wait).
    Wait(Waiting<'l, S, O, F, T>),
    /// To admit it with permits that it was granted.
    Pass(Planned<O>, Grant),
    /// To answer it by its statuses.
    Answer(Outcome),
}

/// The limits that a request asks for by the rules in force.
struct Round<'r> {
    domain: &'r Domain,
    claims: Claims,
    charge: Charge,
}

impl<'r> Round<'r> {
    fn of(domain: &'r Domain, scratch: &mut Scratch) -> Self {
        let mut claims = claims(domain, scratch);
        let charge = if claims.list.is_empty() { domain.charge() } else { Charge::Together };
        if charge != domain.charge() {
            make_together(scratch);
        }
        if scratch.items.is_empty() {
            claims.list.clear(); // a rule denies everything
        }
        Self { domain, claims, charge }
    }
}

impl<'l, S: Store, O: Observer, F, T> Queued<'l, S, O, F, T>
where
    F: Fn(Duration) -> T + Sync,
    T: Future<Output = ()> + Send,
{
    pub(super) const fn new(
        limiter: &'l Limiter<S, O>,
        request: &'l Request<'l>,
        arrived: Timestamp,
        patience: Option<&'l Patience<'l, F>>,
    ) -> Self {
        let now = arrived;
        let stage = Stage::Arrived;
        Self { limiter, request, arrived, patience, now, is_early: false, stage, paid: None }
    }

    pub(super) fn waited(&self) -> Duration {
        self.now.since(self.arrived)
    }

    /// The next step of the request, which `scratch` has planned by `rules`.
    pub(super) async fn step(
        &mut self,
        rules: &Arc<Rules<O>>,
        domain: &Domain,
        scratch: &mut Scratch,
    ) -> NextStep<'l, S, O, F, T> {
        let round = Round::of(domain, scratch);
        match replace(&mut self.stage, Stage::Arrived) {
            Stage::Arrived => self.arrive(rules, round, scratch).await,
            Stage::Waiting(waiting) => self.ask_again(waiting, rules, &round, scratch).await,
            Stage::GivesUp(mut waiting, end) => {
                // Denied until it would have its turn if it came again now.
                let turn = self.limiter.lines.again(&round.claims.list, self.now);
                let overall = self.deny(&round, turn.unwrap_or(self.now), scratch).await;
                waiting.ticket.ends(end, self.waited());
                NextStep::Answer(overall)
            }
            Stage::Forgoes(grant) => {
                let behind = self.limiter.lines.behind(&round.claims.list, self.now);
                let turn = behind.map_or(grant.act_at, |turn| turn.max(grant.act_at));
                NextStep::Answer(self.deny(&round, turn, scratch).await)
            }
        }
    }

    /// Asks for a request that has no place in its lines, unless others come before it. Without its permits,
    /// it takes a place.
    async fn arrive(
        &mut self,
        rules: &Arc<Rules<O>>,
        mut round: Round<'_>,
        scratch: &mut Scratch,
    ) -> NextStep<'l, S, O, F, T> {
        let limiter = self.limiter;
        let now = self.now;
        let lines = &limiter.lines;
        let longest = self.patience.map_or(Duration::ZERO, |it| round.claims.max_wait.min(it.longest));
        let deadline = self.arrived + longest;
        let (alike, planned) = self.plan_ahead(rules, &round, scratch);
        let asked = match self.others_first(&round, scratch).await {
            Some(turn) => Asked::Behind(turn),
            None => self.ask(&round, alike.as_ref(), None, deadline, scratch).await,
        };
        match &asked {
            Asked::Decided { overall, is_late } => {
                if *is_late {
                    lines.events.not_joined(NoWait::TooLong);
                }
                return NextStep::Answer(*overall);
            }
            Asked::Granted(grant) if grant.act_at <= now.max(grant.granted_at) => {
                return planned.map_or(NextStep::Plan, |planned| NextStep::Pass(planned, grant.clone()));
            }
            _ => {}
        }
        if let Some(patience) = self.patience {
            let first = round.claims.descriptors.first();
            let first = first.and_then(|at| self.request.descriptors.get(*at as usize));
            let holder = lines.holder(self.request.domain, first.and_then(|it| it.entries.first()));
            let claims = std::mem::take(&mut round.claims.list);
            let joining = Joining { holder, claims, alike, deadline };
            let ticket = match &asked {
                Asked::Granted(grant) => lines.join_granted(joining, grant.clone()),
                Asked::Until(dues) => lines.join(joining, dues, now),
                _ => lines.join(joining, &[], now),
            };
            // Without a ticket it is turned away, like a request that may not wait.
            if let Ok(ticket) = ticket {
                let mut waiting = Waiting::new(self.limiter, patience, ticket, deadline, now);
                waiting.planned = planned;
                return NextStep::Wait(waiting);
            }
        }
        NextStep::Answer(self.turn_away(&round, asked, planned, scratch).await)
    }

    /// Asks for a request that waits. Without an answer that decides, it waits on.
    async fn ask_again(
        &mut self,
        mut waiting: Waiting<'l, S, O, F, T>,
        rules: &Arc<Rules<O>>,
        round: &Round<'_>,
        scratch: &mut Scratch,
    ) -> NextStep<'l, S, O, F, T> {
        let (alike, planned) = self.plan_ahead(rules, round, scratch);
        let ticket = &mut waiting.ticket;
        let deadline = waiting.deadline;
        match self.ask(round, alike.as_ref(), Some(&*ticket), deadline, scratch).await {
            // One that left has passed its permits on to it meanwhile.
            Asked::Decided { overall: Outcome::Deny, .. } if ticket.granted().is_some() => {}
            Asked::Decided { overall, is_late } => {
                let end = match overall {
                    Outcome::Admit => End::Passed,
                    Outcome::Deny if is_late => End::TimedOut,
                    Outcome::Deny => End::Denied,
                };
                ticket.ends(end, self.waited());
                return NextStep::Answer(overall);
            }
            Asked::Granted(_) => {}
            Asked::Until(dues) => ticket.denied_until(&dues),
            Asked::Unknown | Asked::Behind(_) => ticket.not_before_its_turn(),
        }
        waiting.planned = planned;
        NextStep::Wait(waiting)
    }

    /// Waits until something is to be done. `Some`: the permits that it was granted may be used.
    pub(super) async fn wait(&mut self, mut waiting: Waiting<'l, S, O, F, T>) -> Option<(Planned<O>, Grant)> {
        let wake = waiting.next(self.now).await;
        self.now = self.now.max((waiting.patience.now)());
        self.stage = match (wake, waiting.ticket.granted()) {
            (Wake::Ask { is_early }, _) => {
                self.is_early = is_early;
                Stage::Waiting(waiting)
            }
            (Wake::Granted | Wake::TimeUp, Some(grant)) => {
                waiting.ticket.ends(End::Passed, self.waited());
                return waiting.planned.take().map(|planned| (planned, grant));
            }
            (Wake::Granted, None) => Stage::Waiting(waiting),
            (Wake::TimeUp, None) => Stage::GivesUp(waiting, End::TimedOut),
            (Wake::Left, None) => Stage::GivesUp(waiting, End::Left),
            (Wake::Left, Some(grant)) => {
                waiting.ticket.ends(End::Left, self.waited());
                Stage::Forgoes(grant)
            }
            (Wake::Ended, _) => Stage::GivesUp(waiting, End::Ended),
        };
        None
    }

    /// The form in which others can ask for it while it waits, and the plan by which it passes then.
    fn plan_ahead(
        &self,
        rules: &Arc<Rules<O>>,
        round: &Round<'_>,
        scratch: &Scratch,
    ) -> (Option<Alike>, Option<Planned<O>>) {
        let of = |_| Alike::of(rules.generation, round.domain, scratch, &round.claims.list);
        let alike = self.patience.and_then(of);
        let planned = alike.as_ref().map(|_| Planned::of(rules, round.domain, scratch));
        (alike, planned)
    }

    /// When a request without a place would have its turn, if it has to wait for others; not if something
    /// else denies it.
    async fn others_first(&mut self, round: &Round<'_>, scratch: &Scratch) -> Option<Timestamp> {
        let turn = self.limiter.lines.behind(&round.claims.list, self.now)?;
        let is_denied = self.limiter.is_denied_elsewhere(round.domain, self.now, scratch).await;
        (!is_denied).then_some(turn)
    }

    async fn ask(
        &mut self,
        round: &Round<'_>,
        alike: Option<&Alike>,
        ticket: Option<&Ticket<'_>>,
        deadline: Timestamp,
        scratch: &mut Scratch,
    ) -> Asked {
        let Self { limiter, is_early, now, .. } = *self;
        let Round { domain, claims: Claims { list: claims, .. }, charge } = round;
        if let (Some(alike), Some(patience)) = (alike, self.patience) {
            let asking = Asking { alike, claims, ticket, deadline, is_early, now };
            return limiter.ask(domain, asking, patience, scratch).await;
        }
        match scratch.items.is_empty() {
            true => limiter.decide_unmatched(domain, self.request, scratch),
            false => limiter.charge::<false>(domain, *charge, now, scratch).await,
        }
        let at = self.patience.map_or(now, |patience| limiter.answered_at(now, patience.now));
        limiter.asked(domain, claims, self.patience.map(|_| deadline), at, scratch)
    }

    /// The outcome of a request that has neither its permits nor a place to wait in.
    async fn turn_away(
        &mut self,
        round: &Round<'_>,
        asked: Asked,
        planned: Option<Planned<O>>,
        scratch: &mut Scratch,
    ) -> Outcome {
        let turn = match asked {
            Asked::Decided { overall, .. } => return overall,
            Asked::Until(_) => return self.limiter.bind_soft(round.domain, false, self.now, scratch).await,
            Asked::Granted(grant) => {
                if let Some(planned) = planned.filter(|_| grant.is_of_store) {
                    self.limiter.give_all_back(&planned.takes(), self.now).await;
                }
                grant.act_at
            }
            Asked::Behind(turn) => turn,
            Asked::Unknown => self.now,
        };
        self.deny(round, turn, scratch).await
    }

    /// Denies the request until `turn`.
    async fn deny(&mut self, round: &Round<'_>, turn: Timestamp, scratch: &mut Scratch) -> Outcome {
        let Round { domain, claims: Claims { descriptors, .. }, .. } = round;
        self.limiter.deny_in_line(domain, descriptors, turn, self.now, scratch).await;
        settle::overall(&mut scratch.statuses)
    }
}
