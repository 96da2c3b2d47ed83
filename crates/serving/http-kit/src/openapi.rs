//! Makes an OpenAPI description from the table of operations and their own descriptions.
//!
//! Every parameter and body has an example, so that a test can call every operation by the description alone.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

pub use crate::description::{
    AnswerDescription, BodyDescription, Description, JSON, TEXT, parameter, schema, string,
};
use crate::operations::{Access, Operation};

/// The content type of errors.
const PROBLEM: &str = "application/problem+json";

/// Title, version and description of the surface as a whole.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of the API.
    pub title: &'static str,
    pub version: &'static str,
    /// Purpose of the API.
    pub description: &'static str,
}

/// The description of `operations` as JSON. `schemas` are those that [`schema`] refers to, by name.
#[must_use]
pub fn document<R>(about: About, operations: &[Operation<R>], schemas: &BTreeMap<String, Value>) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations {
        let method = operation.method.as_str().to_ascii_lowercase();
        paths.entry(operation.path).or_default().insert(method, described(operation));
    }
    let token = json!({"type": "http", "scheme": "bearer", "description": "The admin token"});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": about.version,
            "description": about.description,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"admin": token}},
    })
}

fn described<R>(operation: &Operation<R>) -> Value {
    let description = (operation.describe)();
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": responses(&description, operation.access),
    });
    let in_path = operation.path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        in_path.map(|name| json!({"name": name, "in": "path", "required": true, "schema": string()}));
    let parameters: Vec<Value> = in_path.chain(description.parameters).collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(BodyDescription { schema, example }) = description.body {
        let content = json!({JSON: {"schema": schema, "example": example}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    if operation.access == Access::Admin {
        described["security"] = json!([{"admin": []}]);
    }
    described
}

fn responses(description: &Description, access: Access) -> Map<String, Value> {
    let admin: &[u16] = if access == Access::Admin { &[400, 401, 403, 429] } else { &[] };
    let errors = description.errors.iter().chain(admin).map(|status| (*status, PROBLEM, schema("Problem")));
    let answers = description.answers.iter().map(|answer| {
        let AnswerDescription { status, content_type, schema } = answer;
        (*status, *content_type, schema.clone())
    });
    let mut responses = Map::new();
    for (status, content_type, schema) in errors.chain(answers) {
        let response = responses.entry(status.to_string());
        let response = response.or_insert_with(|| json!({"description": phrase(status), "content": {}}));
        response["content"][content_type] = json!({"schema": schema});
    }
    for (content_type, schema) in &description.any_4xx {
        let response = responses.entry("4XX");
        let response =
            response.or_insert_with(|| json!({"description": "Denied, as `status` asks", "content": {}}));
        response["content"][*content_type] = json!({"schema": schema});
    }
    responses
}

fn phrase(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or("Answer")
}
