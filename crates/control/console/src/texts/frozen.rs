//! Texts about frozen apps.

texts! {
    title: "应用已冻结", "The app is frozen";
    about: "数据库是从旧副本恢复的：节点持有的版本比数据库中的新。在管理员决定以哪一方为准之前，这个应用不接受任何修改，节点继续使用现有规则。", "The database was restored from an old copy: nodes hold a newer version than it has. Until an admin decides, the app takes no change, and nodes keep their rules.";
    held: "节点持有的版本", "Version on the nodes";
    version: "数据库中的版本", "Version in the database";
    take_over: "采用节点的规则", "Take over from a node";
    take_over_text: "规则改为所选节点持有的内容，作为新版本发布。节点不保存的内容，例如描述，保持数据库中的值；该节点没有的规则会停用。", "The rules become what the node holds, as a new version. What nodes do not have, such as descriptions, stays as in the database; rules that the node does not have are switched off.";
    force: "采用数据库的规则", "Force what the database has";
    force_text: "数据库中的内容作为新版本发布，节点持有的修改将丢失。", "What the database has is published as a new version. The changes that only nodes hold are lost.";
}
