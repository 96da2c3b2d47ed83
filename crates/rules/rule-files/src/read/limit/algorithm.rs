//! `algorithm` and its parameters.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, LeavingCell, Quota, Refill};
use tollgate_human_text::{did_you_mean, one_of, parse_duration};

use super::rate::Rate;
use crate::read::guesses;
use crate::read::path::Path;
use crate::read::reader::{Fields, Reader};
use crate::read::scalar::quoted;
use crate::yaml_tree::Kind;

const NAMES: [&str; 10] = [
    "fixed_window",
    "sliding_window",
    "sliding_window_counter",
    "sliding_window_log",
    "token_bucket",
    "leaky_bucket",
    WARM_UP,
    "total",
    CONCURRENCY,
    PRIORITY_BUCKETS,
];
const TOKEN_BUCKET: &str = "token_bucket";
pub(super) const CONCURRENCY: &str = "concurrency";
const WARM_UP: &str = "warm_up";
pub(super) const PRIORITY_BUCKETS: &str = "priority_buckets";

/// Each parameter and the algorithm that it belongs to.
const PARAMETERS: [(&str, &str); 13] = [
    ("align", "fixed_window"),
    ("time_zone", "fixed_window"),
    ("cells", "sliding_window"),
    ("leaving_cell", "sliding_window"),
    ("log_denied", "sliding_window_log"),
    ("burst", "token_bucket"),
    ("initial", "token_bucket"),
    ("overdraft", "token_bucket"),
    ("refill", "token_bucket"),
    ("form", "leaky_bucket"),
    ("capacity", "leaky_bucket"),
    ("warm_up", WARM_UP),
    ("cold_factor", WARM_UP),
];

impl Reader<'_> {
    /// The algorithm with its parameters. If the file names none: `token_bucket` for a rate with a burst, or
    /// else `fixed_window`.
    pub(super) fn algorithm(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        rate: Option<&Rate>,
    ) -> Option<Algorithm> {
        let burst = rate.and_then(|rate| rate.burst);
        let default = if burst.is_some() { TOKEN_BUCKET } else { NAMES[0] };
        let name = self.algorithm_name(fields, path, default)?;
        if let Some(burst) = burst
            && name != TOKEN_BUCKET
            && name != PRIORITY_BUCKETS
        {
            let instead = match name {
                "leaky_bucket" => format!("write the rate without it, and capacity: {burst}"),
                _ => format!("write the rate without it, or algorithm: {TOKEN_BUCKET}"),
            };
            let message = format!("a burst belongs to {TOKEN_BUCKET}, but this is {name}; {instead}");
            self.notes.fault(fields.pos_of_value("rate"), path.key("rate"), message);
        }
        // Parameters of another algorithm would have no effect, so they are faults.
        let more = [("delay_after", "leaky_bucket"), ("ttl", CONCURRENCY), ("classes", PRIORITY_BUCKETS)];
        for (parameter, owner) in PARAMETERS.into_iter().chain(more) {
            let is_own = owner == name || (parameter, name) == ("burst", PRIORITY_BUCKETS);
            if !is_own && fields.get(parameter).is_some() {
                let message =
                    format!("belongs to {owner}, but this is {name}; write algorithm: {owner}, or remove it");
                self.notes.fault(fields.pos_of(parameter), path.key(parameter), message);
            }
        }
        Some(match name {
            "fixed_window" => Algorithm::FixedWindow { align: self.align(fields, path) },
            "sliding_window" => {
                let cells = self.permits(fields, path, "cells").unwrap_or(10);
                let leaving = [("count", LeavingCell::Counts), ("drop", LeavingCell::Drops)];
                let leaving = fields
                    .get("leaving_cell")
                    .and_then(|node| self.choice(node, &path.key("leaving_cell"), &leaving));
                Algorithm::SlidingWindow {
                    cells: u32::try_from(cells).unwrap_or(u32::MAX),
                    leaving: leaving.unwrap_or_default(),
                }
            }
            "sliding_window_counter" => Algorithm::SlidingWindowCounter,
            "sliding_window_log" => {
                Algorithm::SlidingWindowLog { log_denied: self.flag(fields, path, "log_denied") }
            }
            "token_bucket" => {
                let refill = [("continuous", Refill::Continuous), ("interval", Refill::Interval)];
                let refill =
                    fields.get("refill").and_then(|node| self.choice(node, &path.key("refill"), &refill));
                Algorithm::TokenBucket {
                    burst: burst.or_else(|| self.permits(fields, path, "burst")),
                    initial: self.initial(fields, path),
                    overdraft: self.permits(fields, path, "overdraft").unwrap_or(0),
                    refill: refill.unwrap_or_default(),
                }
            }
            "leaky_bucket" => {
                let capacity = self.permits(fields, path, "capacity");
                Algorithm::LeakyBucket { capacity, form: self.form(fields, path) }
            }
            WARM_UP => Algorithm::WarmUp {
                warm_up: self.warm_up(fields, path)?,
                cold_factor: match fields.get("cold_factor") {
                    Some(node) => self.number(node, &path.key("cold_factor"), 1, 1_000)? as u32,
                    None => 3,
                },
            },
            PRIORITY_BUCKETS => {
                let burst = burst.or_else(|| self.permits(fields, path, "burst"));
                Algorithm::PriorityBuckets { burst, weights: self.weights(fields, path)?, class: 0 }
            }
            _ => Algorithm::Total,
        })
    }

    fn algorithm_name(
        &mut self,
        fields: &Fields<'_>,
        path: &Path<'_>,
        default: &'static str,
    ) -> Option<&'static str> {
        let Some(node) = fields.get("algorithm") else { return Some(default) };
        let here = path.key("algorithm");
        let scalar = self.scalar(node, &here, "the name of one")?;
        if let Some(name) = NAMES.into_iter().find(|name| *name == scalar.text) {
            return Some(name);
        }
        let hint = guesses::algorithm(&scalar.text)
            .or_else(|| did_you_mean(&scalar.text, &NAMES))
            .unwrap_or_else(|| format!("write {}", one_of(&NAMES)));
        let message = format!("unknown algorithm {}; {hint}", quoted(scalar));
        self.notes.fault(node.pos, here, message);
        None
    }

    fn align(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Align {
        let Some(node) = fields.get("align") else { return Align::default() };
        let choices = [("calendar", Align::Calendar), ("first_hit", Align::FirstHit)];
        let align = self.choice(node, &path.key("align"), &choices).unwrap_or_default();
        if align == Align::FirstHit && fields.get("time_zone").is_some() {
            let message =
                "cannot be combined with time_zone, which only a calendar has; remove one of the two";
            self.notes.fault(node.pos, path.key("align"), message);
        }
        align
    }

    /// A number of permits; `None` if the key is missing or faulty. The quota itself checks whether 0 makes
    /// sense.
    fn permits(&mut self, fields: &Fields<'_>, path: &Path<'_>, name: &str) -> Option<u64> {
        self.number(fields.get(name)?, &path.key(name), 0, Quota::LARGEST_LIMIT)
    }

    /// Time that the rate takes to warm up; the quota itself checks whether that makes sense.
    fn warm_up(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Duration> {
        let here = path.key("warm_up");
        let Some(node) = fields.get("warm_up") else {
            let message =
                "is missing; write how long a cold key takes to reach the rate, such as warm_up: 10s";
            self.notes.fault(fields.pos, here, message);
            return None;
        };
        let text = self.scalar(node, &here, "a duration such as 10s")?;
        let duration = parse_duration(&text.text);
        if duration.is_none() {
            let message =
                format!("invalid duration {}: expected something like 500ms, 10s or 5m", quoted(text));
            self.notes.fault(node.pos, here, message);
        }
        duration
    }

    /// `full`, or a number.
    fn initial(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<u64> {
        match &fields.get("initial")?.kind {
            Kind::Scalar(scalar) if scalar.text == "full" => None,
            _ => self.permits(fields, path, "initial"),
        }
    }

    fn form(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> LeakyForm {
        let choices = [("meter", false), ("queue", true)];
        let is_queue = fields.get("form").and_then(|node| self.choice(node, &path.key("form"), &choices));
        let delay_after = self.permits(fields, path, "delay_after");
        if is_queue.unwrap_or(false) {
            return LeakyForm::Queue { delay_after: delay_after.unwrap_or(0) };
        }
        if delay_after.is_some() {
            let message = "belongs to form: queue, but this is form: meter; write form: queue, or remove it";
            self.notes.fault(fields.pos_of("delay_after"), path.key("delay_after"), message);
        }
        LeakyForm::Meter
    }
}
