//! One run over a trace: its requests decided by one or two sets of rules, side by side.

use tollgate_limiter::Policy;
use tollgate_policy::Rule;

use crate::mapping::Mapping;
use crate::note::Note;
use crate::reader::{ReadSettings, Reader};
use crate::report::{Difference, Report, SideReport};
use crate::row::Row;
use crate::side::{Side, has_bucket};
use crate::source::{Lines, Source};
use crate::timeline::Timeline;
use crate::track::is_compared;

/// Settings of a replay.
pub(crate) struct ReplaySettings {
    pub(crate) mapping: Mapping,
    pub(crate) settings: ReadSettings,
    /// Memory for the counters of each set of rules, and as much for comparing them.
    pub(crate) max_bytes: usize,
    pub(crate) compares_algorithms: bool,
    pub(crate) percentile: f64,
}

/// Result of a replay.
pub(crate) struct Replayed {
    pub(crate) report: Report,
    pub(crate) notes: Vec<Note>,
    /// The last set of rules.
    pub(crate) policy: Policy,
    /// The run was stopped before the end of the trace.
    pub(crate) is_stopped: bool,
}

/// Replays a trace with one or two sets of rules, each with the name that errors call it by. `goes_on` gets
/// the number of requests so far, after each, and can stop the run.
pub(crate) fn run(
    source: Source,
    sets: Vec<(String, Policy)>,
    plan: ReplaySettings,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Replayed, String> {
    let mut sides = Vec::new();
    let mut wanted = Vec::new();
    for (name, policy) in sets {
        let side = Side::new(policy, &plan.mapping, &mut wanted, plan.max_bytes, plan.compares_algorithms);
        sides.push(side.map_err(|error| format!("{name}: {error}"))?);
    }
    let mut reader =
        Reader::new(Lines::new(source.bytes), plan.mapping, &wanted, plan.settings).with_whole_lists();
    let mut row = Row::default();
    let mut timeline = None::<Timeline>;
    let mut difference = Difference::default();
    let mut is_stopped = false;
    while let Some(at) = reader.next(&mut row).map_err(|error| error.to_string())? {
        // With one set of rules the second verdict has no meaning, and the difference is left out below.
        let mut verdicts = [Some(true); 2];
        for (side, verdict) in sides.iter_mut().zip(&mut verdicts) {
            *verdict = side.decide(|place| reader.value(&row, place), at);
        }
        let [a, b] = verdicts;
        difference.newly_denied += u64::from(a == Some(true) && b == Some(false));
        difference.newly_admitted += u64::from(a == Some(false) && b == Some(true));
        let [is_denied, is_denied_b] = [a, b].map(|it| it == Some(false));
        timeline.get_or_insert_with(|| Timeline::new(at.ns)).add(at.ns, is_denied, is_denied_b);
        if !goes_on(reader.tally.requests) {
            is_stopped = true;
            break;
        }
    }
    sides.iter_mut().for_each(Side::finish);
    let mut notes = reader.notes();
    for (label, side) in ["A", "B"].into_iter().zip(&sides) {
        notes_of(label, side, reader.tally.requests, &mut notes);
    }
    let compares = sides.len() > 1;
    let reports = ["A", "B"].into_iter().zip(&mut sides);
    let rules = reports.map(|(label, side)| SideReport::of(label, side, plan.percentile)).collect();
    let begin_ns = reader.tally.first_ns.unwrap_or_default();
    let report = Report {
        span_ns: reader.tally.last_ns.saturating_sub(begin_ns),
        lines: reader.tally,
        rules,
        difference: compares.then_some(difference),
        timeline,
    };
    let policy = sides.last().map_or_else(Policy::empty, |side| side.policy().clone());
    Ok(Replayed { report, notes, policy, is_stopped })
}

/// Adds the remarks on a set of rules.
fn notes_of(side: &'static str, of: &Side, requests: u64, notes: &mut Vec<Note>) {
    notes.extend(of.chains_that_never_came().map(|keys| Note::NeverCame { side, keys }));
    if of.bare > 0 {
        notes.push(Note::Bare { side, bare: of.bare, requests });
    }
    if let Some(error) = &of.first_error {
        notes.push(Note::Undecided { side, requests: of.undecided, error: error.to_string() });
    }
    let count = |has: fn(&Rule) -> bool| of.policy().rules().filter(|rule| has(rule)).count();
    let queues = count(|rule| rule.max_wait.is_some());
    let buckets = count(has_bucket);
    let not_compared = count(|rule| rule.limits.iter().any(|limit| !is_compared(rule, limit)));
    notes.extend((queues > 0).then_some(Note::Queues { side, rules: queues }));
    notes.extend((buckets > 1).then_some(Note::Buckets { side, rules: buckets }));
    notes.extend((not_compared > 0).then_some(Note::NotCompared { side, rules: not_compared }));
}
