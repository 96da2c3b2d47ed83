//! The query of a URL, percent-encoded: `?domain=shop&entry=api_key=k1`. Not here: which parameters an
//! operation takes.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use tollgate_human_text::{clip, did_you_mean, one_of};

use crate::problem::Problem;

/// The parameters of a query in their order, decoded. One without `=` has an empty value.
///
/// # Example
/// ```
/// # use tollgate_http_kit::query::parameters;
/// let mut read = parameters("entry=user=a+b%26&last");
/// assert_eq!(read.next(), Some(Ok(("entry".into(), "user=a b&".into()))));
/// assert_eq!(read.next(), Some(Ok(("last".into(), "".into()))));
/// ```
pub fn parameters(query: &str) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), Problem>> {
    query.split('&').filter(|parameter| !parameter.is_empty()).map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        Ok((decode(name)?, decode(value)?))
    })
}

/// Percent-decodes; `+` is a space, as in every encoder of forms.
fn decode(text: &str) -> Result<Cow<'_, str>, Problem> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    // The decoder leaves alone what it does not understand; a caller should learn of it.
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_escape) {
        return Err(Problem::bad(format!("the query's `{text}` has a % without two hexadecimal digits")));
    }
    let decoded = percent_decode_str(&text.replace('+', " ")).decode_utf8().map(Cow::into_owned);
    decoded.map(Cow::Owned).map_err(|_| Problem::bad(format!("the query's `{text}` is not UTF-8")))
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
