//! One connection: reads what has arrived, executes every complete command in it, writes the replies at once.
//!
//! One task serves a connection. All commands that arrived together are executed at one reading of the clock,
//! and decisions are made in batches. While a client does not read its replies, nothing is read from it
//! either. Not here: accepting connections and TLS (`net`), what commands do (`batch`, `standard`).

mod end;
mod output;
mod oversized;
mod partial;

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tollgate_buffers::CallBuffers;
use tollgate_core::Timestamp;
use tollgate_net::{DrainWatch, IdleTimer, OverBudget, Presence, ReadAhead};
use tollgate_store::Store;

use self::end::End;
use self::oversized::{Broken, Oversized};
use self::partial::PartialCommand;
use crate::arguments::Arguments;
use crate::batch::Batch;
use crate::buffers::{OUTPUT, TurnBuffers, Work};
use crate::command::Command;
use crate::context::Context;
use crate::parse::{Parsed, ProtocolError, parse};
use crate::reply::ReplyWriter;
use crate::session::{Rejection, Session};
use crate::standard::{self, AfterCommand};
use crate::stats::Counts;
use crate::turn::{Pushed, Turn};
use crate::undecided::{Reason, Why};

/// Turns of a connection while the server drains: 16 MiB of commands, more than the system keeps of commands
/// that have arrived. A client that sends without end is served no longer.
const LAST_TURNS: u32 = 1024;
/// Wait of a draining connection for input, before it is sure that nothing has arrived.
const LAST_LOOK: Duration = Duration::from_millis(1);

/// One connection and its client.
pub(crate) struct Connection<IO, S: Store> {
    context: Arc<Context<S>>,
    io: ReadAhead<IO>,
    /// Whether the client is still there, for commands that wait.
    presence: Presence,
    session: Session,
    partial: PartialCommand,
    /// A command whose bytes are dropped; nothing of it is in `partial`. Boxed, so that the others hold no
    /// room for it.
    oversized: Option<Box<Oversized>>,
    /// Changes with every complete command, and when a partial one begins.
    progress: Progress,
    idle: IdleTimer<Progress>,
}

/// Progress of a connection, for its timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Turns that completed a command.
    turns: u64,
    /// The rest of a command is missing.
    is_partial: bool,
}

/// Result of one turn: the bytes used, and the bytes needed next.
struct Rest {
    /// Bytes that were used.
    used: usize,
    /// Bytes that the next command has at least.
    needed: usize,
}

impl<IO, S> Connection<IO, S>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
    S: Store,
{
    pub(crate) fn new(context: Arc<Context<S>>, io: IO, id: u64, peer: Option<IpAddr>) -> Self {
        context.stats.clients.fetch_add(1, Relaxed);
        let session = Session::new(id, peer, &context.settings);
        let partial = PartialCommand::new(&context.budget);
        let progress = Progress::default();
        let io = ReadAhead::new(io);
        let presence = Presence::default();
        let idle = IdleTimer::new(progress);
        Self { context, io, presence, session, partial, oversized: None, progress, idle }
    }

    /// Serves the connection until it ends. When `drain` becomes true, commands that have arrived are
    /// executed, and the connection is closed as soon as there are no more. Commands that arrive later are
    /// not executed.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an async fn holds the connection twice: as it came, and as it is used"
    )]
    pub(crate) fn serve(mut self, drain: watch::Receiver<bool>) -> impl Future<Output = ()> + Send {
        async move {
            let mut drain = DrainWatch::new(drain);
            let mut is_draining = false;
            let mut last_turns = LAST_TURNS;
            let mut has_looked_again = false;
            let end = loop {
                let arrival = std::future::poll_fn(|cx| {
                    is_draining = drain.has_begun(cx);
                    self.poll_arrival(cx, is_draining)
                });
                let (mut buffers, read) = match arrival.await {
                    Ok(arrived) => arrived,
                    Err(End::Close) if !has_looked_again => {
                        // The runtime knows of new bytes only after it has asked the system again. That is
                        // certain when a timer has fired, but not after a mere yield: an event that woke this
                        // task meanwhile, such as the drain, polls it at once.
                        has_looked_again = true;
                        sleep(LAST_LOOK).await;
                        continue;
                    }
                    Err(end) => break end,
                };
                if let Err(end) = self.turn(&mut buffers, read).await {
                    break end;
                }
                let is_full = read == buffers.input.len();
                drop(buffers);
                if is_draining {
                    (last_turns, has_looked_again) = (last_turns - 1, false);
                    if last_turns == 0 {
                        break End::Close;
                    }
                }
                if is_full {
                    // There is more to read, but other connections come first.
                    tokio::task::yield_now().await;
                }
            };
            if matches!(end, End::Close) {
                let _ = timeout(output::LINGER, output::linger(&mut self.io)).await;
            }
        }
    }

    /// Reads new bytes into buffers, after the kept ones. Returns how many bytes they hold.
    fn poll_arrival(
        &mut self,
        cx: &mut TaskContext<'_>,
        is_draining: bool,
    ) -> Poll<Result<(CallBuffers<TurnBuffers>, usize), End>> {
        let mut buffers = CallBuffers::<TurnBuffers>::take();
        let held = self.partial.copy_to(&mut buffers.input);
        let mut free = ReadBuf::new(&mut buffers.input[held..]);
        match Pin::new(&mut self.io).poll_read(cx, &mut free) {
            Poll::Ready(Ok(())) => match free.filled().len() {
                0 => Poll::Ready(Err(End::Gone)),
                read => Poll::Ready(Ok((buffers, held + read))),
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending if is_draining && self.partial.is_empty() => Poll::Ready(Err(End::Close)),
            Poll::Pending => self.poll_timeout(cx).map(Err),
        }
    }

    /// Ready when the client has been silent for too long.
    fn poll_timeout(&mut self, cx: &mut TaskContext<'_>) -> Poll<End> {
        let Context { settings, stats, .. } = &*self.context;
        let (timeout, count) = match self.progress.is_partial {
            true => (Some(settings.command_timeout), &stats.slow_writers),
            false => (Some(settings.idle_timeout).filter(|timeout| !timeout.is_zero()), &stats.idle),
        };
        self.idle.poll(cx, self.progress, timeout).map(|()| {
            count.fetch_add(1, Relaxed);
            End::Cut
        })
    }

    /// Executes every complete command of the bytes read.
    async fn turn(&mut self, buffers: &mut TurnBuffers, read: usize) -> Result<(), End> {
        let input = &mut buffers.input[..read];
        let work = &mut buffers.work;
        if !self.partial.is_long() {
            let rest = self.execute(input, work).await?;
            let kept = self.keep(&input[rest.used..], &rest);
            return self.check(kept, work).await;
        }
        let kept = self.partial.extend(input);
        if !self.partial.may_be_complete() {
            return self.check(kept, work).await;
        }
        let mut whole = self.partial.take();
        work.is_large = true;
        let rest = self.execute(&mut whole, work).await?;
        let kept = self.keep(&whole[rest.used..], &rest);
        self.check(kept, work).await
    }

    /// Keeps the unused bytes until the rest arrives.
    #[inline]
    fn keep(&mut self, bytes: &[u8], rest: &Rest) -> Result<(), OverBudget> {
        self.progress.turns += u64::from(rest.used > 0);
        self.progress.is_partial = !bytes.is_empty() || self.oversized.is_some();
        self.partial.replace(bytes, rest.needed)
    }

    /// Drops the command that is left over if it could not be `kept`.
    #[inline]
    async fn check(&mut self, kept: Result<(), OverBudget>, work: &mut Work) -> Result<(), End> {
        if kept.is_ok() {
            return Ok(());
        }
        let mut oversized = Box::new(Oversized::new(Why::Overload));
        let dropped = oversized.read(&self.partial.take());
        self.partial.discard();
        self.context.stats.over_budget.fetch_add(1, Relaxed); // once its bytes are no longer held
        if self.session.is_authenticated && dropped == Ok(None) {
            self.oversized = Some(oversized);
            return Ok(());
        }
        self.reject(ProtocolError::Budget, &mut work.out);
        output::write(&mut self.io, &mut work.out, &self.context).await?;
        Err(End::Close)
    }

    /// Counts a client that broke the protocol, and replies why its connection ends.
    #[cold]
    fn reject(&self, error: ProtocolError, out: &mut Vec<u8>) {
        let Self { context, presence, session, .. } = self;
        let reply = ReplyWriter { out, is_resp3: false };
        let peer = session.peer;
        let now = Timestamp::ZERO;
        let counts = Counts::default();
        reject(error, &mut Turn { context: &**context, peer, presence, now, reply, counts });
    }

    /// Executes every complete command of `input` and writes the replies.
    async fn execute(&mut self, input: &mut [u8], work: &mut Work) -> Result<Rest, End> {
        let Self { context, io, presence, session, oversized, .. } = self;
        let Work { arguments, batch, out, .. } = work;
        let mut turn = turn(context, session, presence, out);
        let mut caps = session.caps(&context.settings);
        let mut at = 0;
        let (needed, end) = loop {
            if let Some(dropped) = oversized {
                match drop_rest(dropped, &input[at..], &mut turn) {
                    Ok(Some(end)) => (at, *oversized) = (at + end, None),
                    Ok(None) => {
                        at = input.len();
                        break (0, None);
                    }
                    Err(end) => break (0, Some(end)),
                }
            }
            let end_of_command = match parse(input, at, arguments, &caps) {
                Ok(Parsed::Command { end }) => end,
                Ok(Parsed::Nothing { end }) => {
                    at = end;
                    continue;
                }
                Ok(Parsed::Part { needed }) => break (needed, None),
                Ok(Parsed::Oversized) => {
                    flush(batch, input, &mut turn, io).await;
                    *oversized = Some(Box::new(Oversized::new(Why::TooLarge)));
                    continue;
                }
                Err(error) => {
                    flush(batch, input, &mut turn, io).await;
                    reject(error, &mut turn);
                    break (0, Some(End::Close));
                }
            };
            let command = Arguments::new(input, arguments);
            match session.admit(command) {
                Ok(Command::Decide(decision)) => {
                    let mut pushed = batch.push(decision, command);
                    if let Pushed::Full = pushed {
                        flush(batch, input, &mut turn, io).await;
                        pushed = batch.push(decision, command);
                    }
                    if let Pushed::Invalid(message) = pushed {
                        flush(batch, input, &mut turn, io).await;
                        turn.fail(Reason::Invalid, message);
                    }
                }
                Ok(Command::Standard(standard)) => {
                    flush(batch, input, &mut turn, io).await;
                    if standard::execute(standard, command, session, &mut turn) == AfterCommand::Close {
                        break (0, Some(End::Close));
                    }
                    // The client may have authenticated.
                    caps = session.caps(&context.settings);
                }
                Err(rejection) => {
                    flush(batch, input, &mut turn, io).await;
                    if let Rejection::Http = rejection {
                        tracing::debug!("HTTP request on a Redis connection; closing it");
                        break (0, Some(End::Cut));
                    }
                    rejection.write(command, &mut turn);
                }
            }
            turn.counts.commands += 1;
            at = end_of_command;
            if turn.reply.out.len() >= OUTPUT {
                turn.report();
                output::write(io, turn.reply.out, context).await?;
                turn.now = context.now();
            }
        };
        flush(batch, input, &mut turn, io).await;
        turn.report();
        presence.unwatch();
        output::write(io, turn.reply.out, context).await?;
        end.map_or(Ok(Rest { used: at, needed }), Err)
    }
}

fn turn<'a, S: Store>(
    context: &'a Context<S>,
    session: &Session,
    presence: &'a Presence,
    out: &'a mut Vec<u8>,
) -> Turn<'a, S> {
    let reply = ReplyWriter { out, is_resp3: session.is_resp3 };
    let peer = session.peer;
    let now = context.now();
    let counts = Counts::default();
    Turn { context, peer, presence, now, reply, counts }
}

/// Decides the batch. While a command waits for its turn, the connection is read ahead: a client that has
/// sent its last byte waits no longer.
async fn flush<IO, S>(batch: &mut Batch, input: &[u8], turn: &mut Turn<'_, S>, io: &mut ReadAhead<IO>)
where
    IO: AsyncRead + Unpin,
    S: Store,
{
    let presence = turn.presence;
    let mut decided = pin!(batch.flush(input, turn));
    let all = std::future::poll_fn(|cx| {
        loop {
            let polled = decided.as_mut().poll(cx);
            if polled.is_ready() || !presence.look(io, cx) {
                return polled;
            }
        }
    });
    all.await;
}

/// Reads more of a command that is too large, and replies to it at its end; returns where that is.
#[cold]
fn drop_rest<S: Store>(
    dropped: &mut Oversized,
    input: &[u8],
    turn: &mut Turn<'_, S>,
) -> Result<Option<usize>, End> {
    match dropped.read(input) {
        Ok(end) => {
            if end.is_some() {
                turn.undecided(&dropped.command, dropped.why);
                turn.counts.commands += 1;
            }
            Ok(end)
        }
        Err(Broken) => {
            reject(ProtocolError::Broken, turn);
            Err(End::Close)
        }
    }
}

/// Counts a client that broke the protocol, and replies why its connection ends.
#[cold]
fn reject<S: Store>(error: ProtocolError, turn: &mut Turn<'_, S>) {
    turn.context.stats.protocol_errors.fetch_add(1, Relaxed);
    let reason = if error == ProtocolError::Budget { Reason::Overload } else { Reason::Malformed };
    turn.fail(reason, format_args!("ERR Protocol error: {error}"));
}

impl<IO, S: Store> Drop for Connection<IO, S> {
    fn drop(&mut self) {
        // First, so that an observer who sees the connection gone sees its bytes gone too.
        self.partial.discard();
        self.context.stats.clients.fetch_sub(1, Relaxed);
    }
}
