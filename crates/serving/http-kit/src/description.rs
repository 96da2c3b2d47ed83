//! Parameters, bodies and replies of an operation, as its row in the table of operations describes them.

use serde_json::{Value, json};

pub const JSON: &str = "application/json";
pub const TEXT: &str = "text/plain";

/// Parameters, body and replies of an operation.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Made by [`parameter`].
    pub parameters: Vec<Value>,
    /// Its JSON body.
    pub body: Option<BodyDescription>,
    /// Its replies without an error.
    pub answers: Vec<AnswerDescription>,
    /// Answers of any status from 400 to 499 that are not errors, by content type.
    pub any_4xx: Vec<(&'static str, Value)>,
    /// Statuses that it answers with a problem, besides those of the admin token.
    pub errors: &'static [u16],
}

/// The JSON body that an operation takes.
#[derive(Clone, Debug)]
pub struct BodyDescription {
    pub schema: Value,
    /// A body that the operation answers.
    pub example: Value,
}

/// One answer of an operation.
#[derive(Clone, Debug)]
pub struct AnswerDescription {
    pub status: u16,
    /// Its content type.
    pub content_type: &'static str,
    /// Schema of its body.
    pub schema: Value,
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

    /// Also answers this with a status from 400 to 499 that the caller or the rules choose.
    #[must_use]
    pub fn answers_any_4xx(mut self, content_type: &'static str, schema: Value) -> Self {
        self.any_4xx.push((content_type, schema));
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

/// A parameter of the query. Parameters without an example are left out of example calls.
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
