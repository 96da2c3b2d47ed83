//! An OpenAPI description, made of the table of operations and of what each says of itself.
//!
//! Every parameter and body has an example, so that a test can call every operation by the description alone.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use crate::operations::{Access, Operation};

/// `application/json`.
pub const JSON: &str = "application/json";
/// `text/plain`.
pub const TEXT: &str = "text/plain";

/// What an operation takes and answers.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Made by [`parameter`].
    pub parameters: Vec<Value>,
    /// Its JSON body.
    pub body: Option<BodyDescription>,
    /// What it answers without an error.
    pub answers: Vec<AnswerDescription>,
    /// Statuses that it answers with a problem, besides those of the admin token.
    pub errors: &'static [u16],
}

/// The JSON body that an operation takes.
#[derive(Clone, Debug)]
pub struct BodyDescription {
    /// Its schema.
    pub schema: Value,
    /// A body that the operation answers.
    pub example: Value,
}

/// One answer of an operation.
#[derive(Clone, Debug)]
pub struct AnswerDescription {
    /// Its status.
    pub status: u16,
    /// Its content type.
    pub content_type: &'static str,
    /// What is in it.
    pub schema: Value,
}

/// What the description says of the surface as a whole.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of the API.
    pub title: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it is for.
    pub description: &'static str,
}

impl Description {
    /// Answers 200 with JSON of this schema.
    #[must_use]
    pub fn json(schema: Value) -> Self {
        Self::default().answers(200, JSON, schema)
    }

    /// Answers 200 with text.
    #[must_use]
    pub fn text(content_type: &'static str) -> Self {
        Self::default().answers(200, content_type, string())
    }

    /// Also answers this.
    #[must_use]
    pub fn answers(mut self, status: u16, content_type: &'static str, schema: Value) -> Self {
        self.answers.push(AnswerDescription { status, content_type, schema });
        self
    }

    /// Takes a JSON body.
    #[must_use]
    pub fn takes(mut self, schema: Value, example: Value) -> Self {
        self.body = Some(BodyDescription { schema, example });
        self
    }

    /// Takes these parameters.
    #[must_use]
    pub fn with(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// Answers problems of these statuses.
    #[must_use]
    pub fn fails(mut self, errors: &'static [u16]) -> Self {
        self.errors = errors;
        self
    }
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

/// A reference to the schema of this name.
#[must_use]
pub fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The schema of a text.
#[must_use]
pub fn string() -> Value {
    json!({"type": "string"})
}

/// A parameter of the query. One without an example is left out of example calls.
#[must_use]
pub fn parameter(name: &str, is_required: bool, schema: Value, example: Option<Value>, about: &str) -> Value {
    let mut parameter = json!({
        "name": name, "in": "query", "required": is_required, "schema": schema, "description": about,
    });
    if let Some(example) = example {
        parameter["example"] = example;
    }
    parameter
}

fn described<R>(operation: &Operation<R>) -> Value {
    let description = (operation.describe)();
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": responses(&description, operation.access),
    });
    if !description.parameters.is_empty() {
        described["parameters"] = description.parameters.into();
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
    let problem = json!({"application/problem+json": {"schema": schema("Problem")}});
    let admin: &[u16] = if access == Access::Admin { &[401, 403] } else { &[] };
    let errors = description.errors.iter().chain(admin).map(|status| (*status, problem.clone()));
    let answers = description.answers.iter().map(|answer| {
        let AnswerDescription { status, content_type, schema } = answer;
        (*status, json!({*content_type: {"schema": schema}}))
    });
    let response = |(status, content): (u16, Value)| {
        (status.to_string(), json!({"description": phrase(status), "content": content}))
    };
    errors.chain(answers).map(response).collect()
}

fn phrase(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or("Answer")
}
