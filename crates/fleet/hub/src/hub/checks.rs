//! Bounds on the messages of a node. A message beyond them closes the stream. Not here: texts that are cut
//! (`kept`).

use tollgate_fleet_proto::{Hello, MAX_APPS, MAX_LABELS, MAX_REPORT_ROWS, MAX_TEXT_BYTES, Report};

use crate::kept;

/// The longest name of a rule or key in a report, in bytes.
const LONGEST_KEY: usize = 8 << 10;

pub(super) fn check_hello(hello: &Hello) -> Result<(), &'static str> {
    let Hello { node, name, labels, software, epoch, held, local_domains, crashed, secret, .. } = hello;
    let texts = [node, name, software, epoch].into_iter();
    let mut texts = texts.chain(labels.iter().flat_map(|label| [&label.key, &label.value]));
    let lists = [held.len(), local_domains.len(), crashed.len()];
    if node.is_empty() || texts.any(|text| text.len() > MAX_TEXT_BYTES) {
        return Err("a Hello without an id, or with texts of more than 256 bytes");
    }
    if secret.len() > MAX_TEXT_BYTES {
        return Err("a Hello with a secret of more than 256 bytes");
    }
    if labels.len() > MAX_LABELS || lists.into_iter().any(|length| length > MAX_APPS) {
        return Err("a Hello with more than 64 labels, or 10,000 apps");
    }
    kept::check_names(hello)
}

pub(super) fn check_report(report: &Report) -> Result<(), &'static str> {
    let Report { rules, top, costs, state_error, rules_error, unknown_domains, rejected, sequence, .. } =
        report;
    let lists = [rules.len(), top.len(), costs.len(), unknown_domains.len(), rejected.len()];
    if *sequence == 0 || lists.into_iter().any(|rows| rows > MAX_REPORT_ROWS) {
        return Err("a report without a number, or with more than 10,000 rows");
    }
    let texts = rules.iter().flat_map(|it| [&it.domain, &it.rule]);
    let texts = texts.chain(top.iter().flat_map(|it| [&it.domain, &it.rule, &it.key]));
    let texts = texts.chain(costs.iter().flat_map(|it| [&it.domain, &it.rule]));
    let texts = texts.chain(rejected.iter().flat_map(|it| [&it.surface, &it.status, &it.reason]));
    let texts = texts.chain([state_error, rules_error]).chain(unknown_domains);
    let mut texts = texts.chain(report.store.iter().map(|it| &it.name));
    if texts.any(|text| text.len() > LONGEST_KEY) {
        return Err("a report with a name of more than 8 KiB");
    }
    Ok(())
}
