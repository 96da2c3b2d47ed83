//! `HELLO [2|3 [AUTH user password] [SETNAME name]]`: which version of the protocol is spoken from here on.

use tollgate_store::Store;

use super::client::name_of;
use super::{Session, WRONG_PASSWORD, Words, cut};
use crate::api::RespApi;
use crate::info::REDIS_VERSION;
use crate::reply::{Reply, number_of};

const STRANGER: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                        <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                        the same time";

impl Session {
    pub(super) fn hello<S: Store>(&mut self, words: Words<'_>, api: &RespApi<S>, reply: &mut Reply<'_>) {
        let is_resp3 = match words.get(1).map(number_of) {
            None => self.is_resp3,
            Some(Ok(2)) => false,
            Some(Ok(3)) => true,
            Some(Ok(_)) => return reply.error("NOPROTO unsupported protocol version"),
            Some(Err(_)) => return reply.error("ERR Protocol version is not an integer or out of range"),
        };
        let (mut user, mut name, mut at) = (None, None, 2);
        while let Some(option) = words.get(at) {
            match (words.get(at + 1), words.get(at + 2)) {
                (Some(who), Some(password)) if option.eq_ignore_ascii_case(b"auth") => {
                    user = Some((who, password));
                    at += 3;
                }
                (Some(given), _) if option.eq_ignore_ascii_case(b"setname") => {
                    name = Some(given);
                    at += 2;
                }
                _ => {
                    let option = cut(option, 64);
                    return reply.error(format_args!("ERR Syntax error in HELLO option '{option}'"));
                }
            }
        }
        if let Some((user, password)) = user
            && !self.admit(user, password, api)
        {
            return reply.error(WRONG_PASSWORD);
        }
        if !self.is_known {
            return reply.error(STRANGER);
        }
        if let Some(name) = name {
            match name_of(name) {
                Ok(name) => self.name = name,
                Err(wrong) => return reply.error(wrong),
            }
        }
        self.is_resp3 = is_resp3;
        reply.is_resp3 = is_resp3;
        reply.map(7);
        for (key, text) in [("server", "tollgate"), ("version", REDIS_VERSION)] {
            reply.bulk(key.as_bytes());
            reply.bulk(text.as_bytes());
        }
        reply.bulk(b"proto");
        reply.integer(if is_resp3 { 3 } else { 2 });
        reply.bulk(b"id");
        reply.integer(crate::throttle::clamp(self.id));
        for (key, text) in [("mode", "standalone"), ("role", "master")] {
            reply.bulk(key.as_bytes());
            reply.bulk(text.as_bytes());
        }
        reply.bulk(b"modules");
        reply.array(0);
    }
}
