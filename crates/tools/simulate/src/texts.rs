//! The texts of pages and charts.

tollgate_charts::texts! {
    edge: "窗口边界：任意一个窗口长度内的放行数", "Around the edge of a window: admitted within any window";
    edge_about: "在窗口结束前一刻和下一窗口开始时各发送一个上限的请求。固定窗口在不到一个窗口的时间内放行两倍上限；严格滑动窗口不会。", "As many requests as the limit just before a window ends, and as many again just after. A fixed window lets both pass; a strict sliding window does not.";
    cells: "滑动窗口的格数：任意一个窗口长度内的放行数", "Cells of a sliding window: admitted within any window";
    cells_about: "三倍于速率的持续请求。格数越多越平滑，持续放行量越接近上限；任何格数都不会超过上限。", "A steady flood of three times the rate. More cells are smoother and pass more of the limit; no number of cells passes more than the limit.";
    burst: "突发：令牌桶与排队漏桶", "A burst into a token bucket and into a leaky bucket that queues";
    burst_about: "两倍上限的请求同时到达。令牌桶立即放行积攒的令牌；排队漏桶以恒定间隔逐个放行。", "Twice the limit at once, and later as much as the rate. The token bucket passes what it saved at once; the leaky bucket lets requests leave one by one, evenly.";
    warm_up: "预热：放行速率", "Warm-up: the rate that passes";
    warm_up_about: "十倍于速率的请求，中间停顿。预热使冷键的速率从三分之一逐渐升到上限，停顿后重新变冷。", "Ten times the rate is asked for, with a pause between. A cold key begins at a third of the rate and warms up to all of it; in the pause it cools down again.";
    in_last_window: "最近一个窗口内的放行数", "Admitted in the last window";
    left_so_far: "累计放行数", "Left so far";
    a_second: "每秒放行数", "Admitted per second";
    time: "时间", "Time";
    limit: "上限", "Limit";
    algorithm: "算法", "Algorithm";
    offered: "请求", "Offered";
    admitted: "放行", "Admitted";
    denied: "拒绝", "Denied";
    most: "单个窗口内最多", "Most in a window";
    longest_delay: "最长延迟", "Longest delay";
    numbers: "数据", "Numbers";
    fleet: "集群共享一个上限", "A fleet that shares a limit";
    fleet_about: "exact：每次判定都访问存储；leased：预先把许可租给各节点；local：每个节点按份额各自计数。上界为令牌桶：突发度 + 速率 × 时间。", "exact: the store decides each time. leased: nodes lease permits ahead. local: each node counts its share by itself. The bound is that of one bucket: burst + rate × time.";
    fleet_admitted: "每秒放行许可数", "Permits admitted per second";
    fleet_denied: "每秒拒绝许可数", "Permits denied per second";
    fleet_over: "超出上界的许可数：截至该时刻的任意区间", "Permits above the bound, in any interval up to then";
    permits: "许可数", "Permits";
    fleet_calls: "每秒存储调用数", "Store calls per second";
    sharing: "共享方式", "Sharing";
    per_second: "每秒", "Per second";
    of_one: "相对单个令牌桶", "Of one bucket";
    over: "超出上界", "Above the bound";
    calls_a_second: "每秒存储调用", "Store calls/s";
    decisions_a_call: "每次调用的判定数", "Decisions a call";
    by_share: "按份额放行", "Admitted by share";
    asked: "请求量", "Asked for";
}
