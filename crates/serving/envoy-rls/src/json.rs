//! `ShouldRateLimit` in protobuf's JSON, for an HTTP surface: `POST /json` with a `RateLimitRequest`,
//! answered by a `RateLimitResponse`.
//!
//! Names may be written as `hitsAddend` or `hits_addend`, 64-bit numbers as numbers or texts, units as names
//! or numbers. Unknown members are rejected. Not here: connections and routes of HTTP.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_answers::{limits, mark_degraded};
use tollgate_buffers::CallBuffers;
use tollgate_core::Outcome;
use tollgate_headers::Style;
use tollgate_limiter::{Answer, Rejected};
use tollgate_net::Presence;
use tollgate_store::Store;

use crate::body::PREFIX;
use crate::proto::rls;
use crate::service::{AnswerBuffers, Caller, RateLimitService};
use crate::status::{Code, Status};

/// Future reply of [`RateLimitService::over_http`].
pub type HttpAnswer = Pin<Box<dyn Future<Output = http::Response<String>> + Send>>;

impl<S: Store> RateLimitService<S> {
    /// A function for an HTTP surface, to be called with the body of `POST /json` and the presence of its
    /// client. `style` is that of the header fields.
    pub fn over_http(
        self: &Arc<Self>,
        style: Style,
    ) -> impl Fn(Bytes, Arc<Presence>) -> HttpAnswer + Send + Sync + use<S> {
        let service = Arc::clone(self);
        move |body, presence| {
            let service = Arc::clone(&service);
            let caller = Caller::over_http(Some(presence));
            Box::pin(async move { service.json_of(&caller, &body, &style).await })
        }
    }

    /// Answers the body of a request in JSON as envoyproxy/ratelimit does: 200, or 429 over the limit, with a
    /// response in JSON; 400 with a line of text for an invalid body; 503 without rules: then nothing was
    /// decided and no permit taken. The header fields are those of any other check over HTTP.
    pub async fn json(&self, body: &[u8], style: &Style) -> http::Response<String> {
        self.json_of(&Caller::over_http(None), body, style).await
    }

    async fn json_of(&self, caller: &Caller, body: &[u8], style: &Style) -> http::Response<String> {
        let mut fields = HeaderMap::new();
        let (status, kind, body) = match self.decide_json(caller, body, style, &mut fields).await {
            Ok((Outcome::Admit, body)) => (http::StatusCode::OK, "application/json", body),
            Ok((Outcome::Deny, body)) => (http::StatusCode::TOO_MANY_REQUESTS, "application/json", body),
            Err(status) if let Some(admits) = self.undecided(&status) => {
                let (http, body) = match admits {
                    true => (http::StatusCode::OK, r#"{"overallCode":"OK"}"#),
                    false => (http::StatusCode::TOO_MANY_REQUESTS, r#"{"overallCode":"OVER_LIMIT"}"#),
                };
                self.limiter.request_rejected(Rejected {
                    surface: caller.surface,
                    peer: caller.peer,
                    status: http.as_str(),
                    reason: status.reason.name(),
                    detail: &status.message,
                });
                (http, "application/json", body.to_owned())
            }
            Err(status) => {
                let http = match status.code {
                    Code::InvalidArgument | Code::ResourceExhausted => http::StatusCode::BAD_REQUEST,
                    Code::Unavailable => http::StatusCode::SERVICE_UNAVAILABLE,
                    _ => http::StatusCode::INTERNAL_SERVER_ERROR,
                };
                (http, "text/plain; charset=utf-8", format!("{}\n", status.message))
            }
        };
        let mut answer = http::Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = fields;
        answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        answer
    }

    async fn decide_json(
        &self,
        caller: &Caller,
        body: &[u8],
        style: &Style,
        fields: &mut HeaderMap,
    ) -> Result<(Outcome, String), Status> {
        let request: JsonRequest = serde_json::from_slice(body).map_err(|error| {
            Status::invalid(format!("the body is not a RateLimitRequest in JSON: {error}"))
        })?;
        let message = rls::RateLimitRequest::from(request).encode_to_vec();
        let seen = |answer: &Answer<'_>| {
            tollgate_headers::write(limits(answer).as_slice(), answer.is_admitted(), style, fields);
            mark_degraded(answer.degraded(), fields);
        };
        let framed = self
            .answer_and(&message, caller, self.now(), &mut CallBuffers::<AnswerBuffers>::take(), seen)
            .await?;
        let response = rls::RateLimitResponse::decode(framed.slice(PREFIX..))
            .map_err(|_| Status::new(Code::Internal, "internal error"))?;
        let is_over = response.overall_code() == rls::Code::OverLimit;
        let body = serde_json::to_string(&Response::from(&response))
            .map_err(|_| Status::new(Code::Internal, "internal error"))?;
        Ok((if is_over { Outcome::Deny } else { Outcome::Admit }, body))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRequest {
    domain: Option<ByteString>,
    descriptors: Option<Vec<JsonDescriptor>>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Hits<{ u32::MAX as u64 }>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonDescriptor {
    entries: Option<Vec<JsonEntry>>,
    limit: Option<JsonOverride>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Hits<{ u64::MAX }>>,
    #[serde(rename = "isNegativeHits", alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonEntry {
    key: Option<ByteString>,
    value: Option<ByteString>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonOverride {
    #[serde(rename = "requestsPerUnit", alias = "requests_per_unit")]
    requests_per_unit: Option<Number<{ u32::MAX as u64 }>>,
    unit: Option<Unit>,
}

/// A string, which may contain bytes that are not UTF-8: some programs copy such bytes from their clients.
struct ByteString(Vec<u8>);

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = ByteString;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<ByteString, E> {
                Ok(ByteString(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A whole number up to `MAX`, as a number or a text.
struct Number<const MAX: u64>(u64);

impl<'de, const MAX: u64> Deserialize<'de> for Number<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number.filter(|&number| number <= MAX) {
            Some(number) => Ok(Self(number)),
            None => Err(D::Error::custom(format!("{value} is not a whole number from 0 to {MAX}"))),
        }
    }
}

/// A number of hits, which a client may have chosen: a number above `MAX` counts as `MAX`.
struct Hits<const MAX: u64>(u64);

impl<'de, const MAX: u64> Deserialize<'de> for Hits<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let digits = match &value {
            Value::Number(number) if number.as_f64().is_some_and(|number| number >= u64::MAX as f64) => {
                return Ok(Self(MAX));
            }
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            _ => String::new(),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(D::Error::custom(format!("{value} is not a whole number from 0")));
        }
        Ok(Self(digits.parse().unwrap_or(u64::MAX).min(MAX)))
    }
}

/// A unit by name or number.
struct Unit(i32);

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let unit = match &value {
            Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
            Value::String(name) => rls::Unit::named(name).map(|unit| unit as i32),
            _ => None,
        };
        unit.map(Self).ok_or_else(|| D::Error::custom(format!("{value} is not a unit of time")))
    }
}

impl From<JsonRequest> for rls::RateLimitRequest {
    fn from(request: JsonRequest) -> Self {
        Self {
            domain: request.domain.map_or_else(Vec::new, |it| it.0),
            descriptors: request.descriptors.unwrap_or_default().into_iter().map(Into::into).collect(),
            hits_addend: request.hits_addend.map_or(0, |number| number.0 as u32),
        }
    }
}

impl From<JsonDescriptor> for rls::RateLimitDescriptor {
    fn from(descriptor: JsonDescriptor) -> Self {
        let entry = |entry: JsonEntry| rls::Entry {
            key: entry.key.map_or_else(Vec::new, |it| it.0),
            value: entry.value.map_or_else(Vec::new, |it| it.0),
        };
        Self {
            entries: descriptor.entries.unwrap_or_default().into_iter().map(entry).collect(),
            limit: descriptor.limit.map(|limit| rls::RateLimitOverride {
                requests_per_unit: limit.requests_per_unit.map_or(0, |number| number.0 as u32),
                unit: limit.unit.map_or(0, |unit| unit.0),
            }),
            hits_addend: descriptor.hits_addend.map(|number| number.0),
            is_negative_hits: descriptor.is_negative_hits.unwrap_or_default(),
        }
    }
}

/// The response as protobuf's JSON has it: in the order of its fields, without zero and empty ones.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    overall_code: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<DescriptorStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<Header<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DescriptorStatus<'a> {
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<Limit<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Limit<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct Header<'a> {
    key: &'a str,
    value: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> From<&'a rls::RateLimitResponse> for Response<'a> {
    fn from(response: &'a rls::RateLimitResponse) -> Self {
        let headers = response.response_headers_to_add.iter();
        Self {
            overall_code: response.overall_code().name(),
            statuses: response.statuses.iter().map(Into::into).collect(),
            response_headers_to_add: headers.map(|it| Header { key: &it.key, value: &it.value }).collect(),
            dynamic_metadata: response.dynamic_metadata.as_ref().map(render_struct),
        }
    }
}

impl<'a> From<&'a rls::DescriptorStatus> for DescriptorStatus<'a> {
    fn from(status: &'a rls::DescriptorStatus) -> Self {
        Self {
            code: status.code().name(),
            current_limit: status.current_limit.as_ref().map(|limit| Limit {
                requests_per_unit: limit.requests_per_unit,
                unit: (limit.unit != 0).then(|| limit.unit().name()),
                name: &limit.name,
            }),
            limit_remaining: status.limit_remaining,
            duration_until_reset: status.duration_until_reset.map(|span| format!("{}s", span.seconds)),
        }
    }
}

fn render_struct(fields: &rls::Struct) -> Value {
    Value::Object(fields.fields.iter().map(|(name, value)| (name.clone(), render_value(value))).collect())
}

fn render_value(value: &rls::Value) -> Value {
    match &value.kind {
        None | Some(rls::Kind::Null(_)) => Value::Null,
        // Whole numbers are written without a fraction.
        Some(rls::Kind::Number(number)) if number.fract() == 0.0 && number.abs() < 1e15 => {
            (*number as i64).into()
        }
        Some(rls::Kind::Number(number)) => (*number).into(),
        Some(rls::Kind::String(text)) => text.as_str().into(),
        Some(rls::Kind::Bool(bool)) => (*bool).into(),
        Some(rls::Kind::Struct(fields)) => render_struct(fields),
        Some(rls::Kind::List(list)) => list.values.iter().map(render_value).collect(),
    }
}
