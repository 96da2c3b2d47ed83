//! `TOLLGATE.CHECK domain key value [key value …] [COST n | CONSUMED n] [WITHDEGRADED]`: one descriptor, by
//! the rules of its domain.

use std::borrow::Cow;
use std::task::Context as TaskContext;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_buffers::recycle;
use tollgate_human_text::lossy;
use tollgate_limiter::{Answer, Descriptor, Entry, Kind, Patience, Request, Scratch};
use tollgate_store::Store;

use crate::arguments::{Arguments, permits};
use crate::degraded;
use crate::parse::ArgumentRange;
use crate::pending::Pending;
use crate::reply::{ReplyWriter, saturate};
use crate::stats::Counts;
use crate::time_unit::TimeUnit;
use crate::turn::{Pushed, Turn};
use crate::undecided::Reason;

const USAGE: &str = "ERR syntax error, expected TOLLGATE.CHECK domain key value [key value ...] \
                     [COST n | CONSUMED n] [WITHDEGRADED]";
const NOT_BOTH: &str = "ERR COST and CONSUMED cannot be combined";
/// The limit of a reply, and what remains of it, where nothing limits.
const NO_LIMIT: i64 = -1;

/// Commands that wait to be decided, and buffers that are kept from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pending: Pending<()>,
    /// Empty between commands; kept for its capacity.
    entries: Vec<Entry<'static>>,
}

impl Checks {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds a command.
    pub(crate) fn push(&mut self, arguments: Arguments<'_>) -> Pushed {
        self.pending.push(arguments, ())
    }

    /// Forgets all commands.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Decides all commands, which were read from `input`, and writes their replies.
    pub(crate) async fn decide<S: Store>(
        &mut self,
        input: &[u8],
        scratch: &mut Scratch,
        turn: &mut Turn<'_, S>,
    ) {
        if turn.limiter().store().is_remote() && self.pending.len() > 1 {
            self.decide_concurrently(input, turn).await;
        } else {
            self.decide_in_turn(input, scratch, turn).await;
        }
        self.clear();
    }

    /// One after the other, with buffers that are kept: for a store that answers at once.
    async fn decide_in_turn<S: Store>(
        &mut self,
        input: &[u8],
        scratch: &mut Scratch,
        turn: &mut Turn<'_, S>,
    ) {
        for (arguments, ()) in self.pending.commands(input) {
            let mut entries = recycle(std::mem::take(&mut self.entries));
            match Check::parse(arguments, &mut entries) {
                Err(message) => turn.fail(Reason::Invalid, message),
                Ok(check) => check.decide(&entries, scratch, turn).await,
            }
            self.entries = recycle(entries);
        }
    }

    /// All at once, since each waits for the store; the replies leave in order.
    async fn decide_concurrently<S: Store>(&self, input: &[u8], turn: &mut Turn<'_, S>) {
        let Turn { context, peer, presence, now, .. } = *turn;
        let is_resp3 = turn.reply.is_resp3;
        let decisions = self.pending.commands(input).map(|(arguments, ())| async move {
            let mut out = Vec::new();
            let mut entries = Vec::new();
            let reply = ReplyWriter { out: &mut out, is_resp3 };
            let mut turn = Turn { context, peer, presence, now, reply, counts: Counts::default() };
            match Check::parse(arguments, &mut entries) {
                Err(message) => turn.fail(Reason::Invalid, message),
                Ok(check) => check.decide(&entries, &mut Scratch::new(), &mut turn).await,
            }
            let counts = turn.counts;
            let now = turn.now;
            (out, counts, now)
        });
        for (out, counts, now) in join_all(decisions).await {
            turn.now = turn.now.max(now);
            turn.reply.out.extend_from_slice(&out);
            turn.counts += counts;
        }
    }
}

/// A parsed command; its entries are kept apart from it.
#[derive(Clone, Debug)]
struct Check<'a> {
    /// A name that is not UTF-8 matches no domain.
    domain: Cow<'a, str>,
    cost: u64,
    /// The cost is used already.
    is_consumed: bool,
    /// The reply ends with the element of `WITHDEGRADED`.
    with_degraded: bool,
}

impl<'a> Check<'a> {
    /// Parses a command and puts its entries into `entries`.
    fn parse(arguments: Arguments<'a>, entries: &mut Vec<Entry<'a>>) -> Result<Self, &'static str> {
        let input = arguments.input();
        // Keys and values are an even number of arguments; the name and the domain are two more, the option
        // is one.
        let (arguments, with_degraded) =
            if arguments.len() % 2 == 1 { degraded::split_option(arguments) } else { (arguments, false) };
        let [_, domain, words @ ..] = arguments.spans() else { return Err(USAGE) };
        let is_named = |name: &ArgumentRange, option: &[u8]| name.of(input).eq_ignore_ascii_case(option);
        // The last two arguments; a descriptor has at least two before them.
        let option = |words: &[ArgumentRange]| match words {
            [_, _, .., name, _] if is_named(name, b"cost") => Some(false),
            [_, _, .., name, _] if is_named(name, b"consumed") => Some(true),
            _ => None,
        };
        let (words, cost, is_consumed) = match (words, option(words)) {
            ([words @ .., _, number], Some(is_consumed)) => {
                if option(words) == Some(!is_consumed) {
                    return Err(NOT_BOTH);
                }
                (words, permits(number.of(input))?, is_consumed)
            }
            _ => (words, 1, false),
        };
        let (pairs, rest) = words.as_chunks::<2>();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(USAGE);
        }
        for [key, value] in pairs {
            entries.push(Entry::new(key.of(input), value.of(input)));
        }
        Ok(Self { domain: lossy(domain.of(input)), cost, is_consumed, with_degraded })
    }

    /// Decides the command and writes its reply.
    async fn decide<S: Store>(self, entries: &[Entry<'_>], scratch: &mut Scratch, turn: &mut Turn<'_, S>) {
        let limiter = turn.limiter();
        let descriptors = [Descriptor::new(entries)];
        let request = Request { domain: &self.domain, descriptors: &descriptors, hits: self.cost };
        // The protocol cannot carry a caller's trace.
        let span = limiter.call_span("resp", &self.domain, None);
        let Turn { context, presence, .. } = *turn;
        let now = || context.now();
        let left = |cx: &mut TaskContext<'_>| presence.poll_left(cx);
        let sleep = tokio::time::sleep;
        let longest = Duration::MAX;
        let patience = Patience { now: &now, sleep, longest, left: Some(&left) };
        let decided = match self.is_consumed {
            false => limiter.decide_patiently(&request, turn.now, &patience, scratch).await,
            // Boxed, so that the future of a turn stays small.
            true => Box::pin(limiter.consume(&request, turn.now, scratch)).await,
        };
        match decided {
            Err(error) => turn.fail(Reason::Invalid, format_args!("ERR {error}")),
            Ok(answer) if !answer.policy().is_loaded() => {
                turn.fail(Reason::Unavailable, "ERR no rules are loaded; nothing was counted");
            }
            Ok(answer) => {
                turn.counts.count(answer.is_admitted());
                // Later commands are decided later than they arrived; the wait is not their latency.
                turn.now = turn.now + answer.waited();
                if let Some(span) = span {
                    answer.record(&span);
                }
                self.write(&answer, &mut turn.reply);
            }
        }
    }

    fn write(self, answer: &Answer<'_>, reply: &mut ReplyWriter<'_>) {
        let is_denied = !answer.is_admitted();
        let descriptor = answer.descriptor(0);
        let limited = descriptor.as_ref().filter(|it| it.limit.is_some() || it.kind == Kind::Blocked);
        let (limit, remaining, retry, reset) = match limited {
            None => (NO_LIMIT, NO_LIMIT, -1, 0),
            Some(it) => (
                it.limit.map_or(0, |limit| saturate(limit.burst())), // 0 where an operator has blocked it
                saturate(it.remaining()),
                if is_denied { TimeUnit::Seconds.retry_after(it.retry_after()) } else { -1 },
                TimeUnit::Seconds.duration(it.reset_after()),
            ),
        };
        reply.array(6 + usize::from(self.with_degraded));
        for number in [i64::from(is_denied), limit, remaining, retry, reset] {
            reply.integer(number);
        }
        match descriptor.and_then(|it| it.rule) {
            None => reply.null(),
            Some(rule) => reply.bulk(rule.path.as_bytes()),
        }
        if self.with_degraded {
            degraded::write(answer.degraded(), reply);
        }
    }
}
