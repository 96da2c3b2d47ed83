//! Texts of rollouts.

use tollgate_control::rollout::{Sides, Stage, State, Step, Tally, Why};

use super::{Lang, grouped};

texts! {
    title: "分阶段发布", "Rollouts";
    about: "新版本先到一部分节点，检查通过后再到更多节点；检查不通过则自动撤回。", "A version reaches some nodes first and more after each check. A failed check withdraws it.";
    empty: "没有分阶段发布", "No rollouts yet";
    empty_text: "在应用设置里填写发布步骤，此后该应用的每次修改都会分阶段发布；没有步骤的应用一次发布到所有节点。", "Give an app steps in its settings, and each of its changes is rolled out in stages. Without steps, all nodes get a change at once.";
    version: "版本", "Version";
    state: "状态", "State";
    step: "步骤", "Step";
    started: "开始时间", "Began";
    author: "作者", "By";
    running: "进行中", "running";
    paused: "已暂停", "paused";
    halted: "等待处理", "halted";
    done: "已完成", "done";
    withdrawn: "已撤回", "withdrawn";
    waits_for_nodes: "等待在线节点", "waits for a live node";
    waits_for_reports: "等待节点上报", "waits for reports";
    waits: "未开始", "not yet";
    done_at: "完成于", "done at";
    gates: "检查", "Gates";
    gate_acknowledged: "已选节点在 30 秒内确认", "Chosen nodes acknowledge within 30 s";
    gate_accepted: "没有节点拒绝", "No node rejects it";
    gate_denied: "拒绝比例最多高 5 个百分点", "Denied share at most 5 points higher";
    gate_degraded: "降级比例不更高", "Degraded share not higher";
    gate_soaked: "观察时间", "Watched long enough";
    too_few: "每侧不足 500 次判定", "fewer than 500 decisions on a side";
    no_gates: "分阶段发布已结束", "The rollout has ended";
    figures: "判定对比", "Decisions compared";
    side: "节点", "Nodes";
    chosen: "已选节点", "Chosen";
    others: "原版本", "Version before";
    decisions: "判定次数", "Decisions";
    denied_share: "拒绝比例", "Denied";
    degraded_share: "降级比例", "Degraded";
    this_step: "当前步骤", "This step";
    figures_hint: "只统计步骤开始且节点确认之后的判定，节点每 5 秒上报一次。", "Counts begin with the step and the node's acknowledgement. Nodes report every 5 s.";
    nodes: "节点", "Nodes";
    no_nodes: "没有节点", "No node";
    no_nodes_text: "还没有节点接入，分阶段发布会等待第一个在线节点。", "No node is connected. The rollout waits for the first one.";
    stage_rejected: "已拒绝", "rejected";
    stage_waiting: "等待确认", "waiting";
    stage_candidate: "新版本", "new version";
    stage_before: "原版本", "version before";
    stage_left_out: "未参与", "left out";
    left_out_hint: "失联、版本过旧或数据较新的节点不参与，恢复后会得到结果。", "Nodes that are unresponsive, too old or ahead of the database are left out. They get the outcome when they return.";
    first_nodes: "仅列出前 {} 个节点", "the first {} are listed";
    in_force: "生效版本", "In force";
    why: "原因", "Why";
    from_version: "原版本", "Version before";
    to_version: "新版本", "New version";
    outcome_version: "撤回后的版本", "Withdrawn as version";
    plan: "发布步骤", "Plan";
    soak: "每步观察", "Each step is watched for";
    on_failure: "检查不通过时", "When a gate fails";
    auto: "自动撤回", "withdraw it";
    manual: "暂停并等待处理", "halt and ask";
    actions: "操作", "Actions";
    pause: "暂停", "Pause";
    resume: "继续", "Resume";
    advance: "下一步", "Next step";
    finish: "完成分阶段发布", "Finish";
    withdraw: "撤回", "Withdraw";
    reason: "撤回原因", "Reason to withdraw";
    reason_hint: "撤回时必填，写入审计", "Required to withdraw; kept in the audit";
    actions_hint: "下一步会跳过等待和检查；撤回会把原来的规则作为新版本一次发布到所有节点。", "The next step skips the wait and the gates. Withdrawing publishes the rules of before as a new version on all nodes at once.";
    needs_approver: "暂停、继续、下一步和撤回需要审批者角色。", "Pausing, resuming, the next step and withdrawing need the role approver.";
    stale: "分阶段发布已有变化，请核对后再操作。", "The rollout has moved meanwhile. Look at it again before you go on.";
    wrong_state: "当前状态不允许此操作。", "This is not possible in its present state.";
    is_open: "该应用有正在进行的分阶段发布，完成或撤回后才能再次发布。", "A version of this app is being rolled out. Publish again after its end, or withdraw it first.";
    show_open: "查看分阶段发布", "Show the rollout";
    steps: "发布步骤", "Steps of rollouts";
    steps_hint: "每行一步，如 `1 node`、`10 %`、`zone in (a, b)`，最后一步为 `all`；留空则一次发布到所有节点", "One per line: `1 node`, `10 %`, `zone in (a, b)`; the last is `all`. Leave empty for all nodes at once";
    soak_s: "每步观察（秒）", "Seconds to watch each step";
    soak_hint: "0 到 86400", "0 to 86,400";
    own_plan: "发布步骤与应用设置不同时需要审批者角色", "Another plan than that of the app needs the role approver";
    at_once: "一次发布到所有节点", "all nodes at once";
    change_link: "差异", "Difference";
}

/// A state as a word and a class.
pub(crate) fn state(lang: Lang, state: State) -> (&'static str, &'static str) {
    let t = Texts::of(lang);
    match state {
        State::Running => (t.running, "tag info"),
        State::Paused => (t.paused, "tag warn"),
        State::Halted => (t.halted, "tag bad"),
        State::Done => (t.done, "tag ok"),
        State::Withdrawn => (t.withdrawn, "tag bad"),
    }
}

/// Where a node is, as a word and a class.
pub(crate) fn stage(lang: Lang, stage: Stage) -> (&'static str, &'static str) {
    let t = Texts::of(lang);
    match stage {
        Stage::Rejected => (t.stage_rejected, "tag bad"),
        Stage::Waiting => (t.stage_waiting, "tag warn"),
        Stage::Candidate => (t.stage_candidate, "tag ok"),
        Stage::Before => (t.stage_before, "tag"),
        Stage::LeftOut => (t.stage_left_out, "tag off"),
    }
}

/// A step as people say it.
pub(crate) fn step(lang: Lang, step: &Step) -> String {
    match (lang, step) {
        (Lang::Zh, Step::Nodes(nodes)) => format!("{nodes} 个节点"),
        (Lang::Zh, Step::All) => "全部节点".to_owned(),
        (Lang::En, Step::All) => "all nodes".to_owned(),
        _ => step.to_string(),
    }
}

/// Why it is halted or was withdrawn.
pub(crate) fn why(lang: Lang, why: &Why) -> String {
    let is_zh = lang == Lang::Zh;
    let shares =
        |sides: &Sides, of: fn(&Tally) -> Option<u64>| (share(of(&sides.chosen)), share(of(&sides.others)));
    match why {
        Why::Rejected(nodes) => {
            let nodes = nodes.join(if is_zh { "、" } else { ", " });
            if is_zh { format!("节点拒绝了新版本：{nodes}") } else { format!("rejected by {nodes}") }
        }
        Why::NotAcknowledged(nodes) => {
            let nodes = nodes.join(if is_zh { "、" } else { ", " });
            if is_zh {
                format!("节点在 30 秒内没有确认：{nodes}")
            } else {
                format!("not acknowledged within 30 s by {nodes}")
            }
        }
        Why::DeniesMore(sides) => {
            let (chosen, others) = shares(sides, Tally::denied_share);
            if is_zh {
                format!("已选节点拒绝了 {chosen} 的请求，原版本为 {others}")
            } else {
                format!("the chosen nodes deny {chosen}, the version before {others}")
            }
        }
        Why::DegradesMore(sides) => {
            let (chosen, others) = shares(sides, Tally::degraded_share);
            if is_zh {
                format!("已选节点的降级比例为 {chosen}，原版本为 {others}")
            } else {
                format!(
                    "{chosen} of the decisions of the chosen nodes are degraded, {others} of the version before"
                )
            }
        }
        Why::Blocked(detail) => {
            if is_zh {
                format!("无法撤回：{detail}")
            } else {
                format!("cannot be withdrawn: {detail}")
            }
        }
        Why::Operator(reason) => reason.clone(),
        Why::Superseded(reason) if reason == "disabled" => {
            if is_zh { "应用已停用" } else { "the app was disabled" }.to_owned()
        }
        Why::Superseded(reason) => {
            if is_zh {
                format!("已被其他版本取代：{reason}")
            } else {
                format!("superseded: {reason}")
            }
        }
    }
}

/// Hundredths of a percent as `12.34 %`.
pub(crate) fn share(share: Option<u64>) -> String {
    share.map_or_else(|| "–".to_owned(), |it| format!("{}.{:02} %", it / 100, it % 100))
}

/// A number of decisions.
pub(crate) fn count(count: u64) -> String {
    grouped(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_two_decimals() {
        for (hundredths, text) in
            [(None, "–"), (Some(0), "0.00 %"), (Some(1_205), "12.05 %"), (Some(10_000), "100.00 %")]
        {
            assert_eq!(share(hundredths), text);
        }
    }
}
