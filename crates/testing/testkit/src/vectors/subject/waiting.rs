//! Operations by which callers wait: each is a reservation, which says when its turn comes.

use std::time::Duration;

use serde_json::Value;
use tollgate::{AcquireError, Clock as _, Reservation, Timestamp};

use super::{Subject, zero_when_admitted};
use crate::vectors::case::{Fields, PATIENCE, StepAnswer, Stop, few, lacks, skip};
use crate::vectors::quotas::instant;

impl Subject<'_> {
    pub(super) fn try_acquire(&mut self, step: &Fields, n: u64) -> Result<StepAnswer, Stop> {
        // Below zero it counts as zero there.
        let timeout_us = step.get("timeout_us").and_then(Value::as_i64);
        let timeout_us = timeout_us.ok_or_else(|| Stop::Skip("`timeout_us` is not a whole number".into()))?;
        let timeout = Duration::from_micros(u64::try_from(timeout_us).unwrap_or(0));
        let limiter = self.only("")?;
        let reservation = limiter.reserve(n, timeout);
        let ok = reservation.is_ok();
        if let Ok(reservation) = reservation {
            reservation.commit(n);
        }
        Ok(StepAnswer::from([("ok", ok.into())]))
    }

    pub(super) fn reserve(&mut self, step: &Fields, n: u64, now: Timestamp) -> Result<StepAnswer, Stop> {
        let handle = step.text("handle")?;
        if step.get("cancelled_before").is_some_and(|it| *it == true) {
            // Given up before it was asked: nothing reaches us.
            return Ok(StepAnswer::from([("ok", false.into()), ("reason", "cancelled".into())]));
        }
        let timeout_ns = self.params().maybe_number("timeout_ns")?;
        if timeout_ns == Some(0) {
            let mut seen = zero_when_admitted(self.take("", n)?);
            if seen["ok"] == false {
                seen.insert("wait_ns", Value::Null); // not within a timeout of zero
            }
            return Ok(seen);
        }
        let longest = step.maybe_number("max_wait_ns")?.or(timeout_ns).map(Duration::from_nanos);
        // A deadline is an instant, as that of a cancellation is.
        let deadline = step.maybe_number("deadline_ns")?.map(|ns| self.at(ns)).transpose()?;
        let no = |reason: &str| {
            let wait = if timeout_ns.is_some() { Value::Null } else { 0.into() };
            StepAnswer::from([("ok", false.into()), ("wait_ns", wait), ("reason", reason.into())])
        };
        if deadline.is_some_and(|at| at < now) {
            return Ok(no("deadline"));
        }
        let until_deadline = deadline.map(|at| at.since(now));
        let max_wait = longest.into_iter().chain(until_deadline).min().unwrap_or(PATIENCE);
        let mut reservations = Vec::new();
        for answer in self.each("", |limiter| limiter.reserve(n, max_wait))? {
            match answer {
                Ok(reservation) => reservations.push(reservation),
                Err(AcquireError::NeverFits { .. }) if handle.is_empty() => return Ok(no("exceeds_burst")),
                Err(AcquireError::NeverFits { .. }) => {
                    self.reserved.insert(handle.to_owned(), Vec::new()); // to cancel it does nothing
                    return Ok(no("exceeds_burst"));
                }
                Err(AcquireError::QueueFull { .. }) => return skip("a queue that is full"),
                Err(_) => return Ok(no("deadline")),
            }
        }
        let act_at = reservations.iter().map(Reservation::act_at).max().ok_or_else(|| lacks("a limiter"))?;
        // Vectors of several quotas here say that all of them answer alike.
        if reservations.iter().any(|reservation| reservation.act_at() != act_at) {
            return skip("several quotas whose turns come at different times");
        }
        if let Some(cancel_ns) = step.maybe_number("cancel_at_ns")? {
            let cancel_at = self.at(cancel_ns)?;
            if act_at > cancel_at {
                self.clock.set(cancel_at);
                reservations.into_iter().for_each(Reservation::cancel);
                return Ok(StepAnswer::from([
                    ("ok", false.into()),
                    ("reason", "cancelled".into()),
                    ("returned_at_ns", cancel_ns.into()),
                ]));
            }
        }
        match handle {
            "" => {
                if self.promises() {
                    self.promised.push((act_at, n));
                }
                reservations.into_iter().for_each(|reservation| reservation.commit(n));
            }
            handle => {
                self.reserved.insert(handle.to_owned(), reservations);
            }
        }
        let act_at_ns = self.ns_of(act_at);
        let wait = act_at.since(now);
        Ok(StepAnswer::from([
            ("ok", true.into()),
            ("wait_ns", (wait.as_nanos() as u64).into()),
            ("wait_us_exact", (wait.as_nanos() as f64 / 1e3).into()),
            ("wait_s", wait.as_secs_f64().into()),
            ("act_at_ns", act_at_ns.into()),
            ("at_ns", act_at_ns.into()),
        ]))
    }

    /// Callers that come together and wait as long as the vector says.
    pub(super) fn acquire_many(&mut self, step: &Fields, n: u64, now: Timestamp) -> Result<StepAnswer, Stop> {
        let max_wait = Duration::from_nanos(self.params().number("timeout_ns")?);
        let limiter = self.only("")?.clone();
        let mut admitted = 0_u64;
        let mut rejected = 0_u64;
        let mut last = now;
        for _ in 0..step.calls("count")? {
            match limiter.reserve(n, max_wait) {
                Ok(reservation) => {
                    (admitted, last) = (admitted + 1, last.max(reservation.act_at()));
                    reservation.commit(n);
                }
                Err(_) => rejected += 1,
            }
        }
        Ok(StepAnswer::from([
            ("ok_count", admitted.into()),
            ("ok_at_ns", self.ns_of(last).into()),
            ("rejected_count", rejected.into()),
            ("rejected_at_ns", self.ns_of(now).into()),
        ]))
    }

    /// Callers that take one permit each, whichever task they belong to: when the last has its permit.
    pub(super) fn acquire_total(&mut self, step: &Fields, now: Timestamp) -> Result<StepAnswer, Stop> {
        let n = step.calls("n")?;
        let _ = step.maybe_number("tasks")?;
        let limiter = self.only("")?;
        let mut last = now;
        for _ in 0..n {
            let Ok(reservation) = limiter.reserve(1, PATIENCE) else { return skip("a queue that is full") };
            last = last.max(reservation.act_at());
            reservation.commit(1);
        }
        Ok(StepAnswer::from([("total_ns", (last.since(now).as_nanos() as u64).into())]))
    }

    /// Whether windows promise permits of later windows; a caller that wants several takes one after another.
    pub(super) fn takes_one_by_one(&self) -> bool {
        matches!(self.vector.algorithm.as_str(), "leaky_bucket_queue_grid" | "fixed_window_with_debt")
    }

    fn promises(&self) -> bool {
        self.takes_one_by_one() || self.vector.algorithm == "fixed_window_with_reservation"
    }

    /// Permits that later windows have promised, below zero.
    pub(super) fn owed_by_windows(&self) -> i64 {
        let now = self.clock.now();
        let owed = self.promised.iter().filter(|(at, _)| *at > now);
        let owed = owed.fold(0_i64, |sum, (_, n)| sum.saturating_add_unsigned(*n));
        -owed
    }

    /// Callers that take their permits one after another in one line: how long the last one waits.
    pub(super) fn one_by_one(&mut self, step: &Fields, now: Timestamp) -> Result<StepAnswer, Stop> {
        let permits = step.calls("n")?.saturating_mul(step.maybe_number("repeat")?.unwrap_or(1));
        let limiter = self.only("")?.clone();
        let reserve = || limiter.reserve(1, PATIENCE).or_else(|_| skip("a queue that is full"));
        let mut last = now;
        for _ in 0..few(permits, "repeat")? {
            let reservation = reserve()?;
            last = last.max(reservation.act_at());
            self.promised.push((reservation.act_at(), 1));
            reservation.commit(1);
        }
        let next = reserve()?;
        let next_free = next.act_at();
        next.cancel();
        let level = self.level("")?;
        Ok(StepAnswer::from([
            ("last_wait_ns", (last.since(now).as_nanos() as u64).into()),
            ("next_free_ns", self.ns_of(next_free).into()),
            ("available_after", level.into()),
        ]))
    }

    /// Plays callers that each wait for one limiter after another, and counts those that were through before
    /// `end_ns`.
    pub(super) fn count_taken_before(&mut self, end_ns: u64) -> Result<StepAnswer, Stop> {
        self.keys.clear();
        let clock = self.clock.clone();
        let began = self.began;
        let limiters = self.limiters("")?.clone();
        let reserve = |which: usize, at_ns: u64| -> Result<u64, Stop> {
            clock.set(instant(began, at_ns)?);
            let Ok(reservation) = limiters[which].reserve(1, PATIENCE) else { return Ok(u64::MAX) };
            let act_at = reservation.act_at();
            reservation.commit(1);
            Ok(act_at.since(began).as_nanos() as u64)
        };
        let mut count = 0_u64;
        if let Some(takes) = self.params().numbers("single_takes_at_ns")? {
            for at_ns in takes {
                count += u64::from(reserve(0, at_ns)? < end_ns);
            }
            return Ok(StepAnswer::from([("count", count.into())]));
        }
        if limiters.len() != 2 {
            return skip("callers that take from other than one limiter, or two in turn");
        }
        // One caller takes slow, then fast; from 2 s on two more take only fast. (when, takes slow, is at
        // fast)
        let mut callers = [(0, true, false), (2_000_000_000, false, true), (2_000_000_000, false, true)];
        let mut calls = 0;
        while let Some(next) = callers.iter_mut().filter(|(at, ..)| *at < end_ns).min_by_key(|(at, ..)| *at) {
            calls += 1;
            few(calls, "t_ns")?;
            let (at, takes_slow, is_at_fast) = *next;
            let through = reserve(usize::from(is_at_fast), at)?;
            count += u64::from(is_at_fast && through < end_ns);
            *next = (through, takes_slow, !takes_slow || !is_at_fast);
        }
        Ok(StepAnswer::from([("count", count.into())]))
    }
}
