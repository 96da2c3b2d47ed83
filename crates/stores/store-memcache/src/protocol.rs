//! The few commands of memcached's text protocol that are used here, and the replies to them.
//!
//! Not here: reading and writing bytes (`connection`), and the meaning of the replies (`transaction`).

use crate::value::Stored;

/// memcached writes no longer line.
const LONGEST_LINE: usize = 2048;
/// Nothing of ours is longer; a foreign value may be, up to memcached's default limit.
const LONGEST_DATA: usize = 1 << 20;

/// One command's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandReply {
    /// The reply to `incr` and `decr`.
    Number(u64),
    Stored,
    NotStored,
    Exists,
    NotFound,
    Deleted,
    /// The reply to `gets` for an item that exists.
    Item {
        flags: u32,
        cas: u64,
        data: Box<[u8]>,
    },
    /// The reply to `gets` for an item that does not exist.
    Missing,
    Version,
    /// The command is invalid, or memcached cannot run it.
    Error(String),
}

/// The bytes are not a reply of memcached: later bytes cannot be read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

/// The first answer in `bytes` and its length; `None` while a part of it is missing.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(CommandReply, usize)>, Garbled> {
    let Some((line, after)) = line(bytes)? else { return Ok(None) };
    if let Some(rest) = line.strip_prefix("VALUE ") {
        let mut words = rest.split(' ').skip(1); // the item's name
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or(Garbled);
        let flags = number()?;
        let length = number()?;
        let cas = number()?;
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST_DATA).ok_or(Garbled)?;
        let Some(data) = bytes.get(after..after + length) else { return Ok(None) };
        let tail = &bytes[after + length..];
        const END: &[u8] = b"\r\nEND\r\n";
        if tail.len() < END.len() {
            return if END.starts_with(tail) { Ok(None) } else { Err(Garbled) };
        }
        if !tail.starts_with(END) {
            return Err(Garbled);
        }
        let flags = u32::try_from(flags).map_err(|_| Garbled)?;
        return Ok(Some((CommandReply::Item { flags, cas, data: data.into() }, after + length + END.len())));
    }
    let reply = match line {
        "STORED" => CommandReply::Stored,
        "NOT_STORED" => CommandReply::NotStored,
        "EXISTS" => CommandReply::Exists,
        "NOT_FOUND" => CommandReply::NotFound,
        "DELETED" => CommandReply::Deleted,
        "END" => CommandReply::Missing,
        _ if line.starts_with("VERSION") => CommandReply::Version,
        _ if line == "ERROR" || line.starts_with("CLIENT_ERROR ") || line.starts_with("SERVER_ERROR ") => {
            CommandReply::Error(line.to_owned())
        }
        // `decr` may leave spaces where digits were.
        _ => CommandReply::Number(line.trim_ascii_end().parse().map_err(|_| Garbled)?),
    };
    Ok(Some((reply, after)))
}

/// The first line without its end, and the beginning of the next one.
fn line(bytes: &[u8]) -> Result<Option<(&str, usize)>, Garbled> {
    let Some(end) = bytes.windows(2).take(LONGEST_LINE).position(|pair| pair == b"\r\n") else {
        return if bytes.len() > LONGEST_LINE { Err(Garbled) } else { Ok(None) };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| Garbled)?;
    Ok(Some((line, end + 2)))
}

/// `gets item`: flags, data, and a number to hand to [`cas`].
pub(crate) fn gets(out: &mut Vec<u8>, item: &[u8]) {
    command(out, &[b"gets", item]);
}

/// `incr item by`: adds, in one step.
pub(crate) fn incr(out: &mut Vec<u8>, item: &[u8], by: u64) {
    command(out, &[b"incr", item, by.to_string().as_bytes()]);
}

/// `decr item by`: subtracts, in one step, down to 0.
pub(crate) fn decr(out: &mut Vec<u8>, item: &[u8], by: u64) {
    command(out, &[b"decr", item, by.to_string().as_bytes()]);
}

/// Writes the command `delete item`.
pub(crate) fn delete(out: &mut Vec<u8>, item: &[u8]) {
    command(out, &[b"delete", item]);
}

/// `add item …`: stores where there is nothing.
pub(crate) fn add(out: &mut Vec<u8>, item: &[u8], stored: &Stored) {
    let head = format!("{} {} {}", stored.flags, stored.exptime, stored.data.len());
    command(out, &[b"add", item, head.as_bytes()]);
    command(out, &[stored.data.as_bytes()]);
}

/// `cas item …`: stores if the item is still as `gets` returned it with `cas`.
pub(crate) fn cas(out: &mut Vec<u8>, item: &[u8], stored: &Stored, cas: u64) {
    let head = format!("{} {} {} {cas}", stored.flags, stored.exptime, stored.data.len());
    command(out, &[b"cas", item, head.as_bytes()]);
    command(out, &[stored.data.as_bytes()]);
}

fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_answer_is_read_and_no_part_of_one() {
        let item = |data: &[u8]| CommandReply::Item { flags: 7, cas: 9, data: data.into() };
        for (text, want) in [
            ("STORED\r\n", CommandReply::Stored),
            ("NOT_STORED\r\n", CommandReply::NotStored),
            ("EXISTS\r\n", CommandReply::Exists),
            ("NOT_FOUND\r\n", CommandReply::NotFound),
            ("DELETED\r\n", CommandReply::Deleted),
            ("END\r\n", CommandReply::Missing),
            ("VERSION 1.6.18\r\n", CommandReply::Version),
            ("18446744073709551615\r\n", CommandReply::Number(u64::MAX)),
            ("9 \r\n", CommandReply::Number(9)),
            ("VALUE a 7 0 9\r\n\r\nEND\r\n", item(b"")),
            ("VALUE a 7 6 9\r\n1\r\nEND\r\nEND\r\n", item(b"1\r\nEND")),
            ("ERROR\r\n", CommandReply::Error("ERROR".into())),
            ("SERVER_ERROR out of memory\r\n", CommandReply::Error("SERVER_ERROR out of memory".into())),
        ] {
            for end in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..end]), Ok(None), "{text:?} up to {end}");
            }
            let more = format!("{text}STORED\r\n");
            assert_eq!(parse(more.as_bytes()), Ok(Some((want, text.len()))), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_an_answer_is_rejected() {
        let long = "x".repeat(LONGEST_LINE + 1);
        for text in [
            "HTTP/1.1 400 Bad Request\r\n",
            "\r\n",
            "-1\r\n",
            "VALUE a 7\r\n",
            "VALUE a 7 1 9\r\nxxx",
            long.as_str(),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Garbled), "{text:?}");
        }
        assert_eq!(parse(b"VALUE a 7 1048577 9\r\n"), Err(Garbled));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "(VALUE|END|[0-9 \r\n]){0,20}") {
            let _ = parse(&bytes);
            let _ = parse(text.as_bytes());
        }
    }
}
