//! One connection: reads what is there, answers every command in it, writes once.
//!
//! One task drives a connection. All commands that came together are answered at one reading of the clock, those that bring
//! their own rate in batches, and their replies leave in one write. A client that does not read its replies is not read from either. Not here:
//! accepting connections and TLS (`net`), what commands mean (`session`, `throttle`, `check`).

mod half;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tollgate_core::Timestamp;
use tollgate_store::Store;

use self::half::Half;
use crate::api::RespApi;
use crate::desk::{Lent, OUTPUT, Tools, lend};
use crate::figures::Turn;
use crate::parse::{Fault, Parsed, parse};
use crate::reply::Reply;
use crate::session::{Next, Session, Words};
use crate::table;
use crate::throttle::{Form, Joined};

/// What is still read, and how long, after the last reply: a peer that is cut off while it sends may never see that reply.
const LINGER_BYTES: usize = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// Turns that a connection gets when the server drains and it goes on asking.
const LAST_TURNS: u32 = 64;

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The peer has closed it, or it broke.
    Gone,
    /// We do, and the last reply has been written.
    Said,
    /// We do, without a word.
    Cut,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// One connection and its client.
pub(crate) struct Connection<IO, S: Store> {
    api: Arc<RespApi<S>>,
    io: IO,
    session: Session,
    half: Half,
    /// Since when nothing has come but pieces, where that has a bound.
    waits_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// What one turn left.
struct Left {
    /// Bytes that were used.
    used: usize,
    /// Bytes from there that the next command has at least.
    needed: usize,
}

impl<IO, S> Connection<IO, S>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
    S: Store,
{
    pub(crate) fn new(api: Arc<RespApi<S>>, io: IO, id: u64) -> Self {
        api.figures.clients.fetch_add(1, Relaxed);
        let session = Session::new(id, &api.settings);
        Self { api, io, session, half: Half::default(), waits_since: None, timer: None }
    }

    /// Serves it until it ends. When `drain` turns true, what has come is answered, and that is the end.
    pub(crate) async fn serve(mut self, mut drain: watch::Receiver<bool>) {
        let mut leaving = std::pin::pin!(async move {
            // Without a sender nobody asks; then wait for ever.
            if drain.wait_for(|&drain| drain).await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        let (mut is_leaving, mut last_turns) = (false, LAST_TURNS);
        let end = loop {
            let arrival = std::future::poll_fn(|cx| {
                is_leaving = is_leaving || leaving.as_mut().poll(cx).is_ready();
                self.poll_arrival(cx, is_leaving)
            });
            let (mut desk, read) = match arrival.await {
                Ok(arrived) => arrived,
                Err(end) => break end,
            };
            if let Err(end) = self.turn(&mut desk, read).await {
                break end;
            }
            let is_full = read == desk.input.len();
            drop(desk);
            if is_leaving {
                last_turns -= 1;
                if last_turns == 0 || (self.half.is_empty() && !is_full) {
                    break End::Said;
                }
            }
            if is_full {
                // There is more; but the others come first.
                tokio::task::yield_now().await;
            }
        };
        if matches!(end, End::Said) {
            let _ = timeout(LINGER, self.linger()).await;
        }
    }

    /// Reads what is there to a desk: how many bytes of it are filled, those that were left over before included.
    fn poll_arrival(&mut self, cx: &mut Context<'_>, is_leaving: bool) -> Poll<Result<(Lent, usize), End>> {
        let mut desk = lend();
        let held = self.half.put_back(&mut desk.input);
        let mut buffer = ReadBuf::new(&mut desk.input[held..]);
        match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => match buffer.filled().len() {
                0 => Poll::Ready(Err(End::Gone)),
                read => Poll::Ready(Ok((desk, held + read))),
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending if is_leaving && self.half.is_empty() => Poll::Ready(Err(End::Said)),
            Poll::Pending => self.poll_patience(cx).map(Err),
        }
    }

    /// Ready when the peer has been waited for long enough.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let settings = &self.api.settings;
        let is_half = !self.half.is_empty();
        let patience = if is_half { settings.command_timeout } else { settings.idle_timeout };
        if patience.is_zero() && !is_half {
            self.timer = None;
            return Poll::Pending;
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let Some(until) = since.checked_add(patience) else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        // A timer that was set for an earlier wait is left alone until it fires: most waits are short.
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= until {
                let figures = &self.api.figures;
                let count = if is_half { &figures.slow_writers } else { &figures.idle };
                count.fetch_add(1, Relaxed);
                return Poll::Ready(End::Cut);
            }
            timer.as_mut().reset(until);
        }
        Poll::Pending
    }

    /// Answers every command that is whole.
    async fn turn(&mut self, desk: &mut Lent, read: usize) -> Result<(), End> {
        let desk = &mut **desk;
        let (input, tools) = (&mut desk.input[..read], &mut desk.tools);
        if !self.half.is_long() {
            let left = self.answer(input, tools).await?;
            let kept = self.keep(&input[left.used..], &left);
            return self.go_on(kept, tools).await;
        }
        let most = self.api.settings.max_buffered_bytes;
        let kept = self.half.extend(input, &self.api.figures, most);
        if kept.is_err() || !self.half.is_enough() {
            return self.go_on(kept, tools).await;
        }
        let mut whole = self.half.take();
        tools.is_large = true;
        let left = self.answer(&mut whole, tools).await?;
        let kept = self.keep(&whole[left.used..], &left);
        self.go_on(kept, tools).await
    }

    /// Keeps what is left over until the rest comes.
    #[inline]
    fn keep(&mut self, rest: &[u8], left: &Left) -> Result<(), Fault> {
        if left.used > 0 || self.half.is_empty() {
            self.waits_since = None;
        }
        let most = self.api.settings.max_buffered_bytes;
        self.half.keep(rest, left.needed, &self.api.figures, most)
    }

    /// Goes on unless something is wrong, which is said.
    #[inline]
    async fn go_on(&mut self, kept: Result<(), Fault>, tools: &mut Tools) -> Result<(), End> {
        let Err(fault) = kept else { return Ok(()) };
        self.refuse(fault, &mut tools.out);
        self.write(&mut tools.out).await?;
        Err(End::Said)
    }

    /// Answers every command of `input` that is whole, and writes the answers.
    async fn answer(&mut self, input: &mut [u8], tools: &mut Tools) -> Result<Left, End> {
        let (mut at, mut turn) = (0, Turn::default());
        let mut now = self.api.now();
        let mut caps = self.session.caps(&self.api.settings);
        let (needed, end) = loop {
            let Tools { arguments, run, out, scratch, check, checks, .. } = &mut *tools;
            let parsed = parse(input, at, arguments, &caps);
            let limiter = &*self.api.limiter;
            let is_resp3 = self.session.is_resp3;
            match parsed {
                Ok(Parsed::Command { end }) => {
                    let form = arguments.first().and_then(|name| Form::of(name.of(input)));
                    if let Some(form) = form.filter(|_| self.session.is_known()) {
                        if limiter.store().is_remote() {
                            let mut reply = Reply { out, is_resp3 };
                            checks.settle(limiter, input, now, &mut reply, &mut turn).await;
                        }
                        let mut joined = run.join(form, input, arguments);
                        let mut reply = Reply { out, is_resp3 };
                        if joined == Joined::Full {
                            run.settle(limiter, input, now, scratch, &mut reply, &mut turn).await;
                            joined = run.join(form, input, arguments);
                        }
                        if let Joined::Wrong(wrong) = joined {
                            run.settle(limiter, input, now, scratch, &mut reply, &mut turn).await;
                            reply.error(wrong);
                        }
                    } else {
                        let mut reply = Reply { out, is_resp3 };
                        run.settle(limiter, input, now, scratch, &mut reply, &mut turn).await;
                        // What must wait for the store waits with others of its kind.
                        let name = arguments.first().map(|name| name.of(input));
                        let joins = limiter.store().is_remote()
                            && self.session.is_known()
                            && name.and_then(table::find).is_some_and(|command| {
                                command.name == "tollgate.check" && command.takes(arguments.len())
                            });
                        if joins {
                            if !checks.join(arguments) {
                                checks.settle(limiter, input, now, &mut reply, &mut turn).await;
                            }
                            turn.commands += 1;
                            at = end;
                            continue;
                        }
                        checks.settle(limiter, input, now, &mut reply, &mut turn).await;
                        // `INFO` tells of what came before it.
                        self.tell(std::mem::take(&mut turn), now);
                        let words = Words { input, spans: arguments };
                        match self.session.execute(words, &self.api, &mut reply) {
                            Next::Go => {}
                            Next::Check => {
                                let words = (&*input, &arguments[..]);
                                check.decide(limiter, words, now, scratch, &mut reply, &mut turn).await;
                            }
                            Next::Quit => break (0, Some(End::Said)),
                            Next::Drop => break (0, Some(End::Cut)),
                        }
                        // It may have said the password.
                        caps = self.session.caps(&self.api.settings);
                    }
                    turn.commands += 1;
                    at = end;
                    if out.len() >= OUTPUT {
                        self.write(out).await?;
                        now = self.api.now();
                    }
                }
                Ok(Parsed::Nothing { end }) => at = end,
                Ok(Parsed::Part { needed }) => break (needed, None),
                Err(fault) => {
                    let mut reply = Reply { out, is_resp3 };
                    run.settle(limiter, input, now, scratch, &mut reply, &mut turn).await;
                    checks.settle(limiter, input, now, &mut reply, &mut turn).await;
                    self.refuse(fault, out);
                    break (0, Some(End::Said));
                }
            }
        };
        let Tools { run, checks, out, scratch, .. } = tools;
        let mut reply = Reply { out, is_resp3: self.session.is_resp3 };
        run.settle(&*self.api.limiter, input, now, scratch, &mut reply, &mut turn).await;
        checks.settle(&*self.api.limiter, input, now, &mut reply, &mut turn).await;
        self.tell(turn, now);
        self.write(out).await?;
        match end {
            Some(end) => Err(end),
            None => Ok(Left { used: at, needed }),
        }
    }

    /// Counts what was done with what had come at `now`.
    fn tell(&self, turn: Turn, now: Timestamp) {
        self.api.figures.count(turn);
        let decisions = turn.admitted + turn.denied;
        if decisions > 0 {
            let latency = self.api.now().since(now);
            self.api.limiter.metrics().observe_latencies(latency, decisions);
        }
    }

    #[cold]
    fn refuse(&self, fault: Fault, out: &mut Vec<u8>) {
        self.api.figures.protocol_errors.fetch_add(1, Relaxed);
        tracing::debug!(%fault, "a connection is closed: not the protocol");
        Reply { out, is_resp3: false }.error(format_args!("ERR Protocol error: {fault}"));
    }

    /// Writes `out` and empties it.
    #[inline]
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<(), End> {
        if out.is_empty() {
            return Ok(());
        }
        let written = match poll_once(|cx| Pin::new(&mut self.io).poll_write(cx, out)).await {
            Poll::Ready(result) => result?,
            Poll::Pending => 0,
        };
        if written < out.len() {
            self.write_patiently(&out[written..]).await?;
        }
        out.clear();
        // Nothing to do for a socket; TLS may hold something back.
        match poll_once(|cx| Pin::new(&mut self.io).poll_flush(cx)).await {
            Poll::Ready(result) => Ok(result?),
            Poll::Pending => self.write_patiently(&[]).await,
        }
    }

    /// Waits until the peer takes its replies. It is not read from meanwhile.
    #[cold]
    async fn write_patiently(&mut self, rest: &[u8]) -> Result<(), End> {
        let Self { api, io, .. } = self;
        let write = async {
            io.write_all(rest).await?;
            io.flush().await
        };
        let Ok(result) = timeout(api.settings.write_timeout, write).await else {
            api.figures.slow_readers.fetch_add(1, Relaxed);
            return Err(End::Cut);
        };
        Ok(result?)
    }

    /// Ends what we say, and reads on for a while: a peer whose bytes were refused may lose our last ones.
    async fn linger(&mut self) -> io::Result<()> {
        self.io.shutdown().await?;
        let (mut left, mut bytes) = (LINGER_BYTES, [0; 1024]);
        while left > 0 {
            match self.io.read(&mut bytes).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok(())
    }
}

impl<IO, S: Store> Drop for Connection<IO, S> {
    fn drop(&mut self) {
        self.api.figures.clients.fetch_sub(1, Relaxed);
        self.half.forget(&self.api.figures);
    }
}

/// What a poll says now.
async fn poll_once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    std::future::poll_fn(|cx| Poll::Ready(poll(cx))).await
}
