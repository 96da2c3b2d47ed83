//! Replies of HTTP/1.1 with a length.

use super::connection::Broken;
use super::in_order::CompleteReply;
use crate::tally::Verdict;

/// Maximum size of a head.
const MAX_HEAD: usize = 65_536;

/// 429 is a denial, and so is 200 with a decision whose outcome is `deny`; another 2xx is an admission, by no
/// rule if the decision says so.
pub(super) fn reply(input: &[u8]) -> Result<Option<CompleteReply>, Broken> {
    let Some(head_end) = find(input, b"\r\n\r\n") else {
        let is_endless = input.len() > MAX_HEAD;
        let is_other =
            !input.starts_with(b"HTTP/1.") && !b"HTTP/1.".starts_with(&input[..input.len().min(7)]);
        return if is_endless || is_other { Err(not_http()) } else { Ok(None) };
    };
    let head = &input[..head_end];
    let body = &input[head_end + 4..];
    let status = head.get(9..12).filter(|_| head.starts_with(b"HTTP/1."));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
    let status = status.ok_or_else(not_http)?;
    let mut length = 0;
    let mut is_last = false;
    for line in head.split(|&byte| byte == b'\n') {
        if let Some(value) = value_of(line, b"content-length:") {
            let value = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<usize>().ok());
            length = value.filter(|length| *length <= 1 << 30).ok_or_else(not_http)?;
        } else if value_of(line, b"transfer-encoding:").is_some() {
            return Err(Broken::from("a reply in chunks, which this load generator does not read"));
        } else if let Some(value) = value_of(line, b"connection:") {
            is_last = value.trim_ascii().eq_ignore_ascii_case(b"close");
        }
    }
    let Some(body) = body.get(..length) else { return Ok(None) };
    let verdict = match status {
        200..=299 => decision(body),
        429 => Verdict::Denied,
        _ => Verdict::Error(describe(status, body)),
    };
    Ok(Some(CompleteReply { length: head_end + 4 + length, verdict, is_last }))
}

/// By the first outcome in a decision and the first rule, which are those of the whole. The rule is looked
/// for only if there is no limit.
fn decision(body: &[u8]) -> Verdict {
    const OUTCOME: &[u8] = b"\"outcome\":\"";
    const RULE: &[u8] = b"\"rule\":";
    let Some(at) = find(body, OUTCOME) else { return Verdict::Admitted };
    let rest = &body[at + OUTCOME.len()..];
    if rest.starts_with(b"deny\"") {
        return Verdict::Denied;
    }
    let is_unlimited = rest.starts_with(b"admit\",\"limit\":null");
    match find(rest, RULE).filter(|_| is_unlimited) {
        Some(at) if rest[at + RULE.len()..].starts_with(b"null") => Verdict::Unmatched,
        _ => Verdict::Admitted,
    }
}

/// The status and the beginning of the body.
fn describe(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(160)]);
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    format!("HTTP {status} {}", text.trim()).trim_end().to_owned()
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn not_http() -> Broken {
    Broken::from("a reply that is not of HTTP/1.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nx: y\r\n\r\n{body}", body.len())
    }

    #[test]
    fn statuses_and_outcomes_become_verdicts() {
        let error = |what: &str| Verdict::Error(what.to_owned());
        for (input, want) in [
            (response("200 OK", "ok"), Verdict::Admitted),
            (response("204 No Content", ""), Verdict::Admitted),
            (
                response("200 OK", r#"{"outcome":"admit","descriptors":[{"outcome":"admit"}]}"#),
                Verdict::Admitted,
            ),
            (
                response("200 OK", r#"{"outcome":"deny","descriptors":[{"outcome":"admit"}]}"#),
                Verdict::Denied,
            ),
            (
                response(
                    "200 OK",
                    r#"{"outcome":"admit","limit":null,"rule":null,"descriptors":[{"rule":null}]}"#,
                ),
                Verdict::Unmatched,
            ),
            (
                response(
                    "200 OK",
                    r#"{"outcome":"admit","limit":null,"rule":"a","descriptors":[{"rule":null}]}"#,
                ),
                Verdict::Admitted, // a rule without a limit
            ),
            (response("429 Too Many Requests", "{}"), Verdict::Denied),
            (response("404 Not Found", "no\nsuch"), error("HTTP 404 no such")),
            ("HTTP/1.1 503 Busy\r\n\r\n".to_owned(), error("HTTP 503")),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned(), Verdict::Admitted),
        ] {
            let bytes = [input.as_bytes(), b"HTTP"].concat();
            let want = CompleteReply { length: input.len(), verdict: want, is_last: input.contains("close") };
            assert_eq!(reply(&bytes), Ok(Some(want)), "{input}");
            for cut in 0..input.len() {
                assert_eq!(reply(&input.as_bytes()[..cut]), Ok(None), "{input} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_breaks_the_connection() {
        for input in [
            "-ERR unknown command\r\n",
            "HTTP/2 nonsense\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(reply(input.as_bytes()).is_err(), "{input}");
        }
    }
}
