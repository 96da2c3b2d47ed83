//! The description of the API: it is the file that is committed, and whole in itself.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tollgate_api::document;

#[test]
fn the_description_that_is_committed_is_that_of_the_code() {
    let made = format!("{:#}\n", document());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi/control.json");
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&file, &made).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/openapi/control.json is out of date: TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-api"
    );
}

fn visit(value: &Value, look: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            look(members);
            members.values().for_each(|it| visit(it, look));
        }
        Value::Array(items) => items.iter().for_each(|it| visit(it, look)),
        _ => {}
    }
}

#[test]
fn every_schema_that_is_referred_to_is_there_and_every_one_that_is_there_is_referred_to() {
    let document = document();
    let mut named = BTreeSet::new();
    visit(&document, &mut |members| {
        if let Some(Value::String(reference)) = members.get("$ref") {
            named.insert(reference.trim_start_matches("#/components/schemas/").to_owned());
        }
    });
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let there: BTreeSet<String> = schemas.keys().cloned().collect();
    assert_eq!(named, there);
}

#[test]
fn no_body_and_no_reply_is_described_as_any_object() {
    let document = document();
    visit(&document["paths"], &mut |members| {
        if let Some(schema) = members.get("schema").filter(|it| it["type"] == "object") {
            panic!("a schema without a name: {schema}");
        }
    });
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        let is_closed = schema.get("additionalProperties").is_some();
        let is_of_others = ["oneOf", "allOf"].iter().any(|it| schema.get(it).is_some());
        assert!(is_closed || is_of_others, "{name} has any members");
    }
}
