//! Texts of rule files.

texts! {
    title: "规则文件", "Rule files";
    about: "任意算法的规则，用 YAML 编写；每个文件是一个独立的域。", "Rules of any algorithm, in YAML; each file is a domain of its own.";
    new: "新增规则文件", "New rule file";
    empty: "还没有规则文件", "No rule files yet";
    empty_text: "限流列表中的表单覆盖令牌桶；其他算法和条件写在规则文件里。", "The form covers token buckets; other algorithms and conditions go into a rule file.";
    domain: "域", "Domain";
    lines: "行数", "Lines";
    text: "YAML", "YAML";
    faults: "文件有错误", "The file is faulty";
    is_valid: "节点可以读取这个文件。", "Nodes can read this file.";
    check: "检查", "Check";
    save: "保存", "Save";
    delete: "删除文件", "Delete the file";
    sample: "示例请求", "Sample request";
    sample_hint: "每行一个 key=value，按顺序", "One key=value on each line, in order";
    sample_fault: "请按 key=value 填写，每行一个", "Expected key=value, one on each line";
    explained: "命中的规则", "What applies to it";
    preview: "节点收到的文档", "Documents that nodes get";
    stale: "文件已被他人修改。再次保存将覆盖对方的修改。", "The file was changed meanwhile. Saving again replaces the other change.";
    checked: "检查", "Check";
    template: "domain: my-domain\ndescriptors:\n  - key: user\n    rate_limit:\n      algorithm: token_bucket\n      unit: second\n      requests_per_unit: 10\n", "domain: my-domain\ndescriptors:\n  - key: user\n    rate_limit:\n      algorithm: token_bucket\n      unit: second\n      requests_per_unit: 10\n";
}
