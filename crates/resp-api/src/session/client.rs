//! `CLIENT`: what clients say of themselves when they connect.

use super::{Session, Words, unknown_subcommand, wrong_number};
use crate::reply::Reply;

/// Bytes of a client's name.
const LONGEST_NAME: usize = 256;

impl Session {
    pub(super) fn client(&mut self, words: Words<'_>, reply: &mut Reply<'_>) {
        let sub = words.get(1).unwrap_or_default();
        let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
        let wrong = match words.len() {
            2 if is("getname") => {
                return if self.name.is_empty() { reply.null() } else { reply.bulk(&self.name) };
            }
            2 if is("id") => return reply.integer(crate::throttle::clamp(self.id)),
            2 if is("info") => {
                let name = String::from_utf8_lossy(&self.name);
                let version = if self.is_resp3 { 3 } else { 2 };
                return reply.text(&format!("id={} name={name} resp={version}\n", self.id));
            }
            3 if is("setname") => match words.get(2).map(name_of) {
                Some(Ok(name)) => {
                    self.name = name;
                    return reply.simple("OK");
                }
                Some(Err(wrong)) => return reply.error(wrong),
                None => "client|setname",
            },
            // Taken note of by nobody; but clients send it, and want to hear that it is well.
            3 if is("no-evict") || is("no-touch") => match words.get(2) {
                Some(word) if is_switch(word) => return reply.simple("OK"),
                _ => return reply.error("ERR syntax error"),
            },
            4 if is("setinfo") => match words.get(2) {
                Some(option) if is_library(option) => return reply.simple("OK"),
                option => {
                    let option = super::cut(option.unwrap_or_default(), 64);
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
            _ => return unknown_subcommand("CLIENT", sub, reply),
        };
        wrong_number(wrong, reply);
    }
}

/// A client's name, if that can be one.
pub(super) fn name_of(given: &[u8]) -> Result<Box<[u8]>, &'static str> {
    if given.len() > LONGEST_NAME {
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
