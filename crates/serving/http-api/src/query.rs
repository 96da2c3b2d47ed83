//! The queries of the API: `?domain=shop&entry=api_key=k1&entry=plan=gold`. Not here: percent-encoding
//! (`http_kit::query`).

use std::borrow::Cow;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tollgate_answers::DenialStatus;
use tollgate_http_kit::query::{once, parameters_of_bytes, unknown};
use tollgate_http_kit::{Problem, Reason};
use tollgate_human_text::{clip, show_bytes};
use tollgate_limiter::MAX_HITS;

use crate::json_body::NOT_BOTH;
use crate::parsed::{Bytes, Caps, ParsedBody, ParsedDescriptor, ParsedRequest, Text, text};

/// Options in the query of `/v1/check`.
#[derive(Debug, Default)]
pub(crate) struct CheckQuery {
    pub(crate) denial_status: Option<DenialStatus>,
    /// There is a request in it, and not only a `status`.
    pub(crate) has_request: bool,
}

const CHECK: [&str; 7] = ["domain", "entry", "entry_header", "descriptor", "hits", "consumed", "status"];

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
    let mut read = CheckParameters::default();
    for parameter in parameters_of_bytes(query) {
        let added = parameter.and_then(|(name, value)| read.add(&name, value, fields, parsed, caps));
        added.map_err(as_appended)?;
    }
    if read.has_request {
        read.end_descriptor(parsed, caps)?;
        let domain = read.domain.ok_or_else(|| Problem::bad("the query has no `domain`"))?;
        if let Some(empty) = parsed.descriptors.iter().position(|descriptor| descriptor.entries.is_empty()) {
            let problem = Problem::bad(format!("descriptor {empty} of the query has no `entry`"));
            return Err(if empty == 0 { problem } else { as_appended(problem) });
        }
        if read.hits.is_some() && read.consumed.is_some() {
            return Err(as_appended(Problem::bad(NOT_BOTH)));
        }
        parsed.requests.push(ParsedRequest {
            domain,
            hits: read.consumed.or(read.hits).unwrap_or(1),
            is_consumed: read.consumed.is_some(),
            descriptors: 0..parsed.descriptors.len(),
        });
    }
    Ok(CheckQuery { denial_status: read.status, has_request: read.has_request })
}

/// A parameter that is invalid or comes twice: where a proxy puts its client's text into the URL, the client
/// can append it.
fn as_appended(problem: Problem) -> Problem {
    if problem.reason == Reason::Invalid { problem.because(Reason::Malformed) } else { problem }
}

/// The parameters of `/v1/check` so far.
#[derive(Default)]
struct CheckParameters<'b> {
    domain: Option<Text<'b>>,
    hits: Option<u64>,
    consumed: Option<u64>,
    status: Option<DenialStatus>,
    has_request: bool,
    /// The first entry of the descriptor that has begun.
    begin: usize,
    /// Its entries that have several values: the place of each, and its values besides the first.
    others: Vec<(usize, Vec<Bytes<'b>>)>,
}

impl<'b> CheckParameters<'b> {
    fn add(
        &mut self,
        name: &str,
        value: Bytes<'b>,
        fields: &'b HeaderMap,
        parsed: &mut ParsedBody<'b>,
        caps: Caps,
    ) -> Result<(), Problem> {
        self.has_request |= name != "status";
        match name {
            "domain" => once(&mut self.domain, "domain", text(value))?,
            "hits" => once(&mut self.hits, "hits", count("hits", &text(value))?)?,
            "consumed" => once(&mut self.consumed, "consumed", count("consumed", &text(value))?)?,
            "status" => once(&mut self.status, "status", status(&text(value))?)?,
            "entry" | "entry_header" if parsed.entries.len() == caps.entries => {
                return Err(too_many("entries", caps.entries));
            }
            "entry" => parsed.entries.push(entry(value)?),
            "entry_header" => {
                let (key, field) = entry(value)?;
                let (value, others) = values_of(fields, &field);
                if !others.is_empty() {
                    self.others.push((parsed.entries.len() - self.begin, others));
                }
                parsed.entries.push((key, value));
            }
            "descriptor" => {
                if parsed.descriptors.len() + 1 >= caps.descriptors {
                    return Err(too_many("descriptors", caps.descriptors));
                }
                if !value.is_empty() {
                    let detail = "query parameter `descriptor` takes no value; it separates two descriptors";
                    return Err(Problem::bad(detail));
                }
                self.end_descriptor(parsed, caps)?;
            }
            name => return Err(unknown(name, &CHECK)),
        }
        Ok(())
    }

    /// Ends the current descriptor. A descriptor whose entries have several values becomes as many
    /// descriptors as there are combinations.
    fn end_descriptor(&mut self, parsed: &mut ParsedBody<'b>, caps: Caps) -> Result<(), Problem> {
        let end = parsed.entries.len();
        let first = self.begin..end;
        parsed.descriptors.push(ParsedDescriptor::of(first.clone()));
        let others = std::mem::take(&mut self.others);
        let combinations = others
            .iter()
            .try_fold(1_usize, |product, (_, values)| product.checked_mul(values.len() + 1))
            .filter(|combinations| *combinations <= MOST_COMBINATIONS)
            .ok_or_else(|| too_many("combinations of lines of header fields", MOST_COMBINATIONS))?;
        if end + (combinations - 1) * first.len() > caps.entries {
            return Err(too_many("entries", caps.entries));
        }
        for number in 1..combinations {
            let begin = parsed.entries.len();
            parsed.entries.extend_from_within(first.clone());
            let mut rest = number;
            for (place, values) in &others {
                if let Some(value) = (rest % (values.len() + 1)).checked_sub(1).and_then(|at| values.get(at))
                {
                    parsed.entries[begin + place].1.clone_from(value);
                }
                rest /= values.len() + 1;
            }
            parsed.descriptors.push(ParsedDescriptor::of(begin..parsed.entries.len()));
        }
        self.begin = parsed.entries.len();
        Ok(())
    }
}

/// Most descriptors that one descriptor becomes when its fields have several lines.
const MOST_COMBINATIONS: usize = 16;

fn too_many(what: &str, most: usize) -> Problem {
    Problem::bad(format!("more than {most} {what}")).because(Reason::TooLarge)
}

/// The first valid `status` of a query that may be invalid otherwise.
pub(crate) fn denial_status(query: &str) -> Option<DenialStatus> {
    let mut parameters = parameters_of_bytes(query).filter_map(Result::ok);
    parameters.find_map(|(name, value)| (name == "status").then(|| status(&text(value)).ok()).flatten())
}

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
    let mut domain = None;
    let mut entries = Vec::new();
    for parameter in parameters_of_bytes(query) {
        let (name, value) = parameter?;
        match &*name {
            "domain" => once(&mut domain, "domain", text(value))?,
            "entry" if entries.len() == caps.entries => {
                return Err(too_many("entries", caps.entries));
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

/// The values of the request's field `name`, as they came: the first, which is empty without the field, and
/// the others.
///
/// It is not known here which of several lines an application uses, so each line is a value that is counted:
/// a client gains nothing by a second API key. In a list to which each proxy adds, all lines are one value.
fn values_of<'b>(fields: &'b HeaderMap, name: &[u8]) -> (Bytes<'b>, Vec<Bytes<'b>>) {
    let none = (Cow::Borrowed(&b""[..]), Vec::new());
    let Ok(name) = HeaderName::from_bytes(name) else { return none };
    let is_list = LISTS.contains(&name.as_str());
    let mut lines = fields.get_all(name).iter().map(HeaderValue::as_bytes);
    match (lines.next(), lines.next()) {
        (None, _) => none,
        (Some(only), None) => (Cow::Borrowed(only), Vec::new()),
        (Some(first), Some(second)) if is_list => {
            let mut joined = [first, second].join(&b", "[..]);
            for line in lines {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(line);
            }
            (Cow::Owned(joined), Vec::new())
        }
        (Some(first), Some(second)) => {
            let mut others = vec![Cow::Borrowed(second)];
            others.extend(lines.map(Cow::Borrowed));
            others.retain(|other| *other != first);
            others.sort_unstable();
            others.dedup();
            (Cow::Borrowed(first), others)
        }
    }
}

/// Fields that are lists, to which each proxy adds.
const LISTS: [&str; 3] = ["x-forwarded-for", "forwarded", "via"];

fn count(name: &str, text: &str) -> Result<u64, Problem> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        let text = clip(text);
        return Err(Problem::bad(format!("invalid {name} `{text}`: expected a whole number from 0")));
    }
    Ok(text.parse().unwrap_or(u64::MAX).min(MAX_HITS))
}
