//! The case file of the service: requests and expected replies.
//!
//! The file's own `format` member explains its fields. Not here: running it against a server (`rls_cases`).

use std::collections::BTreeMap;

use prost_types::value::Kind;
use serde_json::Value;

use crate::calendar;
use crate::rls::{Descriptor, Entry, Override, RateLimitRequest, RateLimitResponse};

/// File names and texts of one set of rules.
pub(crate) type Files = BTreeMap<String, String>;

/// All cases of one file.
pub(crate) struct CaseFile {
    json: Value,
}

impl CaseFile {
    /// Reads a case file.
    pub(crate) fn parse(text: &str) -> Self {
        CaseFile { json: serde_json::from_str(text).expect("a case file is JSON") }
    }

    /// Adds the configurations and cases of another file.
    pub(crate) fn append(&mut self, other: Self) {
        for (name, config) in other.json["configs"].as_object().cloned().unwrap_or_default() {
            let taken = self.json["configs"][&name].take();
            assert!(taken.is_null(), "both files have a configuration {name:?}");
            self.json["configs"][name] = config;
        }
        for list in ["cases", "reject_cases"] {
            let more = other.json[list].as_array().cloned().unwrap_or_default();
            self.json[list].as_array_mut().expect("a list of cases").extend(more);
        }
    }

    /// The cases that must be answered.
    pub(crate) fn cases(&self) -> &[Value] {
        self.json["cases"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The cases whose rules must be rejected.
    pub(crate) fn reject_cases(&self) -> &[Value] {
        self.json["reject_cases"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The rule files of a case: a name of `configs`, a text, or an object of files.
    pub(crate) fn files(&self, case: &Value) -> Files {
        self.files_of(case.get("config").or(case.get("files")).expect("a case has rules"))
    }

    fn files_of(&self, config: &Value) -> Files {
        match config {
            Value::String(name) if self.json["configs"].get(name).is_some() => {
                self.files_of(&self.json["configs"][name])
            }
            Value::String(text) => Files::from([("rules.yaml".to_owned(), text.clone())]),
            Value::Object(files) => files
                .iter()
                .map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().to_owned()))
                .collect(),
            other => panic!("no rules: {other}"),
        }
    }
}

/// The request of a step.
pub(crate) fn request(step: &Value) -> RateLimitRequest {
    let number = |value: &Value| u32::try_from(value.as_u64().unwrap_or(0)).expect("32 bits");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let limit = |l: &Value| Override {
        requests_per_unit: number(&l["requests_per_unit"]),
        unit: calendar::unit(l["unit"].as_str().unwrap_or("UNKNOWN")).1,
    };
    let descriptor = |d: &Value| Descriptor {
        entries: list(&d["entries"])
            .iter()
            .map(|e| Entry { key: text(&e["key"]).into(), value: text(&e["value"]).into() })
            .collect(),
        limit: d.get("limit").filter(|l| !l.is_null()).map(limit),
        hits_addend: d.get("hits_addend").and_then(Value::as_u64),
    };
    RateLimitRequest {
        domain: text(&step["domain"]),
        descriptors: list(&step["descriptors"]).iter().map(descriptor).collect(),
        hits_addend: number(&step["hits_addend"]),
    }
}

/// Differences between an answer and the expectation of a case; empty if they agree.
pub(crate) fn differences(expect: &Value, answer: &Result<RateLimitResponse, tonic::Status>) -> Vec<String> {
    // Members that the case does not name are not compared; `null` means absent.
    let mut found = Vec::new();
    let mut check = |what: String, want: String, got: String| {
        if want != got {
            found.push(format!("{what}: expected {want}, got {got}"));
        }
    };
    let answer = match answer {
        Err(_) if expect["error"].as_bool() == Some(true) => return Vec::new(),
        Err(status) => return vec![format!("an error: {status}")],
        Ok(answer) if expect["error"].as_bool() == Some(true) => {
            return vec![format!("expected an error, got {answer:?}")];
        }
        Ok(answer) => answer,
    };
    if let Some(code) = expect["overall_code"].as_str() {
        check("overall_code".into(), code.into(), code_name(answer.overall_code).into());
    }
    if let Some(statuses) = expect["statuses"].as_array() {
        check("statuses".into(), statuses.len().to_string(), answer.statuses.len().to_string());
        for (i, (want, got)) in statuses.iter().zip(&answer.statuses).enumerate() {
            let at = |field: &str| format!("statuses[{i}].{field}");
            if let Some(code) = want["code"].as_str() {
                check(at("code"), code.into(), code_name(got.code).into());
            }
            if let Some(remaining) = want["limit_remaining"].as_u64() {
                check(at("limit_remaining"), remaining.to_string(), got.limit_remaining.to_string());
            }
            match (want.get("limit"), &got.current_limit) {
                (None, _) => {}
                (Some(Value::Null), limit) => check(at("limit"), "None".into(), format!("{limit:?}")),
                (Some(limit), None) => check(at("limit"), limit.to_string(), "none".into()),
                (Some(limit), Some(got)) => {
                    let rate = |n: u64, unit: i32| format!("{n} per unit {unit}");
                    let unit = calendar::unit(limit["unit"].as_str().unwrap_or("UNKNOWN")).1;
                    let want_rate = rate(limit["requests_per_unit"].as_u64().unwrap_or(0), unit);
                    check(at("limit"), want_rate, rate(got.requests_per_unit.into(), got.unit));
                    if let Some(name) = limit["name"].as_str() {
                        check(at("limit.name"), name.into(), got.name.clone());
                    }
                }
            }
            let reset = got.duration_until_reset;
            match want.get("duration_until_reset") {
                Some(Value::Null) => check(at("duration_until_reset"), "None".into(), format!("{reset:?}")),
                Some(Value::String(how)) if how == "calendar" => {
                    let unit = want["limit"]["unit"].as_str().expect("a calendar window has a unit");
                    let seconds = reset.map(|r| (r.seconds, r.nanos));
                    if !seconds.is_some_and(|(s, nanos)| nanos == 0 && is_until_end(unit, s)) {
                        check(
                            at("duration_until_reset"),
                            format!("to the end of the {unit}"),
                            format!("{seconds:?}"),
                        );
                    }
                }
                _ => {}
            }
        }
    }
    if let Some(headers) = expect["headers"].as_object() {
        check_headers(headers, answer, &mut check);
    }
    match expect.get("dynamic_metadata") {
        None => {}
        Some(Value::Null) => {
            check("dynamic_metadata".into(), "None".into(), format!("{:?}", answer.dynamic_metadata));
        }
        Some(want) => {
            let got =
                answer.dynamic_metadata.as_ref().map_or(Value::Null, |s| json(&Kind::StructValue(s.clone())));
            if !holds(&got, want) {
                check("dynamic_metadata".into(), want.to_string(), got.to_string());
            }
        }
    }
    found
}

fn check_headers(
    expect: &serde_json::Map<String, Value>,
    answer: &RateLimitResponse,
    check: &mut impl FnMut(String, String, String),
) {
    let got: BTreeMap<String, String> = answer
        .response_headers_to_add
        .iter()
        .map(|h| {
            let raw = || String::from_utf8_lossy(&h.raw_value).into_owned();
            (h.key.to_ascii_lowercase(), if h.value.is_empty() { raw() } else { h.value.clone() })
        })
        .collect();
    check("number of headers".into(), expect.len().to_string(), got.len().to_string());
    for (name, want) in expect {
        let want = want.as_str().unwrap_or_default();
        let got = got.get(&name.to_ascii_lowercase());
        let right = match (want.strip_prefix("@reset:"), got) {
            (Some(unit), Some(got)) => got.parse().is_ok_and(|seconds| is_until_end(unit, seconds)),
            (None, Some(got)) => want == got,
            (_, None) => false,
        };
        if !right {
            check(format!("header {name}"), want.into(), format!("{got:?}"));
        }
    }
}

/// Whether `seconds` was the time to the end of the window at some instant of the last two seconds.
fn is_until_end(unit: &str, seconds: i64) -> bool {
    let width = calendar::unit(unit).0 as i64;
    let now = calendar::until_end(calendar::unit(unit).0) as i64;
    (1..=width).contains(&seconds) && (seconds - now).rem_euclid(width) <= 2
}

fn code_name(code: i32) -> &'static str {
    match code {
        crate::rls::OK => "OK",
        crate::rls::OVER_LIMIT => "OVER_LIMIT",
        _ => "UNKNOWN",
    }
}

/// Whether `got` has all that `want` has; `null` in `want` means absent.
fn holds(got: &Value, want: &Value) -> bool {
    match want {
        Value::Object(fields) => {
            fields.iter().all(|(name, want)| holds(got.get(name).unwrap_or(&Value::Null), want))
        }
        Value::Array(items) => got
            .as_array()
            .is_some_and(|got| got.len() == items.len() && got.iter().zip(items).all(|(g, w)| holds(g, w))),
        Value::Number(n) => got.as_f64() == n.as_f64(), // protobuf numbers are doubles
        other => got == other,
    }
}

fn json(kind: &Kind) -> Value {
    let field = |v: &prost_types::Value| v.kind.as_ref().map_or(Value::Null, json);
    match kind {
        Kind::NullValue(_) => Value::Null,
        Kind::NumberValue(n) => serde_json::json!(n),
        Kind::StringValue(s) => serde_json::json!(s),
        Kind::BoolValue(b) => serde_json::json!(b),
        Kind::StructValue(s) => {
            Value::Object(s.fields.iter().map(|(name, v)| (name.clone(), field(v))).collect())
        }
        Kind::ListValue(list) => Value::Array(list.values.iter().map(field).collect()),
    }
}
