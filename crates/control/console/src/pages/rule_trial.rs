//! The trial of a rule: numbers in shadow beside those in force, and what both have denied. Not here: what
//! the buttons do (`rule_acts`).

use tollgate_control::FieldFault;
use tollgate_control::history::Suggestion;
use tollgate_control::table_rule::TableRule;
use tollgate_control::trials::Compared;

use crate::chart::{Chart, compared, percent};
use crate::field::Field;
use crate::texts::grouped;
use crate::texts::trial::Texts;
use crate::web::Visit;

/// The trial of a rule on its page, or the form that starts one.
pub(super) struct TrialView {
    pub(super) n: &'static Texts,
    pub(super) as_table: &'static str,
    pub(super) running: Option<TrialResults>,
    /// Why no trial can start now; empty if one can.
    pub(super) why_not: &'static str,
    /// The form that starts one, what its numbers rest on, and whether it is open.
    pub(super) fields: Vec<Field>,
    pub(super) rests_on: String,
    pub(super) is_open: bool,
}

/// A trial and what it is compared with.
pub(super) struct TrialResults {
    pub(super) is_running: bool,
    pub(super) rows: Vec<TrialRow>,
    pub(super) sum: String,
    pub(super) chart: Option<Chart>,
}

/// A number in force, and the one that is tried.
pub(super) struct TrialRow {
    pub(super) name: &'static str,
    pub(super) in_force: String,
    pub(super) tried: String,
}

/// The numbers of a form that could not start a trial, and their faults.
pub(super) struct Entered {
    pub(super) rate: String,
    pub(super) max_permits: String,
    pub(super) faults: Vec<FieldFault>,
}

impl TrialView {
    pub(super) fn new(
        visit: &Visit,
        row: &TableRule,
        found: Option<&Compared>,
        suggestion: Option<&Suggestion>,
        entered: Option<&Entered>,
    ) -> Self {
        let t = visit.lang.texts();
        let n = visit.lang.trial();
        let why_not = match (&*row.state, &*row.bucket) {
            ("on", "") => "",
            ("on", _) => n.in_bucket,
            _ => n.not_on,
        };
        let suggested = suggestion.map_or((row.rate, row.max_permits), |it| (it.rate, it.max_permits));
        let (rate, burst) = match entered {
            Some(it) => (it.rate.clone(), it.max_permits.clone()),
            None => (suggested.0.to_string(), suggested.1.to_string()),
        };
        let faults = entered.map_or(&[][..], |it| &it.faults);
        let field = |name, fault: &str, label, hint, value: &str| {
            let found = faults.iter().find(|it| it.field == fault);
            let fault = found.map(|it| visit.lang.fault(&it.fault));
            Field { fault, ..Field::text(name, label, hint, value).required().number() }
        };
        Self {
            n,
            as_table: visit.lang.traffic().as_table,
            running: found.map(|it| running(visit, row, it)),
            why_not,
            fields: vec![
                field("try_max_permits", "trial_max_permits", t.max_permits, t.burst_hint, &burst),
                field("try_rate", "trial_rate", t.rate, t.rate_hint, &rate),
            ],
            rests_on: suggestion
                .map_or_else(|| n.from_now.to_owned(), |it| super::rule_history::in_words(visit.lang, it)),
            is_open: entered.is_some(),
        }
    }
}

fn running(visit: &Visit, table_rule: &TableRule, found: &Compared) -> TrialResults {
    let t = visit.lang.texts();
    let n = visit.lang.trial();
    let sum = found.history.sum();
    let offered = sum.offered();
    let share = |part: i64| match offered {
        0 => "–".to_owned(),
        _ => format!("{} · {}", grouped(part), percent(part.min(offered) * 10_000 / offered)),
    };
    let per_second = |number: i64| format!("{} {}", grouped(number), t.per_second);
    let row = |name, in_force, tried| TrialRow { name, in_force, tried };
    let rows = vec![
        row(t.rate_long, per_second(table_rule.rate), per_second(found.trial.rate)),
        row(t.max_permits, grouped(table_rule.max_permits), grouped(found.trial.max_permits)),
        row(n.denied, share(sum.denied), share(sum.trial_denied())),
        row(n.only, share(sum.denied - sum.both_denied), share(sum.shadow_denied)),
    ];
    let form = if found.history.step_ms >= 60_000 { "%m-%d %H:%M" } else { "%H:%M:%S" };
    let clock = |at| visit.time_as(at, form);
    TrialResults {
        is_running: found.is_running,
        rows,
        sum: match offered {
            0 => n.no_report.to_owned(),
            _ => visit.lang.compared(&visit.time(found.since_ms), offered, sum.both_denied),
        },
        chart: (offered > 0).then(|| compared(&found.history, visit.lang, n.per_second.to_owned(), clock)),
    }
}
