//! One connection and the flights that were sent on it. Replies come in the order of the commands, so the
//! oldest flight has the next reply, however late: a flight stays until all its replies have come, also when
//! no caller waits for them any more. Not here: the time at which a flight is sent, and the meaning of its
//! replies.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Duration, Instant};

use crate::connection::Connection;
use crate::flight::Flight;
use crate::reply::Reply;
use crate::server_error::{Cause, ServerError};
use crate::shared::Shared;
use crate::workload::Workload;

/// A flight that was sent, and the replies to it so far.
#[derive(Debug)]
pub(crate) struct InFlight<W: Workload> {
    pub(crate) flight: Flight<W>,
    pub(crate) replies: Vec<Reply>,
    /// Counts the flights of its queue.
    pub(crate) number: u64,
    pub(crate) sent_at: Instant,
}

/// One connection and the flights that were sent on it.
pub(crate) struct PipelinedConnection<W: Workload> {
    shared: Arc<Shared>,
    connection: Connection,
    in_flight: VecDeque<InFlight<W>>,
    /// Number of flights sent as a whole, and number of bytes sent of the next.
    sent: usize,
    written: usize,
    is_flushed: bool,
    /// The least round trip seen, the usual one, and its deviation.
    base: Duration,
    usual: Duration,
    varies: Duration,
    /// When a flight was last answered.
    answered_at: Instant,
    /// When the newest flight was sent.
    used_at: Instant,
}

impl<W: Workload> PipelinedConnection<W> {
    pub(crate) fn new(shared: &Arc<Shared>, connection: Connection, now: Instant) -> Self {
        let counters = &shared.counters().conn;
        counters.connects.add(1);
        counters.connections.add(1);
        Self {
            shared: shared.clone(),
            in_flight: VecDeque::new(),
            sent: 0,
            written: 0,
            is_flushed: true,
            base: connection.round_trip,
            usual: connection.round_trip,
            varies: connection.round_trip / 2,
            answered_at: now,
            used_at: now,
            connection,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.connection.name()
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(crate) fn base(&self) -> Duration {
        self.base
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn flights(&mut self) -> impl Iterator<Item = &mut Flight<W>> {
        self.in_flight.iter_mut().map(|sent| &mut sent.flight)
    }

    /// When the first caller that waits for any of its flights gives up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.in_flight.iter().filter_map(|sent| sent.flight.deadline()).min()
    }

    /// The instant at which its oldest flight becomes overdue: nothing else should be sent behind it then.
    pub(crate) fn overdue_at(&self, patience: Duration) -> Option<Instant> {
        let oldest = self.in_flight.front()?;
        Some((oldest.sent_at + self.usual).max(self.answered_at) + (4 * self.varies).max(patience / 4))
    }

    /// The instant since which nothing has arrived although a reply is due.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.in_flight.front().map(|oldest| oldest.sent_at.max(self.answered_at))
    }

    /// The instant since which it has nothing to do.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.in_flight.is_empty().then(|| self.used_at.max(self.answered_at))
    }

    /// True when nothing has arrived unasked; this can only be known while nothing is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.in_flight.is_empty() || self.connection.is_quiet()
    }

    pub(crate) fn launch(&mut self, flight: InFlight<W>) {
        self.used_at = flight.sent_at;
        self.in_flight.push_back(flight);
    }

    /// Sends and receives as much as it can; ready with a flight whose replies have all come. After an error
    /// it must be abandoned.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFlight<W>, ServerError>> {
        if let Err(error) = self.send(cx) {
            return Poll::Ready(Err(error));
        }
        loop {
            if let Some(oldest) = self.in_flight.front_mut().filter(|_| self.sent + self.written > 0) {
                while oldest.replies.len() < oldest.flight.replies() {
                    let Some(reply) = self.connection.next_reply()? else { break };
                    if !oldest.flight.accepts(oldest.replies.len(), &reply) {
                        let why = format!("{}: its replies do not belong to our commands", self.name());
                        return Poll::Ready(Err(ServerError::new(Cause::Misconfigured, why)));
                    }
                    oldest.replies.push(reply);
                }
                if oldest.replies.len() == oldest.flight.replies() {
                    return Poll::Ready(self.answered().ok_or_else(|| self.connection.unasked()));
                }
            } else if !self.connection.is_quiet() {
                return Poll::Ready(Err(self.connection.unasked()));
            }
            match pin!(self.connection.fill()).poll(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), ServerError> {
        while let Some(next) = self.in_flight.get(self.sent) {
            let bytes = &next.flight.bytes()[self.written..];
            if bytes.is_empty() {
                (self.sent, self.written, self.is_flushed) = (self.sent + 1, 0, false);
                continue;
            }
            match pin!(self.connection.write(bytes)).poll(cx) {
                Poll::Ready(written) => self.written += written?,
                Poll::Pending => return Ok(()),
            }
        }
        if !self.is_flushed && pin!(self.connection.flush()).poll(cx)?.is_ready() {
            self.is_flushed = true;
        }
        Ok(())
    }

    fn answered(&mut self) -> Option<InFlight<W>> {
        self.sent = self.sent.checked_sub(1)?; // or all was answered before all was asked
        let answered = self.in_flight.pop_front()?;
        let now = Instant::now();
        let took = now - answered.sent_at;
        self.answered_at = now;
        self.base = self.base.min(took);
        // A late reply, or one behind it, says nothing about the usual time.
        if answered.flight.deadline().is_some() {
            self.varies = (3 * self.varies + self.usual.abs_diff(took)) / 4;
            self.usual = (7 * self.usual + took) / 8;
        }
        Some(answered)
    }

    /// Its flights, each with whether a part of it was sent. No more replies to them will be read.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = (InFlight<W>, bool)> + use<W> {
        let whole = std::mem::take(&mut self.sent);
        let part = std::mem::take(&mut self.written) > 0;
        let sent = whole + usize::from(part);
        std::mem::take(&mut self.in_flight)
            .into_iter()
            .enumerate()
            .map(move |(nth, flight)| (flight, nth < sent))
    }
}

impl<W: Workload> Drop for PipelinedConnection<W> {
    fn drop(&mut self) {
        self.shared.counters().conn.connections.sub(1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::sync::oneshot;
    use tollgate_store::StoreName;

    use super::*;
    use crate::echo::{Echo, EchoCall};
    use crate::flight::{Ahead, QueueEntry};
    use crate::request::Waiter;
    use crate::settings::LinkSettings;

    /// Five flights on one connection: the first two are answered, the third was sent in part, and the others
    /// not at all.
    #[tokio::test]
    async fn a_connection_knows_which_flights_it_has_sent() {
        let settings = LinkSettings::parse_url("redis://far:1").expect("a URL");
        let shared = Arc::new(Shared::new(settings, StoreName::new("redis"), None).expect("settings"));
        let now = Instant::now();
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let connection = Connection::new(Box::new(near), "far:1".into(), false);
        let mut pipelined = PipelinedConnection::new(&shared, connection, now);
        let mut wire_length = 0;
        let mut answers = Vec::new();
        for number in 1..=5_u64 {
            let (to, answer) = oneshot::channel();
            answers.push(answer);
            let mut flight = Flight::default();
            let mark = (number > 1).then_some(number);
            let call = EchoCall::new(&[b'k'; 200], Waiter::new(to, now + Duration::from_secs(1)));
            let ahead = Ahead { mark, scripts: &mut Vec::new() };
            flight.plan(&Echo, &mut vec![QueueEntry::New(call)], now, &shared, ahead);
            wire_length += flight.bytes().len();
            pipelined.launch(InFlight { flight, replies: Vec::new(), number, sent_at: now });
        }
        assert!((1 << 10..2 << 10).contains(&wire_length), "{wire_length}");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(pipelined.poll(&mut cx).is_pending());
        // The first two are answered, by a server that has read only the contents of the buffer.
        let two = [&b"$1\r\na\r\n$8\r\n"[..], &2_u64.to_be_bytes(), b"\r\n$1\r\nb\r\n"].concat();
        far.write_all(&two).await.expect("room");
        for number in [1, 2] {
            match pipelined.poll(&mut cx) {
                Poll::Ready(Ok(answered)) => {
                    assert_eq!(
                        (answered.number, answered.flight.replies()),
                        (number, answered.replies.len())
                    );
                }
                other => panic!("{:?}", other.is_pending()),
            }
        }
        assert!(pipelined.poll(&mut cx).is_pending());
        drop(far);
        assert!(matches!(pipelined.poll(&mut cx), Poll::Ready(Err(_))));
        let left: Vec<_> = pipelined.abandon().map(|(flight, sent)| (flight.number, sent)).collect();
        let whole = (1 << 10) / (wire_length / 5);
        let want: Vec<_> = (3..=5).map(|number| (number, number <= whole as u64 + 1)).collect();
        assert_eq!(left, want);
    }
}
