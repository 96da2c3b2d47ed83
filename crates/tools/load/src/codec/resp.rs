//! Replies of the Redis protocol: RESP2, and replies of RESP3 of the same shape.

use super::connection::Broken;
use super::in_order::CompleteReply;
use crate::tally::Verdict;

/// Maximum depth of nested arrays.
const DEPTH: u32 = 8;

/// In redis-cell's order: an array begins with 0 for admitted and 1 for denied. Any other reply except an
/// error is an admission.
pub(super) fn reply(input: &[u8]) -> Result<Option<CompleteReply>, Broken> {
    read(input, b'1')
}

/// In throttlecrab's order: an array begins with 1 for admitted and 0 for denied.
pub(super) fn throttlecrab_reply(input: &[u8]) -> Result<Option<CompleteReply>, Broken> {
    read(input, b'0')
}

/// In the order of `TOLLGATE.CHECK`: as redis-cell's, and then the rule, or null if none matched.
pub(super) fn check_reply(input: &[u8]) -> Result<Option<CompleteReply>, Broken> {
    let reply = reply(input)?;
    Ok(reply.map(|reply| {
        let text = &input[..reply.length];
        let is_null = text.ends_with(b"\r\n$-1\r\n") || text.ends_with(b"\r\n_\r\n");
        match reply.verdict {
            Verdict::Admitted if text.starts_with(b"*6\r\n:0\r\n") && is_null => {
                CompleteReply { verdict: Verdict::Unmatched, ..reply }
            }
            _ => reply,
        }
    }))
}

fn read(input: &[u8], denied: u8) -> Result<Option<CompleteReply>, Broken> {
    let Some(length) = end(input, 0, DEPTH)? else { return Ok(None) };
    let verdict = match input {
        [b'-' | b'!', ..] => {
            let line = input[1..length].split(|&byte| byte == b'\r').next().unwrap_or_default();
            Verdict::Error(String::from_utf8_lossy(line).into_owned())
        }
        // `*5`, line end, `:1`, line end.
        [b'*', rest @ ..] => {
            let after_line = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            match &rest[after_line..] {
                [b':', digit, b'\r', ..] if *digit == denied => Verdict::Denied,
                _ => Verdict::Admitted,
            }
        }
        _ => Verdict::Admitted,
    };
    Ok(Some(CompleteReply { length, verdict, is_last: false }))
}

/// Where the value that begins at `at` ends; `None` while it is incomplete.
fn end(input: &[u8], at: usize, depth: u32) -> Result<Option<usize>, Broken> {
    let Some((&kind, rest)) = input[at.min(input.len())..].split_first() else { return Ok(None) };
    let Some(line) = rest.iter().position(|&byte| byte == b'\r') else { return Ok(None) };
    let after_line = at + 1 + line + 2;
    if input.len() < after_line {
        return Ok(None);
    }
    let length = || {
        let text = std::str::from_utf8(&rest[..line]).ok();
        let length = text.and_then(|text| text.parse::<i64>().ok()).filter(|length| *length <= 1 << 30);
        length.ok_or_else(|| Broken::from("a reply that is not of the Redis protocol"))
    };
    let items = match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Ok(Some(after_line)),
        b'$' | b'=' | b'!' => {
            let end = usize::try_from(length()?).map_or(after_line, |length| after_line + length + 2);
            return Ok((input.len() >= end).then_some(end));
        }
        b'*' | b'~' | b'>' => length()?,
        b'%' => length()? * 2,
        _ => return Err(Broken::from("a reply that is not of the Redis protocol")),
    };
    if depth == 0 {
        return Err(Broken::from("a reply nested too deeply"));
    }
    let mut at = after_line;
    for _ in 0..items {
        match end(input, at, depth - 1)? {
            Some(end) => at = end,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart_and_end_where_they_end() {
        let error = |what: &str| Verdict::Error(what.to_owned());
        for (input, want) in [
            ("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", Verdict::Admitted),
            ("*5\r\n:1\r\n:16\r\n:0\r\n:9\r\n:2\r\n", Verdict::Denied),
            ("*6\r\n:1\r\n:16\r\n:0\r\n:9\r\n:2\r\n$4\r\nrule\r\n", Verdict::Denied),
            (":7\r\n", Verdict::Admitted),
            ("+PONG\r\n", Verdict::Admitted),
            ("$-1\r\n", Verdict::Admitted),
            ("*2\r\n*1\r\n:1\r\n%1\r\n+a\r\n$2\r\nxy\r\n", Verdict::Admitted),
            ("-ERR no such domain\r\n", error("ERR no such domain")),
            ("!5\r\nERR x\r\n", error("5")),
        ] {
            let bytes = [input.as_bytes(), b":1\r\n"].concat();
            let want = CompleteReply { length: input.len(), verdict: want, is_last: false };
            assert_eq!(reply(&bytes), Ok(Some(want)), "{input:?}");
            for cut in 0..input.len() {
                assert_eq!(reply(&input.as_bytes()[..cut]), Ok(None), "{input:?} cut at {cut}");
            }
        }
        for (input, verdict) in [(b"*1\r\n:0\r\n", Verdict::Denied), (b"*1\r\n:1\r\n", Verdict::Admitted)] {
            let want = CompleteReply { length: 8, verdict, is_last: false };
            assert_eq!(throttlecrab_reply(input), Ok(Some(want)));
        }
    }

    #[test]
    fn a_check_without_a_rule_is_not_taken_for_one_that_a_rule_admits() {
        for (input, verdict) in [
            ("*6\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:9\r\n$1\r\na\r\n", Verdict::Admitted),
            ("*6\r\n:1\r\n:5\r\n:0\r\n:9\r\n:9\r\n$1\r\na\r\n", Verdict::Denied),
            ("*6\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n$-1\r\n", Verdict::Unmatched),
            ("*6\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n_\r\n", Verdict::Unmatched),
            ("*6\r\n:1\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n$-1\r\n", Verdict::Denied),
        ] {
            let want = CompleteReply { length: input.len(), verdict, is_last: false };
            assert_eq!(check_reply(&[input, "+PONG\r\n"].concat().into_bytes()), Ok(Some(want)), "{input:?}");
        }
    }

    #[test]
    fn what_is_not_of_the_protocol_breaks_the_connection() {
        for input in ["HTTP/1.1 400 Bad Request\r\n", "*x\r\n", "$99999999999\r\n", &"*1\r\n".repeat(20)] {
            assert!(reply(input.as_bytes()).is_err(), "{input:?}");
        }
    }
}
