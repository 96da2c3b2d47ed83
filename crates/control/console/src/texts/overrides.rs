//! Texts of the screens of blocks and of key look-up.

texts! {
    crumb: "观察", "Traffic";
    title: "临时封禁", "Blocks";
    about: "封禁或放行一个键、一个调用方或整个域，到期自动失效；一秒内在所有节点生效，优先于规则。", "Block or allow a key, a caller or a whole domain for a time. It takes effect on all nodes within a second, before any rule, and ends by itself.";
    empty: "没有生效中的封禁或放行", "Nothing is blocked or allowed";
    domain: "域", "Domain";
    domain_hint: "应用标识或规则文件的域", "The app, or the domain of a rule file";
    entries: "条目", "Entries";
    entries_hint: "每行一个 key=value，匹配描述符的前几个条目；留空表示整个域", "One key=value per line: the first entries of a descriptor. Leave empty for the whole domain";
    whole_domain: "整个域", "Whole domain";
    action: "操作", "Action";
    block: "封禁", "Block";
    allow: "放行", "Allow";
    minutes: "时长（分钟）", "Minutes";
    minutes_hint: "编辑者最多 1440（24 小时），审批者最多 43200（30 天）", "Up to 1,440 (24 hours) for editors and 43,200 (30 days) for approvers";
    block_title: "确认封禁", "Confirm the block";
    allow_title: "确认放行", "Confirm the allowance";
    block_question: "封禁这些请求？", "Block these requests?";
    allow_question: "放行这些请求，且不计数？", "Admit these requests without counting them?";
    block_consequence: "一秒内在所有节点生效，命中的请求全部被拒绝，到期自动解除。", "Within a second all nodes deny every request that it meets, until it ends.";
    allow_consequence: "一秒内在所有节点生效，命中的请求不受规则限制，到期自动解除。", "Within a second no rule limits the requests that it meets, until it ends.";
    rules_met: "命中的规则", "Rules that it goes before";
    met_none: "无", "None";
    met_none_warning: "匹配不到任何规则：条目须从描述符的第一个条目开始。按规则发送的请求不会命中。", "It meets no rule: entries must begin with the first one of a descriptor. Requests as the rules know them are not met.";
    unknown_domain_warning: "没有已发布的规则属于这个域。请确认域名无误。", "No published rule has this domain. Check its name.";
    whole_warning: "没有条目：整个域的全部请求都会命中。", "Without entries it meets every request of the whole domain.";
    reason: "原因", "Reason";
    left: "剩余时间", "Time left";
    until: "到期时间", "Ends at";
    author: "创建者", "By";
    end: "提前结束", "End now";
    add: "新增封禁或放行", "New block or allowance";
    keys: "键查询", "Key lookup";
    keys_about: "输入要查询的域和条目。节点内存只保存键的哈希，无法列出；使用 Redis 时可以列出一个域的键。", "Name the domain and the entries to look up. A node's memory keeps hashes of keys and cannot list them; a Redis store can list the keys of a domain.";
    list_keys: "列出键", "List keys";
    list_about: "列出 Redis 中一个域的计数器，可用前几个条目缩小范围。顺序不定，同一个键可能出现两次。", "Lists the counters of a domain in Redis; the first entries narrow it down. They come in no order, and a key may come twice.";
    list_entries_hint: "可选：每行一个 key=value，描述符的前几个条目", "Optional: one key=value per line, the first entries of a descriptor";
    listed_none: "这一页没有键", "No keys on this page";
    listed_more: "下一页", "Next page";
    listed_last: "已到末尾", "End of the list";
    listed_nothing: "无法列出键", "Keys cannot be listed";
    kind: "类型", "Kind";
    kept_counter: "计数器", "Counter";
    kept_leased: "租约账本", "Ledger of leases";
    kept_slots: "名额", "Slots";
    key_entries_hint: "每行一个 key=value，与请求的描述符完全一致", "One key=value per line, exactly as the request's descriptor has them";
    look_up: "查询", "Look up";
    rule: "规则", "Rule";
    limit: "上限", "Limit";
    counter: "计数器", "Counter";
    node: "节点", "Node";
    all_nodes: "所有节点共享", "Shared by all nodes";
    tokens: "当前令牌数", "Tokens";
    full_in: "恢复满额", "Full in";
    never: "不恢复", "Never";
    unused: "未使用或已恢复满额", "Unused, or full again";
    no_nodes: "没有在线节点，无法查询。", "No node is connected, so nothing can be looked up.";
    no_counter: "没有计数器", "No counter";
    sum: "各节点合计", "Sum of the nodes";
    reset: "重置", "Reset";
    reset_done: "已重置：下一个请求从满额开始。", "Reset: its next request finds a full quota.";
    override_this: "封禁或放行此键", "Block or allow this key";
    degraded: "存储不可用，本节点自行计数", "The store is unavailable; the node counts by itself";
}

impl crate::texts::Lang {
    /// The rules that a block goes before, of which the first are named.
    pub(crate) fn rules_met(self, named: &[String], total: usize) -> String {
        let list = named.join(if self == Self::Zh { "、" } else { ", " });
        match (self, total - named.len()) {
            (_, 0) => list,
            (Self::Zh, _) => format!("{list} 等 {total} 条"),
            (Self::En, more) => format!("{list} and {more} more"),
        }
    }

    /// The button that names the value under each key.
    pub(crate) fn across(self, keys: usize) -> String {
        match self {
            Self::Zh => format!("在全部 {keys} 个键下生效"),
            Self::En => format!("Below each of the {keys} keys"),
        }
    }
}

/// A time that is left, in the two largest units.
pub(crate) fn left(lang: crate::texts::Lang, ms: i64) -> String {
    let seconds = ms.max(0).unsigned_abs().div_ceil(1_000);
    let units = match lang {
        crate::texts::Lang::Zh => [" 天", " 小时", " 分", " 秒"],
        crate::texts::Lang::En => [" d", " h", " min", " s"],
    };
    let counts = [seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
    let first = counts.iter().position(|it| *it > 0).unwrap_or(3);
    let shown = counts.iter().zip(units).skip(first).take(2).filter(|(count, _)| **count > 0);
    let texts: Vec<_> = shown.map(|(count, unit)| format!("{count}{unit}")).collect();
    if texts.is_empty() { format!("0{}", units[3]) } else { texts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::Lang;

    #[test]
    fn a_time_left_has_its_two_largest_units() {
        for (ms, zh, en) in [
            (0, "0 秒", "0 s"),
            (1, "1 秒", "1 s"),
            (90_000, "1 分 30 秒", "1 min 30 s"),
            (3_600_000, "1 小时", "1 h"),
            (2_592_000_000, "30 天", "30 d"),
            (90_061_000, "1 天 1 小时", "1 d 1 h"),
        ] {
            assert_eq!((&*left(Lang::Zh, ms), &*left(Lang::En, ms)), (zh, en));
        }
    }
}
