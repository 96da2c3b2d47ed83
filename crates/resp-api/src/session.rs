//! One client: who it is, which version of the protocol it speaks, and the commands that every Redis client sends.
//!
//! Not here: commands that decide (`throttle`, `check`), bytes (`connection`).

mod client;
mod hello;

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_store::Store;

use crate::api::RespApi;
use crate::info;
use crate::parse::{Caps, Span};
use crate::reply::{Reply, number_of};
use crate::settings::{Password, RespSettings};
use crate::table::{self, Command};

/// What a stranger may send: enough to say a password.
const STRANGERS_ARGUMENTS: usize = 10;
const STRANGERS_BULK: usize = 16 * 1024;
/// Bytes of an unknown command, and of its arguments, that the answer repeats.
const REPEATED: usize = 128;

/// What is known of one client.
#[derive(Debug)]
pub(crate) struct Session {
    id: u64,
    is_known: bool,
    pub(crate) is_resp3: bool,
    /// As `CLIENT SETNAME` said; empty for none.
    name: Box<[u8]>,
}

/// What a command means for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes on.
    Go,
    /// It ends when the answer is written.
    Quit,
    /// It ends now, without an answer.
    Drop,
    /// The command is one for rules, and was not answered here.
    Check,
}

/// A command, its name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) spans: &'a [Span],
}

impl<'a> Words<'a> {
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.input))
    }

    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> {
        self.spans.iter().skip(index).map(|span| span.of(self.input))
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }
}

impl Session {
    /// A client that has said nothing yet.
    pub(crate) fn new(id: u64, settings: &RespSettings) -> Self {
        Self { id, is_known: settings.password.is_none(), is_resp3: false, name: Box::default() }
    }

    /// It need not say a password, or has.
    #[inline]
    pub(crate) const fn is_known(&self) -> bool {
        self.is_known
    }

    /// What it may send.
    #[inline]
    pub(crate) fn caps(&self, settings: &RespSettings) -> Caps {
        let &RespSettings { max_bulk_bytes, max_arguments, max_command_bytes, .. } = settings;
        let caps = Caps {
            bulk: max_bulk_bytes,
            arguments: max_arguments,
            command: max_command_bytes,
            is_stranger: !self.is_known,
        };
        if self.is_known {
            return caps;
        }
        Caps {
            bulk: max_bulk_bytes.min(STRANGERS_BULK),
            arguments: max_arguments.min(STRANGERS_ARGUMENTS),
            ..caps
        }
    }

    /// Answers `words`, unless it is a command for rules.
    pub(crate) fn execute<S: Store>(
        &mut self,
        words: Words<'_>,
        api: &RespApi<S>,
        reply: &mut Reply<'_>,
    ) -> Next {
        let Some(name) = words.get(0) else { return Next::Go };
        let Some(command) = table::find(name) else {
            if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
                // A browser was made to send it here; nothing behind it may be taken for a command.
                tracing::debug!(
                    "an HTTP request came where Redis commands are spoken; its connection is closed"
                );
                return Next::Drop;
            }
            if !self.is_known {
                reply.error(NO_AUTH);
            } else {
                unknown(name, words, reply);
            }
            return Next::Go;
        };
        if !self.is_known && !command.is_for_strangers {
            reply.error(NO_AUTH);
        } else if !command.takes(words.len()) {
            wrong_number(command.name, reply);
        } else {
            return self.known(command, words, api, reply);
        }
        Next::Go
    }

    /// Answers a command of the table with a number of words that it takes.
    fn known<S: Store>(
        &mut self,
        command: &Command,
        words: Words<'_>,
        api: &RespApi<S>,
        reply: &mut Reply<'_>,
    ) -> Next {
        let settings = &api.settings;
        match command.name {
            "tollgate.check" => return Next::Check,
            "ping" => match (words.get(1), words.len()) {
                (None, _) => reply.simple("PONG"),
                (Some(message), 2) => reply.bulk(message),
                _ => wrong_number("ping", reply),
            },
            "echo" => reply.bulk(words.get(1).unwrap_or_default()),
            "auth" => self.auth(words, settings, reply, api),
            "hello" => self.hello(words, api, reply),
            "client" => self.client(words, reply),
            "command" => table::command(words, reply),
            "config" => config(words, reply),
            "info" => info::write(words, api, reply),
            "select" => match number_of(words.get(1).unwrap_or_default()) {
                Ok(0) => reply.simple("OK"),
                Ok(_) => reply.error("ERR DB index is out of range"),
                Err(wrong) => reply.error(wrong),
            },
            "quit" => {
                reply.simple("OK");
                return Next::Quit;
            }
            "reset" => {
                *self = Self::new(self.id, settings);
                reply.is_resp3 = false;
                reply.simple("RESET");
            }
            // The throttles are read before this is asked; only strangers' come here, and are sent away above.
            _ => unknown(command.name.as_bytes(), words, reply),
        }
        Next::Go
    }

    fn auth<S: Store>(
        &mut self,
        words: Words<'_>,
        settings: &RespSettings,
        reply: &mut Reply<'_>,
        api: &RespApi<S>,
    ) {
        let (user, guess) = match (words.get(1), words.get(2), words.get(3)) {
            (Some(_), None, _) if settings.password.is_none() => return reply.error(NO_PASSWORD_SET),
            (Some(guess), None, _) => (&b"default"[..], guess),
            (Some(user), Some(guess), None) => (user, guess),
            _ => return reply.error("ERR syntax error"),
        };
        if self.admit(user, guess, api) {
            reply.simple("OK");
        } else {
            reply.error(WRONG_PASSWORD);
        }
    }

    /// Whether that user with that password may come in; from then on it is known.
    fn admit<S: Store>(&mut self, user: &[u8], guess: &[u8], api: &RespApi<S>) -> bool {
        // As in Redis, the user `default` without a password comes in with any.
        let is_right = api.settings.password.as_ref().is_none_or(|password: &Password| password.is(guess));
        let is_admitted = is_right && user == b"default";
        if is_admitted {
            self.is_known = true;
        } else {
            api.figures.wrong_passwords.fetch_add(1, Relaxed);
        }
        is_admitted
    }
}

const NO_AUTH: &str = "NOAUTH Authentication required.";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. \
                               Are you sure your configuration is correct?";

/// Tells that there is no such command.
fn unknown(name: &[u8], words: Words<'_>, reply: &mut Reply<'_>) {
    let mut told = String::new();
    for word in words.from(1) {
        if told.len() >= REPEATED {
            break;
        }
        told.push('\'');
        told.push_str(&cut(word, REPEATED - told.len()));
        told.push_str("' ");
    }
    let name = cut(name, REPEATED);
    reply.error(format_args!("ERR unknown command '{name}', with args beginning with: {told}"));
}

/// Tells that `name` takes another number of words.
fn wrong_number(name: &str, reply: &mut Reply<'_>) {
    reply.error(format_args!("ERR wrong number of arguments for '{name}' command"));
}

/// At most so many bytes of `word`, as text.
fn cut(word: &[u8], most: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(&word[..word.len().min(most)])
}

/// `CONFIG GET`: tells clients which look for what a Redis would save that nothing is; there is nothing else to get.
fn config(words: Words<'_>, reply: &mut Reply<'_>) {
    match words.get(1) {
        Some(sub) if sub.eq_ignore_ascii_case(b"get") && words.len() > 2 => {
            let is_asked = |name: &str| words.from(2).any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
            let settings =
                [("save", ""), ("appendonly", "no")].map(|it| Some(it).filter(|it| is_asked(it.0)));
            reply.map(settings.iter().flatten().count());
            for (name, value) in settings.into_iter().flatten() {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        Some(sub) if sub.eq_ignore_ascii_case(b"get") => wrong_number("config|get", reply),
        sub => unknown_subcommand("CONFIG", sub.unwrap_or_default(), reply),
    }
}

pub(crate) fn unknown_subcommand(command: &str, sub: &[u8], reply: &mut Reply<'_>) {
    let sub = cut(sub, REPEATED);
    reply.error(format_args!("ERR unknown subcommand '{sub}'. Try {command} HELP."));
}
