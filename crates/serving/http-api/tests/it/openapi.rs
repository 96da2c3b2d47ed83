//! Every operation of `/openapi.json` is called by its description alone, and each answer is validated by its
//! schema.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use crate::common::{HttpClient, HttpReply, Server};
use serde_json::{Map, Value, json};

#[tokio::test]
async fn every_operation_of_the_description_answers_as_described() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let document = client.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut called = 0;
    let mut ids = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let reply = call(&mut client, path, method, operation).await;
            assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
            conforms(&document, operation, &reply, &format!("{method} {path}"));
            let body = operation.get("requestBody").map(|body| &body["content"]["application/json"]);
            if let Some(body) = body {
                fits(&document, &body["schema"], &body["example"], path)
                    .expect("the example fits its own schema");
            }
            ids.push(operation["operationId"].as_str().expect("an id").to_owned());
            called += 1;
        }
    }
    assert_eq!(called, 22);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), called, "no id is there twice");
}

#[tokio::test]
async fn the_description_that_is_committed_is_that_of_the_code() {
    let server = Server::plain().await;
    let made = format!("{:#}\n", server.client().await.get("/openapi.json").await.json());
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi/http.json");
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&file, &made).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/openapi/http.json is out of date: TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-http-api"
    );
}

#[tokio::test]
async fn errors_and_denials_answer_as_described_too() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let document = client.get("/openapi.json").await.json();
    for (method, path, target, body) in [
        ("post", "/v1/check", "/v1/check", "{"),
        ("get", "/v1/check", "/v1/check?domain=x", ""),
        ("post", "/v1/reserve", "/v1/reserve", "{}"),
        ("post", "/v1/throttle", "/v1/throttle", "{}"),
        ("post", "/v1/commit", "/v1/commit", r#"{"id":"00000000000000000000000000000000"}"#),
        ("post", "/v1/acquire", "/v1/acquire", r#"{"domain":"shop","descriptors":[[{"key":"user"}]]}"#),
        (
            "post",
            "/v1/release",
            "/v1/release",
            r#"{"domain":"shop","descriptors":[[{"key":"x"}]],"id":"00000000000000000000000000000000"}"#,
        ),
        ("get", "/v1/keys", "/v1/keys?domain=x&entry=a=b", ""),
        ("delete", "/v1/keys", "/v1/keys", ""),
        ("get", "/v1/explain", "/v1/explain", ""),
        ("post", "/json", "/json", "{"),
    ] {
        let reply = client.ask(&method.to_ascii_uppercase(), target, "", body).await;
        assert_ne!(reply.status, 200);
        conforms(&document, &document["paths"][path][method], &reply, &format!("{method} {target}"));
    }
    for body in [
        r#"{"domain":"shop","descriptors":[[{"key":"user"}]],"hits":3}"#,
        r#"{"requests":[{"domain":"shop","descriptors":[[{"key":"never"}]],"hits":9},{"domain":"x","descriptors":[[]]}]}"#,
        r#"{"domain":"shop","descriptors":[{"entries":[{"key":"shadowed"}],"hits":2},[{"key":"free"}]]}"#,
        r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user"}],"consumed":9},[{"key":"free"}]],"consumed":5}"#,
    ] {
        let reply = client.post("/v1/check", body).await;
        conforms(&document, &document["paths"]["/v1/check"]["post"], &reply, body);
        let schema = &document["components"]["schemas"]["CheckBody"];
        fits(&document, schema, &serde_json::from_str(body).unwrap(), body).expect("as it is described");
    }
    for (status, want, key) in [("429", 429, "never"), ("451", 451, "never"), ("rule", 402, "told")] {
        let body = format!(r#"{{"domain":"shop","descriptors":[[{{"key":"{key}"}}]],"hits":9}}"#);
        let reply = client.post(&format!("/v1/check?status={status}"), &body).await;
        assert_eq!(reply.status, want);
        let listed = &document["paths"]["/v1/check"]["post"]["responses"]["4XX"];
        assert!(listed["content"]["application/problem+json"].is_object(), "{listed}");
        denied_as_described(&document, &reply);
    }
    let explained = &document["paths"]["/v1/explain"]["get"];
    for query in ["domain=shop&entry=told=x", "domain=nowhere&entry=told=x", "domain=shop&entry=free=x"] {
        let reply = client.get(&format!("/v1/explain?{query}")).await;
        conforms(&document, explained, &reply, query);
    }
}

/// A denial is in the description as the answer of a status that it does not know in advance.
fn denied_as_described(document: &Value, reply: &HttpReply) {
    for method in ["post", "get"] {
        conforms(document, &document["paths"]["/v1/check"][method], reply, "a denial");
    }
}

/// Calls an operation with the examples of its description.
async fn call(client: &mut HttpClient, path: &str, method: &str, operation: &Value) -> HttpReply {
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().expect("a name");
        match parameter.get("example") {
            Some(Value::Array(items)) => {
                query.extend(items.iter().map(|item| format!("{name}={}", item.as_str().expect("a text"))));
            }
            Some(Value::String(text)) => query.push(format!("{name}={text}")),
            Some(other) => query.push(format!("{name}={other}")),
            None => assert_ne!(parameter["required"], true, "{name} of {path} has no example"),
        }
    }
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) };
    let Some(body) = operation.get("requestBody") else {
        return client.ask(&method.to_ascii_uppercase(), &target, "", "").await;
    };
    let mut body = body["content"]["application/json"]["example"].clone();
    assert!(body.is_object(), "{path} has no example");
    if body.get("id").is_some() {
        // An id cannot be written into a description beforehand.
        let reserve = json!({"domain": "shop", "descriptors": [[{"key": "tokens"}]]}).to_string();
        body["id"] = client.post("/v1/reserve", &reserve).await.json()["id"].clone();
    }
    client.post(&target, &body.to_string()).await
}

fn conforms(document: &Value, operation: &Value, reply: &HttpReply, told: &str) {
    let responses = &operation["responses"];
    let response = match &responses[reply.status.to_string()] {
        Value::Null if (400..500).contains(&reply.status) => &responses["4XX"],
        exact => exact,
    };
    let content = response["content"]
        .as_object()
        .unwrap_or_else(|| panic!("{told}: {} is not described", reply.status));
    let content_type = reply.header("content-type").expect("a content type");
    let essence = content_type.split(';').next().unwrap_or_default();
    if !content.contains_key(essence) && content.contains_key("*/*") {
        return; // a body of a rule's own
    }
    let described =
        content.get(essence).unwrap_or_else(|| panic!("{told}: {essence} is not among {content:?}"));
    let value = if essence.ends_with("json") { reply.json() } else { json!(reply.text()) };
    fits(document, &described["schema"], &value, told).unwrap_or_else(|fault| panic!("{fault}\n{value:#}"));
}

/// Whether `value` is as `schema` says: as much of JSON Schema as the description uses, and no member that it
/// does not name.
fn fits(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let pointer = reference.strip_prefix('#').expect("a reference within");
            document.pointer(pointer).ok_or_else(|| format!("{at}: nothing at {reference}"))?
        }
        None => schema,
    };
    // Exactly one of the choices must fit, for `anyOf` too.
    for kind in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(kind).and_then(Value::as_array) {
            let fitting: Vec<_> = choices.iter().map(|choice| fits(document, choice, value, at)).collect();
            let count = fitting.iter().filter(|it| it.is_ok()).count();
            return if count == 1 {
                Ok(())
            } else {
                Err(format!("{at}: {count} of {kind} fit: {fitting:?}"))
            };
        }
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return Err(format!("{at}: {value} is none of {allowed:?}"));
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => return Err(format!("{at}: a schema without a type: {schema}")),
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&is) {
        return Err(format!("{at}: {value} is {is}, not {types:?}"));
    }
    match value {
        Value::Array(items) => {
            let fewest = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            if (items.len() as u64) < fewest {
                return Err(format!("{at}: fewer than {fewest} items"));
            }
            let each = schema.get("items").filter(|items| items.is_object());
            for (index, item) in items.iter().enumerate() {
                if let Some(each) = each {
                    fits(document, each, item, &format!("{at}[{index}]"))?;
                }
            }
        }
        Value::Object(members) => return members_fit(document, schema, members, at),
        _ => {}
    }
    Ok(())
}

fn members_fit(
    document: &Value,
    schema: &Value,
    members: &Map<String, Value>,
    at: &str,
) -> Result<(), String> {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().expect("a name");
        if !members.contains_key(name) {
            return Err(format!("{at}: `{name}` is missing"));
        }
    }
    let Some(properties) = schema.get("properties") else { return Ok(()) };
    for (name, value) in members {
        let property = properties.get(name).ok_or_else(|| format!("{at}: `{name}` is not described"))?;
        fits(document, property, value, &format!("{at}.{name}"))?;
    }
    Ok(())
}
