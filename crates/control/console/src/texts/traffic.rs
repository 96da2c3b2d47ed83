//! Texts of the overview, of the most limited keys and of a rule's history.

use tollgate_control::problems::{Problem, ProblemKind};

use super::{Lang, grouped};
use crate::chart::percent;

texts! {
    top: "被限流最多的键", "Top keys";
    per_second: "每秒判定数", "Decisions per second";
    last_15_min: "最近 15 分钟", "last 15 minutes";
    admitted_per_second: "放行 / 秒", "Admitted / s";
    denied_per_second: "拒绝 / 秒", "Denied / s";
    denied_share: "拒绝比例", "Share denied";
    most_limited: "被限流最多的键", "Most limited key";
    none_limited: "没有键被限流", "No key was limited";
    admitted: "放行", "Admitted";
    denied: "拒绝", "Denied";
    shadow_denied: "试运行拒绝", "Denied in shadow";
    degraded: "降级判定", "Without the store";
    near: "接近上限", "Near the limit";
    offered: "请求总数", "Offered";
    as_table: "以表格显示", "As a table";
    time: "时间", "Time";
    nodes_by_state: "节点状态", "Nodes by state";
    problems: "问题", "Problems";
    no_problems: "一切正常", "No problems";
    no_problems_text: "节点在线，规则已全部生效。", "Nodes report, and all rules are in force.";
    open_changes: "未完成的变更", "Open changes";
    no_open_changes: "没有等待审批或发布的变更。", "Nothing waits to be approved or published.";
    show: "查看", "Show";
    no_traffic: "还没有流量", "No traffic yet";
    no_traffic_text: "节点收到请求后，这里每 10 秒更新一次。", "Once nodes decide requests, this page is updated every ten seconds.";
    no_node: "还没有节点连接", "No node is connected";
    no_node_text: "在另一台机器或终端上启动一个节点，它会每 5 秒上报一次。", "Start a node on another machine or in another terminal. It reports every 5 seconds.";
    lost_stream: "与控制面的连接已中断，数据不再更新。", "The connection to the control plane is lost, so this page is not up to date.";
    key: "键", "Key";
    rule: "规则", "Rule";
    domain: "应用或域", "App or domain";
    denials: "拒绝次数", "Denials";
    look_up: "查询", "Look up";
    span: "时间范围", "Time span";
    search_keys: "搜索键", "Search keys";
    search: "搜索", "Search";
    no_top: "这段时间没有键被限流", "No key was limited in this time";
    no_top_text: "节点记录每条规则中被限流最多的键。换一个更长的时间范围试试。", "Nodes record the keys of each rule that were denied most. Try a longer time.";
    top_lead: "计数来自各节点的近似统计，每条规则只记录被限流最多的键。", "Counts are estimates of the nodes, which record only the keys of each rule that were denied most.";
    unlimited: "没有规则限制的请求", "Requests that no rule limits";
    unlimited_lead: "最近 24 小时内，没有匹配到规则的请求，以及发往未知域的请求。", "Requests of the last 24 hours that matched no rule, and requests for unknown domains.";
    no_unlimited: "所有请求都匹配到了规则", "Every request matched a rule";
    unmatched: "没有匹配的规则", "matched no rule";
    unknown_domain: "未知域", "unknown domain";
    unknown_names: "节点收到过的未知域：", "Unknown domains that nodes were asked for:";
    what: "类型", "What";
    suggestion: "根据流量建议", "Suggestion from traffic";
    suggestion_use: "用建议值填写表单", "Fill in the form";
    suggestion_none: "流量不足以给出建议：需要最近一小时内至少 5 分钟的请求。", "Not enough traffic for a suggestion: it takes 5 minutes of requests within the last hour.";
    suggestion_per: "这条规则按条目的值分别计数，无法根据总流量给出建议。", "This rule counts the values of an entry separately, so the traffic as a whole suggests nothing.";
    kept_note: "10 秒数据保留 1 小时，1 分钟数据保留 24 小时，10 分钟数据保留 14 天，1 小时数据保留 400 天。", "Kept: 10 s rows for an hour, minutes for a day, 10 minutes for 14 days, hours for 400 days.";
    gone: "这条规则已被删除，历史仍然保留。", "This rule was deleted; its history is kept.";
    all_apps: "全部应用", "All apps";
}

/// A span of time to choose.
pub(crate) struct Span {
    /// As it appears in URLs.
    pub(crate) name: &'static str,
    pub(crate) ms: i64,
    zh: &'static str,
    en: &'static str,
}

impl Span {
    pub(crate) const fn text(&self, lang: Lang) -> &'static str {
        match lang {
            Lang::Zh => self.zh,
            Lang::En => self.en,
        }
    }
}

/// The spans that people choose from.
pub(crate) const SPANS: [Span; 7] = [
    Span { name: "15m", ms: 900_000, zh: "15 分钟", en: "15 min" },
    Span { name: "1h", ms: 3_600_000, zh: "1 小时", en: "1 h" },
    Span { name: "6h", ms: 21_600_000, zh: "6 小时", en: "6 h" },
    Span { name: "24h", ms: 86_400_000, zh: "24 小时", en: "24 h" },
    Span { name: "7d", ms: 604_800_000, zh: "7 天", en: "7 d" },
    Span { name: "30d", ms: 2_592_000_000, zh: "30 天", en: "30 d" },
    Span { name: "90d", ms: 7_776_000_000, zh: "90 天", en: "90 d" },
];

impl Lang {
    pub(crate) const fn traffic(self) -> &'static Texts {
        Texts::of(self)
    }

    /// "data as of …".
    pub(crate) fn as_of(self, time: &str) -> String {
        match self {
            Self::Zh => format!("数据截至 {time}"),
            Self::En => format!("Data as of {time}"),
        }
    }

    /// The highest share, and when.
    pub(crate) fn peak(self, share: i64, time: &str) -> String {
        match self {
            Self::Zh => format!("峰值 {}，{time}", percent(share)),
            Self::En => format!("at most {}, {time}", percent(share)),
        }
    }

    /// The number of denials of a key.
    pub(crate) fn denied_times(self, rule: &str, denied: i64) -> String {
        match self {
            Self::Zh => format!("{rule} · 被拒绝 {} 次", grouped(denied)),
            Self::En => format!("{rule} · denied {} times", grouped(denied)),
        }
    }

    /// On what a suggestion rests.
    pub(crate) fn suggested(self, peak: &str, minutes: i64, rate: i64, burst: i64) -> String {
        let rate = grouped(rate);
        let burst = grouped(burst);
        match self {
            Self::Zh => format!(
                "最近 {minutes} 分钟内，99% 的时间每秒不超过 {peak} 个请求。建议速率 {rate}（1.5 倍），突发度 {burst}。"
            ),
            Self::En => format!(
                "In the last {minutes} minutes, 99 % of the time at most {peak} requests came per second. Suggested: \
                 rate {rate} (one and a half times as many), burst {burst}."
            ),
        }
    }

    /// A problem: class of its tag, its kind, what it says.
    pub(crate) fn problem(
        self,
        problem: &Problem,
        time: impl Fn(i64) -> String,
    ) -> (&'static str, String, String) {
        let Problem { kind, app, node_name: node, since_ms, value, detail, .. } = problem;
        let since = since_ms.map(&time).unwrap_or_default();
        let is_zh = self == Self::Zh;
        let colon = |text: String| match (detail.is_empty(), is_zh) {
            (true, _) => text,
            (_, true) => format!("{text}：{detail}"),
            _ => format!("{text}: {detail}"),
        };
        let (class, zh, en, text) = match kind {
            ProblemKind::UnresponsiveNode => (
                "bad",
                "失联",
                "unresponsive",
                if is_zh {
                    format!("{node} 自 {since} 起没有上报")
                } else {
                    format!("{node} has not reported since {since}")
                },
            ),
            ProblemKind::RejectedVersion => {
                let text = if is_zh {
                    format!("{node} 拒绝了 {app} 版本 {value}")
                } else {
                    format!("{node} rejected version {value} of {app}")
                };
                ("bad", "被拒绝", "rejected", colon(text))
            }
            ProblemKind::VersionLag => (
                "warn",
                "落后",
                "behind",
                if is_zh {
                    format!("{node} 仍在使用 {app} 版本 {value}")
                } else {
                    format!("{node} still has version {value} of {app}")
                },
            ),
            ProblemKind::DeniedShare => (
                "warn",
                "拒绝激增",
                "denials",
                if is_zh {
                    format!("{app} 最近 5 分钟的拒绝比例升至 {}", percent(*value))
                } else {
                    format!("{app} denies {} of its requests since 5 minutes", percent(*value))
                },
            ),
            ProblemKind::Degraded => (
                "warn",
                "降级",
                "degraded",
                if is_zh {
                    format!("{app} 有 {} 的判定没有经过存储", percent(*value))
                } else {
                    format!("{app} decides {} of its requests without the store", percent(*value))
                },
            ),
            ProblemKind::StoreDown => (
                "bad",
                "存储不可用",
                "store down",
                if is_zh {
                    format!("{node} 无法使用存储 {detail}")
                } else {
                    format!("{node} cannot use its store {detail}")
                },
            ),
            ProblemKind::WithdrawnRollout => (
                "bad",
                "已撤回",
                "withdrawn",
                if is_zh {
                    format!("{app} 版本 {value} 的分阶段发布于 {since} 撤回")
                } else {
                    format!("The rollout of version {value} of {app} was withdrawn at {since}")
                },
            ),
            ProblemKind::HaltedRollout => (
                "bad",
                "等待处理",
                "halted",
                if is_zh {
                    format!("{app} 版本 {value} 的分阶段发布于 {since} 未通过检查，等待处理")
                } else {
                    format!(
                        "A gate of the rollout of version {value} of {app} failed at {since}; it waits for you"
                    )
                },
            ),
            ProblemKind::DiskLow => (
                "bad",
                "磁盘不足",
                "disk low",
                if is_zh {
                    format!("控制面磁盘只剩 {} MB", grouped(value / 1_000_000))
                } else {
                    format!("The disk of the control plane has {} MB left", grouped(value / 1_000_000))
                },
            ),
            ProblemKind::CertificateExpiring => (
                "warn",
                "证书到期",
                "certificate",
                if is_zh {
                    format!("控制面的 TLS 证书将于 {} 到期", time(*value))
                } else {
                    format!("The TLS certificate of the control plane expires at {}", time(*value))
                },
            ),
            ProblemKind::FrozenApp => (
                "bad",
                "已冻结",
                "frozen",
                match (is_zh, node.is_empty()) {
                    (true, false) => format!("{node} 持有 {app} 版本 {value}，数据库从未发布过它"),
                    (false, false) => {
                        format!("{node} has version {value} of {app}, which the database has never published")
                    }
                    (true, true) => format!("{app} 已冻结：节点持有版本 {value}，需由管理员决定以哪一方为准"),
                    (false, true) => {
                        format!(
                            "{app} takes no change: nodes have version {value}, and an admin has to decide"
                        )
                    }
                },
            ),
            ProblemKind::AwaitedNodes => (
                "warn",
                "等待节点",
                "waiting",
                if is_zh {
                    format!("等待节点接入（{detail}），修改最多再等 {value} 秒")
                } else {
                    format!("Waiting for nodes ({detail} are missing): changes wait for {value} s at most")
                },
            ),
            ProblemKind::DatabaseGone => (
                "bad",
                "数据库丢失",
                "database",
                colon(if is_zh { "修改被拒绝" } else { "Changes are rejected" }.to_owned()),
            ),
            ProblemKind::AuditCut => (
                "bad",
                "审计缺失",
                "audit",
                if is_zh {
                    format!("审计条目 {detail} 已确认但不在数据库中：数据库是从旧副本恢复的，或其日志已损坏")
                } else {
                    format!(
                        "Entries {detail} of the audit were acknowledged and are missing: a copy was restored, or the log of the database was damaged"
                    )
                },
            ),
            ProblemKind::EditedRows => (
                "bad",
                "数据被改动",
                "database",
                if is_zh {
                    format!(
                        "其他程序改动了数据库中的 {value} 行（{detail}）：请还原，或用 tollgate control audit accept 接受"
                    )
                } else {
                    format!(
                        "Another program has edited rows of the database: {value} ({detail}); put them back, or accept them by tollgate control audit accept"
                    )
                },
            ),
            ProblemKind::ClockSkew => (
                "warn",
                "时钟偏差",
                "clock",
                if is_zh {
                    format!("{node} 的时钟与控制面相差 {} 毫秒", grouped(*value))
                } else {
                    format!("The clock of {node} is {} ms off", grouped(*value))
                },
            ),
            ProblemKind::ClaimedNode => (
                "bad",
                "冒用节点",
                "claimed",
                if is_zh {
                    format!("有人从 {detail} 以 {node} 的标识接入，但没有它的密钥，已被拒绝")
                } else {
                    format!("{detail} has tried to attach as {node} without its secret, and was rejected")
                },
            ),
            ProblemKind::NodeFault => ("warn", "节点故障", "node", colon(node.clone())),
            ProblemKind::ForgottenCharges => {
                let count = grouped(*value);
                let text = if is_zh {
                    format!(
                        "{node} 最近 5 分钟有 {count} 次用量被拒绝且未计入，请在其规则中加上 post_paid: true"
                    )
                } else {
                    format!(
                        "On {node}, the cost of {count} requests of the last 5 minutes was denied and not counted; \
                         add post_paid: true to the rules"
                    )
                };
                ("warn", "用量未计入", "uncounted", colon(text))
            }
            ProblemKind::BadRequests => {
                let count = grouped(*value);
                let text = if is_zh {
                    format!("{node} 最近 5 分钟有 {count} 个请求未经规则判定")
                } else {
                    format!("On {node}, {count} requests of the last 5 minutes were not decided by rules")
                };
                ("warn", "无效请求", "bad requests", colon(text))
            }
        };
        (class, (if is_zh { zh } else { en }).to_owned(), text)
    }
}
