//! Result of a replay, as data and as text.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use tollgate_core::{Algorithm, LeavingCell};
use tollgate_human_text::{InQuotes, show_duration};
use utoipa::ToSchema;

use crate::contest::{Entrant, RuleContest};
use crate::instant::show;
use crate::reserving::Settled;
use crate::side::Side;
use crate::tally::Tally;
use crate::timeline::{Timeline, bars};
use crate::track::{Denied, RuleTrack};

/// Keys that are listed.
pub(crate) const TOP: usize = 10;

/// The result of a replay.
#[derive(Debug, Serialize, ToSchema)]
pub struct Report {
    /// Counts of lines.
    pub lines: Tally,
    /// From the first request to the last.
    pub span_ns: u64,
    /// One or two.
    pub rules: Vec<SideReport>,
    /// Decisions of the second set of rules that differ from the first; null if there is one set.
    #[schema(required)]
    pub difference: Option<Difference>,
    /// Requests over time.
    #[schema(required)]
    pub timeline: Option<Timeline>,
}

/// Decisions of the second set of rules that differ from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Difference {
    /// Requests that only the second denies.
    pub newly_denied: u64,
    /// Requests that only the first denies.
    pub newly_admitted: u64,
}

/// Decisions of one set of rules.
#[derive(Debug, Serialize, ToSchema)]
pub struct SideReport {
    /// `A` or `B`.
    pub label: &'static str,
    /// Version of the rules.
    pub version: String,
    /// Domain of the rules.
    pub domain: String,
    pub admitted: u64,
    pub denied: u64,
    /// Requests that no rule limits.
    pub unlimited: u64,
    /// Requests without the fields of any descriptor.
    pub without_descriptor: u64,
    /// Requests that could not be decided.
    pub undecided: u64,
    /// Permits of reservations, if the mapping reserves.
    #[schema(required)]
    pub settled: Option<Settled>,
    /// Why the first of them could not.
    #[schema(required)]
    pub first_error: Option<String>,
    /// Those that requests came under.
    pub rules: Vec<RuleReport>,
}

/// Decisions of one rule.
#[derive(Debug, Serialize, ToSchema)]
pub struct RuleReport {
    pub path: String,
    /// The limits in words.
    pub limits: Vec<String>,
    /// Requests under this rule.
    pub offered: u64,
    pub admitted: u64,
    pub denied: u64,
    /// Admitted requests that a rule in shadow mode would have denied.
    pub shadowed: u64,
    /// Admitted requests above 80 % of the limit.
    pub near: u64,
    /// Keys that came.
    pub keys: u64,
    /// Keys that were forgotten while they were idle, for lack of memory; a key that comes again counts
    /// again.
    pub keys_forgotten: u64,
    /// Keys that were denied anything.
    pub keys_denied: u64,
    /// Requests that were compared with the exact log.
    pub compared: u64,
    /// Requests for which memory was missing.
    pub not_compared: u64,
    /// Requests admitted that the exact log denies, of those compared.
    pub wrongly_admitted: u64,
    /// Requests denied that the exact log admits, of those compared.
    pub wrongly_denied: u64,
    /// For each limit.
    pub worst_windows: Vec<WorstWindow>,
    /// Keys that were denied most.
    pub top_denied: Vec<TopDenied>,
    /// Limits that would have been enough, one for each limit of the rule.
    pub suggested: Vec<Suggested>,
    /// Results of other algorithms, if they were requested.
    pub algorithms: Vec<Compared>,
}

/// One algorithm with the rule's limit and window.
#[derive(Debug, Serialize, ToSchema)]
pub struct Compared {
    /// As in a rule.
    pub algorithm: String,
    pub admitted: u64,
    pub denied: u64,
    /// Requests admitted that the exact log denies.
    pub wrongly_admitted: u64,
    /// Requests denied that the exact log admits.
    pub wrongly_denied: u64,
    /// Requests for which memory was missing.
    pub not_compared: u64,
    /// The window in which one key got most.
    #[schema(required)]
    pub worst_window: Option<WorstWindow>,
}

/// The window in which one key got most.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorstWindow {
    /// The limit in words.
    pub limit: String,
    /// Key of the counter.
    pub key: String,
    /// Its first request.
    pub from: String,
    /// Its last request.
    pub to: String,
    /// Permits in the window.
    pub admitted: u64,
    /// Permits of the limit.
    pub allowed: u64,
}

/// A key that was denied.
#[derive(Debug, Serialize, ToSchema)]
pub struct TopDenied {
    /// Key of the counter.
    pub key: String,
    pub denied: u64,
}

/// A limit that would have been enough for a share of the keys.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Suggested {
    /// The share of the keys, in percent.
    pub percentile: f64,
    /// Permits in any window of this length.
    pub limit: u64,
    /// The window of the rule.
    pub window: String,
    /// Permits at once, at the rate that the rule has now.
    pub burst: u64,
    /// The rate that the rule has now.
    pub rate: String,
}

impl SideReport {
    pub(crate) fn of(label: &'static str, side: &mut Side, percentile: f64) -> Self {
        let denied = side.tracks.finish(TOP);
        let rules = side.policy().rules().zip(&side.rules).zip(&side.tracks.rules).zip(&denied);
        let domain = side.domain().to_owned();
        // Rules that no request came under are left out.
        let rules = rules.filter(|(((_, tally), _), _)| tally.offered > 0);
        let rules = rules.map(|(((rule, tally), track), denied)| {
            let window = |place: usize| rule.limits.get(place).map_or(Duration::ZERO, |limit| limit.period);
            let worst = track.worst.iter().enumerate().filter_map(|(place, worst)| {
                let worst = worst.as_ref()?;
                let limit = rule.limits.get(place)?;
                Some(WorstWindow {
                    limit: limit.to_string(),
                    key: side.key_text(&worst.key),
                    from: show(worst.from_ns),
                    to: show(worst.to_ns),
                    admitted: worst.admitted,
                    allowed: limit.quota.limit(),
                })
            });
            let suggested = track.peaks.iter().enumerate().filter_map(|(place, peaks)| {
                let limit = peaks.in_window.at_percentile(percentile)?;
                let burst = peaks.above_rate.at_percentile(percentile)?;
                let window = show_duration(window(place));
                let rate = format!("{} per {window}", rule.limits.get(place)?.quota.limit());
                Some(Suggested { percentile, limit, window, burst, rate })
            });
            let contest = side.contest.as_ref().and_then(|contest| contest.rules.get(rule.index)?.as_ref());
            RuleReport {
                algorithms: contest.map(|it| compared(it, side)).unwrap_or_default(),
                path: rule.path.clone(),
                limits: rule.limits_in_words(),
                offered: tally.offered,
                admitted: tally.admitted,
                denied: tally.denied,
                shadowed: tally.shadowed,
                near: tally.near,
                keys: track.keys,
                keys_forgotten: track.forgotten,
                keys_denied: denied.keys,
                compared: track.compared,
                not_compared: track.left_out,
                wrongly_admitted: track.wrongly_admitted,
                wrongly_denied: track.wrongly_denied,
                worst_windows: worst.collect(),
                top_denied: top(denied, side),
                suggested: if is_compared(track) { suggested.collect() } else { Vec::new() },
            }
        });
        Self {
            label,
            version: side.policy().version().to_owned(),
            domain,
            admitted: side.admitted,
            denied: side.denied,
            unlimited: side.unlimited,
            without_descriptor: side.bare,
            undecided: side.undecided,
            settled: side.reserving.as_ref().map(|reserving| reserving.settled),
            first_error: side.first_error.clone(),
            rules: rules.collect(),
        }
    }
}

fn compared(contest: &RuleContest, side: &Side) -> Vec<Compared> {
    let of = |entrant: &Entrant| {
        let algorithm = algorithm_name(entrant.quota.algorithm());
        let worst = entrant.worst.as_ref().map(|worst| WorstWindow {
            limit: algorithm.clone(),
            key: side.key_text(&worst.key),
            from: show(worst.from_ns),
            to: show(worst.to_ns),
            admitted: worst.admitted,
            allowed: contest.limit,
        });
        Compared {
            algorithm,
            admitted: entrant.admitted,
            denied: entrant.denied,
            wrongly_admitted: entrant.wrongly_admitted,
            wrongly_denied: entrant.wrongly_denied,
            not_compared: contest.left_out,
            worst_window: worst,
        }
    };
    contest.entrants.iter().map(of).collect()
}

fn algorithm_name(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::SlidingWindow { cells, leaving: LeavingCell::Counts } => {
            format!("sliding_window, cells: {cells}")
        }
        Algorithm::SlidingWindow { cells, leaving: LeavingCell::Drops } => {
            format!("sliding_window, cells: {cells}, leaving_cell: drop")
        }
        other => other.name().to_owned(),
    }
}

const fn is_compared(track: &RuleTrack) -> bool {
    track.compared > 0
}

fn top(denied: &Denied, side: &Side) -> Vec<TopDenied> {
    denied.top.iter().map(|(denied, key)| TopDenied { key: side.key_text(key), denied: *denied }).collect()
}

/// In whole seconds, or in milliseconds below one; rounded up.
pub(crate) fn show_span(ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    show_duration(if ns < SECOND {
        Duration::from_millis(ns.div_ceil(1_000_000))
    } else {
        Duration::from_secs(ns.div_ceil(SECOND))
    })
}

/// `0.617 %`: three digits behind the point.
pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.3} %", part as f64 * 100.0 / whole.max(1) as f64)
}

impl Report {
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let requests = self.lines.requests;
        let span = show_span(self.span_ns);
        let noun = if requests == 1 { "request" } else { "requests" };
        writeln!(out, "trace    {requests} {noun} in {span}")?;
        for side in &self.rules {
            side.write(out)?;
        }
        if let Some(Difference { newly_denied, newly_admitted }) = self.difference {
            let all = self.lines.requests;
            writeln!(out, "\nB instead of A")?;
            writeln!(out, "newly denied    {newly_denied} ({})", share(newly_denied, all))?;
            writeln!(out, "newly admitted  {newly_admitted} ({})", share(newly_admitted, all))?;
        }
        if let Some(timeline) = &self.timeline {
            let each = show_duration(Duration::from_nanos(timeline.span_ns));
            writeln!(out, "\nover time, {each} a character")?;
            writeln!(out, "offered  |{}|", bars(timeline.spans.iter().map(|span| span.offered)))?;
            writeln!(out, "denied A |{}|", bars(timeline.spans.iter().map(|span| span.denied)))?;
            if self.rules.len() > 1 {
                writeln!(out, "denied B |{}|", bars(timeline.spans.iter().map(|span| span.denied_b)))?;
            }
        }
        Ok(())
    }
}

impl SideReport {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = self.admitted + self.denied;
        writeln!(out, "\nrules {}  domain {}, version {}", self.label, self.domain, self.version)?;
        writeln!(out, "admitted {}, denied {} ({})", self.admitted, self.denied, share(self.denied, all))?;
        if self.undecided > 0 {
            writeln!(out, "not decided {}", self.undecided)?;
        }
        if let Some(it) = self.settled {
            writeln!(
                out,
                "reserved {}, used {}: {} given back, {} charged beyond",
                it.reserved, it.used, it.returned, it.owed
            )?;
        }
        for rule in &self.rules {
            writeln!(out, "\n  {}: {}", rule.path, rule.limits.join("; "))?;
            let &RuleReport { offered, admitted, denied, near, keys, keys_denied, .. } = rule;
            writeln!(
                out,
                "    offered {offered}, admitted {admitted}, denied {denied}, near the limit {near}"
            )?;
            if rule.shadowed > 0 {
                writeln!(out, "    in shadow mode: {} more would be denied", rule.shadowed)?;
            }
            if rule.compared > 0 {
                writeln!(out, "    keys {keys}, of which {keys_denied} were denied something")?;
                writeln!(
                    out,
                    "    against an exact log: wrongly admitted {}, wrongly denied {}",
                    share(rule.wrongly_admitted, rule.compared),
                    share(rule.wrongly_denied, rule.compared)
                )?;
            }
            if rule.keys_forgotten > 0 {
                writeln!(
                    out,
                    "    forgotten while idle, for lack of --max-memory: {} keys; one that came again counts again",
                    rule.keys_forgotten
                )?;
            }
            if rule.not_compared > 0 {
                writeln!(out, "    not compared, for lack of --max-memory: {} requests", rule.not_compared)?;
            }
            for worst in &rule.worst_windows {
                writeln!(
                    out,
                    "    worst window: {} admitted of {} ({}), {}, {} to {}",
                    worst.admitted,
                    worst.allowed,
                    worst.limit,
                    InQuotes(&worst.key),
                    worst.from,
                    worst.to
                )?;
            }
            for it in &rule.algorithms {
                let worst = it.worst_window.as_ref().map_or(0, |worst| worst.admitted);
                let all = it.admitted + it.denied;
                writeln!(
                    out,
                    "    {:<26} denied {}, worst window {worst}, wrongly admitted {}, wrongly denied {}",
                    it.algorithm,
                    share(it.denied, all),
                    share(it.wrongly_admitted, all),
                    share(it.wrongly_denied, all)
                )?;
            }
            for top in &rule.top_denied {
                writeln!(out, "    denied {:>8}  {}", top.denied, InQuotes(&top.key))?;
            }
            for it in &rule.suggested {
                writeln!(
                    out,
                    "    enough for {} % of the keys: {} in any {}; or a burst of {} at {}",
                    it.percentile, it.limit, it.window, it.burst, it.rate
                )?;
            }
        }
        Ok(())
    }
}
