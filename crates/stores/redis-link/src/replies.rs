//! The consequences of error replies and lost connections for the requests of a flight: requests to send
//! again, requests for another node, and faults of the server. Not here: the meaning of values (`workload`).

use tokio::time::Instant;
use tollgate_store::remote::HostPort;

use crate::request::{Planned, Request};
use crate::script::Script;
use crate::server_error::{Cause, ServerError, code, explain};
use crate::shared::Shared;

/// Most detours of one request: scripts loaded again, other nodes asked. Its time is usually over sooner.
const MOST_DETOURS: u32 = 16;

/// The work that is left once the replies are handled.
#[derive(Debug)]
pub(crate) struct RemainingWork<R> {
    /// To be sent again, before anything else; nothing was changed.
    pub(crate) again: Vec<Planned<R>>,
    /// To be sent to another node; nothing was changed.
    pub(crate) redirects: Vec<Redirect<R>>,
    /// The server cannot continue: a new connection is needed, to the server that is the right one then.
    pub(crate) error: Option<ServerError>,
    /// Pause before sending again.
    pub(crate) pause: bool,
    /// Calls were rejected for a reason that may apply to every call.
    pub(crate) doubt: bool,
    /// Scripts that the server does not know.
    pub(crate) unknown: Vec<&'static Script>,
}

/// A request that another node must answer.
#[derive(Debug)]
pub(crate) struct Redirect<R> {
    pub(crate) to: HostPort,
    /// The slot, when it has moved for good (MOVED); `None` with ASK.
    pub(crate) moved: Option<u16>,
    pub(crate) planned: Planned<R>,
}

/// Collects the outcomes of a flight's requests.
#[derive(Debug)]
pub struct Replies<'a, R> {
    server: &'a str,
    shared: &'a Shared,
    outcome: RemainingWork<R>,
}

impl<'a, R: Request> Replies<'a, R> {
    pub(crate) const fn new(server: &'a str, shared: &'a Shared) -> Self {
        let outcome = RemainingWork {
            again: Vec::new(),
            redirects: Vec::new(),
            error: None,
            pause: false,
            doubt: false,
            unknown: Vec::new(),
        };
        Self { server, shared, outcome }
    }

    pub(crate) fn outcome(self) -> RemainingWork<R> {
        self.outcome
    }

    /// The state that all connections share: it counts and words failures.
    #[must_use]
    pub const fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// The request has another command to send, before anything else.
    pub fn send_next(&mut self, mut planned: Planned<R>) {
        planned.asking = false;
        self.send_again(planned);
    }

    pub(crate) fn send_again(&mut self, planned: Planned<R>) {
        self.outcome.again.push(planned);
    }

    /// The request was sent, and no reply will come.
    pub(crate) fn lost(&self, mut planned: Planned<R>) {
        let shared = self.shared;
        let now = Instant::now();
        planned.request.fail_where(|_| true, |by| shared.silent(shared.waited(by, now)));
    }

    /// An error reply: the command was not run, or was ended before it wrote anything of this request's.
    pub fn on_error(&mut self, mut planned: Planned<R>, error: &str) {
        let shared = self.shared;
        let server = self.server;
        planned.detours += 1;
        if planned.detours > MOST_DETOURS {
            let reason = || shared.rejected(format!("{server}: keeps redirecting the call ({error})"));
            return planned.request.fail(reason);
        }
        let asking = std::mem::take(&mut planned.asking);
        match code(error) {
            "NOSCRIPT" => {
                if let Some(script) = planned.request.script()
                    && !self.outcome.unknown.iter().any(|known| std::ptr::eq(*known, script))
                {
                    self.outcome.unknown.push(script);
                }
                planned.asking = asking;
                self.send_again(planned);
            }
            // A proxy in front of a Cluster; from now on each key has a command of its own.
            "CROSSSLOT" if !shared.keep_slots_apart() || planned.request.shares_a_command() => {
                self.send_again(planned);
            }
            "MOVED" | "ASK" => match read_redirect(error, server) {
                Some((slot, to)) => {
                    shared.counters().redirects.add(1);
                    let moved = error.starts_with("MOVED").then_some(slot);
                    planned.asking = moved.is_none();
                    self.outcome.redirects.push(Redirect { to, moved, planned });
                }
                None => planned.request.fail(|| shared.rejected(format!("{server}: {error}"))),
            },
            // The keys of the call are moving: it is repeated until they have arrived, or its time is over.
            "TRYAGAIN" => {
                planned.asking = asking;
                planned.detours -= 1;
                self.outcome.pause = true;
                self.send_again(planned);
            }
            // The server is not a master any longer: the new master is asked, within the same time.
            "READONLY" => {
                self.outcome.error = Some(self.server_error(error));
                self.send_again(planned);
            }
            "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "NOAUTH" => {
                let error = self.server_error(error);
                planned.request.fail(|| shared.rejected(error.why.clone()));
                self.outcome.error = Some(error);
            }
            "WRONGTYPE" => {
                let reason = planned.request.wrong_type();
                planned.request.fail(|| shared.rejected(reason.as_str()));
            }
            _ => {
                let error = self.server_error(error);
                planned.request.fail(|| shared.rejected(error.why.clone()));
                self.outcome.doubt = true;
            }
        }
    }

    fn server_error(&self, error: &str) -> ServerError {
        let (cause, why) = explain(error, self.shared.settings().login.username.as_deref());
        let cause = if cause == Cause::Misconfigured { cause } else { Cause::Unavailable };
        ServerError::new(cause, format!("{}: {why}", self.server))
    }
}

/// `MOVED 3999 127.0.0.1:6381`; an empty host is the one that was asked.
fn read_redirect(error: &str, server: &str) -> Option<(u16, HostPort)> {
    let mut words = error.split(' ').skip(1);
    let slot = words.next()?.parse().ok()?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    let host = if host.is_empty() { server.rsplit_once(':')?.0 } else { host };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((slot, HostPort::new(host, port.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_read() {
        for (error, want) in [
            ("MOVED 3999 127.0.0.1:6381", Some((3999, HostPort::new("127.0.0.1", 6381)))),
            ("ASK 1 [::1]:7", Some((1, HostPort::new("::1", 7)))),
            ("ASK 1 ::1:7", Some((1, HostPort::new("::1", 7)))),
            ("MOVED 1 :7", Some((1, HostPort::new("here", 7)))),
            ("MOVED", None),
            ("MOVED x 127.0.0.1:1", None),
            ("MOVED 1 nowhere", None),
        ] {
            assert_eq!(read_redirect(error, "here:1"), want, "{error}");
        }
    }
}
