//! Operations by which callers wait: each is a reservation, which says when its turn comes.

use std::time::Duration;

use serde_json::{Map, Value};
use tollgate::{AcquireError, Reservation, Timestamp};

use super::{Subject, instant, since_midnight_ns, zero_when_admitted};
use crate::vectors::case::{Seen, Stop};
use crate::vectors::quotas::{lacks, number, skip};

/// How long a caller waits that names no end.
const PATIENCE: Duration = Duration::from_secs(1 << 32);

impl Subject {
    pub(super) fn try_acquire(&mut self, step: &Map<String, Value>, n: u64) -> Result<Seen, Stop> {
        // Below zero it counts as zero there.
        let timeout_us = step["timeout_us"].as_i64().ok_or_else(|| lacks("timeout_us"))?;
        let timeout = Duration::from_micros(u64::try_from(timeout_us).unwrap_or(0));
        let limiter = self.only("")?;
        let reservation = limiter.reserve(n, timeout);
        let ok = reservation.is_ok();
        if let Ok(reservation) = reservation {
            reservation.commit(n);
        }
        Ok(Seen::from([("ok", ok.into())]))
    }

    pub(super) fn reserve(
        &mut self,
        step: &Map<String, Value>,
        n: u64,
        now: Timestamp,
    ) -> Result<Seen, Stop> {
        if step.get("cancelled_before").is_some() {
            // Given up before it was asked: nothing reaches us.
            return Ok(Seen::from([("ok", false.into()), ("reason", "cancelled".into())]));
        }
        if self.params.get("timeout_ns") == Some(&Value::from(0)) {
            let mut seen = zero_when_admitted(self.take("", n)?);
            if seen["ok"] == false {
                seen.insert("wait_ns", Value::Null); // not within a timeout of zero
            }
            return Ok(seen);
        }
        let longest = step.get("max_wait_ns").or_else(|| self.params.get("timeout_ns"));
        let longest = longest.and_then(Value::as_u64).map(Duration::from_nanos);
        // A deadline is an instant, as that of a cancellation is.
        let deadline = step.get("deadline_ns").map(|_| number(step, "deadline_ns")).transpose()?.map(instant);
        let no = |reason: &str| {
            Seen::from([("ok", false.into()), ("wait_ns", 0.into()), ("reason", reason.into())])
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
                Err(AcquireError::NeverFits { .. }) => return Ok(no("exceeds_burst")),
                Err(_) => return Ok(no("deadline")),
            }
        }
        let act_at = reservations.iter().map(Reservation::act_at).max().ok_or_else(|| lacks("a limiter"))?;
        // Vectors of several quotas here say that all of them answer alike.
        if reservations.iter().any(|reservation| reservation.act_at() != act_at) {
            return Err(Stop::Broken(format!("not alike: {reservations:?}")));
        }
        let cancel_at = step.get("cancel_at_ns").and_then(Value::as_u64).filter(|ns| act_at > instant(*ns));
        if let Some(cancel_at) = cancel_at {
            self.clock.set(instant(cancel_at));
            reservations.into_iter().for_each(Reservation::cancel);
            return Ok(Seen::from([
                ("ok", false.into()),
                ("reason", "cancelled".into()),
                ("returned_at_ns", cancel_at.into()),
            ]));
        }
        match step.get("handle").and_then(Value::as_str) {
            Some(handle) => {
                self.reserved.insert(handle.to_owned(), reservations);
            }
            None => reservations.into_iter().for_each(|reservation| reservation.commit(n)),
        }
        let (act_at_ns, wait) = (since_midnight_ns(act_at), act_at.since(now));
        Ok(Seen::from([
            ("ok", true.into()),
            ("wait_ns", (wait.as_nanos() as u64).into()),
            ("wait_us_exact", (wait.as_nanos() as f64 / 1e3).into()),
            ("wait_s", wait.as_secs_f64().into()),
            ("act_at_ns", act_at_ns.into()),
            ("at_ns", act_at_ns.into()),
        ]))
    }

    /// Callers that come together and wait as long as the vector says.
    pub(super) fn acquire_many(
        &mut self,
        step: &Map<String, Value>,
        n: u64,
        now: Timestamp,
    ) -> Result<Seen, Stop> {
        let max_wait = Duration::from_nanos(number(&self.params, "timeout_ns")?);
        let limiter = self.only("")?;
        let (mut admitted, mut rejected, mut last) = (0_u64, 0_u64, now);
        for _ in 0..number(step, "count")? {
            match limiter.reserve(n, max_wait) {
                Ok(reservation) => {
                    (admitted, last) = (admitted + 1, last.max(reservation.act_at()));
                    reservation.commit(n);
                }
                Err(_) => rejected += 1,
            }
        }
        Ok(Seen::from([
            ("ok_count", admitted.into()),
            ("ok_at_ns", since_midnight_ns(last).into()),
            ("rejected_count", rejected.into()),
            ("rejected_at_ns", since_midnight_ns(now).into()),
        ]))
    }

    /// Callers that take one permit each, whichever task they belong to: when the last has its permit.
    pub(super) fn acquire_total(&mut self, n: u64, now: Timestamp) -> Result<Seen, Stop> {
        let limiter = self.only("")?;
        let mut last = now;
        for _ in 0..n {
            let reservation =
                limiter.reserve(1, PATIENCE).map_err(|error| Stop::Broken(error.to_string()))?;
            last = last.max(reservation.act_at());
            reservation.commit(1);
        }
        Ok(Seen::from([("total_ns", (last.since(now).as_nanos() as u64).into())]))
    }

    /// Plays callers that each wait for one limiter after another, and counts those that were through before
    /// `end_ns`.
    pub(super) fn count_taken_before(&mut self, end_ns: u64) -> Result<Seen, Stop> {
        self.keys.clear();
        let clock = self.clock.clone();
        let limiters = self.limiters("")?.clone();
        let reserve = |which: usize, at_ns: u64| {
            clock.set(instant(at_ns));
            let Ok(reservation) = limiters[which].reserve(1, PATIENCE) else { return u64::MAX };
            let act_at = reservation.act_at();
            reservation.commit(1);
            since_midnight_ns(act_at)
        };
        let mut count = 0_u64;
        if let Some(takes) = self.params.get("single_takes_at_ns").and_then(Value::as_array) {
            for at_ns in takes.iter().filter_map(Value::as_u64) {
                count += u64::from(reserve(0, at_ns) < end_ns);
            }
            return Ok(Seen::from([("count", count.into())]));
        }
        if limiters.len() != 2 {
            return skip("callers that take from other than one limiter, or two in turn");
        }
        // One caller takes slow, then fast; from 2 s on two more take only fast. (when, takes slow, is at
        // fast)
        let mut callers = [(0, true, false), (2_000_000_000, false, true), (2_000_000_000, false, true)];
        while let Some(next) = callers.iter_mut().filter(|(at, ..)| *at < end_ns).min_by_key(|(at, ..)| *at) {
            let (at, takes_slow, is_at_fast) = *next;
            let through = reserve(usize::from(is_at_fast), at);
            count += u64::from(is_at_fast && through < end_ns);
            *next = (through, takes_slow, !takes_slow || !is_at_fast);
        }
        Ok(Seen::from([("count", count.into())]))
    }
}
