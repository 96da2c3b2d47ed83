//! The commands that bring their own rate: parsing them, deciding many at once, writing the replies.
//!
//! Commands that arrived together are decided together, so that a store can prefetch. Building a quota costs
//! more than a decision, so the last ones are kept.

mod form;
mod quotas;

use tollgate_buffers::recycle;
use tollgate_core::Cost;
use tollgate_limiter::{Scratch, Throttle, Throttled};
use tollgate_store::Store;

pub(crate) use self::form::Form;
use self::quotas::{QuotaSlot, Quotas, ThrottleRate};
use crate::arguments::{Arguments, NOT_AN_INTEGER, permits};
use crate::degraded;
use crate::parse::{ArgumentRange, number};
use crate::reply::{ReplyWriter, integer, saturate};
use crate::time_unit::TimeUnit;
use crate::turn::{Pushed, Turn};

/// Commands decided in one call.
const MAX_BATCH: usize = 256;

/// Bytes of the longest reply: its numbers, and the element of `WITHDEGRADED`.
const MAX_REPLY: usize = 4 + 5 * 23 + 11;

/// One command of a batch.
#[derive(Clone, Copy, Debug)]
struct Item {
    key: ArgumentRange,
    slot: QuotaSlot,
    form: Form,
    cost: Cost,
    /// The reply ends with the element of `WITHDEGRADED`.
    with_degraded: bool,
}

/// Commands that wait to be decided, and buffers that are kept from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Throttles {
    items: Vec<Item>,
    quotas: Quotas,
    /// Empty between batches; kept for its capacity.
    asks: Vec<Throttle<'static>>,
    answers: Vec<Throttled>,
}

impl Throttles {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a command.
    #[inline]
    pub(crate) fn push(&mut self, form: Form, arguments: Arguments<'_>) -> Pushed {
        if self.items.len() >= MAX_BATCH {
            return Pushed::Full;
        }
        // With the name, the key and three numbers there is no room for the option.
        let (arguments, with_degraded) =
            if arguments.len() > 5 { degraded::split_option(arguments) } else { (arguments, false) };
        let (key, burst, count, period, quantity) = match *arguments.spans() {
            [_, key, burst, count, period] => (key, burst, count, period, None),
            [_, key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
            _ => return Pushed::Invalid(crate::reply::wrong_number_of_arguments(form.name())),
        };
        let read = |span: ArgumentRange| number::parse(span.of(arguments.input()));
        let (Some(burst), Some(count), Some(period)) = (read(burst), read(count), read(period)) else {
            return Pushed::Invalid(NOT_AN_INTEGER.to_owned());
        };
        let cost = match quantity.map_or(Ok(1), |quantity| permits(quantity.of(arguments.input()))) {
            Ok(cost) => cost,
            Err(message) => return Pushed::Invalid(message.to_owned()),
        };
        let rate = ThrottleRate { form, burst, count, period };
        let slot = match self.quotas.find(&rate) {
            Some(slot) => slot,
            // The quota that a new one replaces may be needed by the batch.
            None if !self.items.is_empty() => return Pushed::Full,
            None => match self.quotas.make(rate) {
                Ok(slot) => slot,
                Err(error) => return Pushed::Invalid(error.to_string()),
            },
        };
        self.items.push(Item { key, slot, form, cost: Cost(cost), with_degraded });
        Pushed::Added
    }

    /// Forgets all commands.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.answers.clear();
    }

    /// Decides all commands, which were read from `input`, and writes their replies.
    pub(crate) async fn decide<S: Store>(
        &mut self,
        input: &[u8],
        scratch: &mut Scratch,
        turn: &mut Turn<'_, S>,
    ) {
        let limiter = turn.limiter();
        let Self { items, quotas, asks: kept, answers } = self;
        let mut asks = recycle(std::mem::take(kept));
        asks.extend(items.iter().map(|item| Throttle {
            key: item.key.of(input),
            quota: &quotas.get(item.slot).quota,
            cost: item.cost,
        }));
        // The protocol cannot carry a caller's trace, and such a quota has no domain.
        let spans: Vec<_> = match limiter.is_sampling() {
            true => items.iter().map(|_| limiter.call_span("resp", "", None)).collect(),
            false => Vec::new(),
        };
        limiter.throttle(&asks, turn.now, scratch, answers).await;
        *kept = recycle(asks);
        for (span, answer) in spans.iter().zip(answers.iter()) {
            if let Some(span) = span {
                answer.record(span);
            }
        }
        drop(spans);
        for (item, answer) in items.iter().zip(answers.iter()) {
            turn.counts.count(answer.is_admitted());
            write(item, quotas.get(item.slot).capacity, answer, &mut turn.reply);
        }
        self.clear();
    }
}

#[inline]
fn write(item: &Item, capacity: i64, answer: &Throttled, reply: &mut ReplyWriter<'_>) {
    let form = item.form;
    let is_denied = !answer.is_admitted();
    let remaining = saturate(answer.remaining());
    let unit = if form == Form::Millis { TimeUnit::Millis } else { TimeUnit::Seconds };
    let reset = unit.duration(answer.reset_after());
    let retry = if is_denied { unit.retry_after(answer.retry_after()) } else { -1 };
    let numbers = match form {
        // retry_after is 0 if admitted, and -1 if the quantity can never fit.
        Form::Crab => [i64::from(!is_denied), capacity, remaining, reset, if is_denied { retry } else { 0 }],
        Form::Cell | Form::Millis => [i64::from(is_denied), capacity, remaining, retry, reset],
    };
    reply.out.reserve(MAX_REPLY);
    reply.out.extend_from_slice(if item.with_degraded { b"*6\r\n" } else { b"*5\r\n" });
    for number in numbers {
        integer(reply.out, number);
    }
    if item.with_degraded {
        degraded::write(answer.degraded, reply);
    }
}
