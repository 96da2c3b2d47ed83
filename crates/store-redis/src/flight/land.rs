//! What the replies to a flight mean: answers, calls to send again, calls for another node, and what is wrong with the server.

use redis::Value;
use tokio::time::Instant;

use super::{Context, Expect, Flight, Item, Trip, Work};
use crate::ask::Fault;
use crate::call::{self, MOST_CALLS, Next};
use crate::figures::add;
use crate::reply::Reply;
use crate::trouble::{Kind, Trouble, code, explain};
use tollgate_store::remote::HostPort;

/// Most detours of one call: scripts loaded anew, other nodes asked. Its time is over sooner, mostly.
const MOST_DETOURS: u32 = 16;

/// What is left to do once the replies are dealt with.
#[derive(Debug, Default)]
pub(crate) struct Landing {
    /// To be sent again, before anything else; nothing was taken.
    pub(crate) again: Vec<Item>,
    /// To be sent to another node; nothing was taken.
    pub(crate) redirects: Vec<Redirect>,
    /// The server cannot go on: a new connection, to whoever is the right server then.
    pub(crate) trouble: Option<Trouble>,
    /// Not at once.
    pub(crate) pause: bool,
}

/// A call that another node must be asked.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) to: HostPort,
    /// The slot, when it has moved for good (MOVED); none with ASK.
    pub(crate) moved: Option<u16>,
    pub(crate) item: Item,
}

impl Flight {
    /// Deals with the replies that came, in order. Those that did not come: `sent` says whether the calls may have reached the server;
    /// then nobody knows what became of the permits, else the calls are sent again.
    pub(crate) fn land(
        &mut self,
        replies: &mut Vec<Reply>,
        sent: bool,
        server: &str,
        user: Option<&str>,
        ctx: &Context,
    ) -> Landing {
        let mut landing = Landing::default();
        let mut replies = replies.drain(..);
        let mut trips = self.trips.drain(..);
        for expect in self.expects.drain(..) {
            let reply = replies.next();
            match expect {
                // What is wrong with these is what the call after them is answered.
                Expect::Loaded | Expect::Asking => {}
                Expect::Trip => {
                    let Some(trip) = trips.next() else { break };
                    match reply {
                        Some(Reply::Value(value)) => value_came(trip, value, ctx, &mut landing),
                        Some(Reply::Error(error)) => {
                            let said = Said { error: &error, server, user };
                            said.error_came(trip, ctx, &mut landing, &mut self.unknown);
                        }
                        None if sent => lost(trip, ctx),
                        None => landing.again.push(Item::Trip(Box::new(trip))),
                    }
                }
            }
        }
        landing
    }
}

fn lost(mut trip: Trip, ctx: &Context) {
    let now = Instant::now();
    trip.fail_where(
        |_| true,
        |by| {
            // From when it was asked; a clock that both readings share never makes this negative.
            let asked = by.checked_sub(ctx.deadline).unwrap_or(now);
            ctx.silent(now.saturating_duration_since(asked))
        },
    );
}

fn value_came(mut trip: Trip, value: Value, ctx: &Context, landing: &mut Landing) {
    let next = match &mut trip.work {
        Work::Each { asks, now, .. } => call::answers(asks, *now, ctx.time, &value),
        Work::Together { asks, now, .. } => call::together_answers(asks, *now, ctx.time, &value),
        Work::Call { rider } => {
            if let Some(rider) = rider.take() {
                rider.answer(Ok(value));
            }
            return;
        }
    };
    match next {
        Ok(Next::Done(answers)) => trip.done(answers, ctx),
        Ok(Next::Again(call)) => {
            trip.call = Some(call);
            trip.calls += 1;
            trip.asking = false;
            if trip.calls < MOST_CALLS {
                landing.again.push(Item::Trip(Box::new(trip)));
            } else {
                let why = "the key's rule is being changed by others all the time";
                trip.fail(|| ctx.refused(why));
            }
        }
        Err(fault @ (Fault::Foreign { .. } | Fault::Unsupported { .. } | Fault::Reply(_))) => {
            trip.fail(|| ctx.fault(&fault));
        }
    }
}

/// An error, and by whom.
struct Said<'a> {
    error: &'a str,
    server: &'a str,
    user: Option<&'a str>,
}

impl Said<'_> {
    /// An error reply to a script call: the call was not run, or was ended before it wrote anything.
    fn error_came(
        &self,
        mut trip: Trip,
        ctx: &Context,
        landing: &mut Landing,
        unknown: &mut Vec<&'static crate::script::Script>,
    ) {
        let again = |trip: Trip| Item::Trip(Box::new(trip));
        trip.detours += 1;
        if trip.detours > MOST_DETOURS {
            return trip
                .fail(|| ctx.refused(format!("{}: sends the call on and on ({})", self.server, self.error)));
        }
        let asking = std::mem::take(&mut trip.asking);
        match code(self.error) {
            "NOSCRIPT" => {
                if let Some(call) = &trip.call
                    && !unknown.iter().any(|script| std::ptr::eq(*script, call.script))
                {
                    add(&ctx.counters.reloads, 1);
                    unknown.push(call.script);
                }
                trip.asking = asking;
                landing.again.push(again(trip));
            }
            "MOVED" | "ASK" => match read_redirect(self.error, self.server) {
                Some((slot, to)) => {
                    add(&ctx.counters.redirects, 1);
                    let moved = self.error.starts_with("MOVED").then_some(slot);
                    trip.asking = moved.is_none();
                    landing.redirects.push(Redirect { to, moved, item: again(trip) });
                }
                None => trip.fail(|| ctx.refused(format!("{}: {}", self.server, self.error))),
            },
            // The keys of the call are on their way: until they have arrived, or the time is over.
            "TRYAGAIN" => {
                trip.asking = asking;
                trip.detours -= 1;
                landing.pause = true;
                landing.again.push(again(trip));
            }
            // Not a master any longer: whoever is it now is asked, within the same time.
            "READONLY" => {
                landing.trouble = Some(self.trouble());
                landing.again.push(again(trip));
            }
            "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "NOAUTH" => {
                let trouble = self.trouble();
                trip.fail(|| ctx.refused(trouble.why.to_string()));
                landing.trouble = Some(trouble);
            }
            "WRONGTYPE" => {
                let key =
                    trip.call.iter().flat_map(|call| &call.keys).map(|key| String::from_utf8_lossy(key));
                let key = key.collect::<Vec<_>>().join(" or ");
                let found = "a value of another type".to_owned();
                trip.fail(|| ctx.fault(&Fault::Foreign { key: key.clone(), found: found.clone() }));
            }
            _ => {
                let trouble = self.trouble();
                trip.fail(|| ctx.refused(trouble.why.to_string()));
            }
        }
    }

    fn trouble(&self) -> Trouble {
        let (kind, why) = explain(self.error, self.user);
        let kind = if kind == Kind::Wrong { kind } else { Kind::NotNow };
        Trouble::new(kind, format!("{}: {why}", self.server))
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
