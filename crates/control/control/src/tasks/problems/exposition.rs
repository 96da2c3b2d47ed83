//! Problems as metrics.

use std::fmt::Write as _;

use super::{Problem, ProblemKind};

/// A family of OpenMetrics: how many problems of each kind there are. Kinds without any are 0, so that alerts
/// and dashboards find them.
///
/// # Example
/// ```
/// # use tollgate_control::problems::metrics;
/// let text = metrics(&[]);
/// assert!(text.contains("tollgate_control_problems{kind=\"store_down\"} 0\n"));
/// ```
#[must_use]
pub fn metrics(problems: &[Problem]) -> String {
    let mut text = "# HELP tollgate_control_problems Problems that the console shows now\n\
                    # TYPE tollgate_control_problems gauge\n"
        .to_owned();
    for kind in ProblemKind::ALL {
        let count = problems.iter().filter(|it| it.kind == kind).count();
        // Writing to a string does not fail.
        let _ = writeln!(text, "tollgate_control_problems{{kind=\"{}\"}} {count}", kind.name());
    }
    text
}
