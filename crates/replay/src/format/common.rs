//! The common log format, and the combined one, which has two fields more.

use crate::row::{Names, Row};

/// `host ident user [time] "method target protocol" status bytes "referer" "agent"`; what comes after the
/// time may be cut off by a server's own format.
pub(crate) fn common(line: &str, names: &Names, row: &mut Row) -> Result<(), &'static str> {
    let mut set = |name: &str, value: &str| row.set(names.places(name), value);
    let (client, rest) = line.split_once(' ').ok_or("no field but the first")?;
    let (ident, rest) = rest.split_once(' ').ok_or("no user")?;
    let (user, rest) = rest.split_once(" [").ok_or("no time in [ ]")?;
    let (time, rest) = rest.split_once(']').ok_or("the time has no ]")?;
    set("client", client);
    set("ident", ident);
    set("user", user);
    set("time", time);
    let rest = rest.strip_prefix(" \"").ok_or("no request in quotes after the time")?;
    let (request, rest) = quoted(rest).ok_or("the request has no closing quote")?;
    set("request", request);
    let mut words = request.split(' ');
    if let (Some(method), Some(target)) = (words.next(), words.next()) {
        set("method", method);
        set("target", target);
        set("path", target.split(['?', '#']).next().unwrap_or(target));
        set("protocol", words.next().unwrap_or_default());
    }
    let mut rest = rest.trim_start();
    for name in ["status", "bytes"] {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        set(name, if (name, word) == ("bytes", "-") { "0" } else { word });
        rest = after;
    }
    for name in ["referer", "agent"] {
        let Some((value, after)) = rest.trim_start().strip_prefix('"').and_then(quoted) else { break };
        set(name, value);
        rest = after;
    }
    Ok(())
}

/// Until the next quote that has no backslash before it, and what comes after.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let quote = from + memchr::memchr(b'"', text.as_bytes().get(from..)?)?;
        let slashes = text[..quote].bytes().rev().take_while(|&byte| byte == b'\\').count();
        if slashes % 2 == 0 {
            return Some((&text[..quote], &text[quote + 1..]));
        }
        from = quote + 1;
    }
}
