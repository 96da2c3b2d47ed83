//! A flight: one pipelined batch, the contents of one round trip. Not here: the connection, the time at which
//! a flight is sent, and the meaning of its commands (`workload`).

use tokio::time::Instant;

use crate::command::{array, bulk};
use crate::replies::{RemainingWork, Replies};
use crate::reply::Reply;
use crate::request::{Item as _, Planned, Request as _};
use crate::script::Script;
use crate::server_error::{ServerError, code};
use crate::shared::Shared;
use crate::value::Value;
use crate::workload::Workload;

/// An entry of a queue.
#[derive(Debug)]
pub(crate) enum QueueEntry<W: Workload> {
    /// An item from a caller.
    New(W::Item),
    /// A request that was in flight and has to be sent again: nothing was changed by then.
    Again(Box<Planned<W::Request>>),
}

impl<W: Workload> QueueEntry<W> {
    /// The instant until which a caller waits for it; `None` when no caller does.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        match self {
            Self::New(item) => item.waits_until(),
            Self::Again(planned) => planned.request.waits_until(),
        }
    }

    /// The instant until which it may wait at most, whether a caller still does or not.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::New(item) => Some(item.deadline()),
            Self::Again(planned) => planned.request.waits_until(),
        }
    }

    /// Fails it for callers whose time is over by `now`: nothing was sent. Gives it back where others still
    /// wait for it. Also returns the number of callers that failed.
    pub(crate) fn expire(self, now: Instant, shared: &Shared) -> (Option<Self>, u64) {
        let Some(by) = self.waits_until() else { return (None, 0) };
        if by > now {
            return (Some(self), 0);
        }
        match self {
            Self::Again(mut planned) => {
                let why = shared.not_sent_in_time().to_failure();
                let mut failed = 0;
                planned.request.fail_where(
                    |by| by <= now,
                    |_| {
                        failed += 1;
                        why.clone()
                    },
                );
                (planned.request.waits_until().is_some().then_some(Self::Again(planned)), failed)
            }
            Self::New(item) => {
                item.fail(shared.not_sent_in_time().to_failure());
                (None, 1)
            }
        }
    }

    /// Fails all its callers: nothing was sent.
    pub(crate) fn fail(self, why: &ServerError) {
        match self {
            Self::New(item) => item.fail(why.to_failure()),
            Self::Again(mut planned) => planned.request.fail(|| why.to_failure()),
        }
    }
}

/// The meaning of a reply on the wire.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// This number, sent back: later replies answer this flight, and the one before it was the last of the
    /// previous flight.
    Mark(u64),
    /// The script was loaded.
    Loaded,
    /// The node makes an exception.
    Asking,
    /// The command of this many requests.
    Command(usize),
}

/// Commands that a flight sends before its own.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    /// A number to be sent back, where another flight's replies come before this one's.
    pub(crate) mark: Option<u64>,
    /// Scripts to load.
    pub(crate) scripts: &'a mut Vec<&'static Script>,
}

/// A flight. Used again and again, so that its buffers are allocated once.
#[derive(Debug)]
pub(crate) struct Flight<W: Workload> {
    requests: Vec<Planned<W::Request>>,
    expects: Vec<Expect>,
    bytes: Vec<u8>,
    buffers: W::Buffers,
    /// When the first caller gives up, or earlier.
    deadline: Option<Instant>,
}

impl<W: Workload> Default for Flight<W> {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            expects: Vec::new(),
            bytes: Vec::new(),
            buffers: W::Buffers::default(),
            deadline: None,
        }
    }
}

impl<W: Workload> Flight<W> {
    /// Plans the requests of `entries`. Callers whose time is over are failed, and entries without a waiting
    /// caller are left out: neither is sent. `ahead` is sent first, if anything is.
    pub(crate) fn plan(
        &mut self,
        workload: &W,
        entries: &mut Vec<QueueEntry<W>>,
        now: Instant,
        shared: &Shared,
        ahead: Ahead<'_>,
    ) {
        self.requests.clear();
        workload.begin(&mut self.buffers);
        for entry in entries.drain(..) {
            let Some(by) = entry.waits_until() else { continue };
            match entry {
                QueueEntry::New(item) if by <= now => {
                    shared.counters().conn.unsent.add(1);
                    item.fail(shared.not_sent_in_time().to_failure());
                }
                QueueEntry::New(item) => {
                    if workload.add(item, &mut self.requests, &mut self.buffers) {
                        shared.counters().conn.merged.add(1);
                    }
                }
                QueueEntry::Again(mut planned) => {
                    expire(&mut planned, now, shared);
                    if planned.request.waits_until().is_some() {
                        self.requests.push(*planned);
                    }
                }
            }
        }
        let buffers = &mut self.buffers;
        self.requests.retain_mut(|planned| workload.prepare(&mut planned.request, buffers, shared));
        if !self.requests.is_sorted_by_key(|planned| planned.request.order()) {
            // A stable sort: requests for one key stay in order.
            self.requests.sort_by_key(|planned| planned.request.order());
        }
        self.write(workload, shared, ahead);
        self.deadline = self.requests.iter().filter_map(|planned| planned.request.waits_until()).min();
    }

    fn write(&mut self, workload: &W, shared: &Shared, ahead: Ahead<'_>) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 20);
        self.expects.clear();
        if self.requests.is_empty() {
            return;
        }
        if let Some(mark) = ahead.mark {
            array(&mut self.bytes, 2);
            bulk(&mut self.bytes, b"PING");
            bulk(&mut self.bytes, &mark.to_be_bytes());
            self.expects.push(Expect::Mark(mark));
        }
        for script in ahead.scripts.drain(..) {
            array(&mut self.bytes, 3);
            [b"SCRIPT", b"LOAD".as_slice(), script.source().as_bytes()]
                .into_iter()
                .for_each(|word| bulk(&mut self.bytes, word));
            self.expects.push(Expect::Loaded);
        }
        let one_slot = shared.keeps_slots_apart();
        let mut requests = &self.requests[..];
        while let Some(first) = requests.first() {
            let alike = if first.asking {
                self.bytes.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
                self.expects.push(Expect::Asking);
                &requests[..1]
            } else {
                &requests[..requests.iter().position(|planned| planned.asking).unwrap_or(requests.len())]
            };
            let count = workload.write(alike, one_slot, &self.buffers, &mut self.bytes).clamp(1, alike.len());
            self.expects.push(Expect::Command(count));
            requests = &requests[count..];
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Commands of requests that it carries.
    pub(crate) fn calls(&self) -> usize {
        self.expects.iter().filter(|expect| matches!(expect, Expect::Command(_))).count()
    }

    /// Requests that it carries.
    pub(crate) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replies to wait for.
    pub(crate) fn replies(&self) -> usize {
        self.expects.len()
    }

    /// When the first caller gives up; `None` when no caller waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Fails callers whose time is over; the others keep waiting. True when there were any.
    pub(crate) fn expire(&mut self, now: Instant, shared: &Shared) -> bool {
        if self.deadline.is_none_or(|by| by > now) {
            return false;
        }
        self.requests.iter_mut().for_each(|planned| expire(planned, now, shared));
        self.deadline = self.requests.iter().filter_map(|planned| planned.request.waits_until()).min();
        true
    }

    /// Whether its `nth` reply can be this one: a mark must come back as it was sent, or be rejected as any
    /// command would be.
    pub(crate) fn accepts(&self, nth: usize, reply: &Reply) -> bool {
        match (self.expects.get(nth), reply) {
            (Some(Expect::Mark(mark)), Reply::Value(Value::BulkString(bytes))) => {
                bytes[..] == mark.to_be_bytes()
            }
            (Some(Expect::Mark(_)), Reply::Error(error)) => {
                matches!(code(error), "NOPERM" | "LOADING" | "BUSY" | "MASTERDOWN" | "NOAUTH")
            }
            (Some(Expect::Mark(_)), Reply::Value(_)) | (None, _) => false,
            (Some(_), _) => true,
        }
    }

    /// Handles the replies that came, in order. For missing replies, `sent` says whether the commands may
    /// have reached the server: then the calls are lost, otherwise they are sent again.
    pub(crate) fn on_replies(
        &mut self,
        workload: &W,
        replies: &mut Vec<Reply>,
        sent: bool,
        server: &str,
        shared: &Shared,
    ) -> RemainingWork<W::Request> {
        let mut handled = Replies::new(server, shared);
        let mut replies = replies.drain(..);
        let mut requests = self.requests.drain(..);
        for expect in self.expects.drain(..) {
            let reply = replies.next();
            // An error of the other commands also shows in the reply to the command after them.
            let Expect::Command(count) = expect else { continue };
            let those = requests.by_ref().take(count);
            match reply {
                Some(Reply::Value(value)) => {
                    workload.on_reply(those, count, value, &mut self.buffers, &mut handled);
                }
                Some(Reply::Error(error)) => those.for_each(|planned| handled.on_error(planned, &error)),
                None if sent => those.for_each(|planned| handled.lost(planned)),
                None => those.for_each(|planned| handled.send_again(planned)),
            }
        }
        handled.outcome()
    }
}

/// Fails callers whose time is over: their calls may have been run or not.
fn expire<R: crate::request::Request>(planned: &mut Planned<R>, now: Instant, shared: &Shared) {
    planned.request.fail_where(|by| by <= now, |by| shared.silent(shared.waited(by, now)));
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Duration;
    use tollgate_store::StoreName;

    use super::*;
    use crate::echo::{Echo, EchoCall};
    use crate::request::Waiter;
    use crate::settings::LinkSettings;

    /// A node that takes a slot over is asked by ASKING each time, also when it loads a script first or does
    /// not have all keys yet.
    #[tokio::test]
    async fn a_call_keeps_asking_until_it_is_sent_elsewhere() {
        let mut settings = LinkSettings::parse_url("redis+cluster://a:1").expect("a URL");
        settings.deadline = Duration::from_secs(60);
        let shared = Shared::new(settings, StoreName::new("redis"), None).expect("settings");
        let (to, _answer) = oneshot::channel();
        let call = EchoCall::new(b"k", Waiter::new(to, Instant::now() + Duration::from_secs(60)));
        let mut flight = Flight::default();
        let mut entry = QueueEntry::New(call);
        let mut scripts = Vec::new();
        for (error, asks) in [
            ("ASK 7 b:1", false),
            ("NOSCRIPT no matching script", true),
            ("TRYAGAIN multiple keys", true),
            ("MOVED 7 c:1", true),
            ("TRYAGAIN multiple keys", false),
        ] {
            let ahead = Ahead { mark: None, scripts: &mut scripts };
            flight.plan(&Echo, &mut vec![entry], Instant::now(), &shared, ahead);
            let text = String::from_utf8_lossy(flight.bytes()).into_owned();
            let asked = text.contains("ASKING\r\n*4\r\n$7\r\nEVALSHA");
            assert_eq!(asked, asks, "before {error}: {text:?}");
            let mut replies = vec![Reply::Value(Value::Okay); flight.replies() - 1];
            replies.push(Reply::Error(error.to_owned()));
            let outcome = flight.on_replies(&Echo, &mut replies, true, "a:1", &shared);
            assert_eq!(outcome.pause, error.starts_with("TRYAGAIN"), "{error}");
            scripts = outcome.unknown;
            let redirected = outcome.redirects.into_iter().map(|it| it.planned);
            let planned = outcome.again.into_iter().chain(redirected).next().expect("it is sent again");
            entry = QueueEntry::Again(Box::new(planned));
        }
    }
}
