//! Parameters, bodies and replies of each operation, for `/openapi.json`.

use serde_json::{Value, json};
use tollgate_http_kit::openapi::{Description, JSON, TEXT, parameter, schema, string};

use crate::bodies::{CheckRequest, ReserveRequest, SlotRequest};

const PROBLEM_JSON: &str = "application/problem+json";
const READS_BODY: &[u16] = &[400, 408, 413, 415, 503];
const RESERVES: &[u16] = &[400, 408, 413, 415, 429, 503];
const RELEASES: &[u16] = &[400, 404, 408, 413, 415, 503];
const FINDS_RESERVATION: &[u16] = &[400, 404, 408, 413, 415, 503];
/// An id cannot be written into a description beforehand.
const ID: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn check() -> Description {
    let example = json!(CheckRequest::of_user("ann"));
    Description::json(schema("CheckAnswer"))
        .takes(schema("CheckBody"), example)
        .with([status()])
        .fails(READS_BODY)
        .answers_any_4xx(PROBLEM_JSON, denial())
        .answers_any_4xx("*/*", json!({}))
}

pub(crate) fn check_by_query() -> Description {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let field = "KEY=NAME: an entry whose value is that of the request's header field NAME";
    let empty = json!({"type": "array", "items": {"type": "string", "maxLength": 0}});
    let next = "Begins the next descriptor; has no value";
    let hits = "Permits requested; 0 only reports the state";
    let consumed = "Permits that are used already, in place of `hits`; no limit denies them";
    Description::json(schema("CheckAnswer"))
        .with(descriptor())
        .with([
            parameter("entry_header", false, texts, Some(json!(["agent=user-agent"])), field),
            parameter("descriptor", false, empty, Some(json!([])), next),
            parameter("hits", false, json!({"type": "integer", "minimum": 0}), Some(json!(1)), hits),
            parameter("consumed", false, json!({"type": "integer", "minimum": 0}), None, consumed),
            status(),
        ])
        .fails(READS_BODY)
        .answers_any_4xx(PROBLEM_JSON, denial())
        .answers_any_4xx("*/*", json!({}))
}

pub(crate) fn reserve() -> Description {
    let example = json!(ReserveRequest::of_user("ann"));
    Description::json(schema("Reservation")).takes(schema("ReserveRequest"), example).fails(RESERVES)
}

pub(crate) fn commit() -> Description {
    let example = json!({"id": ID, "actual": 1});
    Description::json(schema("Settlement")).takes(schema("CommitRequest"), example).fails(FINDS_RESERVATION)
}

pub(crate) fn cancel() -> Description {
    let example = json!({"id": ID});
    Description::json(schema("Settlement")).takes(schema("CancelRequest"), example).fails(FINDS_RESERVATION)
}

pub(crate) fn acquire() -> Description {
    let example = json!(SlotRequest::of_export("orders"));
    Description::json(schema("Slot")).takes(schema("SlotRequest"), example).fails(READS_BODY)
}

pub(crate) fn release() -> Description {
    let example = json!(SlotRequest { id: Some(ID.to_owned()), ..SlotRequest::of_export("orders") });
    Description::json(schema("Release")).takes(schema("SlotRequest"), example).fails(RELEASES)
}

pub(crate) fn throttle() -> Description {
    let example = json!({"key": "ann", "limit": 10, "period_ms": 60_000, "burst": 5, "hits": 1});
    Description::json(schema("Throttled")).takes(schema("ThrottleRequest"), example).fails(READS_BODY)
}

pub(crate) fn explain() -> Description {
    Description::json(schema("Explained")).with(descriptor()).fails(&[400])
}

pub(crate) fn keys() -> Description {
    Description::json(schema("Counters")).with(descriptor()).fails(&[400, 404, 503])
}

pub(crate) fn rules() -> Description {
    Description::json(schema("Rules"))
}

pub(crate) fn usage() -> Description {
    Description::text("text/csv")
}

pub(crate) fn peer_json() -> Description {
    let example = json!({"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]});
    let answer = json!({"type": "object", "required": ["overallCode"]});
    let description = Description::json(answer.clone()).answers(429, JSON, answer);
    let with_errors = |all: Description, status| all.answers(status, TEXT, string());
    [400, 408, 413, 503].into_iter().fold(description, with_errors).takes(json!({"type": "object"}), example)
}

pub(crate) fn metrics() -> Description {
    Description::text(TEXT).answers(200, "application/openmetrics-text", string())
}

pub(crate) fn health() -> Description {
    Description::text(TEXT)
}

pub(crate) fn peer_health() -> Description {
    Description::text(TEXT).answers(500, TEXT, string())
}

pub(crate) fn ready() -> Description {
    Description::json(schema("Readiness")).answers(503, JSON, schema("Readiness"))
}

pub(crate) fn rule_dump() -> Description {
    Description::text(TEXT)
}

pub(crate) fn open_api() -> Description {
    Description::json(json!({"type": "object", "required": ["openapi", "paths"]}))
}

pub(crate) fn page() -> Description {
    Description::text("text/html")
}

/// The parameters that name a descriptor.
fn descriptor() -> [Value; 2] {
    let list = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let about = "An entry of the descriptor as KEY=VALUE, from the general to the specific; repeat as needed";
    [
        parameter("domain", true, string(), Some(json!("shop")), "The domain of the rules"),
        parameter("entry", true, list, Some(json!(["user=ann"])), about),
    ]
}

/// The body of a denial, where no rule states another.
fn denial() -> Value {
    json!({"type": "object", "required": ["type", "title", "status", "detail"]})
}

fn status() -> Value {
    let schema = json!({"type": "string", "pattern": "^(4[0-9][0-9]|rule)$"});
    let about = "Answer a denial with this status (400 to 499, or `rule` for that of the rule's `response`), and with \
                 the body of the rule's `response` or problem+json";
    // No example: without it a denial is 200.
    parameter("status", false, schema, None, about)
}
