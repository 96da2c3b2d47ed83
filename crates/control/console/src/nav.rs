//! The navigation: each screen that has a place in it, in groups.

use tollgate_control::{Role, Who, actor::EVERY_APP, rules};

use crate::texts::nav::Texts;
use crate::web::Visit;

/// A group of screens, under a title of its own.
pub(crate) struct Group {
    /// Empty for the first, which is the overview.
    pub(crate) title: &'static str,
    pub(crate) entries: Vec<NavItem>,
}

/// A screen, as an entry of the navigation.
pub(crate) struct NavItem {
    pub(crate) href: &'static str,
    pub(crate) text: &'static str,
    /// The letter after `g`.
    pub(crate) key: char,
    pub(crate) is_current: bool,
    /// The number of things that wait there; 0 is not shown.
    pub(crate) count: i64,
}

/// The right that an actor needs to be shown a screen.
#[derive(Clone, Copy)]
enum Need {
    Login,
    Creator,
    Admin,
}

impl Need {
    fn is_met(self, who: &Who) -> bool {
        match self {
            Self::Login => true,
            Self::Creator => rules::may_create(who),
            Self::Admin => who.may(Role::Admin, EVERY_APP),
        }
    }
}

/// A screen: its name on pages, its path, the letter after `g`, the right, the text.
type ScreenRow = (&'static str, &'static str, char, Need, TextOf);

type TextOf = fn(&Texts) -> &'static str;

/// Every screen with a place. Those without a route are left out.
const GROUPS: &[(TextOf, &[ScreenRow])] = &[
    (|_| "", &[("overview", "/", 'o', Need::Login, |t| t.overview)]),
    (
        |t| t.limits,
        &[
            ("rules", "/rules", 'l', Need::Login, |t| t.list),
            ("new", "/rules/new", 'e', Need::Creator, |t| t.create),
            ("files", "/files", 'f', Need::Login, |t| t.files),
            ("changes", "/changes", 'c', Need::Login, |t| t.changes),
            ("rollouts", "/rollouts", 'r', Need::Login, |t| t.rollouts),
            ("versions", "/versions", 'v', Need::Login, |t| t.versions),
        ],
    ),
    (
        |t| t.traffic,
        &[
            ("keys", "/keys", 'k', Need::Login, |t| t.keys),
            ("top", "/top", 'h', Need::Login, |t| t.top),
            ("overrides", "/overrides", 'b', Need::Login, |t| t.overrides),
        ],
    ),
    (|t| t.fleet, &[("nodes", "/nodes", 'n', Need::Login, |t| t.nodes)]),
    (
        |t| t.system,
        &[
            ("users", "/users", 'u', Need::Admin, |t| t.users),
            ("tokens", "/tokens", 't', Need::Login, |t| t.tokens),
            ("audit", "/audit", 'a', Need::Admin, |t| t.audit),
            ("settings", "/settings", 's', Need::Admin, |t| t.settings),
        ],
    ),
];

/// The screens of this visitor; `current` is the name of the one that is shown.
pub(crate) fn groups(visit: &Visit, current: &str) -> Vec<Group> {
    let Some(who) = &visit.who else { return Vec::new() };
    let t = Texts::of(visit.lang);
    let mut groups = Vec::new();
    for (title, rows) in GROUPS {
        let rows = rows.iter().filter(|row| visit.screens.contains(&row.1) && row.3.is_met(who));
        let entries: Vec<_> = rows
            .map(|(id, href, key, _, text)| NavItem {
                href,
                text: text(t),
                key: *key,
                is_current: *id == current,
                count: if *id == "changes" { visit.open_changes } else { 0 },
            })
            .collect();
        if !entries.is_empty() {
            groups.push(Group { title: title(t), entries });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_screen_has_a_letter_of_its_own() {
        let rows: Vec<_> = GROUPS.iter().flat_map(|it| it.1).collect();
        assert_eq!(rows.iter().map(|it| it.2).collect::<BTreeSet<_>>().len(), rows.len());
        assert_eq!(rows.iter().map(|it| it.0).collect::<BTreeSet<_>>().len(), rows.len());
    }
}
