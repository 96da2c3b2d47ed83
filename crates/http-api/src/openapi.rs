//! `/openapi.json`: made once, of the table of operations and of the types that are served.
//!
//! Every parameter and body has an example, so that a test can call every operation by this description alone.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::answer::Problem;
use crate::bodies::{
    CancelRequest, CheckAnswer, CheckBody, CommitRequest, Counters, Explained, Readiness, Reservation,
    ReserveRequest, Rules, Settlement,
};
use crate::operations::{Access, OPERATIONS, Operation, Route};

static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

const ABOUT: &str = "May this request pass now, later, or not at all? Times are in milliseconds and whole seconds, \
                     rounded up. Errors are application/problem+json and say what is wrong, where, and what to do.";

/// The description as JSON.
pub(crate) fn document() -> Bytes {
    DOCUMENT.get_or_init(|| made().to_string().into()).clone()
}

fn made() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in OPERATIONS {
        let method = operation.method.as_str().to_ascii_lowercase();
        paths.entry(operation.path).or_default().insert(method, described(operation));
    }
    let token = json!({"type": "http", "scheme": "bearer", "description": "The admin token"});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas(), "securitySchemes": {"admin": token}},
    })
}

fn schemas() -> BTreeMap<String, Value> {
    let mut all = Vec::new();
    macro_rules! add {
        ($($shape:ty),* $(,)?) => {$(
            all.push((<$shape>::name().into_owned(), <$shape as utoipa::PartialSchema>::schema()));
            <$shape>::schemas(&mut all);
        )*};
    }
    add!(CheckBody, CheckAnswer, ReserveRequest, Reservation, CommitRequest, CancelRequest, Settlement);
    add!(Explained, Counters, Rules, Readiness, Problem<'_>);
    // Shapes of texts and numbers cannot fail.
    all.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default())).collect()
}

fn described(operation: &Operation) -> Value {
    let about = About::of(operation);
    let mut told = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": about.responses(operation.access),
    });
    if !about.parameters.is_empty() {
        told["parameters"] = about.parameters.into();
    }
    if let Some((schema, example)) = about.body {
        told["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema, "example": example}}});
    }
    if operation.access == Access::Admin {
        told["security"] = json!([{"admin": []}]);
    }
    told
}

/// What an operation takes and gives.
struct About {
    parameters: Vec<Value>,
    /// Schema and example.
    body: Option<(Value, Value)>,
    /// Status, type and schema of what is no error.
    answers: Vec<(u16, &'static str, Value)>,
    /// Statuses of errors.
    errors: &'static [u16],
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

fn shape(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn parameter(name: &str, required: bool, schema: Value, example: Value, description: &str) -> Value {
    json!({
        "name": name, "in": "query", "required": required, "schema": schema, "example": example,
        "description": description,
    })
}

fn entries() -> Vec<Value> {
    let list = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let about = "An entry of the descriptor, from the general to the special; as often as needed";
    vec![
        parameter("domain", true, string(), json!("shop"), "Whose rules"),
        parameter("entry", true, list, json!(["user=ann"]), about),
    ]
}

fn status() -> Value {
    let schema = json!({"type": "string", "pattern": "^(4[0-9][0-9]|rule)$"});
    let about = "Answer a denial with this status (400 to 499, or `rule` for that of the rule's `response`), and with \
                 the body of the rule's `response` or problem+json";
    let mut parameter = parameter("status", false, schema, Value::Null, about);
    if let Some(parameter) = parameter.as_object_mut() {
        parameter.remove("example"); // without it a denial is 200
    }
    parameter
}

impl About {
    fn of(operation: &Operation) -> Self {
        let one = json!({"domain": "shop", "descriptors": [[{"key": "user", "value": "ann"}]], "hits": 1});
        let id = "0123456789abcdef0123456789abcdef";
        let (mut parameters, mut body) = (Vec::new(), None);
        let errors: &[u16] = match operation.route {
            Route::Check | Route::Reserve => &[400, 408, 413, 415, 503],
            Route::Commit | Route::Cancel => &[400, 404, 408, 413, 415, 503],
            Route::Explain => &[400],
            Route::Keys => &[400, 404, 503],
            _ => &[],
        };
        let answers = match operation.route {
            Route::Check => {
                if operation.method == hyper::Method::POST {
                    body = Some((shape("CheckBody"), one));
                } else {
                    let list = json!({"type": "array", "items": {"type": "string"}});
                    parameters = entries();
                    let about = "KEY=NAME: an entry whose value is that of the request's header field NAME";
                    parameters.push(parameter(
                        "entry_header",
                        false,
                        list,
                        json!(["agent=user-agent"]),
                        about,
                    ));
                    let about = "Begins the next descriptor; has no value";
                    let schema = json!({"type": "array", "items": {"type": "string", "maxLength": 0}});
                    parameters.push(parameter("descriptor", false, schema, json!([]), about));
                    let schema = json!({"type": "integer", "minimum": 0});
                    parameters.push(parameter("hits", false, schema, json!(1), "Permits asked for; 0 looks"));
                }
                parameters.push(status());
                vec![(200, JSON, shape("CheckAnswer"))]
            }
            Route::Reserve => {
                let mut reserve = one;
                reserve["ttl_ms"] = json!(1_000);
                body = Some((shape("ReserveRequest"), reserve));
                vec![(200, JSON, shape("Reservation"))]
            }
            Route::Commit => {
                body = Some((shape("CommitRequest"), json!({"id": id, "actual": 1})));
                vec![(200, JSON, shape("Settlement"))]
            }
            Route::Cancel => {
                body = Some((shape("CancelRequest"), json!({"id": id})));
                vec![(200, JSON, shape("Settlement"))]
            }
            Route::Explain => {
                parameters = entries();
                vec![(200, JSON, shape("Explained"))]
            }
            Route::Keys => {
                parameters = entries();
                vec![(200, JSON, shape("Counters"))]
            }
            Route::Rules => vec![(200, JSON, shape("Rules"))],
            Route::PeerJson => {
                let one = json!({"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]});
                body = Some((json!({"type": "object"}), one));
                let object = json!({"type": "object", "required": ["overallCode"]});
                let mut answers: Vec<_> = [200, 429].map(|status| (status, JSON, object.clone())).into();
                answers.extend([400, 408, 413, 503].map(|status| (status, TEXT, string())));
                answers
            }
            Route::Metrics => vec![(200, "application/openmetrics-text", string())],
            Route::Health => vec![(200, TEXT, string())],
            Route::PeerHealth => vec![(200, TEXT, string()), (500, TEXT, string())],
            Route::Ready => vec![(200, JSON, shape("Readiness")), (503, JSON, shape("Readiness"))],
            Route::RuleDump => vec![(200, TEXT, string())],
            Route::OpenApi => vec![(200, JSON, json!({"type": "object", "required": ["openapi", "paths"]}))],
            Route::Page => vec![(200, "text/html", string())],
        };
        Self { parameters, body, answers, errors }
    }

    fn responses(&self, access: Access) -> Map<String, Value> {
        let mut responses = Map::new();
        let problem = json!({"application/problem+json": {"schema": shape("Problem")}});
        let admin: &[u16] = if access == Access::Admin { &[401, 403] } else { &[] };
        for status in self.errors.iter().chain(admin) {
            let told = json!({"description": phrase(*status), "content": problem});
            responses.insert(status.to_string(), told);
        }
        for (status, content_type, schema) in &self.answers {
            let told =
                json!({"description": phrase(*status), "content": {*content_type: {"schema": schema}}});
            responses.insert(status.to_string(), told);
        }
        responses
    }
}

fn phrase(status: u16) -> &'static str {
    let status = hyper::StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or("Answer")
}
