//! The paths of pages that others link to.

use tollgate_control::RuleKind;

use crate::web::encoded;

/// Where the form of a rule is.
pub(super) fn rule_href(app: &str, key: &str) -> String {
    format!("/apps/{}/rules/{}", encoded(app), encoded(key))
}

/// Where the editor of a rule file is.
pub(super) fn file_href(app: &str, domain: &str) -> String {
    format!("/apps/{}/files/{}", encoded(app), encoded(domain))
}

/// Where a change set is shown.
pub(super) fn change_href(id: &str) -> String {
    format!("/changes/{}", encoded(id))
}

/// Where the rollout of an app is shown.
pub(super) fn rollout_href(app: &str) -> String {
    format!("/apps/{}/rollout", encoded(app))
}

/// Where the settings of an app are.
pub(super) fn settings_href(app: &str) -> String {
    format!("/apps/{}/settings", encoded(app))
}

/// Where a rule is edited.
pub(super) fn rule_or_file_href(app: &str, kind: RuleKind, key: &str) -> String {
    match kind {
        RuleKind::TableRule => rule_href(app, key),
        RuleKind::File => format!("/apps/{}/files/{}", encoded(app), encoded(key)),
    }
}
