//! `AUTH [user] password`.

use tollgate_core::Timestamp;
use tollgate_net::Guess;
use tollgate_store::Store;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::reply::ReplyWriter;
use crate::session::Session;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. \
                               Are you sure your configuration is correct?";

pub(super) fn run<S: Store>(
    arguments: Arguments<'_>,
    session: &mut Session,
    context: &Context<S>,
    now: Timestamp,
    reply: &mut ReplyWriter<'_>,
) {
    let settings = &context.settings;
    let (user, password) = match (arguments.get(1), arguments.get(2), arguments.get(3)) {
        (Some(_), None, _) if settings.password.is_none() => return reply.error(NO_PASSWORD_SET),
        (Some(password), None, _) => (&b"default"[..], password),
        (Some(user), Some(password), None) => (user, password),
        _ => return reply.error("ERR syntax error"),
    };
    match session.authenticate(user, password, context, now) {
        Guess::Right => reply.simple("OK"),
        rejected => reject(rejected, reply),
    }
}

/// Writes why a client is not authenticated.
pub(super) fn reject(guess: Guess, reply: &mut ReplyWriter<'_>) {
    match guess {
        Guess::Slowed { seconds } => reply.error(format_args!(
            "ERR too many wrong passwords from this address; the password was not compared: try again in {seconds} s"
        )),
        Guess::Right | Guess::Wrong => reply.error(WRONG_PASSWORD),
    }
}
