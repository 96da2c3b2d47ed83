//! What the replies to a flight mean: answers, calls to send again, calls for another node, and what is wrong with the server.

use std::sync::atomic::Ordering::Relaxed;

use redis::Value;
use tokio::time::Instant;

use super::{Context, Emptied, Expect, Flight, Item, Sends, Trip, Work};
use crate::ask::{Answer, Fault};
use crate::call::{self, MOST_CALLS, Next, Part, Replied};
use crate::figures::add;
use crate::reply::Reply;
use crate::script::Script;
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
    /// Calls were refused for a reason that may be every call's.
    pub(crate) doubt: bool,
    /// Scripts that the server said it does not know.
    pub(crate) unknown: Vec<&'static Script>,
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
        let Self { trips, expects, answers, spare, .. } = self;
        let mut runway = Runway { server, user, ctx, landing: Landing::default(), answers, spare };
        let (mut replies, mut trips) = (replies.drain(..), trips.drain(..));
        for expect in expects.drain(..) {
            let reply = replies.next();
            let count = match expect {
                // What is wrong with these is what the call after them is answered.
                Expect::Mark(_) | Expect::Loaded | Expect::Asking => continue,
                Expect::Steps(count) => count,
                Expect::Call => 1,
            };
            let mut those = trips.by_ref().take(count);
            match reply {
                Some(Reply::Value(value)) if matches!(expect, Expect::Steps(_)) => {
                    runway.steps_came(those, count, &value);
                }
                Some(Reply::Value(value)) => {
                    if let Some(trip) = those.next() {
                        runway.value_came(trip, value);
                    }
                }
                Some(Reply::Error(error)) => those.for_each(|trip| runway.error_came(trip, &error)),
                None if sent => those.for_each(|trip| lost(trip, ctx)),
                None => runway.landing.again.extend(those.map(|trip| Item::Trip(Box::new(trip)))),
            }
        }
        runway.landing
    }
}

fn lost(mut trip: Trip, ctx: &Context) {
    let now = Instant::now();
    trip.fail_where(|_| true, |by| ctx.silent(ctx.waited(by, now)));
}

/// Where trips come down: who answered, and what is left to do.
struct Runway<'a> {
    server: &'a str,
    user: Option<&'a str>,
    ctx: &'a Context,
    landing: Landing,
    /// Used again and again.
    answers: &'a mut Vec<Answer>,
    spare: &'a mut Vec<Emptied>,
}

impl Runway<'_> {
    /// The reply to a call on so many keys, each of which is answered by itself.
    fn steps_came(&mut self, trips: impl Iterator<Item = Trip>, count: usize, value: &Value) {
        let replied = Replied::read(value).and_then(|replied| match replied.len() {
            parts if parts == count => Ok(replied),
            parts => Err(Fault::Reply(format!("{parts} answers for {count} keys"))),
        });
        for (nth, trip) in trips.enumerate() {
            let part = replied.as_ref().map_err(Clone::clone).and_then(|replied| replied.part(nth));
            let next = match (part, &replied, &trip.work) {
                (Ok(Part::Failed(error)), ..) => {
                    self.error_came(trip, &error);
                    continue;
                }
                (Ok(part), Ok(replied), Work::Each { asks, now, .. }) => {
                    self.answers.clear();
                    call::answers(asks, *now, self.ctx.time, replied.at, &part, self.answers)
                }
                (Err(fault), ..) => Err(fault),
                _ => Err(Fault::Reply("a step that nobody asked for".to_owned())),
            };
            self.go_on(trip, next);
        }
    }

    /// The reply to a trip's own call.
    fn value_came(&mut self, mut trip: Trip, value: Value) {
        let next = match &mut trip.work {
            Work::Each { .. } => return self.steps_came(std::iter::once(trip), 1, &value),
            Work::Together { asks, now, .. } => {
                self.answers.clear();
                call::together_answers(asks, *now, self.ctx.time, &value, self.answers)
            }
            Work::Call { rider } => {
                if let Some(rider) = rider.take() {
                    rider.answer(Ok(value));
                }
                return;
            }
        };
        self.go_on(trip, next);
    }

    fn go_on(&mut self, mut trip: Trip, next: Result<Next, Fault>) {
        let ctx = self.ctx;
        trip.sends = match next {
            Ok(Next::Done) => return trip.done(self.answers, self.spare, ctx),
            Ok(Next::Step(step, hint)) => Sends::Step(step, hint, 0..0),
            Ok(Next::Again(call)) => Sends::Call(call),
            Err(fault) => return trip.fail(|| ctx.fault(&fault)),
        };
        trip.calls += 1;
        trip.asking = false;
        if trip.calls < MOST_CALLS {
            self.again(trip);
        } else {
            let why = "the key's rule is being changed by others all the time";
            trip.fail(|| ctx.refused(why));
        }
    }

    fn again(&mut self, trip: Trip) {
        self.landing.again.push(Item::Trip(Box::new(trip)));
    }

    /// An error reply to a script call: the call was not run, or was ended before it wrote anything of this trip's.
    fn error_came(&mut self, mut trip: Trip, error: &str) {
        let (ctx, server) = (self.ctx, self.server);
        trip.detours += 1;
        if trip.detours > MOST_DETOURS {
            return trip.fail(|| ctx.refused(format!("{server}: sends the call on and on ({error})")));
        }
        let asking = std::mem::take(&mut trip.asking);
        match code(error) {
            "NOSCRIPT" => {
                if let Some(script) = trip.script()
                    && !self.landing.unknown.iter().any(|known| std::ptr::eq(*known, script))
                {
                    self.landing.unknown.push(script);
                }
                trip.asking = asking;
                self.again(trip);
            }
            // Something between us and a Cluster; from now on each key has a call of its own.
            "CROSSSLOT" if !ctx.keeps_slots_apart.swap(true, Relaxed) || trip.sends.rank().is_some() => {
                self.again(trip);
            }
            "MOVED" | "ASK" => match read_redirect(error, server) {
                Some((slot, to)) => {
                    add(&ctx.counters.redirects, 1);
                    let moved = error.starts_with("MOVED").then_some(slot);
                    trip.asking = moved.is_none();
                    self.landing.redirects.push(Redirect { to, moved, item: Item::Trip(Box::new(trip)) });
                }
                None => trip.fail(|| ctx.refused(format!("{server}: {error}"))),
            },
            // The keys of the call are on their way: until they have arrived, or the time is over.
            "TRYAGAIN" => {
                trip.asking = asking;
                trip.detours -= 1;
                self.landing.pause = true;
                self.again(trip);
            }
            // Not a master any longer: whoever is it now is asked, within the same time.
            "READONLY" => {
                self.landing.trouble = Some(self.trouble(error));
                self.again(trip);
            }
            "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "NOAUTH" => {
                let trouble = self.trouble(error);
                trip.fail(|| ctx.refused(trouble.why.to_string()));
                self.landing.trouble = Some(trouble);
            }
            "WRONGTYPE" => {
                let fault = Fault::Foreign { key: trip.keys(), found: "a value of another type".to_owned() };
                trip.fail(|| ctx.fault(&fault));
            }
            _ => {
                let trouble = self.trouble(error);
                trip.fail(|| ctx.refused(trouble.why.to_string()));
                self.landing.doubt = true;
            }
        }
    }

    fn trouble(&self, error: &str) -> Trouble {
        let (kind, why) = explain(error, self.user);
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
    use std::sync::atomic::AtomicBool;

    use tokio::sync::oneshot;
    use tokio::time::Duration;
    use tollgate_core::{Cost, Quota, Timestamp};
    use tollgate_store::StoreName;

    use super::*;
    use crate::ask::{self, Ask};
    use crate::config::StoreTime;
    use crate::figures::Counters;
    use crate::flight::{Ahead, Rider};

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

    /// A node that takes a slot over is asked by ASKING each time, also when it loads a script first or has not got all keys yet.
    #[test]
    fn a_call_goes_on_asking_until_it_is_sent_elsewhere() {
        let ctx = Context {
            name: StoreName::new("redis"),
            time: StoreTime::Store,
            deadline: Duration::from_secs(60),
            counters: Counters::default(),
            keeps_slots_apart: AtomicBool::new(true),
        };
        let quota = Quota::fixed_window(9, Duration::from_secs(60)).expect("a quota");
        let ask = Ask { key: b"k".to_vec(), quota, kind: ask::Kind::Take(Cost::ONE) };
        let (to, _answer) = oneshot::channel();
        let rider = Rider::new(to, Instant::now() + ctx.deadline);
        let (mut flight, mut item) =
            (Flight::default(), Item::Ask(Box::new(ask), Timestamp::from_unix_seconds(1), rider));
        let mut scripts = Vec::new();
        for (error, asks) in [
            ("ASK 7 b:1", false),
            ("NOSCRIPT no matching script", true),
            ("TRYAGAIN multiple keys", true),
            ("MOVED 7 c:1", true),
            ("TRYAGAIN multiple keys", false),
        ] {
            let ahead = Ahead { mark: None, scripts: &mut scripts };
            flight.plan(&mut vec![item], Instant::now(), &ctx, ahead);
            let text = String::from_utf8_lossy(flight.bytes()).into_owned();
            let asked = text.contains("ASKING\r\n*5\r\n$7\r\nEVALSHA");
            assert_eq!(asked, asks, "before {error}: {text:?}");
            let mut replies = vec![Reply::Value(Value::Okay); flight.replies() - 1];
            replies.push(Reply::Error(error.to_owned()));
            let landing = flight.land(&mut replies, true, "a:1", None, &ctx);
            assert_eq!(landing.pause, error.starts_with("TRYAGAIN"), "{error}");
            scripts = landing.unknown;
            let sent_on = landing.redirects.into_iter().map(|it| it.item);
            item = landing.again.into_iter().chain(sent_on).next().expect("it goes on");
        }
    }
}
