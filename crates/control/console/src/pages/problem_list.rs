//! Problems as lines: a tag, what is wrong, where to look.

use tollgate_control::problems::{Kind, Problem};

use crate::web::{Visit, encoded};

/// A problem, as a line of the list.
pub(super) struct Line {
    pub(super) class: &'static str,
    pub(super) tag: String,
    pub(super) text: String,
    pub(super) href: String,
}

pub(super) fn lines(visit: &Visit, problems: &[Problem]) -> Vec<Line> {
    let line = |problem: &Problem| {
        let (class, tag, text) = visit.lang.problem(problem, |at| visit.time(at));
        let href = match problem.kind {
            Kind::DeniedShare | Kind::Degraded => format!("/top?app={}", encoded(&problem.app)),
            Kind::FrozenApp => super::frozen::href(&problem.app),
            Kind::WithdrawnRollout | Kind::HaltedRollout => super::rollouts::rollout_href(&problem.app),
            Kind::DiskLow | Kind::CertificateExpiring => String::new(),
            _ => "/nodes".to_owned(),
        };
        Line { class, tag, text, href }
    };
    problems.iter().map(line).collect()
}
