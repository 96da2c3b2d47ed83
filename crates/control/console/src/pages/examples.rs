//! Examples: common limits, each of which opens a form that is filled in.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::fields::app_name;
use tollgate_control::table_rule::TableRuleInput;
use tollgate_http_kit::Reply;

use crate::frame::{Frame, page};
use crate::texts::examples::Texts;
use crate::web::{Failure, Visit, query_of};

#[derive(Template)]
#[template(path = "examples.html")]
struct ExamplesPage {
    f: Frame,
    e: &'static Texts,
    examples: Vec<Example>,
}

struct Example {
    title: &'static str,
    text: &'static str,
    /// The input, as people see it.
    shown: Vec<String>,
    href: String,
    button: &'static str,
}

type TextOf = fn(&Texts) -> &'static str;

/// Names and values of fields.
type Fields = &'static [(&'static str, &'static str)];

/// Title, text, and the fields of the form.
const FORMS: &[(TextOf, TextOf, Fields)] = &[
    (|e| e.qps, |e| e.qps_text, &[("max_permits", "100"), ("rate", "100")]),
    (|e| e.burst, |e| e.burst_text, &[("max_permits", "200"), ("rate", "20")]),
    (
        |e| e.supplier,
        |e| e.supplier_text,
        &[("key", "pushGeoHotelList"), ("max_permits", "40"), ("rate", "20"), ("per", "provider")],
    ),
    (|e| e.advance, |e| e.advance_text, &[("max_permits", "100"), ("rate", "10"), ("pre_permits", "50")]),
];

/// Name in URLs, title, text, and the rule file.
const FILES: &[(&str, TextOf, TextOf, &str)] = &[
    (
        "day",
        |e| e.day,
        |e| e.day_text,
        "domain: per-user\ndescriptors:\n  - key: user\n    limits:\n      \
         - {name: short, unit: second, requests_per_unit: 10}\n      \
         - {name: daily, unit: day, requests_per_unit: 1000, time_zone: Asia/Shanghai}\n",
    ),
    (
        "queue",
        |e| e.queue,
        |e| e.queue_text,
        "domain: partner\ndescriptors:\n  - key: call\n    rate_limit:\n      algorithm: leaky_bucket\n      \
         form: queue\n      unit: second\n      requests_per_unit: 20\n      capacity: 40\n",
    ),
    (
        "reply",
        |e| e.reply,
        |e| e.reply_text,
        "domain: circuit\nresponse:\n  status: 429\n  content_type: application/json; charset=utf-8\n  body: |-\n    \
         {\n        \"result\": \"FAILURE\",\n        \"errorMessage\": {\n            \"code\": 2000,\n            \
         \"desc\": \"请求过于频繁, 请稍后重试\"\n        }\n    }\n\
         descriptors:\n  - key: app\n    rate_limit:\n      unit: second\n      requests_per_unit: 100\n",
    ),
    (
        "tokens",
        |e| e.tokens,
        |e| e.tokens_text,
        "domain: language-model\ndescriptors:\n  - key: team\n    rate_limit:\n      \
         algorithm: token_bucket\n      unit: minute\n      requests_per_unit: 100000\n      \
         burst: 200000\n      post_paid: true\n",
    ),
];

/// The rule file of the example of this name.
pub(super) fn file(name: &str) -> Option<&'static str> {
    FILES.iter().find(|it| it.0 == name).map(|it| it.3)
}

/// The example of a queue with the app, the key and the numbers of a form; `None` unless all are valid.
pub(super) fn queue_of(visit: &Visit) -> Option<String> {
    if visit.parameter("example") != "queue" {
        return None;
    }
    let app = app_name(visit.parameter("app")).ok()?;
    let field = |name| visit.parameter(name).to_owned();
    let key = field("key");
    let rate = field("rate");
    let max_permits = field("max_permits");
    let table_rule = TableRuleInput { key, rate, max_permits, ..TableRuleInput::default() }.check().ok()?;
    let key = table_rule.key;
    let rate = table_rule.rate;
    let burst = table_rule.max_permits;
    // The domain of the app's name is that of its limits by form.
    Some(format!(
        "domain: \"{app}-queue\"\ndescriptors:\n  - key: key\n    value: \"{key}\"\n    rate_limit:\n      \
         algorithm: leaky_bucket\n      form: queue\n      unit: second\n      requests_per_unit: {rate}\n      \
         capacity: {burst}\n"
    ))
}

pub(super) fn list(visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let e = Texts::of(visit.lang);
    let forms = FORMS.iter().map(|(title, text, fields)| Example {
        title: title(e),
        text: text(e),
        shown: fields.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        href: query_of("/rules/new", fields),
        button: e.open_form,
    });
    let files = FILES.iter().map(|(name, title, text, yaml)| Example {
        title: title(e),
        text: text(e),
        shown: yaml.lines().skip(2).map(|it| it.strip_prefix("  ").unwrap_or(it).to_owned()).collect(),
        href: query_of("/files/new", &[("example", name)]),
        button: e.open_file,
    });
    let examples = forms.chain(files).collect();
    page(StatusCode::OK, &ExamplesPage { f: Frame::new(visit, "new", e.title), e, examples })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_control::file_rules::FileInput;

    #[test]
    fn every_example_is_valid() {
        for (.., fields) in FORMS {
            let of = |name| fields.iter().find(|it| it.0 == name).map_or("", |it| it.1).to_owned();
            let input = TableRuleInput {
                key: "key".to_owned(),
                max_permits: of("max_permits"),
                rate: of("rate"),
                pre_permits: of("pre_permits"),
                per: of("per"),
                ..TableRuleInput::default()
            };
            input.check().expect("a valid rule");
        }
        for (name, .., yaml) in FILES {
            let input = FileInput { text: (*yaml).to_owned(), ..FileInput::default() };
            assert!(input.check().is_ok(), "{name}: {:?}", input.check());
            assert_eq!(file(name), Some(*yaml));
        }
        assert_eq!(file("unknown"), None);
    }
}
