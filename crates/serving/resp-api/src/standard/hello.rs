//! `HELLO [2|3 [AUTH user password] [SETNAME name]]`: selects the version of the protocol.

use tollgate_core::Timestamp;
use tollgate_net::Guess;
use tollgate_store::Store;

use super::auth;
use super::client::name_of;
use super::info::REDIS_VERSION;
use crate::arguments::{Arguments, integer};
use crate::context::Context;
use crate::reply::{ReplyWriter, excerpt, saturate};
use crate::session::Session;

const NO_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                        <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                        the same time";

pub(super) fn run<S: Store>(
    arguments: Arguments<'_>,
    session: &mut Session,
    context: &Context<S>,
    now: Timestamp,
    reply: &mut ReplyWriter<'_>,
) {
    let is_resp3 = match arguments.get(1).map(integer) {
        None => session.is_resp3,
        Some(Ok(2)) => false,
        Some(Ok(3)) => true,
        Some(Ok(_)) => return reply.error("NOPROTO unsupported protocol version"),
        Some(Err(_)) => return reply.error("ERR Protocol version is not an integer or out of range"),
    };
    // All options are parsed before any has an effect.
    let mut user = None;
    let mut name = None;
    let mut at = 2;
    while let Some(option) = arguments.get(at) {
        match (arguments.get(at + 1), arguments.get(at + 2)) {
            (Some(name), Some(password)) if option.eq_ignore_ascii_case(b"auth") => {
                user = Some((name, password));
                at += 3;
            }
            (Some(given), _) if option.eq_ignore_ascii_case(b"setname") => {
                name = Some(given);
                at += 2;
            }
            _ => {
                let option = excerpt(option, 64);
                return reply.error(format_args!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
    }
    if let Some((user, password)) = user {
        let guess = session.authenticate(user, password, context, now);
        if guess != Guess::Right {
            return auth::reject(guess, reply);
        }
    }
    if !session.is_authenticated {
        return reply.error(NO_AUTH);
    }
    if let Some(name) = name {
        match name_of(name) {
            Ok(name) => session.name = name,
            Err(wrong) => return reply.error(wrong),
        }
    }
    // Nothing has failed: the reply is already in the new version.
    session.is_resp3 = is_resp3;
    reply.is_resp3 = is_resp3;
    reply.map(7);
    for (key, text) in [("server", "tollgate"), ("version", REDIS_VERSION)] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if is_resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(saturate(session.id));
    for (key, text) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
