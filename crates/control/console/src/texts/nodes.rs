//! Texts of the screens of nodes.

texts! {
    labels: "标签", "Labels";
    apps: "应用", "Apps";
    store: "存储", "Store";
    store_down: "不可用", "unavailable";
    no_store: "本节点内存", "own memory";
    in_force: "生效版本", "In force";
    wanted: "目标版本", "Wanted";
    up_to_date: "已生效", "in force";
    behind: "落后", "behind";
    rejected: "被拒绝", "rejected";
    ahead: "比数据库新，已冻结", "newer than the database; frozen";
    why: "原因", "Why";
    skew: "时钟偏差", "Clock skew";
    table: "计数器内存", "Memory of counters";
    language: "规则语言级别", "Level of the rule language";
    own_domains: "本地规则文件的域", "Domains of its own files";
    stream: "连接", "Stream";
    connected: "已连接", "connected";
    away: "未连接", "not connected";
    id: "节点标识", "Id";
    standing: "身份", "Identity";
    proven: "已验证，有自己的密钥", "verified, with a secret of its own";
    unbound: "已验证，没有自己的密钥", "verified, without a secret of its own";
    is_new: "新节点：尚未应用规则并上报，或声称持有从未发布的版本；不参与多数判断", "new: it has yet to apply rules and report, or claims a version that was never published; it counts for no majority";
    state_error: "无法保存规则", "It cannot save its rules";
    rules_error: "本地规则文件有错误", "Its own rule files are faulty";
    no_apps: "节点还没有收到任何应用", "The node has no app yet";
    no_apps_text: "发布第一条规则后，节点会在一秒内收到。", "It gets the first rule within a second of its publication.";
    add: "添加节点", "Add a node";
    add_text: "在新机器上运行，节点令牌文件在控制面的数据目录中：", "Run this on the new machine. The token is in the data folder of the control plane:";
    unknown: "未知", "unknown";
    remove: "移除", "Remove";
    remove_text: "节点已不存在时移除它。它重新连接后会再次出现。仍在运行但连不上的节点会继续按它持有的规则判定。", "Remove a node that is gone. It appears again if it connects. A node that runs and cannot reach this address still decides by the rules that it holds.";
    copy: "复制", "Copy";
    copied: "已复制", "Copied";
}
