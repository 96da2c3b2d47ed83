//! The frame of every page: language, theme, navigation, the user; times and places as people read them.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::{InForce, NodeState, rules};
use tollgate_http_kit::{Reply, reply};

use crate::assets::VERSION;
use crate::console::Console;
use crate::nav::{self, Group};
use crate::texts::{Lang, Texts, access, nav as words};
use crate::web::{Failure, Visit};

/// The parts that all templates share.
pub(crate) struct Frame {
    pub(crate) t: &'static Texts,
    /// The texts of access.
    pub(crate) a: &'static access::Texts,
    /// Texts of the navigation.
    pub(crate) n: &'static words::Texts,
    pub(crate) menu: Vec<Group>,
    pub(crate) is_zh: bool,
    pub(crate) theme: &'static str,
    pub(crate) title: String,
    pub(crate) path: String,
    pub(crate) user: String,
    /// Keys of the keyboard do something.
    pub(crate) has_shortcuts: bool,
    pub(crate) may_create: bool,
    /// The disk has room for changes only.
    pub(crate) is_disk_low: bool,
    pub(crate) assets: &'static str,
}

impl Frame {
    pub(crate) fn new(visit: &Visit, nav: &'static str, title: impl Into<String>) -> Self {
        let who = visit.who.as_ref();
        Self {
            t: visit.lang.texts(),
            a: access::Texts::of(visit.lang),
            n: words::Texts::of(visit.lang),
            menu: nav::groups(visit, nav),
            is_zh: visit.lang == Lang::Zh,
            theme: visit.theme,
            title: title.into(),
            // A page that answers a post is not one to come back to.
            path: if visit.is_safe { visit.target.clone() } else { "/".to_owned() },
            user: who.map_or_else(String::new, |it| it.name.clone()),
            has_shortcuts: visit.has_shortcuts,
            is_disk_low: visit.is_disk_low && who.is_some(),
            may_create: who.is_some_and(rules::may_create),
            assets: &VERSION,
        }
    }
}

/// A page of this template.
pub(crate) fn page(status: StatusCode, template: &impl Template) -> Result<Reply, Failure> {
    let html = template.render().map_err(|error| Failure::Page(error.to_string()))?;
    Ok(reply::reply(status, reply::HTML, html))
}

/// The number of known nodes that satisfy `has`, as class and text.
pub(crate) fn live(
    lang: Lang,
    nodes: &[NodeState],
    now_ms: i64,
    has: impl Fn(&NodeState) -> bool,
) -> (&'static str, String) {
    shown_live(lang, InForce::of(nodes, now_ms, has))
}

/// The number of known nodes with all rules, as class and text.
pub(crate) fn all_live(console: &Console, lang: Lang, now_ms: i64) -> (&'static str, String) {
    let published = console.control.published().borrow().clone();
    shown_live(lang, console.control.nodes().in_force(&published, now_ms))
}

fn shown_live(lang: Lang, found: InForce) -> (&'static str, String) {
    let class = match found {
        InForce { live: 0, offline: 0, .. } => "none",
        _ if found.is_everywhere() => "ok",
        _ => "warn",
    };
    (class, lang.live(found))
}
