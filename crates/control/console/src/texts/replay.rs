//! Texts of rules on a recorded trace.

use super::{Lang, grouped};

texts! {
    about: "用这里的数值回放一份录制的访问日志，与当前规则对比。不会修改规则，也不会影响在线计数。", "Replays a recorded log with these numbers beside the current rule. Changes no rule and no count of a node.";
    trace: "日志", "Trace";
    trace_hint: "控制面数据目录下 `traces` 文件夹中的文件", "A file in the folder `traces` of the control plane's data";
    none: "还没有可以回放的日志", "No traces yet";
    none_text: "把访问日志（Common 或 Combined、JSON、CSV、Envoy，可以是 gzip 或 zstd）复制到控制面的这个目录：", "Copy an access log (Common or Combined, JSON, CSV, Envoy; also as gzip or zstd) into this folder of the control plane:";
    map: "字段含义", "What the fields mean";
    map_hint: "可选，每行一个 `KEY=VALUE`，例如 `time=at` 或 `cost=tokens`。默认把日志中的每个请求都算作这条规则的请求。", "Optional, one `KEY=VALUE` on each line, such as `time=at` or `cost=tokens`. Every request of the log counts as one of this rule.";
    run: "回放", "Replay";
    use_numbers: "用这些数值填写表单", "Fill in the form with these numbers";
    now: "当前", "Now";
    then: "修改后", "With these numbers";
    result: "结果", "Result";
    requests: "请求", "Requests";
    offered: "请求", "Offered";
    admitted: "放行", "Admitted";
    denied: "拒绝", "Denied";
    near: "接近上限", "Near the limit";
    keys: "键数", "Keys";
    keys_denied: "被拒绝过的键", "Keys that were denied";
    by_burst: "仅因突发度而放行", "Admitted only by the burst";
    needlessly: "最近一秒仍有余量却被拒绝", "Denied with room left in the last second";
    worst: "单个键任意一秒内最多放行", "Most admitted of one key in any second";
    suggested: "99% 的键所需的突发度", "Burst enough for 99 % of the keys";
    newly_denied: "新增拒绝", "Newly denied";
    newly_admitted: "新增放行", "Newly admitted";
    top: "被限流最多的键", "Keys that were denied most";
    over_time: "请求随时间的变化", "Requests over time";
    denied_now: "拒绝（当前）", "Denied now";
    denied_then: "拒绝（修改后）", "Denied with these numbers";
    partial: "日志没有读完：一次回放最多 2000 万个请求、20 秒。", "The trace was not read to its end: a replay takes at most 20 million requests and 20 s.";
    busy: "正在回放另一份日志，请稍后再试。", "Another trace is being replayed. Try again in a moment.";
    unknown: "没有这份日志", "There is no such trace";
    time: "时间", "Time";
    as_table: "以表格显示", "As a table";
}

impl Lang {
    /// Size of a file.
    pub(crate) fn size(bytes: u64) -> String {
        match bytes {
            ..10_000 => format!("{bytes} B"),
            10_000..10_000_000 => format!("{} kB", grouped((bytes / 1_000) as i64)),
            _ => format!("{} MB", grouped((bytes / 1_000_000) as i64)),
        }
    }
}
