//! The query of a URL: `?domain=shop&entry=api_key=k1&entry=plan=gold`, percent-encoded. Not here: what it asks for.

use std::borrow::Cow;

use hyper::HeaderMap;
use tollgate_human_text::did_you_mean;

use crate::answer::Refusal;
use crate::json_body::MAX_HITS;
use crate::parsed::{Ask, Caps, Part, Sheet, Text};

/// The parameters of a query in their order, decoded. One without `=` has an empty value.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = Result<(Text<'_>, Text<'_>), Refusal>> {
    query.split('&').filter(|parameter| !parameter.is_empty()).map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        Ok((decode(name)?, decode(value)?))
    })
}

/// Percent-decodes; `+` is a space, as every encoder of forms has it.
fn decode(text: &str) -> Result<Text<'_>, Refusal> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => match (rest.next().and_then(hex), rest.next().and_then(hex)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => {
                    return Err(Refusal::bad(format!(
                        "the query's `{text}` has a % without two hexadecimal digits"
                    )));
                }
            },
            byte => byte,
        });
    }
    let decoded = String::from_utf8(bytes);
    decoded.map(Cow::Owned).map_err(|_| Refusal::bad(format!("the query's `{text}` is not UTF-8")))
}

const fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Refuses a parameter that is not one of `known`.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Refusal {
    let hint = did_you_mean(name, known).unwrap_or_else(|| format!("there are {}", known.join(", ")));
    let name: String = name.chars().take(40).collect();
    Refusal::bad(format!("the query's `{name}` is unknown; {hint}"))
}

/// Sets `place`, which a query may do only once.
pub(crate) fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::bad(format!("the query says `{name}` twice"))),
    }
}

/// How a proxy wants a refusal told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// With this status.
    Status(u16),
    /// With the status of the rule's `response`, or 429.
    AsTheRuleSays,
}

/// Reads `status=`.
pub(crate) fn told(value: &str) -> Result<Told, Refusal> {
    if value == "rule" {
        return Ok(Told::AsTheRuleSays);
    }
    let status = value.parse().ok().filter(|status| (400..500).contains(status));
    status.map(Told::Status).ok_or_else(|| {
        Refusal::bad(format!(
            "the query's status `{value}` is none; write 400 to 499, as in status=429, or status=rule"
        ))
    })
}

/// What the query of `/v1/check` says.
#[derive(Debug, Default)]
pub(crate) struct CheckQuery {
    pub(crate) told: Option<Told>,
    /// There is a question in it, and not only a `status`.
    pub(crate) asks: bool,
}

const CHECK: [&str; 6] = ["domain", "entry", "entry_header", "descriptor", "hits", "status"];

/// Reads the query of `/v1/check` into `sheet`, which is empty. `fields` are those of the request.
///
/// `entry=key=value` adds an entry to the descriptor; `entry_header=key=Name` one whose value is that of the request's
/// field `Name` (empty without one, or when it is no UTF-8); `descriptor` begins the next descriptor.
pub(crate) fn check<'b>(
    query: &'b str,
    fields: &'b HeaderMap,
    sheet: &mut Sheet<'b>,
    caps: Caps,
) -> Result<CheckQuery, Refusal> {
    let mut read = CheckQuery::default();
    let (mut domain, mut hits, mut told_as) = (None, None, None);
    let mut begin = 0;
    for parameter in parameters(query) {
        let (name, value) = parameter?;
        read.asks |= &*name != "status";
        match &*name {
            "domain" => once(&mut domain, "domain", value)?,
            "hits" => once(&mut hits, "hits", count(&value)?)?,
            "status" => once(&mut told_as, "status", told(&value)?)?,
            "entry" | "entry_header" if sheet.texts.len() == caps.entries => {
                return Err(Refusal::bad(format!("more than {} entries", caps.entries)));
            }
            "entry" => sheet.texts.push(entry(value)?),
            "entry_header" => {
                let (key, field) = entry(value)?;
                let value = fields
                    .get(&*field)
                    .map_or("", |value| std::str::from_utf8(value.as_bytes()).unwrap_or_default());
                sheet.texts.push((key, Cow::Borrowed(value)));
            }
            "descriptor" => {
                if sheet.parts.len() + 1 >= caps.descriptors {
                    return Err(Refusal::bad(format!("more than {} descriptors", caps.descriptors)));
                }
                if !value.is_empty() {
                    let detail = "the query's `descriptor` has no value; it stands between two descriptors";
                    return Err(Refusal::bad(detail));
                }
                sheet.parts.push(Part { hits: None, texts: begin..sheet.texts.len() });
                begin = sheet.texts.len();
            }
            name => return Err(unknown(name, &CHECK)),
        }
    }
    read.told = told_as;
    if read.asks {
        sheet.parts.push(Part { hits: None, texts: begin..sheet.texts.len() });
        let domain = domain.ok_or_else(|| Refusal::bad("the query has no `domain`"))?;
        if let Some(empty) = sheet.parts.iter().position(|part| part.texts.is_empty()) {
            return Err(Refusal::bad(format!("descriptor {empty} of the query has no `entry`")));
        }
        sheet.asks.push(Ask { domain, hits: hits.unwrap_or(1), parts: 0..sheet.parts.len() });
    }
    Ok(read)
}

/// One descriptor of one domain, as `/v1/explain` and `/v1/keys` take it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct One<'b> {
    pub(crate) domain: Text<'b>,
    pub(crate) entries: Vec<(Text<'b>, Text<'b>)>,
}

/// Reads `domain=` and `entry=`.
pub(crate) fn one(query: &str, caps: Caps) -> Result<One<'_>, Refusal> {
    let (mut domain, mut entries) = (None, Vec::new());
    for parameter in parameters(query) {
        let (name, value) = parameter?;
        match &*name {
            "domain" => once(&mut domain, "domain", value)?,
            "entry" if entries.len() == caps.entries => {
                return Err(Refusal::bad(format!("more than {} entries", caps.entries)));
            }
            "entry" => entries.push(entry(value)?),
            name => return Err(unknown(name, &["domain", "entry"])),
        }
    }
    let domain = domain.filter(|domain| !domain.is_empty());
    let domain = domain
        .ok_or_else(|| Refusal::bad("the query has no `domain`; write ?domain=NAME&entry=KEY=VALUE"))?;
    if entries.is_empty() {
        return Err(Refusal::bad("the query has no `entry`; write ?domain=NAME&entry=KEY=VALUE"));
    }
    Ok(One { domain, entries })
}

/// `key=value`, decoded before, so that a key cannot hold a `=`, and a value can.
fn entry(text: Text<'_>) -> Result<(Text<'_>, Text<'_>), Refusal> {
    let split = match &text {
        Cow::Borrowed(text) => {
            text.split_once('=').map(|(key, value)| (Cow::Borrowed(key), Cow::Borrowed(value)))
        }
        Cow::Owned(text) => text
            .split_once('=')
            .map(|(key, value)| (Cow::Owned(key.to_owned()), Cow::Owned(value.to_owned()))),
    };
    split.filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
        let text: String = text.chars().take(40).collect();
        Refusal::bad(format!("the query's entry `{text}` is none; write entry=KEY=VALUE"))
    })
}

fn count(text: &str) -> Result<u64, Refusal> {
    text.parse().ok().filter(|&hits| hits <= MAX_HITS).ok_or_else(|| {
        let text: String = text.chars().take(40).collect();
        Refusal::bad(format!("the query's hits `{text}` are no whole number from 0 to {MAX_HITS}"))
    })
}
