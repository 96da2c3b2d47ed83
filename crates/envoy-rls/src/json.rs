//! `ShouldRateLimit` in protobuf's JSON, for an HTTP surface: `POST /json` with a `RateLimitRequest`, answered by a
//! `RateLimitResponse`.
//!
//! Names may be written as `hitsAddend` or `hits_addend`, 64-bit numbers as numbers or texts, units as names or
//! numbers. A member that is not known is a fault. Not here: the HTTP.

use prost::Message;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value, json};
use tollgate_core::Outcome;
use tollgate_store::Store;

use crate::body::PREFIX;
use crate::proto::rls;
use crate::service::{Desk, RateLimitService};
use crate::status::{Code, Status};

/// An answer in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonReply {
    /// May the request pass? An HTTP surface says 200 or 429.
    pub outcome: Outcome,
    /// The body, `application/json`.
    pub body: String,
}

impl<S: Store, L: Store> RateLimitService<S, L> {
    /// Answers a request in JSON.
    ///
    /// # Errors
    /// [`Status`]: the body is not a request, or makes no sense; nothing was decided and no permit taken. An HTTP
    /// surface says 400, and 500 for [`Code::Internal`].
    pub async fn json(&self, body: &[u8]) -> Result<JsonReply, Status> {
        let request: Request = serde_json::from_slice(body).map_err(|error| {
            Status::invalid(format!("the body is not a RateLimitRequest in JSON: {error}"))
        })?;
        let message = rls::RateLimitRequest::from(request).encode_to_vec();
        let framed = self.answer(&message, self.now(), &mut Desk::default()).await?;
        let response = rls::RateLimitResponse::decode(framed.slice(PREFIX..))
            .map_err(|_| Status::new(Code::Internal, "a fault of this server"))?;
        let is_over = response.overall_code() == rls::Code::OverLimit;
        Ok(JsonReply {
            outcome: if is_over { Outcome::Deny } else { Outcome::Admit },
            body: render(&response).to_string(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    domain: Option<String>,
    descriptors: Option<Vec<Descriptor>>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Number<{ u32::MAX as u64 }>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    entries: Option<Vec<Entry>>,
    limit: Option<Override>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Number<{ u64::MAX }>>,
    #[serde(rename = "isNegativeHits", alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    #[serde(rename = "requestsPerUnit", alias = "requests_per_unit")]
    requests_per_unit: Option<Number<{ u32::MAX as u64 }>>,
    unit: Option<Unit>,
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

impl From<Request> for rls::RateLimitRequest {
    fn from(request: Request) -> Self {
        Self {
            domain: request.domain.unwrap_or_default(),
            descriptors: request.descriptors.unwrap_or_default().into_iter().map(Into::into).collect(),
            hits_addend: request.hits_addend.map_or(0, |number| number.0 as u32),
        }
    }
}

impl From<Descriptor> for rls::RateLimitDescriptor {
    fn from(descriptor: Descriptor) -> Self {
        let entry = |entry: Entry| rls::Entry {
            key: entry.key.unwrap_or_default(),
            value: entry.value.unwrap_or_default(),
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

/// The response as protobuf's JSON has it: what is zero or empty is left out.
fn render(response: &rls::RateLimitResponse) -> Value {
    let mut out = Map::new();
    out.insert("overallCode".into(), response.overall_code().name().into());
    if !response.statuses.is_empty() {
        out.insert("statuses".into(), response.statuses.iter().map(render_status).collect());
    }
    if !response.response_headers_to_add.is_empty() {
        let headers = response.response_headers_to_add.iter();
        let headers = headers.map(|header| json!({"key": header.key, "value": header.value})).collect();
        out.insert("responseHeadersToAdd".into(), headers);
    }
    if let Some(metadata) = &response.dynamic_metadata {
        out.insert("dynamicMetadata".into(), render_struct(metadata));
    }
    Value::Object(out)
}

fn render_status(status: &rls::DescriptorStatus) -> Value {
    let mut out = Map::new();
    out.insert("code".into(), status.code().name().into());
    if let Some(limit) = &status.current_limit {
        let mut shown = Map::new();
        if !limit.name.is_empty() {
            shown.insert("name".into(), limit.name.as_str().into());
        }
        if limit.requests_per_unit > 0 {
            shown.insert("requestsPerUnit".into(), limit.requests_per_unit.into());
        }
        if limit.unit != 0 {
            shown.insert("unit".into(), limit.unit().name().into());
        }
        out.insert("currentLimit".into(), Value::Object(shown));
    }
    if status.limit_remaining > 0 {
        out.insert("limitRemaining".into(), status.limit_remaining.into());
    }
    if let Some(duration) = &status.duration_until_reset {
        out.insert("durationUntilReset".into(), format!("{}s", duration.seconds).into());
    }
    Value::Object(out)
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
