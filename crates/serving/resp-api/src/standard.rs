//! The commands that every Redis client may send, answered at once. Not here: commands that decide (`batch`).

mod auth;
mod client;
mod command;
mod config;
mod hello;
mod info;

use tollgate_store::Store;

use crate::arguments::{Arguments, integer};
use crate::command::Standard;
use crate::reply::wrong_number_of_arguments;
use crate::session::Session;
use crate::turn::Turn;

/// State of the connection after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterCommand {
    /// It stays open.
    Continue,
    /// It is closed when the reply has been written.
    Close,
}

/// Executes `command` and writes its reply.
pub(crate) fn execute<S: Store>(
    command: Standard,
    arguments: Arguments<'_>,
    session: &mut Session,
    turn: &mut Turn<'_, S>,
) -> AfterCommand {
    if command == Standard::Info {
        // It counts the commands before it.
        turn.report();
    }
    let Turn { context, now, reply, .. } = turn;
    match command {
        Standard::Auth => auth::run(arguments, session, context, *now, reply),
        Standard::Client => client::run(arguments, session, reply),
        Standard::Command => command::run(arguments, reply),
        Standard::Config => config::run(arguments, reply),
        Standard::Echo => reply.bulk(arguments.get(1).unwrap_or_default()),
        Standard::Hello => hello::run(arguments, session, context, *now, reply),
        Standard::Info => info::run(arguments, context, reply),
        Standard::Ping => match (arguments.get(1), arguments.len()) {
            (None, _) => reply.simple("PONG"),
            (Some(message), 2) => reply.bulk(message),
            _ => reply.error(wrong_number_of_arguments("ping")),
        },
        Standard::Quit => {
            reply.simple("OK");
            return AfterCommand::Close;
        }
        Standard::Reset => {
            *session = Session::new(session.id, session.peer, &context.settings);
            reply.is_resp3 = false;
            reply.simple("RESET");
        }
        Standard::Select => match integer(arguments.get(1).unwrap_or_default()) {
            Ok(0) => reply.simple("OK"),
            Ok(_) => reply.error("ERR DB index is out of range"),
            Err(message) => reply.error(message),
        },
    }
    AfterCommand::Continue
}
