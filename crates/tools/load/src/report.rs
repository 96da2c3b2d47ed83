//! Result of a run, as text and as JSON.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::Plan;
use crate::tally::Tally;

/// The result of a run. As JSON it is one object with these fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Target, as on the command line.
    pub target: String,
    pub connections: usize,
    /// Maximum in-flight requests per connection.
    pub in_flight: usize,
    /// Threads that sent the requests.
    pub threads: usize,
    /// Requests per second of the schedule; null in a closed loop.
    pub wanted_rate: Option<u64>,
    /// Number of keys.
    pub keys: u64,
    /// Distribution of requests over keys.
    pub distribution: String,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Duration of the measurement, to the last reply.
    pub seconds: f64,
    /// Requests measured: admitted, denied and failed.
    pub requests: u64,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Those of the admitted requests that no rule matched, as far as the replies show it.
    pub unmatched: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests without a decision.
    pub errors: u64,
    /// Decisions per second.
    pub rate: f64,
    /// From the intended sending to the decision.
    pub latency_us: Percentiles,
    /// From the intended to the actual sending: how far the load generator was behind. Null in a closed loop,
    /// which has no schedule.
    pub sent_late_us: Option<Percentiles>,
    /// CPU seconds of the load generator's threads during the measurement.
    pub load_cpu_seconds: f64,
    /// The same for each request.
    pub load_cpu_us_per_request: f64,
    /// Errors by kind, most frequent first.
    pub error_kinds: Vec<ErrorKind>,
}

/// A latency in microseconds at each of these shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half were faster.
    pub p50: f64,
    /// Nine in ten were faster.
    pub p90: f64,
    /// 99 in a hundred were faster.
    pub p99: f64,
    /// 999 in a thousand were faster.
    pub p999: f64,
    pub max: f64,
    pub mean: f64,
}

/// One kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorKind {
    /// Description of the error.
    pub what: String,
    pub count: u64,
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |share| histogram.value_at_quantile(share) as f64 / 1e3;
        let max = histogram.max() as f64 / 1e3;
        let mean = histogram.mean() / 1e3;
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max, mean }
    }
}

impl Report {
    /// Whether nothing was limited, since no rule matched any request.
    #[must_use]
    pub const fn nothing_matched(&self) -> bool {
        self.unmatched > 0 && self.unmatched == self.admitted + self.denied
    }

    pub(crate) fn new(plan: &Plan, tally: &Tally, took: Duration, cpu: Duration) -> Self {
        let requests = tally.requests();
        let seconds = took.as_secs_f64();
        let share = |of: f64, by: f64| if by > 0.0 { of / by } else { 0.0 };
        let mut error_kinds: Vec<ErrorKind> =
            tally.errors.iter().map(|(what, &count)| ErrorKind { what: what.clone(), count }).collect();
        error_kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        Self {
            target: plan.target.to_string(),
            connections: plan.connections,
            in_flight: plan.in_flight,
            threads: plan.threads,
            wanted_rate: plan.rate,
            keys: plan.keys,
            distribution: plan.distribution.to_string(),
            seed: plan.seed,
            seconds,
            requests,
            admitted: tally.admitted,
            unmatched: tally.unmatched,
            denied: tally.denied,
            errors: error_kinds.iter().map(|kind| kind.count).sum(),
            rate: share((tally.admitted + tally.denied) as f64, seconds),
            latency_us: Percentiles::of(&tally.latency),
            sent_late_us: plan.rate.map(|_| Percentiles::of(&tally.late)),
            load_cpu_seconds: cpu.as_secs_f64(),
            load_cpu_us_per_request: share(cpu.as_secs_f64() * 1e6, requests as f64),
            error_kinds,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64| 100.0 * count as f64 / (self.requests.max(1)) as f64;
        let pace = match self.wanted_rate {
            Some(rate) => format!("open loop of {}/s", grouped(rate)),
            None => "closed loop".to_owned(),
        };
        writeln!(
            f,
            "{}: {} connections × {}, {pace}, {} keys {}, seed {}",
            self.target,
            self.connections,
            self.in_flight,
            grouped(self.keys),
            self.distribution,
            self.seed
        )?;
        let requests = grouped(self.requests);
        let rate = grouped(self.rate.round() as u64);
        writeln!(f, "  requests   {requests} in {:.2} s: {rate} decisions/s", self.seconds)?;
        for (name, count) in
            [("admitted", self.admitted), ("denied  ", self.denied), ("errors  ", self.errors)]
        {
            writeln!(f, "  {name}   {} ({:.2} %)", grouped(count), share(count))?;
        }
        for kind in &self.error_kinds {
            writeln!(f, "             {} × {}", grouped(kind.count), kind.what)?;
        }
        if self.unmatched > 0 {
            writeln!(f, "  no rule    {} of those admitted", grouped(self.unmatched))?;
        }
        writeln!(f, "  latency    {}", self.latency_us)?;
        if let Some(late) = &self.sent_late_us {
            writeln!(f, "  sent late  {late}")?;
        }
        let cores = if self.seconds > 0.0 { self.load_cpu_seconds / self.seconds } else { 0.0 };
        writeln!(
            f,
            "  load       {:.2} µs of CPU a request, {:.0} % of {} core{}",
            self.load_cpu_us_per_request,
            100.0 * cores / self.threads.max(1) as f64,
            self.threads,
            if self.threads == 1 { "" } else { "s" }
        )?;
        if cores > 0.95 * self.threads as f64 {
            writeln!(
                f,
                "  The load was as busy as it can be: the server may do more. Add --threads, or cores."
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p90, p99, p999, max, .. } = self;
        write!(
            f,
            "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            span(*p50),
            span(*p90),
            span(*p99),
            span(*p999),
            span(*max)
        )
    }
}

/// Microseconds as a reader wants them.
fn span(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// Thousands set apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use tollgate_core::Timestamp;

    use super::*;
    use crate::tally::{Sent, Verdict};
    use crate::tests::{at_ms, check, plan_for};

    fn report() -> Report {
        let mut tally = Tally::new();
        let sent = Sent { intended: at_ms(0), is_counted: true };
        for ms in 1..=1_000 {
            let verdict = if ms % 4 == 0 { Verdict::Denied } else { Verdict::Admitted };
            tally.answered(sent, at_ms(ms), verdict);
        }
        tally.answered(sent, Timestamp::ZERO, Verdict::Error("ERR busy".to_owned()));
        let plan = Plan { rate: Some(500), ..plan_for("resp://h:1", check()) };
        Report::new(&plan, &tally, Duration::from_secs(2), Duration::from_millis(1_990))
    }

    #[test]
    fn the_json_form_parses_and_adds_up() {
        let json = serde_json::to_string(&report()).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        for (field, want) in [("requests", 1_001), ("admitted", 750), ("denied", 250), ("errors", 1)] {
            assert_eq!(value[field], want, "{field} of {json}");
        }
        assert_eq!(value["rate"], 500.0);
        assert!((499_000.0..501_000.0).contains(&value["latency_us"]["p50"].as_f64().expect("a number")));
        assert_eq!(value["error_kinds"][0]["what"], "ERR busy");
    }

    #[test]
    fn the_text_form_says_the_same() {
        let text = report().to_string();
        for part in [
            "resp://h:1: 1 connections × 1, open loop of 500/s, 100 keys uniform, seed 1",
            "1,001 in 2.00 s: 500 decisions/s",
            "denied     250 (24.98 %)",
            "1 × ERR busy",
            "100 % of 1 core",
            "as busy as it can be",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
