//! The query of a URL, percent-encoded: `?domain=shop&entry=api_key=k1`. Not here: which parameters an
//! operation takes.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use tollgate_human_text::{clip, did_you_mean, one_of};

use crate::problem::Problem;

/// The parameters of a query in their order, decoded. A parameter without `=` has an empty value.
///
/// # Example
/// ```
/// # use tollgate_http_kit::query::parameters;
/// let mut read = parameters("entry=user=a+b%26&last");
/// assert_eq!(read.next(), Some(Ok(("entry".into(), "user=a b&".into()))));
/// assert_eq!(read.next(), Some(Ok(("last".into(), "".into()))));
/// ```
pub fn parameters(query: &str) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), Problem>> {
    pairs(query).map(|(name, value)| Ok((decode_text(name)?, decode_text(value)?)))
}

/// As [`parameters`], with values of any bytes.
///
/// # Example
/// ```
/// # use tollgate_http_kit::query::parameters_of_bytes;
/// let mut read = parameters_of_bytes("entry=user=caf%E9");
/// assert_eq!(read.next(), Some(Ok(("entry".into(), b"user=caf\xe9"[..].into()))));
/// ```
pub fn parameters_of_bytes(
    query: &str,
) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, [u8]>), Problem>> {
    pairs(query).map(|(name, value)| Ok((decode_text(name)?, decode(value)?)))
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

fn decode_text(text: &str) -> Result<Cow<'_, str>, Problem> {
    match decode(text)? {
        Cow::Borrowed(_) => Ok(Cow::Borrowed(text)),
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|_| Problem::bad(format!("the query's `{}` is not UTF-8", clip(text)))),
    }
}

/// Percent-decodes; `+` is a space, as in every encoder of forms. Borrowed if nothing was to be decoded.
fn decode(text: &str) -> Result<Cow<'_, [u8]>, Problem> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    // The decoder keeps invalid escapes as they are; here they are an error.
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_escape) {
        let text = clip(text);
        return Err(Problem::bad(format!("the query's `{text}` has a % without two hexadecimal digits")));
    }
    Ok(Cow::Owned(percent_decode(text.replace('+', " ").as_bytes()).collect()))
}

/// Why a parameter that is not one of `known` is rejected.
#[must_use]
pub fn unknown(name: &str, known: &[&str]) -> Problem {
    let hint = did_you_mean(name, known).unwrap_or_else(|| format!("expected {}", one_of(known)));
    Problem::bad(format!("unknown query parameter `{}`; {hint}", clip(name)))
}

/// Sets `place`, which a query may do only once.
///
/// # Errors
/// When it is set already.
pub fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Problem> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::bad(format!("duplicate query parameter `{name}`"))),
    }
}
