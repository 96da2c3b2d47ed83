//! `TOLLGATE.CHECK domain key value [key value …] [COST n] [WITHDEGRADED]`: one descriptor, by the rules of its domain.

use std::str::from_utf8;

use futures_util::future::join_all;
use tollgate_core::Timestamp;
use tollgate_limiter::{Answer, Descriptor, Entry, Limiter, MAX_IN_FLIGHT, Request, Scratch};
use tollgate_store::Store;

use crate::figures::Turn;
use crate::parse::Span;
use crate::reply::{Reply, number_of};
use crate::throttle::{Unit, clamp, mark, unmarked};

const USAGE: &str =
    "ERR syntax error, expected TOLLGATE.CHECK domain key value [key value ...] [COST n] [WITHDEGRADED]";
const TEXT: &str = "ERR domain, keys and values must be UTF-8";
/// Instead of a limit, and of what remains of it, where there is none.
const NO_LIMIT: i64 = -1;

/// What is kept from check to check.
#[derive(Debug, Default)]
pub(crate) struct Check {
    /// Empty between checks; only its room is kept.
    entries: Vec<Entry<'static>>,
}

impl Check {
    /// Decides the command of `arguments`, whose name and number are right, and answers it.
    pub(crate) async fn decide<S: Store>(
        &mut self,
        limiter: &Limiter<S>,
        (input, arguments): (&[u8], &[Span]),
        now: Timestamp,
        scratch: &mut Scratch,
        reply: &mut Reply<'_>,
        turn: &mut Turn,
    ) {
        let mut entries = rehouse(std::mem::take(&mut self.entries));
        match read(input, arguments, &mut entries) {
            Err(wrong) => reply.error(wrong),
            Ok((domain, hits, is_marked)) => {
                let descriptors = [Descriptor::new(&entries)];
                let request = Request { domain, descriptors: &descriptors, hits };
                // The protocol has no place for a caller's own trace.
                let span = limiter.call_span("resp", domain, None);
                match limiter.decide(&request, now, scratch).await {
                    Err(error) => reply.error(format_args!("ERR {error}")),
                    Ok(answer) if answer.policy().domains().is_empty() => {
                        reply.error("ERR no rules are loaded; nothing was counted");
                    }
                    Ok(answer) => {
                        turn.count(answer.is_admitted());
                        if let Some(span) = span {
                            answer.record(&span);
                        }
                        write(&answer, is_marked, reply);
                    }
                }
            }
        }
        self.entries = rehouse(entries);
    }
}

/// Commands that wait to be decided at once, where each must wait for the store.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The arguments of all of them.
    spans: Vec<Span>,
    /// Where each ends in `spans`.
    ends: Vec<usize>,
}

impl Checks {
    /// Adds the command of `arguments`; false when as many wait as may.
    pub(crate) fn join(&mut self, arguments: &[Span]) -> bool {
        self.spans.extend_from_slice(arguments);
        self.ends.push(self.spans.len());
        self.ends.len() < MAX_IN_FLIGHT
    }

    /// Forgets what has joined, because nobody waits for it any more.
    pub(crate) fn abandon(&mut self) {
        self.spans.clear();
        self.ends.clear();
    }

    /// Decides what has joined, all at once, and answers it in order.
    pub(crate) async fn settle<S: Store>(
        &mut self,
        limiter: &Limiter<S>,
        input: &[u8],
        now: Timestamp,
        reply: &mut Reply<'_>,
        turn: &mut Turn,
    ) {
        if self.ends.is_empty() {
            return;
        }
        let is_resp3 = reply.is_resp3;
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let decisions = starts.zip(&self.ends).map(|(start, end)| {
            let arguments = &self.spans[start..*end];
            async move {
                let (mut out, mut turn) = (Vec::new(), Turn::default());
                let mut reply = Reply { out: &mut out, is_resp3 };
                let mut scratch = Scratch::new();
                let words = (input, arguments);
                Check::default().decide(limiter, words, now, &mut scratch, &mut reply, &mut turn).await;
                (out, turn)
            }
        });
        for (out, decided) in join_all(decisions).await {
            reply.out.extend_from_slice(&out);
            turn.admitted += decided.admitted;
            turn.denied += decided.denied;
        }
        self.abandon();
    }
}

/// The domain, its entries, the cost, and whether the answer is to have the mark.
fn read<'a>(
    input: &'a [u8],
    arguments: &[Span],
    entries: &mut Vec<Entry<'a>>,
) -> Result<(&'a str, u64, bool), &'static str> {
    let [_, domain, words @ ..] = arguments else { return Err(USAGE) };
    // Keys and values make an even number of words; the mark is one more.
    let (words, is_marked) = if words.len() % 2 == 1 { unmarked(input, words) } else { (words, false) };
    let (words, cost) = match words {
        // The last two words; a descriptor has at least two before them.
        [words @ .., name, cost] if words.len() >= 2 && name.of(input).eq_ignore_ascii_case(b"cost") => {
            (words, number_of(cost.of(input))?)
        }
        words => (words, 1),
    };
    let (pairs, rest) = words.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(USAGE);
    }
    let text = |span: &Span| from_utf8(span.of(input)).map_err(|_| TEXT);
    for [key, value] in pairs {
        entries.push(Entry { key: text(key)?, value: text(value)? });
    }
    let cost =
        u64::try_from(cost).map_err(|_| "ERR COST is negative; the smallest is 0, which only looks")?;
    Ok((text(domain)?, cost, is_marked))
}

fn write(answer: &Answer<'_>, is_marked: bool, reply: &mut Reply<'_>) {
    let is_denied = !answer.is_admitted();
    let descriptor = answer.descriptor(0);
    let limited = descriptor.as_ref().filter(|it| it.limit.is_some());
    let (limit, remaining, retry, reset) = match limited {
        None => (NO_LIMIT, NO_LIMIT, -1, 0),
        Some(it) => (
            it.limit.map_or(NO_LIMIT, |limit| clamp(limit.quota.limit())),
            clamp(it.remaining()),
            if is_denied { Unit::Seconds.wait(it.retry_after()) } else { -1 },
            Unit::Seconds.span(it.reset_after()),
        ),
    };
    reply.array(6 + usize::from(is_marked));
    for number in [i64::from(is_denied), limit, remaining, retry, reset] {
        reply.integer(number);
    }
    match descriptor.and_then(|it| it.rule) {
        None => reply.null(),
        Some(rule) => reply.bulk(rule.path.as_bytes()),
    }
    if is_marked {
        mark(answer.degraded(), reply);
    }
}

/// The room of an emptied vector, for entries of another lifetime: collecting in place moves it without a copy.
fn rehouse<'a>(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'a>> {
    entries.clear();
    entries.into_iter().map(|_| unreachable!("it is empty")).collect()
}
