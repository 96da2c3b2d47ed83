//! Texts of trials: numbers in shadow beside those in force.

use super::{Lang, grouped};

texts! {
    try_numbers: "试运行新数值", "Try other numbers";
    lead: "新数值与生效值同时计数，但从不拒绝请求。对比之后再采用或放弃；生效值的计数不受影响。",
        "Other numbers count beside those in force and never deny. Compare them, then adopt or drop them; the \
         counts of those in force stay.";
    from_now: "流量不足以给出建议，已填入生效值。", "Too little traffic for a suggestion: filled in with the numbers in force.";
    start: "开始试运行", "Start the trial";
    trial: "新数值试运行", "Trial";
    running: "试运行中", "running";
    paused: "已暂停", "paused";
    in_force: "生效值", "In force";
    tried: "试运行值", "In trial";
    denied: "拒绝", "Denied";
    only: "仅此一方拒绝", "Denied by these alone";
    denied_in_force: "生效值拒绝", "Denied in force";
    denied_in_trial: "试运行值会拒绝", "Trial would deny";
    both: "双方都拒绝", "Denied by both";
    per_second: "每秒拒绝数", "Denials per second";
    adopt: "采用", "Adopt";
    end: "放弃", "Drop";
    numbers: "数值", "Numbers";
    why_paused: "规则未处于“生效”状态，没有可对比的生效值，节点不计数试运行值。",
        "The rule is not on, so there is nothing in force to compare with, and nodes do not count the trial.";
    not_on: "规则处于“生效”状态时才能试运行新数值。", "Other numbers can be tried while the rule is on.";
    in_bucket: "共用分桶的规则不能单独试运行新数值。", "A rule that shares a bucket cannot try numbers by itself.";
    no_report: "试运行开始后还没有完整的上报，通常需要 20 秒。", "No complete report since the trial began; it takes about 20 seconds.";
}

impl Lang {
    pub(crate) const fn trial(self) -> &'static Texts {
        Texts::of(self)
    }

    /// Since when, and of how many requests.
    pub(crate) fn compared(self, since: &str, offered: i64, both: i64) -> String {
        let offered = grouped(offered);
        let both = grouped(both);
        match self {
            Self::Zh => format!("自 {since} 起，同样的 {offered} 个请求中，双方都拒绝 {both} 个。"),
            Self::En => {
                format!(
                    "Since {since}, of the same {offered} requests. Both would have denied {both} of them."
                )
            }
        }
    }
}
