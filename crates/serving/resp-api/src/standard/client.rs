//! `CLIENT`: properties of a connection that clients read and set when they connect.

use crate::arguments::Arguments;
use crate::reply::{ReplyWriter, excerpt, saturate, wrong_number_of_arguments};
use crate::session::Session;

/// Bytes of a client's name.
const MAX_NAME: usize = 256;

pub(super) fn run(arguments: Arguments<'_>, session: &mut Session, reply: &mut ReplyWriter<'_>) {
    let sub = arguments.get(1).unwrap_or_default();
    let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
    let wrong = match arguments.len() {
        2 if is("getname") => {
            return if session.name.is_empty() { reply.null() } else { reply.bulk(&session.name) };
        }
        2 if is("id") => return reply.integer(saturate(session.id)),
        2 if is("info") => {
            let name = String::from_utf8_lossy(&session.name);
            let version = if session.is_resp3 { 3 } else { 2 };
            return reply.text(&format!("id={} name={name} resp={version}\n", session.id));
        }
        3 if is("setname") => match arguments.get(2).map(name_of) {
            Some(Ok(name)) => {
                session.name = name;
                return reply.simple("OK");
            }
            Some(Err(wrong)) => return reply.error(wrong),
            None => "client|setname",
        },
        // No effect here, but clients send them and expect OK.
        3 if is("no-evict") || is("no-touch") => match arguments.get(2) {
            Some(word) if is_switch(word) => return reply.simple("OK"),
            _ => return reply.error("ERR syntax error"),
        },
        4 if is("setinfo") => match arguments.get(2) {
            Some(option) if is_library(option) => return reply.simple("OK"),
            option => {
                let option = excerpt(option.unwrap_or_default(), 64);
                return reply.error(format_args!("ERR Unrecognized option '{option}'"));
            }
        },
        _ if is("getname") => "client|getname",
        _ if is("id") => "client|id",
        _ if is("info") => "client|info",
        _ if is("setname") => "client|setname",
        _ if is("no-evict") => "client|no-evict",
        _ if is("no-touch") => "client|no-touch",
        _ if is("setinfo") => "client|setinfo",
        _ => return reply.unknown_subcommand("CLIENT", sub),
    };
    reply.error(wrong_number_of_arguments(wrong));
}

/// `given` as a client's name, if it is valid.
pub(super) fn name_of(given: &[u8]) -> Result<Box<[u8]>, &'static str> {
    if given.len() > MAX_NAME {
        return Err("ERR Client names are 256 bytes long at most.");
    }
    if given.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(given.into());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.")
}

fn is_switch(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"on") || word.eq_ignore_ascii_case(b"off")
}

fn is_library(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"lib-name") || option.eq_ignore_ascii_case(b"lib-ver")
}
