//! Texts of the navigation and of the keyboard's page.

texts! {
    open: "菜单", "Menu";
    overview: "概览", "Overview";
    limits: "限流管理", "Rate limits";
    list: "限流列表", "Limits";
    create: "限流新增", "New limit";
    files: "规则文件", "Rule files";
    changes: "变更", "Changes";
    open_changes: "未完成的变更", "open changes";
    rollouts: "分阶段发布", "Rollouts";
    versions: "版本", "Versions";
    traffic: "观察", "Traffic";
    keys: "键查询", "Key lookup";
    top: "被限流最多的键", "Top keys";
    overrides: "临时封禁", "Blocks";
    fleet: "节点管理", "Fleet";
    nodes: "节点", "Nodes";
    system: "系统", "System";
    users: "用户管理", "Users";
    tokens: "访问令牌", "Tokens";
    audit: "审计", "Audit";
    settings: "设置", "Settings";
    shortcuts: "键盘快捷键", "Keyboard shortcuts";
    shortcuts_about: "在输入框中打字时，快捷键不起作用。", "Shortcuts do nothing while you type in a field.";
    shortcuts_are_on: "快捷键已启用", "Shortcuts are on";
    shortcuts_are_off: "快捷键已关闭", "Shortcuts are off";
    turn_off: "关闭快捷键", "Turn them off";
    turn_on: "启用快捷键", "Turn them on";
    close: "关闭", "Close";
    everywhere: "所有页面", "On every page";
    go_to: "前往", "Go to";
    does_search: "聚焦搜索框", "Focus the search field";
    does_new: "新增限流规则", "Create a limit";
    does_rows: "下一行、上一行", "Next row, previous row";
    does_open: "打开选中的行", "Open the row";
    does_save: "保存编辑器中的草稿", "Save the draft in the editor";
    does_help: "显示本页", "Show this page";
    reconnecting: "无法连接控制面，正在重试。已输入的内容会保留。", "The control plane cannot be reached. Retrying; your input is kept.";
}
