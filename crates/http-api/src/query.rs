//! The queries of the API: `?domain=shop&entry=api_key=k1&entry=plan=gold`. Not here: percent-encoding
//! (`http_kit::query`).

use std::borrow::Cow;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tollgate_answers::DenialStatus;
use tollgate_http_kit::Problem;
use tollgate_http_kit::query::{once, parameters_of_bytes, unknown};
use tollgate_human_text::{clip, show_bytes};

use crate::json_body::MAX_HITS;
use crate::parsed::{Bytes, Caps, ParsedBody, ParsedDescriptor, ParsedRequest, Text, text};

/// What the query of `/v1/check` says.
#[derive(Debug, Default)]
pub(crate) struct CheckQuery {
    pub(crate) denial_status: Option<DenialStatus>,
    /// There is a request in it, and not only a `status`.
    pub(crate) has_request: bool,
}

const CHECK: [&str; 6] = ["domain", "entry", "entry_header", "descriptor", "hits", "status"];

/// Reads the query of `/v1/check` into `parsed`, which is empty. `fields` are those of the request.
///
/// `entry=key=value` adds an entry to the descriptor; `entry_header=key=Name` one whose value is that of the
/// request's field `Name` (empty without one); `descriptor` begins the next descriptor.
pub(crate) fn check<'b>(
    query: &'b str,
    fields: &'b HeaderMap,
    parsed: &mut ParsedBody<'b>,
    caps: Caps,
) -> Result<CheckQuery, Problem> {
    let mut has_request = false;
    let (mut domain, mut hits, mut denial_status) = (None, None, None);
    let mut begin = 0;
    for parameter in parameters_of_bytes(query) {
        let (name, value) = parameter?;
        has_request |= &*name != "status";
        match &*name {
            "domain" => once(&mut domain, "domain", text(value))?,
            "hits" => once(&mut hits, "hits", count(&text(value))?)?,
            "status" => once(&mut denial_status, "status", status(&text(value))?)?,
            "entry" | "entry_header" if parsed.entries.len() == caps.entries => {
                return Err(Problem::bad(format!("more than {} entries", caps.entries)));
            }
            "entry" => parsed.entries.push(entry(value)?),
            "entry_header" => {
                let (key, field) = entry(value)?;
                parsed.entries.push((key, value_of(fields, &field)));
            }
            "descriptor" => {
                if parsed.descriptors.len() + 1 >= caps.descriptors {
                    return Err(Problem::bad(format!("more than {} descriptors", caps.descriptors)));
                }
                if !value.is_empty() {
                    let detail = "query parameter `descriptor` takes no value; it separates two descriptors";
                    return Err(Problem::bad(detail));
                }
                parsed
                    .descriptors
                    .push(ParsedDescriptor { hits: None, entries: begin..parsed.entries.len() });
                begin = parsed.entries.len();
            }
            name => return Err(unknown(name, &CHECK)),
        }
    }
    if has_request {
        parsed.descriptors.push(ParsedDescriptor { hits: None, entries: begin..parsed.entries.len() });
        let domain = domain.ok_or_else(|| Problem::bad("the query has no `domain`"))?;
        if let Some(empty) = parsed.descriptors.iter().position(|descriptor| descriptor.entries.is_empty()) {
            return Err(Problem::bad(format!("descriptor {empty} of the query has no `entry`")));
        }
        parsed.requests.push(ParsedRequest {
            domain,
            hits: hits.unwrap_or(1),
            descriptors: 0..parsed.descriptors.len(),
        });
    }
    Ok(CheckQuery { denial_status, has_request })
}

/// Reads `status=`.
fn status(value: &str) -> Result<DenialStatus, Problem> {
    if value == "rule" {
        return Ok(DenialStatus::OfRule);
    }
    let status = StatusCode::from_bytes(value.as_bytes()).ok().filter(StatusCode::is_client_error);
    status.map(DenialStatus::Fixed).ok_or_else(|| {
        let value = clip(value);
        Problem::bad(format!(
            "invalid status `{value}`: expected 400 to 499, as in status=429, or status=rule"
        ))
    })
}

/// One descriptor of one domain, as `/v1/explain` and `/v1/keys` take it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'b> {
    pub(crate) domain: Text<'b>,
    pub(crate) entries: Vec<(Bytes<'b>, Bytes<'b>)>,
}

/// Reads `domain=` and `entry=`.
pub(crate) fn descriptor(query: &str, caps: Caps) -> Result<Target<'_>, Problem> {
    let (mut domain, mut entries) = (None, Vec::new());
    for parameter in parameters_of_bytes(query) {
        let (name, value) = parameter?;
        match &*name {
            "domain" => once(&mut domain, "domain", text(value))?,
            "entry" if entries.len() == caps.entries => {
                return Err(Problem::bad(format!("more than {} entries", caps.entries)));
            }
            "entry" => entries.push(entry(value)?),
            name => return Err(unknown(name, &["domain", "entry"])),
        }
    }
    let domain = domain.filter(|domain| !domain.is_empty());
    let missing =
        |name| Problem::bad(format!("the query has no `{name}`: expected ?domain=NAME&entry=KEY=VALUE"));
    let domain = domain.ok_or_else(|| missing("domain"))?;
    if entries.is_empty() {
        return Err(missing("entry"));
    }
    Ok(Target { domain, entries })
}

/// Splits `key=value` after decoding, so that a value may contain `=` and a key may not.
fn entry(bytes: Bytes<'_>) -> Result<(Bytes<'_>, Bytes<'_>), Problem> {
    let lacks = |what| {
        let shown = show_bytes(&bytes);
        Problem::bad(format!("entry `{}` has no {what}: expected entry=KEY=VALUE", clip(&shown)))
    };
    match bytes.iter().position(|byte| *byte == b'=') {
        None => Err(lacks("value")),
        Some(0) => Err(lacks("key")),
        Some(at) => Ok(match bytes {
            Cow::Borrowed(bytes) => (Cow::Borrowed(&bytes[..at]), Cow::Borrowed(&bytes[at + 1..])),
            Cow::Owned(bytes) => (Cow::Owned(bytes[..at].to_vec()), Cow::Owned(bytes[at + 1..].to_vec())),
        }),
    }
}

/// The value of the request's field `name`: its bytes as they came, and empty without one. Several lines of
/// the field are one value, joined by `, ` as any proxy may join them.
fn value_of<'b>(fields: &'b HeaderMap, name: &[u8]) -> Bytes<'b> {
    let Ok(name) = HeaderName::from_bytes(name) else { return Cow::Borrowed(b"") };
    let mut lines = fields.get_all(name).iter().map(HeaderValue::as_bytes);
    match (lines.next(), lines.next()) {
        (None, _) => Cow::Borrowed(b""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(first), Some(second)) => {
            let mut joined = [first, second].join(&b", "[..]);
            for line in lines {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(line);
            }
            Cow::Owned(joined)
        }
    }
}

fn count(text: &str) -> Result<u64, Problem> {
    text.parse().ok().filter(|&hits| hits <= MAX_HITS).ok_or_else(|| {
        let text = clip(text);
        Problem::bad(format!("invalid hits `{text}`: expected a whole number from 0 to {MAX_HITS}"))
    })
}
