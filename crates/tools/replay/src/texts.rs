//! The texts of the HTML report.

tollgate_charts::texts! {
    title: "流量回放报告", "Replay report";
    begins: "起始时间", "Begins";
    span: "时长", "Span";
    requests: "请求数", "Requests";
    offered: "请求", "Offered";
    admitted: "放行", "Admitted";
    denied: "拒绝", "Denied";
    admitted_a: "放行（A）", "Admitted by A";
    denied_a: "拒绝（A）", "Denied by A";
    denied_b: "拒绝（B）", "Denied by B";
    unlimited: "未匹配规则", "Not limited";
    notes: "注意事项", "What to know of this trace";
    over_time: "请求随时间的变化", "Requests over time";
    time: "距起始时间", "Time since the beginning";
    per_span: "每段请求数", "Requests per span";
    numbers: "数据", "Numbers";
    difference: "B 相对 A 的变化", "B instead of A";
    newly_denied: "新增拒绝", "Newly denied";
    newly_admitted: "新增放行", "Newly admitted";
    rules: "规则", "Rules";
    near: "接近上限", "Near the limit";
    shadowed: "试运行时会被拒绝", "Would be denied in shadow mode";
    keys: "键数", "Keys";
    keys_denied: "被拒绝过的键", "Keys that were denied";
    wrongly_admitted: "误放行", "Wrongly admitted";
    wrongly_denied: "误拒绝", "Wrongly denied";
    wrongly: "误放行与误拒绝以精确日志为准：精确日志记住最近一个窗口内每个已放行的请求。", "Wrongly admitted and wrongly denied are measured against an exact log, which remembers every admitted request of the last window.";
    keys_forgotten: "因内存上限而遗忘的空闲键（再次出现时重复计数）", "Idle keys forgotten for lack of memory (counted again if they came again)";
    not_compared: "因内存上限未比较的请求", "Requests not compared for lack of memory";
    algorithms: "算法对比", "Algorithms compared";
    same_limit: "各算法使用相同的上限和窗口。最差窗口：单个键在任意一个窗口长度内获得的最多放行数。", "Each algorithm has this rule's limit and window. Worst window: the most that one key got in any window of that length.";
    algorithm: "算法", "Algorithm";
    worst_window: "最差窗口", "Worst window";
    worst_windows: "最差窗口", "Worst windows";
    limit: "上限", "Limit";
    key: "键", "Key";
    from: "从", "From";
    to: "到", "To";
    most_denied: "被限流最多的键", "Keys that were denied most";
    suggested: "建议值", "Suggested";
    enough_for: "可满足的键的比例", "Enough for this share of the keys";
    in_any: "任意窗口内", "In any window";
    or_burst: "或突发度", "Or a burst";
    at_rate: "速率", "At the rate";
    begin_of_span: "段起点", "Span begins at";
}
