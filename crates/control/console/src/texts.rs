//! Every text of the pages, in both languages: a row without one of them does not compile. Those of a single
//! screen are in `texts/SCREEN.rs`.

use tollgate_control::{Fault, InForce};

macro_rules! texts {
    ($($name:ident: $zh:literal, $en:literal;)*) => {
        /// The texts of one language.
        pub(crate) struct Texts { $(pub(crate) $name: &'static str,)* }

        impl Texts {
            pub(crate) const fn of(lang: $crate::texts::Lang) -> &'static Self {
                const ZH: Texts = Texts { $($name: $zh,)* };
                const EN: Texts = Texts { $($name: $en,)* };
                match lang {
                    $crate::texts::Lang::Zh => &ZH,
                    $crate::texts::Lang::En => &EN,
                }
            }
        }
    };
}

pub(crate) mod access;
pub(crate) mod changes;
pub(crate) mod examples;
pub(crate) mod files;
pub(crate) mod frozen;
pub(crate) mod nav;
pub(crate) mod nodes;
pub(crate) mod overrides;
pub(crate) mod replay;
pub(crate) mod rollouts;
pub(crate) mod traffic;
pub(crate) mod trial;

texts! {
    html_lang: "zh-CN", "en";
    comma: "，", ", ";
    colon: "：", ": ";
    skip: "跳到内容", "Skip to content";
    menu: "主菜单", "Main menu";
    preferences: "语言", "Language";
    theme: "主题", "Theme";
    theme_auto: "自动", "Auto";
    theme_light: "浅色", "Light";
    theme_dark: "深色", "Dark";
    login: "登录", "Log in";
    logout: "退出", "Log out";
    setup: "首次设置", "First setup";
    setup_about: "创建第一个管理员。设置码由控制面启动时打印，只能使用一次，24 小时内有效。", "Create the first administrator. The setup code is printed when the control plane starts; it works once, within 24 hours.";
    code: "设置码", "Setup code";
    user_name: "用户名", "User name";
    password: "密码", "Password";
    password_hint: "至少 12 个字符", "At least 12 characters";
    password_again: "再次输入密码", "Password again";
    create_admin: "创建管理员", "Create administrator";
    wrong_login: "用户名或密码错误", "Wrong user name or password";
    wrong_code: "设置码错误、已使用或已过期。重启控制面会打印新的设置码。", "The setup code is wrong, used or expired. Restart the control plane to print a new one.";
    limits: "限流管理", "Rate limits";
    limits_short: "限流", "Limits";
    list_long: "限流信息列表", "List of limits";
    create: "限流新增", "New limit";
    fleet: "节点管理", "Fleet";
    nodes: "节点", "Nodes";
    system: "系统", "System";
    audit: "审计", "Audit";
    users: "用户管理", "Users";
    versions: "版本", "Versions";
    app: "应用标识", "App";
    key: "请求标识", "Request key";
    max_permits: "桶突发度", "Burst";
    rate: "令牌添加速度", "Rate per second";
    rate_long: "令牌添加速率", "Rate";
    per_second: "/ 秒", "/ s";
    tokens: "当前令牌数", "Tokens now";
    description: "描述信息", "Description";
    last_used: "最近一次更新时间", "Last update";
    delete: "删除", "Delete";
    never_used: "从未使用", "never used";
    not_reported: "节点尚未上报", "Not reported by any node yet";
    state_on: "生效", "on";
    state_shadow: "试运行", "shadow";
    state_off: "停用", "off";
    per_page_before: "每页", "Show";
    per_page_after: "条", "per page";
    all_apps: "全部应用", "All apps";
    all_states: "全部状态", "All states";
    filter: "筛选", "Filter";
    overdrawn: "预消费", "in advance";
    nodes_count: "节点", "nodes";
    counts_each: "每个", "each";
    counts_each_title: "按此条目的值分别计数，没有单一的令牌数", "Counts the values of this entry separately, so that there is no single number";
    live_lost: "暂时无法从节点读取令牌数，显示的是最近一次的值。", "The nodes do not answer at the moment; the tokens are those that were read last.";
    examples: "示例", "Examples";
    tab_form: "表单", "Form";
    tab_history: "历史", "History";
    tab_replay: "回放", "Replay";
    lately: "最近 15 分钟，每秒判定数", "Decisions per second, last 15 minutes";
    protects: "保护谁", "What it protects";
    protect_self: "保护自己的服务", "My own service";
    protect_self_text: "令牌桶：空闲时攒下的令牌允许短时突发，平均速率不变。", "A token bucket: tokens saved while idle allow a short burst; the average stays at the rate.";
    protect_other: "保护第三方", "Somebody else's service";
    protect_other_text: "对方不接受突发：用漏桶排队，请求匀速逐个放行。它需要规则文件，应用、标识和数值取自此表单。", "They take no bursts: a leaky bucket that queues, so that requests pass one by one. It needs a rule file, which takes app, key and numbers from this form.";
    protect_use: "改用漏桶排队", "Use a queue instead";
    select_all: "全选本页", "Select all on this page";
    search: "搜索", "Search";
    search_hint: "搜索应用或请求标识（按 / 聚焦）", "Search apps and keys (press /)";
    previous: "上一页", "Previous";
    next: "下一页", "Next";
    older: "更早", "Older";
    empty_title: "还没有限流规则", "No rate limits yet";
    empty_text: "一条规则限制一个应用的一类请求。新增后，所有节点在一秒内生效。", "A rule limits one class of requests of one app. A new rule is in force on every node within a second.";
    no_match: "没有匹配的规则", "No rule matches";
    no_match_text: "换一个关键词，或查看全部规则。", "Try another word, or show all rules.";
    show_all: "查看全部", "Show all";
    app_hint: "应用名称，如 SIP_HOTEL", "Name of the app, such as SIP_HOTEL";
    key_hint: "请求类别，如 pushGeoHotelList；同一应用内唯一", "Class of requests, such as pushGeoHotelList; unique in its app";
    burst_hint: "桶的容量，正整数", "Height of the bucket; a positive whole number";
    rate_hint: "每秒添加的令牌数，正整数", "Tokens added per second; a positive whole number";
    preset: "QPS 预设", "QPS preset";
    preset_button: "填入", "Fill in";
    preset_hint: "用一个数同时填写突发度和速率", "Fills the burst and the rate with one number";
    description_label: "接入描述", "Description";
    description_hint: "用途、负责人等，可不填", "Purpose, owner and the like; optional";
    more: "更多选项", "More options";
    need_permits: "所需令牌数", "Tokens per request";
    need_hint: "每个请求消耗的令牌数，默认 1", "Tokens that one request takes; 1 by default";
    pre_permits: "可预消费令牌数", "Overdraft";
    pre_hint: "可以预消费的令牌数，先偿还后发放", "Tokens a request may take in advance; repaid first";
    post_paid: "用量报告", "Cost reported";
    paid_ahead: "请求之前", "Before the request";
    paid_after: "请求之后（后付）", "After the request (post-paid)";
    post_paid_hint: "后付：先用数量为 0 的请求询问，用完后再报告；用量总是全部计入，不足部分记为欠额",
        "Post-paid: ask with 0 hits before the work, then report what it used. All of it counts, as debt if need be";
    g: "优先级 G", "Priority G";
    g_hint: "0 至 1000，默认 1", "0 to 1000; 1 by default";
    u: "调整系数 U", "Adjustment U";
    per: "按…分别计数", "Count separately by";
    per_hint: "请求中的一个条目，如 provider", "An entry of the request, such as provider";
    bucket: "分桶", "Bucket";
    bucket_hint: "同一应用中分桶名相同的请求标识共用一个桶：速率和突发度须相同",
        "Classes of the app with the same name share one bucket: with the same rate and burst";
    trial_rate: "试运行速率", "Trial rate";
    trial_rate_hint: "与生效值同时计数，但从不拒绝；留空表示没有试运行",
        "Counts beside the rate in force and never denies; empty for no trial";
    trial_burst: "试运行突发度", "Trial burst";
    trial_burst_hint: "与试运行速率一起填写", "Together with the trial rate";
    old_nodes: "有节点的版本过旧", "Nodes are too old";
    old_nodes_text: "这些节点读不懂这次发布的规则。可以先升级节点，或照常发布并让它们保留现有版本。",
        "These nodes cannot read the rules of this publication. Upgrade them first, or publish and leave them at \
         the version that they have.";
    language_level: "所需规则语言级别", "Level of the rule language needed";
    leave_old_nodes: "照常发布，旧节点保留现有版本", "Publish, and leave them at their version";
    sharing: "共享方式", "Sharing";
    sharing_exact: "精确共享（每次访问存储）", "Exact (store asked for each request)";
    sharing_leased: "租约（批量领取令牌）", "Leased (tokens fetched in batches)";
    sharing_local: "各节点单独计数", "Local to each node";
    sharing_hint: "多节点共享存储时的计数方式", "Where tokens are counted when nodes share a store";
    failure: "存储故障时", "If the store fails";
    failure_allow: "放行", "Allow";
    failure_deny: "拒绝", "Deny";
    failure_local: "按节点份额计数", "Count this node's share";
    failure_hint: "存储不可用时的处理策略", "What to do while the store is unavailable";
    state: "状态", "State";
    state_hint: "试运行只计数，不拒绝", "Shadow counts and never denies";
    extras: "附加字段", "Extra fields";
    extras_hint: "JSON 对象，原样保存，可不填", "A JSON object, kept as entered; optional";
    terms: "接受接入条款", "I accept the terms of use";
    terms_hint: "规则提交后立即对全部节点生效", "The rule takes effect on all nodes at once";
    submit: "新增", "Create";
    save: "保存", "Save";
    cancel: "取消", "Cancel";
    help: "接入说明", "Guide";
    help_names: "应用标识使用大写字母和下划线，如 SIP_HOTEL；请求标识使用方法名，如 pushGeoHotelList。", "Name apps in capitals, such as SIP_HOTEL, and keys after the method, such as pushGeoHotelList.";
    help_unique: "应用标识与请求标识的组合全局唯一。", "An app and a key together name one rule.";
    help_numbers: "突发度和速率均为正整数。", "Burst and rate are positive whole numbers.";
    help_preset: "只知道 QPS 时，用 QPS 预设同时填写两项。", "If you only know the QPS, the preset fills in both.";
    help_burst: "自己的服务能承受突发流量时，可调高突发度。", "Raise the burst if your own service can absorb bursts.";
    help_third: "保护不接受突发的第三方，请用漏桶排队：即使突发度等于速率，令牌桶第一秒也会放行两倍。", "To protect a third party that takes no bursts, use a queue: even with burst = rate, a bucket passes twice the rate in its first second.";
    as_yaml: "节点收到的规则", "As nodes receive it";
    as_yaml_hint: "由上面的字段生成的规则文件片段。", "The part of the rule file that these fields make.";
    edit_rule: "限流规则", "Rate limit";
    delete_rule: "删除限流规则", "Delete rate limit";
    delete_question: "确定删除这条规则？删除后，这类请求不再受限。", "Delete this rule? Its requests are no longer limited afterwards.";
    delete_consequence: "在“版本”中回滚可以恢复。", "A rollback under Versions brings it back.";
    stale: "在您编辑期间，这条规则已被修改。下面是您填写的内容；再次保存将覆盖对方的修改。当前内容：", "The rule was changed while you edited it. Your input is below; saving again replaces the other change. It is now:";
    stale_delete: "这条规则刚被修改，请核对后再删除。", "The rule was changed meanwhile. Check it before you delete it.";
    address: "地址", "Address";
    node: "节点", "Node";
    software: "软件版本", "Software";
    last_seen: "最近上报", "Last report";
    node_live: "在线", "live";
    node_unresponsive: "失联", "unresponsive";
    node_lost: "离线", "lost";
    app_disabled: "应用已停用", "app disabled";
    app_disabled_text: "应用已停用，其规则在任何节点上都不生效", "the app is disabled, so none of its rules is in force on any node";
    no_nodes: "还没有节点连接", "No node is connected";
    no_nodes_text: "在另一台机器或终端上启动一个节点：", "Start a node on another machine or in another terminal:";
    live_none: "没有节点", "no nodes";
    actor: "操作人", "Actor";
    action: "操作", "Action";
    target: "对象", "Object";
    time: "时间", "Time";
    from: "来源", "From";
    change: "变更内容", "Change";
    chain_whole: "审计链完整", "Audit chain whole";
    chain_cut: "审计末尾缺失：已确认的条目", "The end of the audit is missing: acknowledged entries";
    chain_broken: "审计链在此处断裂：条目", "Audit chain broken at entry";
    no_entries: "没有记录", "No entries";
    version: "版本", "Version";
    kind: "类型", "Kind";
    kind_publish: "发布", "publish";
    kind_rollback: "回滚", "rollback";
    kind_withdraw: "撤回", "withdrawal";
    author: "作者", "Author";
    comment: "说明", "Comment";
    rollback: "回滚", "Roll back";
    rollback_question: "恢复到该版本的全部规则，并作为新版本发布到所有节点。", "Restores all rules of that version and publishes them to all nodes as a new version.";
    rollback_consequence: "版本号继续递增，历史不会改变。", "Version numbers continue to rise; the history stays.";
    reason: "原因", "Reason";
    current: "当前", "current";
    no_versions: "还没有版本", "No versions yet";
    no_versions_text: "每次修改规则都会产生一个新版本。", "Each change of a rule makes a new version.";
    no_apps: "还没有应用", "No apps yet";
    rules_count: "规则数", "Rules";
    roles: "角色", "Roles";
    last_login: "最近登录", "Last login";
    disable: "停用", "Disable";
    enable: "启用", "Enable";
    active: "正常", "active";
    disabled: "已停用", "disabled";
    new_user: "新增用户", "New user";
    role: "角色", "Role";
    role_app: "应用（* 表示全部）", "App (* for all)";
    role_viewer: "查看者", "Viewer";
    role_editor: "编辑者", "Editor";
    role_approver: "审批者", "Approver";
    role_admin: "管理员", "Administrator";
    request: "请求编号", "Request";
    back_to_list: "返回列表", "Back to the list";
    not_found: "页面不存在", "Page not found";
    not_found_text: "地址有误，或对象已被删除。", "The address is wrong, or the object was deleted.";
    no_right: "没有权限", "Not permitted";
    no_right_text: "此操作需要更高的角色，请联系管理员。", "This needs a higher role; ask an administrator.";
    failed: "操作失败", "Something failed";
    failed_text: "没有任何修改。请重试；如仍失败，请把请求编号告诉管理员。", "Nothing was changed. Try again; if it fails again, give the administrator the request number.";
    bad_request: "请求无效", "Invalid request";
    cross_site: "请求来自其他网站，已拒绝。", "The request came from another site and was rejected.";
}

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lang {
    Zh,
    En,
}

impl Lang {
    pub(crate) const fn texts(self) -> &'static Texts {
        Texts::of(self)
    }

    /// A fault of a field.
    pub(crate) fn fault(self, fault: &Fault) -> String {
        if self == Self::En {
            return capitalized(&fault.to_string());
        }
        match fault {
            Fault::Required => "必填".to_owned(),
            Fault::TooLong { max } => format!("最多 {max} 个字符"),
            Fault::TooShort { min } => format!("至少 {min} 个字符"),
            Fault::Characters { allowed: "text without control characters" } => "不能包含控制字符".to_owned(),
            Fault::Characters { allowed } => format!("只能使用这些字符：{allowed}"),
            Fault::Star => "不能包含 *：它表示通配".to_owned(),
            Fault::Whole { min, max } => format!("请输入 {min} 至 {max} 的整数"),
            Fault::Decimal => "请输入 0 至 1000 的数，最多六位小数".to_owned(),
            Fault::AboveBurst { max } => format!("不能大于桶突发度 {max}"),
            Fault::WholeDomain => "没有条目即为整个域，须以 whole_domain: true 说明".to_owned(),
            Fault::Duplicate => "已存在".to_owned(),
            Fault::Choice { .. } => "请选择列表中的一项".to_owned(),
            Fault::Entries { max } => format!("请输入 key=value 形式的条目，最多 {max} 个"),
            Fault::Cursor => "不是上一页给出的位置；如果存储服务器已更换，请从头开始".to_owned(),
            Fault::BucketDiffers { key, bucket, other, theirs } => format!(
                "{key} 与 {other} 共用分桶 {bucket}，后者为“{theirs}”；同一分桶的速率、突发度、分别计数和共享方式\
                 须相同：请在同一变更单中一起修改，或换一个分桶"
            ),
            Fault::SlowBucket => "按此速率，桶和可预消费令牌需 36 年以上才能填满：请减小其中之一".to_owned(),
            Fault::TrialHalf => "试运行需同时填写速率和突发度，或都不填".to_owned(),
            Fault::TrialTooSmall { min } => {
                format!("至少为 {min}：试运行沿用所需令牌数和可预消费令牌数，桶要装得下")
            }
            Fault::TrialInBucket => "共用分桶的规则不能单独试运行：请取消试运行，或移出分桶".to_owned(),
            Fault::LeasedOverdraft => "租约计数不能预消费：请设为 0 或更换共享方式".to_owned(),
            Fault::Json => "请输入 JSON 对象，最多 64 KiB".to_owned(),
            Fault::NotAccepted => "请先接受接入条款".to_owned(),
            Fault::Guessable => "太容易猜到：包含用户名或是常见密码".to_owned(),
            Fault::Differs => "两次输入的密码不一致".to_owned(),
            Fault::TooMany { max } => format!("最多 {max} 项"),
            Fault::NodeRights => "节点令牌只能接入，不能有权限".to_owned(),
            Fault::WrongPassword => "密码错误".to_owned(),
            Fault::Zone => "未知时区，请输入如 Asia/Shanghai 的名称".to_owned(),
            Fault::LastAdmin => "必须保留至少一位全局管理员".to_owned(),
            Fault::Steps => "每行填写一步，例如 1 node、10 %、zone in (a, b) 或 all".to_owned(),
            Fault::LastStep => "最后一步必须是 all，且只能出现在最后".to_owned(),
            Fault::Growing => "每一步覆盖的节点必须多于上一步".to_owned(),
        }
    }

    /// "Showing 1 to 4 of 4 entries".
    pub(crate) fn counts(self, first: i64, last: i64, matching: i64, total: i64) -> String {
        let entries = if matching == 1 { "entry" } else { "entries" };
        let first = grouped(first);
        let last = grouped(last);
        let all = grouped(matching);
        let of_more = matching != total;
        let total = grouped(total);
        match self {
            Self::Zh if of_more => format!("显示第 {first} 到 {last} 条，共 {all} 条（从 {total} 条中筛选）"),
            Self::Zh => format!("显示第 {first} 到 {last} 条，共 {all} 条"),
            Self::En if of_more => {
                format!("Showing {first} to {last} of {all} {entries} (filtered from {total})")
            }
            Self::En => format!("Showing {first} to {last} of {all} {entries}"),
        }
    }

    /// On how many known nodes something is in force. One that is not live may hold anything.
    pub(crate) fn live(self, InForce { have, live, offline }: InForce) -> String {
        let known = live + offline;
        match (self, offline) {
            _ if known == 0 => self.texts().live_none.to_owned(),
            (Self::Zh, 0) => format!("已在 {have}/{known} 节点生效"),
            (Self::Zh, _) => format!("已在 {have}/{known} 节点生效，{offline} 个不在线"),
            (Self::En, _) => {
                let nodes = if known == 1 { "node" } else { "nodes" };
                let rest = if offline == 0 { String::new() } else { format!(", {offline} offline") };
                format!("live on {have} of {known} {nodes}{rest}")
            }
        }
    }

    /// The version that was saved, and where it is in force.
    pub(crate) fn saved(self, app: &str, version: i64, live: &str) -> String {
        match self {
            Self::Zh => format!("{app} 版本 {version} 已发布 · {live}"),
            Self::En => format!("{app} version {version} is published · {live}"),
        }
    }

    /// The number of rules that a rollback changes, and whether each has a box.
    pub(crate) fn rules_change(self, count: usize, has_boxes: bool) -> String {
        match (self, count) {
            (Self::Zh, 0) => "没有差异".to_owned(),
            (Self::Zh, _) if has_boxes => format!("将改变 {count} 条规则，取消勾选的保持现状"),
            (Self::Zh, _) => format!("将改变 {count} 条规则"),
            (Self::En, 0) => "No rule changes".to_owned(),
            (Self::En, 1) => "1 rule changes".to_owned(),
            (Self::En, _) if has_boxes => {
                format!("{count} rules change; those without a tick stay as they are")
            }
            (Self::En, _) => format!("{count} rules change"),
        }
    }

    pub(crate) fn too_many(self, seconds: u64) -> String {
        match self {
            Self::Zh => format!("尝试次数过多，请在 {seconds} 秒后重试"),
            Self::En => format!("Too many attempts; try again in {seconds} s"),
        }
    }

    /// Who changed a rule when.
    pub(crate) fn changed(self, by: &str, at: &str) -> String {
        match self {
            Self::Zh => format!("{by} 于 {at} 修改"),
            Self::En => format!("Changed by {by} at {at}"),
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "−".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_as_people_write_them() {
        assert_eq!(Lang::Zh.counts(1, 4, 4, 4), "显示第 1 到 4 条，共 4 条");
        assert_eq!(Lang::En.counts(1, 4, 4, 4), "Showing 1 to 4 of 4 entries");
        assert_eq!(Lang::En.counts(1, 1, 1, 1), "Showing 1 to 1 of 1 entry");
        assert_eq!(
            Lang::En.counts(11, 20, 34, 1_234),
            "Showing 11 to 20 of 34 entries (filtered from 1,234)"
        );
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "−1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        for (have, live, offline, zh, en) in [
            (0, 0, 0, "没有节点", "no nodes"),
            (1, 1, 0, "已在 1/1 节点生效", "live on 1 of 1 node"),
            (2, 2, 1, "已在 2/3 节点生效，1 个不在线", "live on 2 of 3 nodes, 1 offline"),
            (0, 0, 2, "已在 0/2 节点生效，2 个不在线", "live on 0 of 2 nodes, 2 offline"),
        ] {
            let found = InForce { have, live, offline };
            assert_eq!((&*Lang::Zh.live(found), &*Lang::En.live(found)), (zh, en));
        }
    }
}
