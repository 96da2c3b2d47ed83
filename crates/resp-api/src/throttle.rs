//! The commands that bring their own rate: reading them, deciding a run of them at once, writing the answers.
//!
//! Commands that came together are decided together, so that a store can fetch ahead. Making a quota costs more than a decision, so the
//! last ones are kept.

mod quotas;

use std::time::Duration;

use tollgate_core::{Cost, RetryAfter, Timestamp};
use tollgate_limiter::{Degraded, Limiter, Scratch, Throttle, Throttled};
use tollgate_store::Store;

pub(crate) use self::quotas::Rate;
use self::quotas::{Quotas, Slot};
use crate::figures::Turn;
use crate::parse::{Span, number};
use crate::reply::{Reply, integer};

/// Commands decided in one go, at most.
const LONGEST_RUN: usize = 256;

/// Bytes of an answer, at most: numbers, and the mark.
const LONGEST_ANSWER: usize = 4 + 5 * 23 + 11;

/// Which command asks. They differ in units, in what a burst is, and in the order of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `CL.THROTTLE`, as redis-cell.
    Cell,
    /// `THROTTLE`, as throttlecrab.
    Crab,
    /// `TOLLGATE.THROTTLE`: as `CL.THROTTLE`, in milliseconds.
    Millis,
}

/// One command of a run.
#[derive(Clone, Copy, Debug)]
struct Item {
    key: Span,
    slot: Slot,
    form: Form,
    cost: Cost,
    /// The answer has one more element, the mark.
    is_marked: bool,
}

/// The last word of a command that wants to be told how it was decided while the store gave no answer. Only who asks for it gets the
/// element more, so that no client meets an answer of another form than it knows.
const WITH_MARK: &[u8] = b"withdegraded";

/// `arguments` without that word, and whether it was there.
#[inline]
pub(crate) fn unmarked<'a>(input: &[u8], arguments: &'a [Span]) -> (&'a [Span], bool) {
    match arguments {
        [rest @ .., last] if last.of(input).eq_ignore_ascii_case(WITH_MARK) => (rest, true),
        _ => (arguments, false),
    }
}

/// Commands that wait to be decided together, and what is kept from run to run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    items: Vec<Item>,
    quotas: Quotas,
    /// Empty between runs; only its room is kept.
    asks: Vec<Throttle<'static>>,
    answers: Vec<Throttled>,
}

/// What came of reading one command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is in the run.
    Yes,
    /// The run must be decided first; then ask again.
    Full,
    /// It is wrong, and this is the answer.
    Wrong(String),
}

impl Form {
    /// The command of that name.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        // As nearly all clients write them.
        match name {
            b"CL.THROTTLE" => return Some(Self::Cell),
            b"THROTTLE" => return Some(Self::Crab),
            _ => {}
        }
        let (form, own) = match name.len() {
            8 => (Self::Crab, "throttle"),
            11 => (Self::Cell, "cl.throttle"),
            17 => (Self::Millis, "tollgate.throttle"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(own.as_bytes()).then_some(form)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Cell => "cl.throttle",
            Self::Crab => "throttle",
            Self::Millis => "tollgate.throttle",
        }
    }
}

impl Run {
    /// Adds the command of `arguments`, name included.
    #[inline]
    pub(crate) fn join(&mut self, form: Form, input: &[u8], arguments: &[Span]) -> Joined {
        if self.items.len() >= LONGEST_RUN {
            return Joined::Full;
        }
        // With four numbers at most, who has a word more may have meant the mark.
        let (arguments, is_marked) =
            if arguments.len() > 5 { unmarked(input, arguments) } else { (arguments, false) };
        let (key, burst, count, period, quantity) = match *arguments {
            [_, key, burst, count, period] => (key, burst, count, period, None),
            [_, key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
            _ => {
                let name = form.name();
                return Joined::Wrong(format!("ERR wrong number of arguments for '{name}' command"));
            }
        };
        let read = |span: Span| number::parse(span.of(input));
        let quantity = quantity.map_or(Some(1), read);
        let (Some(burst), Some(count), Some(period), Some(quantity)) =
            (read(burst), read(count), read(period), quantity)
        else {
            return Joined::Wrong("ERR value is not an integer or out of range".to_owned());
        };
        let rate = Rate { form, burst, count, period };
        let slot = match self.quotas.find(&rate) {
            Some(slot) => slot,
            // What a new quota takes the place of may be needed by the run.
            None if !self.items.is_empty() => return Joined::Full,
            None => match self.quotas.make(rate) {
                Ok(slot) => slot,
                Err(wrong) => return Joined::Wrong(wrong.to_string()),
            },
        };
        let Ok(cost) = u64::try_from(quantity) else {
            return Joined::Wrong("ERR quantity is negative; the smallest is 0, which only looks".to_owned());
        };
        self.items.push(Item { key, slot, form, cost: Cost(cost), is_marked });
        Joined::Yes
    }

    /// Forgets what has joined, because nobody waits for it any more.
    pub(crate) fn abandon(&mut self) {
        self.items.clear();
        self.answers.clear();
    }

    /// Decides what has joined, and answers it.
    #[inline]
    pub(crate) async fn settle<S: Store>(
        &mut self,
        limiter: &Limiter<S>,
        input: &[u8],
        now: Timestamp,
        scratch: &mut Scratch,
        reply: &mut Reply<'_>,
        turn: &mut Turn,
    ) {
        if self.items.is_empty() {
            return;
        }
        let Self { items, quotas, asks: room, answers } = self;
        let mut asks = rehouse(std::mem::take(room));
        asks.extend(items.iter().map(|item| Throttle {
            key: item.key.of(input),
            quota: &quotas.get(item.slot).quota,
            cost: item.cost,
        }));
        // The protocol has no place for a caller's own trace, nor such a quota a domain.
        let spans: Vec<_> = match limiter.is_sampling() {
            true => items.iter().map(|_| limiter.call_span("resp", "", None)).collect(),
            false => Vec::new(),
        };
        limiter.throttle(&asks, now, scratch, answers).await;
        *room = rehouse(asks);
        for (span, answer) in spans.iter().zip(answers.iter()) {
            if let Some(span) = span {
                answer.record(span);
            }
        }
        drop(spans);
        for (item, answer) in items.iter().zip(answers.iter()) {
            turn.count(answer.is_admitted());
            write(item, quotas.get(item.slot).capacity, answer, reply);
        }
        items.clear();
        answers.clear();
    }
}

#[inline]
fn write(item: &Item, capacity: i64, answer: &Throttled, reply: &mut Reply<'_>) {
    let form = item.form;
    let is_denied = !answer.is_admitted();
    let remaining = clamp(answer.remaining());
    let unit = if form == Form::Millis { Unit::Millis } else { Unit::Seconds };
    let reset = unit.span(answer.reset_after());
    let retry = if is_denied { unit.wait(answer.retry_after()) } else { -1 };
    let numbers = match form {
        // Who is admitted waits no second; who can never be waits -1.
        Form::Crab => [i64::from(!is_denied), capacity, remaining, reset, if is_denied { retry } else { 0 }],
        Form::Cell | Form::Millis => [i64::from(is_denied), capacity, remaining, retry, reset],
    };
    reply.out.reserve(LONGEST_ANSWER);
    reply.out.extend_from_slice(if item.is_marked { b"*6\r\n" } else { b"*5\r\n" });
    for number in numbers {
        integer(reply.out, number);
    }
    if item.is_marked {
        mark(answer.degraded, reply);
    }
}

/// How it was decided while the store gave no answer; null where the store decided.
pub(crate) fn mark(degraded: Option<Degraded>, reply: &mut Reply<'_>) {
    match degraded {
        Some(degraded) => reply.bulk(degraded.name().as_bytes()),
        None => reply.null(),
    }
}

/// In what spans are told; always rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
}

impl Unit {
    /// A span; -1 for what never ends.
    #[inline]
    pub(crate) fn span(self, span: Duration) -> i64 {
        match (self, u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)) {
            (_, u64::MAX) => -1,
            (Self::Seconds, nanos) => clamp(nanos.div_ceil(1_000_000_000)),
            (Self::Millis, nanos) => clamp(nanos.div_ceil(1_000_000)),
        }
    }

    /// How long a denied caller waits; -1 for ever.
    #[inline]
    pub(crate) fn wait(self, wait: RetryAfter) -> i64 {
        match wait {
            RetryAfter::Now | RetryAfter::Never => -1,
            RetryAfter::After(span) => self.span(span).max(1),
        }
    }
}

/// A number as the protocol can say it.
#[inline]
pub(crate) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The room of an emptied vector, for questions of another lifetime: collecting in place moves it without a copy.
fn rehouse<'a>(mut asks: Vec<Throttle<'_>>) -> Vec<Throttle<'a>> {
    asks.clear();
    asks.into_iter().map(|_| unreachable!("it is empty")).collect()
}
