//! The keys of a domain that the store of the nodes holds, page by page.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::ControlError;
use tollgate_control::keys::{Listed, Listing};
use tollgate_http_kit::Reply;

use super::keys::question_of;
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::overrides::Texts;
use crate::web::{Failure, Visit, query_of};

#[derive(Template)]
#[template(path = "key_list.html")]
struct KeyListPage {
    f: Frame,
    t: &'static Texts,
    /// Why there is no list.
    none: String,
    is_asked: bool,
    inputs: Vec<Field>,
    rows: Vec<KeyRow>,
    next: String,
}

struct KeyRow {
    name: String,
    counted: String,
    kept: &'static str,
    /// Empty where the entries do not follow from the key.
    look_up: String,
}

pub(super) async fn show(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = Texts::of(visit.lang);
    let question = question_of(visit.parameter("domain"), visit.parameter("entries"));
    let is_asked = !question.domain.is_empty();
    let mut none = String::new();
    let mut faults = Vec::new();
    let mut found = Listing::default();
    if is_asked {
        match console.control.scan_keys(&claim, &question, visit.parameter("cursor")).await {
            Ok(listing) if listing.live == 0 => t.no_nodes.clone_into(&mut none),
            Ok(listing) => found = listing,
            Err(ControlError::Invalid(wrong)) => faults = wrong,
            Err(error @ ControlError::Unanswered { .. }) => none = error.to_string(),
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(fault) = faults.iter().find(|it| it.field == "cursor") {
        none = visit.lang.fault(&fault.fault);
    }
    none.push_str(&found.none.unwrap_or_default());
    let entries = question.entries.join("\n");
    let inputs = [
        Field::text("domain", t.domain, t.domain_hint, &question.domain).required().mono(),
        Field::text("entries", t.entries, t.list_entries_hint, &entries).area(),
    ];
    let row = |it: Listed| row(t, &question.domain, it);
    let of_next = |cursor: &String| {
        query_of("/keys/scan", &[("domain", &question.domain), ("entries", &entries), ("cursor", cursor)])
    };
    let shown = KeyListPage {
        f: Frame::new(visit, "keys", t.list_keys),
        t,
        is_asked: is_asked && faults.is_empty() && none.is_empty(),
        none,
        inputs: inputs.into_iter().map(|it| it.faulted(visit.lang, &faults)).collect(),
        next: found.next.as_ref().map(of_next).unwrap_or_default(),
        rows: found.keys.into_iter().map(row).collect(),
    };
    page(if faults.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }, &shown)
}

fn row(t: &Texts, domain: &str, key: Listed) -> KeyRow {
    let kept = match &*key.kept {
        "leased" => t.kept_leased,
        "slots" => t.kept_slots,
        _ => t.kept_counter,
    };
    let mut name = key.key;
    let mut look_up = String::new();
    if let Some(entries) = key.entries {
        let lines: Vec<_> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        name = lines.join(" ");
        look_up = query_of("/keys", &[("domain", domain), ("entries", &lines.join("\n"))]);
    }
    KeyRow { name, counted: key.counted.unwrap_or_default(), kept, look_up }
}
