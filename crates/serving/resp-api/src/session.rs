//! The state of one client, and which commands it may send. Not here: what commands do (`standard`, `batch`).

use std::net::IpAddr;

use tollgate_core::Timestamp;
use tollgate_net::Guess;
use tollgate_store::Store;

use crate::arguments::Arguments;
use crate::command::{Command, Decision};
use crate::context::Context;
use crate::parse::Caps;
use crate::reply::wrong_number_of_arguments;
use crate::settings::{Password, RespSettings};
use crate::turn::Turn;
use crate::undecided::Reason;

/// Caps before authentication: enough to send a password.
const ANONYMOUS_ARGUMENTS: usize = 10;
const ANONYMOUS_BULK: usize = 16 * 1024;

/// The state of one client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    /// Where it is.
    pub(crate) peer: Option<IpAddr>,
    /// It has authenticated, or need not.
    pub(crate) is_authenticated: bool,
    pub(crate) is_resp3: bool,
    /// Set by `CLIENT SETNAME`; empty if it was not.
    pub(crate) name: Box<[u8]>,
}

/// Why a command is not executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rejection {
    /// It is not a Redis command but a browser's HTTP request. Nothing after it may be read as a command.
    Http,
    /// The client has to authenticate first.
    NoAuth,
    /// There is no such command.
    Unknown,
    /// The command takes another number of arguments.
    WrongNumber(&'static str),
}

impl Session {
    /// A client that has sent nothing yet.
    pub(crate) fn new(id: u64, peer: Option<IpAddr>, settings: &RespSettings) -> Self {
        let is_authenticated = settings.password.is_none();
        Self { id, peer, is_authenticated, is_resp3: false, name: Box::default() }
    }

    /// Caps on the client's commands; smaller before it has authenticated.
    #[inline]
    pub(crate) fn caps(&self, settings: &RespSettings) -> Caps {
        let &RespSettings { max_bulk_bytes, max_arguments, max_command_bytes, .. } = settings;
        let caps = Caps {
            bulk: max_bulk_bytes,
            arguments: max_arguments,
            command: max_command_bytes,
            is_anonymous: !self.is_authenticated,
        };
        if self.is_authenticated {
            return caps;
        }
        Caps {
            bulk: max_bulk_bytes.min(ANONYMOUS_BULK),
            arguments: max_arguments.min(ANONYMOUS_ARGUMENTS),
            ..caps
        }
    }

    /// The command of `arguments`, if this client may send it now.
    #[inline]
    pub(crate) fn admit(&self, arguments: Arguments<'_>) -> Result<Command, Rejection> {
        match Command::named(arguments.name()) {
            // Its number of arguments is checked where they are parsed.
            Some(command @ Command::Decide(Decision::Throttle(_))) if self.is_authenticated => Ok(command),
            Some(command) => self.admit_named(command, arguments),
            None => Err(self.reject_unnamed(arguments)),
        }
    }

    fn admit_named(&self, command: Command, arguments: Arguments<'_>) -> Result<Command, Rejection> {
        let spec = command.spec();
        if !self.is_authenticated && !spec.allows_anonymous {
            Err(Rejection::NoAuth)
        } else if !spec.takes(arguments.len()) {
            Err(Rejection::WrongNumber(spec.name))
        } else {
            Ok(command)
        }
    }

    #[cold]
    fn reject_unnamed(&self, arguments: Arguments<'_>) -> Rejection {
        let name = arguments.name();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            Rejection::Http
        } else if self.is_authenticated {
            Rejection::Unknown
        } else {
            Rejection::NoAuth
        }
    }

    /// Authenticates the client if `user` and `password` are right, unless its address has guessed wrong too
    /// often. As in Redis, the user `default` without a password is admitted with any.
    pub(crate) fn authenticate<S: Store>(
        &mut self,
        user: &[u8],
        password: &[u8],
        context: &Context<S>,
        now: Timestamp,
    ) -> Guess {
        let expected = context.settings.password.as_ref();
        let guess = context.guesses.judge(self.peer, now, (user, password), || {
            let is_right = expected.is_none_or(|expected: &Password| expected.is(password));
            is_right && user == b"default"
        });
        self.is_authenticated |= guess == Guess::Right;
        guess
    }
}

impl Rejection {
    /// Writes the error for the command of `arguments`.
    #[cold]
    pub(crate) fn write<S: Store>(self, arguments: Arguments<'_>, turn: &mut Turn<'_, S>) {
        match self {
            Self::Http => {}
            Self::NoAuth => turn.fail(Reason::Unauthorized, "NOAUTH Authentication required."),
            Self::Unknown => {
                turn.reject("ERR", Reason::Unknown, "unknown command");
                turn.reply.unknown_command(arguments.name(), arguments.from(1));
            }
            Self::WrongNumber(command) => turn.fail(Reason::Invalid, wrong_number_of_arguments(command)),
        }
    }
}
