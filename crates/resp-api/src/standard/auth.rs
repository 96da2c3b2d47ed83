//! `AUTH [user] password`.

use std::sync::atomic::Ordering::Relaxed;

use tollgate_store::Store;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::reply::Reply;
use crate::session::Session;

pub(super) const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. \
                               Are you sure your configuration is correct?";

pub(super) fn run<S: Store>(
    arguments: Arguments<'_>,
    session: &mut Session,
    context: &Context<S>,
    reply: &mut Reply<'_>,
) {
    let settings = &context.settings;
    let (user, password) = match (arguments.get(1), arguments.get(2), arguments.get(3)) {
        (Some(_), None, _) if settings.password.is_none() => return reply.error(NO_PASSWORD_SET),
        (Some(password), None, _) => (&b"default"[..], password),
        (Some(user), Some(password), None) => (user, password),
        _ => return reply.error("ERR syntax error"),
    };
    if session.authenticate(user, password, settings) {
        reply.simple("OK");
    } else {
        context.stats.wrong_passwords.fetch_add(1, Relaxed);
        reply.error(WRONG_PASSWORD);
    }
}
