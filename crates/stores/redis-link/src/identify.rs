//! Recognizes servers that answer in place of Redis: a proxy in front of it, or a server that is too old.
//!
//! Proxies answer `HELLO` with an error, or close the connection. They pass on no `INFO`, no `SCRIPT`, or no
//! RESP3, and some send the keys of one script to several servers, so counters need Redis itself.

use crate::connection::Connection;
use crate::reply::Reply;
use crate::server_error::{Cause, ServerError, code};
use crate::value::Value;

/// The first Redis with `HELLO`, and so with RESP3.
const FIRST_WITH_HELLO: u32 = 6;

/// True when the server of a new `connection`, which closed one at `HELLO`, speaks the Redis protocol
/// otherwise, as nutcracker does. A server that speaks only TLS does not, and a server that was just ending
/// does not close twice.
pub(crate) async fn closes_at_hello_only(connection: &mut Connection) -> bool {
    if connection.ask_one(&[b"PING"]).await.is_err() {
        return false;
    }
    let hello = connection.ask_one(&[b"HELLO", b"3"]).await;
    hello.is_err_and(|error| error.cause == Cause::Network)
}

/// The error for a server that rejects `HELLO 3` with `error`, if the reason is that it does not know the
/// command. `auth` logs in before other questions.
pub(crate) async fn identify(
    connection: &mut Connection,
    error: &str,
    auth: Option<&[&[u8]]>,
) -> Option<ServerError> {
    let has_resp3 = code(error) != "NOPROTO";
    if has_resp3 && !lacks_hello(error) {
        return None;
    }
    let name = connection.name().clone();
    if let Some(auth) = auth {
        // If the login fails, so do the next commands.
        let _ = connection.ask_one(auth).await;
    }
    let says = match has_resp3 {
        true => None,
        false => connection.ask_one(&[b"HELLO", b"2"]).await.ok().as_ref().and_then(server_name),
    };
    let version = connection.ask_one(&[b"INFO", b"server"]).await.ok().as_ref().and_then(redis_version);
    let major = version.as_deref().and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    // A proxy has many connections to servers, so the number of a connection means nothing there.
    let id = connection.ask_one(&[b"CLIENT", b"ID"]).await;
    let is_redis = matches!(id, Ok(Reply::Value(Value::Int(_))));
    let why = match (version, major) {
        (Some(version), Some(major)) if has_resp3 && major < FIRST_WITH_HELLO => format!(
            "Redis {version} is too old: it lacks the command HELLO; Redis 7.0 or later, or Valkey, is needed"
        ),
        (Some(version), Some(_)) if has_resp3 && is_redis => format!(
            "Redis {version} lacks the command HELLO, which Redis 7.0 or later, or Valkey, has unless rename-command takes it away; \
             allow it there ({error})"
        ),
        _ => match says {
            Some(says) => proxy(&format!("answers as \"{says}\" and rejects HELLO 3 ({error})")),
            None => proxy(&format!("rejects HELLO 3 ({error})")),
        },
    };
    Some(ServerError::new(Cause::Misconfigured, format!("{name}: {why}")))
}

/// The error for a proxy that closes the connection.
pub(crate) fn closed_at_hello(name: &str) -> ServerError {
    let why = proxy("closes the connection at HELLO and answers PING");
    ServerError::new(Cause::Misconfigured, format!("{name}: {why}"))
}

fn proxy(what_it_does: &str) -> String {
    format!(
        "{what_it_does}, so it is a proxy in front of Redis, such as nutcracker (twemproxy) or Envoy's redis_proxy, and not Redis \
         7.0 or later, or Valkey; counters need scripts, INFO and RESP3 of Redis itself: give the address of Redis behind the \
         proxy"
    )
}

/// Whether a server rejects `HELLO` with `error` because it does not have it.
fn lacks_hello(error: &str) -> bool {
    let code = code(error);
    // An error with a code of its own is about something else, such as the login or the server's state.
    let is_of_its_own = code != "ERR" && !code.is_empty() && code.bytes().all(|c| c.is_ascii_uppercase());
    let error = error.to_ascii_lowercase();
    let words = ["unknown", "unsupported", "not support", "not allowed", "invalid command"];
    !is_of_its_own && words.iter().any(|word| error.contains(word))
}

/// The server's name in a reply to `HELLO 2`: names and values in turn.
fn server_name(reply: &Reply) -> Option<String> {
    let Reply::Value(Value::Array(parts)) = reply else { return None };
    let is_name = |pair: &&[Value]| pair.first().and_then(Value::text) == Some("server");
    let name = parts.chunks(2).find(is_name)?.get(1)?.text()?;
    Some(name.chars().filter(|c| c.is_ascii_graphic()).take(64).collect())
}

fn redis_version(reply: &Reply) -> Option<String> {
    let Reply::Value(info) = reply else { return None };
    let version = info.text()?.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
    Some(version.trim().chars().filter(char::is_ascii_graphic).take(64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lacks_hello_says_so_and_one_that_rejects_the_login_does_not() {
        for (error, want) in [
            ("ERR unknown command 'HELLO', with args beginning with: '3' ", true),
            ("ERR unknown command `HELLO`, with args beginning with: `3`, ", true),
            ("ERR unsupported command 'hello'", true),
            ("ERR handle request, command 'HELLO' is not allowed", true),
            ("ERR max number of clients reached", false),
            ("WRONGPASS unknown user", false),
            ("NOPERM User default is not allowed to run the 'hello' command", false),
            ("unsupported command", true),
            ("LOADING Redis is loading the dataset in memory", false),
            ("NOAUTH HELLO must be called with the client already authenticated", false),
        ] {
            assert_eq!(lacks_hello(error), want, "{error}");
        }
    }
}
