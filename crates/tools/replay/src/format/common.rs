//! The common log format, and the combined one, which has two fields more; also with the name of a virtual
//! host in front, as Apache's `vhost_combined`, or with the forwarded addresses behind, as nginx' `main`.

use crate::row::{Names, Row};

/// The fields of a line.
#[derive(Clone, Copy)]
enum Field {
    Client,
    Ident,
    User,
    Time,
    Request,
    Method,
    Target,
    Path,
    Protocol,
    Status,
    Bytes,
    Referer,
    Agent,
    Forwarded,
    Host,
}

/// Their names, in that order.
const NAMES: [&str; 15] = [
    "client",
    "ident",
    "user",
    "time",
    "request",
    "method",
    "target",
    "path",
    "protocol",
    "status",
    "bytes",
    "referer",
    "agent",
    "x_forwarded_for",
    "host",
];

/// Places that want each field.
pub(crate) struct Common {
    places: [Vec<(usize, u8)>; 15],
    /// Whether a part of the request, or a field after it, is wanted.
    wants_parts: bool,
    wants_rest: bool,
}

impl Common {
    pub(crate) fn new(names: &Names) -> Self {
        let places = NAMES.map(|name| names.places(name).to_vec());
        let wants = |fields: &[Field]| fields.iter().any(|field| !places[*field as usize].is_empty());
        Self {
            wants_parts: wants(&[Field::Method, Field::Target, Field::Path, Field::Protocol]),
            wants_rest: wants(&[Field::Status, Field::Bytes, Field::Referer, Field::Agent, Field::Forwarded]),
            places,
        }
    }

    /// `host ident user [time] "method target protocol" status bytes "referer" "agent"`; the fields after the
    /// request may be missing.
    pub(crate) fn read(&self, line: &str, row: &mut Row) -> Result<(), &'static str> {
        let mut set = |field: Field, value: &str| row.set(&self.places[field as usize], value);
        let (client, rest) = at_byte(line, b' ').ok_or("no field but the first")?;
        let (ident, rest) = at_byte(rest, b' ').ok_or("no user")?;
        let (user, rest) = at_byte(rest, b'[').ok_or("no time in [ ]")?;
        let (time, rest) = at_byte(rest, b']').ok_or("the time has no ]")?;
        let user = user.strip_suffix(' ').unwrap_or(user);
        match at_byte(user, b' ') {
            // Users may have spaces in their names, but then no address is where `ident` would be.
            Some((after, user)) if ident.parse::<std::net::IpAddr>().is_ok() => {
                set(Field::Host, client.rsplit_once(':').map_or(client, |(host, _port)| host));
                set(Field::Client, ident);
                set(Field::Ident, after);
                set(Field::User, user);
            }
            _ => {
                set(Field::Client, client);
                set(Field::Ident, ident);
                set(Field::User, user);
            }
        }
        set(Field::Time, time);
        let rest = rest.strip_prefix(" \"").ok_or("no request in quotes after the time")?;
        let (request, rest) = quoted(rest).ok_or("the request has no closing quote")?;
        set(Field::Request, request);
        if self.wants_parts
            && let Some((method, after)) = at_byte(request, b' ')
        {
            let (target, protocol) = at_byte(after, b' ').unwrap_or((after, ""));
            set(Field::Method, method);
            set(Field::Target, target);
            set(Field::Path, target.split(['?', '#']).next().unwrap_or(target));
            set(Field::Protocol, protocol);
        }
        if !self.wants_rest {
            return Ok(());
        }
        let mut rest = rest.trim_start();
        let (status, after) = at_byte(rest, b' ').unwrap_or((rest, ""));
        let (bytes, after) = at_byte(after, b' ').unwrap_or((after, ""));
        set(Field::Status, status);
        set(Field::Bytes, if bytes == "-" { "0" } else { bytes });
        rest = after;
        for field in [Field::Referer, Field::Agent, Field::Forwarded] {
            let Some((value, after)) = rest.trim_start().strip_prefix('"').and_then(quoted) else { break };
            set(field, value);
            rest = after;
        }
        Ok(())
    }
}

/// The texts before and after the first `byte`, which is ASCII.
#[inline]
fn at_byte(text: &str, byte: u8) -> Option<(&str, &str)> {
    let place = memchr::memchr(byte, text.as_bytes())?;
    Some((&text[..place], &text[place + 1..]))
}

/// The text up to the next quote without a backslash before it, and the text after.
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
