//! Problems as lines: a tag, what is wrong, where to look.

use tollgate_control::problems::{Problem, ProblemKind};

use super::hrefs::rollout_href;
use crate::web::{Visit, encoded};

/// A problem, as a line of the list.
pub(super) struct ProblemLine {
    pub(super) class: &'static str,
    pub(super) tag: String,
    pub(super) text: String,
    pub(super) href: String,
}

pub(super) fn lines(visit: &Visit, problems: &[Problem]) -> Vec<ProblemLine> {
    let line = |problem: &Problem| {
        let (class, tag, text) = visit.lang.problem(problem, |at| visit.time(at));
        let href = match problem.kind {
            ProblemKind::DeniedShare | ProblemKind::Degraded => format!("/top?app={}", encoded(&problem.app)),
            ProblemKind::FrozenApp => super::frozen::href(&problem.app),
            ProblemKind::WithdrawnRollout | ProblemKind::HaltedRollout => rollout_href(&problem.app),
            ProblemKind::DiskLow | ProblemKind::CertificateExpiring => String::new(),
            _ => "/nodes".to_owned(),
        };
        ProblemLine { class, tag, text, href }
    };
    problems.iter().map(line).collect()
}
