//! Differences of rules as pages show them: by field, or by line of their YAML.

use serde_json::{Map, Value};
use tollgate_control::change_set::ChangeOp;
use tollgate_control::diff::{DiffLine, FieldDiff, by_field, by_line};
use tollgate_control::versions::RuleDiff;
use tollgate_control::{Content, RuleKind};

use super::hrefs::rule_or_file_href;
use super::parts::{Edit, Tab};
use crate::texts::changes::Texts;
use crate::texts::{self, Lang};
use crate::web::{Visit, query_of};

/// Rules that a page shows.
const MAX_SHOWN: usize = 100;

/// Equal lines around those that differ.
const AROUND: usize = 3;

/// The rules that differ, and how they are shown.
pub(super) struct Diffs {
    pub(super) c: &'static Texts,
    pub(super) rules: Vec<RuleView>,
    /// The number of rules that are not shown.
    pub(super) more: usize,
    pub(super) tabs: Vec<Tab>,
}

pub(super) struct RuleView {
    pub(super) key: String,
    pub(super) href: String,
    pub(super) kind: &'static str,
    pub(super) op: &'static str,
    pub(super) class: &'static str,
    pub(super) fields: Vec<Edit>,
    pub(super) unified: Vec<LineView>,
    pub(super) split: Vec<(LineView, LineView)>,
}

/// A line of YAML; `skip` equal ones instead, if that is not 0.
#[derive(Clone, Default)]
pub(super) struct LineView {
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) text: String,
    pub(super) skip: usize,
}

type Sides<'r> = (RuleKind, &'r str, Option<&'r Content>, Option<&'r Content>);

impl Diffs {
    pub(super) fn of_ops(visit: &Visit, app: &str, ops: &[ChangeOp], path: &str) -> Self {
        let sides = ops.iter().map(|it| (it.kind, &*it.key, it.before.as_ref(), it.after.as_ref()));
        Self::new(visit, app, sides.collect(), path)
    }

    pub(super) fn of_versions(visit: &Visit, app: &str, rules: &[RuleDiff], path: &str) -> Self {
        let sides = rules.iter().map(|it| (it.kind, &*it.key, it.before.as_ref(), it.after.as_ref()));
        Self::new(visit, app, sides.collect(), path)
    }

    fn new(visit: &Visit, app: &str, rules: Vec<Sides<'_>>, path: &str) -> Self {
        let c = Texts::of(visit.lang);
        let view = match visit.parameter("view") {
            known @ ("unified" | "split") => known,
            _ => "fields",
        };
        let tab = |name: &'static str, text| Tab {
            text,
            href: query_of(path, &[("view", name)]),
            is_here: name == view,
        };
        Self {
            c,
            more: rules.len().saturating_sub(MAX_SHOWN),
            rules: rules
                .into_iter()
                .take(MAX_SHOWN)
                .map(|it| RuleView::new(visit.lang, app, it, view))
                .collect(),
            tabs: vec![
                tab("fields", c.view_fields),
                tab("unified", c.view_unified),
                tab("split", c.view_split),
            ],
        }
    }
}

impl RuleView {
    fn new(lang: Lang, app: &str, (kind, key, before, after): Sides<'_>, view: &str) -> Self {
        let c = Texts::of(lang);
        let (op, class) = match (before, after) {
            (None, _) => (c.created, "tag ok"),
            (_, None) => (c.deleted, "tag bad"),
            _ => (c.updated_rule, "tag info"),
        };
        let mut rule = Self {
            key: key.to_owned(),
            href: rule_or_file_href(app, kind, key),
            kind: match kind {
                RuleKind::TableRule => lang.texts().edit_rule,
                RuleKind::File => crate::texts::files::Texts::of(lang).title,
            },
            op,
            class,
            fields: Vec::new(),
            unified: Vec::new(),
            split: Vec::new(),
        };
        // A file has lines, whatever is asked for.
        let view = if kind == RuleKind::File && view == "fields" { "unified" } else { view };
        if view == "fields" || kind == RuleKind::File {
            rule.fields = by_field(before, after)
                .into_iter()
                .filter(|it| kind == RuleKind::TableRule || it.field != "text")
                .map(|it| edited(lang, it))
                .collect();
        }
        if view != "fields" {
            let yaml = |side: Option<&Content>| side.map(Content::yaml).unwrap_or_default();
            let lines = shortened(by_line(&yaml(before), &yaml(after)));
            if view == "split" { rule.split = split(lines) } else { rule.unified = lines }
        }
        rule
    }
}

/// A field that differs, as pages name and write it.
pub(super) fn edited(lang: Lang, FieldDiff { field, before, after }: FieldDiff) -> Edit {
    let [before, after] = [before, after].map(|it| value(lang, &field, it.unwrap_or_default()));
    Edit { field: label(lang, &field), before, after }
}

/// The name of a field on pages.
pub(super) fn label(lang: Lang, field: &str) -> &'static str {
    let t: &texts::Texts = lang.texts();
    match field {
        "key" => t.key,
        "rate" => t.rate_long,
        "max_permits" => t.max_permits,
        "need_permits" => t.need_permits,
        "pre_permits" => t.pre_permits,
        "post_paid" => t.post_paid,
        "g" => t.g,
        "u" => t.u,
        "state" => t.state,
        "per" => t.per,
        "bucket" => t.bucket,
        "trial_rate" => t.trial_rate,
        "trial_max_permits" => t.trial_burst,
        "sharing" => t.sharing,
        "on_store_failure" => t.failure,
        "extras" => t.extras,
        "domain" => crate::texts::files::Texts::of(lang).domain,
        "text" => "YAML",
        _ => t.description,
    }
}

/// A value of a field as pages show it.
pub(super) fn value(lang: Lang, field: &str, value: String) -> String {
    let t: &texts::Texts = lang.texts();
    let known = match (field, &*value) {
        ("state", "on") => t.state_on,
        ("state", "shadow") => t.state_shadow,
        ("state", "off") => t.state_off,
        ("post_paid", "true") => t.paid_after,
        ("post_paid", "" | "false") => t.paid_ahead,
        ("sharing", "exact") => t.sharing_exact,
        ("sharing", "leased") => t.sharing_leased,
        ("sharing", "local") => t.sharing_local,
        ("on_store_failure", "allow") => t.failure_allow,
        ("on_store_failure", "deny") => t.failure_deny,
        ("on_store_failure", "local") => t.failure_local,
        _ => return value,
    };
    known.to_owned()
}

/// Lines as shown, with long equal parts left out.
fn shortened(lines: Vec<DiffLine>) -> Vec<LineView> {
    let differs: Vec<bool> = lines.iter().map(|it| it.before.is_none() || it.after.is_none()).collect();
    let is_near = |index: usize| {
        let range = index.saturating_sub(AROUND)..(index + AROUND + 1).min(differs.len());
        differs[range].iter().any(|it| *it)
    };
    let mut views: Vec<LineView> = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        if is_near(index) {
            views.push(LineView::new(line));
        } else if let Some(last) = views.last_mut().filter(|it| it.skip > 0) {
            last.skip += 1;
        } else {
            views.push(LineView { skip: 1, class: "skip", ..LineView::default() });
        }
    }
    views
}

impl LineView {
    fn new(DiffLine { before, after, text }: DiffLine) -> Self {
        let (class, sign) = match (before, after) {
            (Some(_), None) => ("del", "−"),
            (None, Some(_)) => ("add", "+"),
            _ => ("", ""),
        };
        let number = |side: Option<usize>| side.map(|it| it.to_string()).unwrap_or_default();
        Self { class, sign, before: number(before), after: number(after), text, skip: 0 }
    }
}

/// Removed lines beside those that were added in their place.
fn split(lines: Vec<LineView>) -> Vec<(LineView, LineView)> {
    let mut pairs: Vec<(LineView, LineView)> = Vec::new();
    let mut open = pairs.len();
    for line in lines {
        match line.class {
            "del" => pairs.push((line, LineView::default())),
            "add" => {
                match pairs[open..].iter_mut().find(|(old, new)| old.class == "del" && new.class.is_empty()) {
                    Some(pair) => pair.1 = line,
                    None => pairs.push((LineView::default(), line)),
                }
            }
            _ => {
                pairs.push((line.clone(), line));
                open = pairs.len();
            }
        }
    }
    pairs
}

/// The change of a rule: `rate 5 → 8`.
pub(super) fn one_line(
    lang: Lang,
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
) -> String {
    let c = texts::changes::Texts::of(lang);
    let numbers = |side: &Map<String, Value>| {
        let named = ["rate", "max_permits", "state"].iter().filter_map(|name| Some((name, side.get(*name)?)));
        named.map(|(name, value)| format!("{name} {}", shown(value))).collect::<Vec<_>>().join(" · ")
    };
    match (before, after) {
        (None, Some(new)) => format!("{} {}", c.created, numbers(new)),
        (Some(old), None) => format!("{} {}", c.deleted, numbers(old)),
        (Some(old), Some(new)) => {
            let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
            let differs = names.filter(|name| old.get(*name) != new.get(*name));
            let side =
                |side: &Map<String, Value>, name: &str| side.get(name).map_or_else(|| "–".to_owned(), shown);
            let one = |name: &String| format!("{name} {} → {}", side(old, name), side(new, name));
            differs.map(one).collect::<Vec<_>>().join(" · ")
        }
        (None, None) => String::new(),
    }
}

pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    tollgate_human_text::clip_to(&text, 100)
}
