//! Everything that is asked of one key at a time, as commands and replies. Does no I/O, so that a test can
//! play every race.
//!
//! All requests for a key that wait at the same time are done at once, in the order of arrival:
//!
//! - **Counting** (fixed windows): `incr` by the hits of all. The number that it returns gives the count
//!   before, and by its mark the window; `core` works out each answer from there. If the item is missing:
//!   `add` a window. If the window has ended, or its end is not known: read it, and continue from the value
//!   found.
//! - **Changing** (everything else): `gets`, compute all answers, `cas`. If another connection was faster,
//!   begin again.
//! - **Lowering**: hits that were added and do not count (a batch that is all or nothing and was denied,
//!   permits given back meanwhile, hits above the largest count) are taken off again by `gets` and `cas`, in
//!   the same window only. A count that no number holds any longer is in the same way rewritten as text; from
//!   then on it is changed as any other state.
//!
//! A count is thus never lower than the permits admitted, at any moment, even if a caller stops half-way: at
//! worst it is too high until the window ends.

use tollgate_core::{Algorithm, Align, Cost, State, Timestamp, Word};
use tollgate_store::remote::Failure;

use crate::protocol::{self, CommandReply};
use crate::request::{KeyRequest, OpAnswer, replay};
use crate::value::{self, Counted, MOST_IN_NUMBER, Window};

/// More hits than this at once are written by `cas`, so that a count runs into a window's end only if tens of
/// thousands of connections add at the same moment.
const MOST_AT_ONCE: u64 = 1 << 20;
/// Most attempts to lower a count; after that it stays too high.
const LOWERINGS: u32 = 32;

/// All requests for one key at a time.
#[derive(Debug)]
pub(crate) struct Transaction {
    item: Box<[u8]>,
    requests: Vec<KeyRequest>,
    phase: Phase,
    keep: std::time::Duration,
    pub(crate) lost_races: u64,
    pub(crate) left_counted: u64,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was sent.
    Begin,
    /// `gets` is next.
    Read,
    /// `incr` was sent; the window's end where it is known, and else `gets` was sent with it.
    Counting { hits: u64, end_ns: Option<u64> },
    /// `gets` is next, to learn the window in which `incr` counted.
    Locate { hits: u64, after: Counted },
    /// A number that is not ours was raised by `incr`: `decr` is next.
    Restore { hits: u64 },
    /// The item was read; the change is next. `cas` is `None` when there is no item.
    Change { base: State, cas: Option<u64> },
    /// The change was sent.
    Changing { answers: Vec<OpAnswer> },
    /// `gets` is next, to lower the count, or to write it in another form.
    Lower { by: u64, end_ns: u64, answers: Vec<OpAnswer>, tries: u32 },
    /// `cas` is next, with the lower count.
    Lowering { by: u64, window: Window, cas: u64, answers: Vec<OpAnswer>, tries: u32 },
}

/// The next action of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Call [`Transaction::send`] again.
    Send,
    /// All requests are answered.
    Done,
}

impl Transaction {
    pub(crate) fn new(item: Box<[u8]>, request: KeyRequest, keep: std::time::Duration) -> Self {
        Self { item, requests: vec![request], phase: Phase::Begin, keep, lost_races: 0, left_counted: 0 }
    }

    /// True while another ask can still join.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Begin)
    }

    pub(crate) fn join(&mut self, request: KeyRequest) {
        self.requests.push(request);
    }

    /// Appends the next commands; returns the number of their replies: 0 if there is nothing left to do.
    pub(crate) fn send(&mut self, out: &mut Vec<u8>) -> usize {
        match std::mem::replace(&mut self.phase, Phase::Read) {
            Phase::Begin => self.begin(out),
            Phase::Change { base, cas } => self.change(base, cas, out),
            Phase::Restore { hits } => {
                protocol::decr(out, &self.item, hits);
                self.phase = Phase::Restore { hits };
                1
            }
            Phase::Lowering { by, window, cas, answers, tries } => {
                let state =
                    State::Word(Window { count: window.count.saturating_sub(by), ..window }.to_word());
                if let Some(stored) = value::write(&state, self.latest(), self.keep) {
                    protocol::cas(out, &self.item, &stored, cas);
                }
                self.phase = Phase::Lowering { by, window, cas, answers, tries };
                1
            }
            phase @ (Phase::Read | Phase::Locate { .. } | Phase::Lower { .. }) => {
                if matches!(phase, Phase::Read) {
                    self.requests.retain(|ask| !ask.claim.is_given_up());
                    if self.requests.is_empty() {
                        return 0;
                    }
                }
                protocol::gets(out, &self.item);
                self.phase = phase;
                1
            }
            phase @ (Phase::Counting { .. } | Phase::Changing { .. }) => {
                self.phase = phase; // their replies are awaited
                0
            }
        }
    }

    /// Takes the replies to the last commands.
    pub(crate) fn receive(&mut self, replies: &[CommandReply]) -> Next {
        let [first, rest @ ..] = replies else { return Next::Send };
        match std::mem::replace(&mut self.phase, Phase::Read) {
            Phase::Begin => Next::Send,
            Phase::Read => self.found(first),
            Phase::Counting { hits, end_ns } => self.counted(hits, end_ns, first, rest),
            Phase::Locate { hits, after } => self.located(hits, after, first),
            Phase::Restore { .. } => self.reject(&self.not_ours()),
            Phase::Change { .. } => Next::Send,
            Phase::Changing { answers } => match first {
                CommandReply::Stored | CommandReply::Deleted => self.answer(answers),
                CommandReply::Error(line) => self.reject(line),
                _ => self.lost(),
            },
            Phase::Lower { by, end_ns, answers, tries } => match first {
                CommandReply::Item { flags, cas, data } => {
                    match value::window(*flags, data, self.latest()) {
                        // Another connection was faster, and wrote it as text; in `core`'s form it may end a
                        // little later.
                        Some(window) if by == 0 && number(data).is_none() && window.end_ns >= end_ns => {
                            self.answer(answers)
                        }
                        Some(window) if is_end_of(window, end_ns) => {
                            self.phase = Phase::Lowering { by, window, cas: *cas, answers, tries };
                            Next::Send
                        }
                        _ => self.answer(answers), // another window: what was added is gone with the old one
                    }
                }
                CommandReply::Missing => self.answer(answers),
                _ => self.leave(by, answers),
            },
            Phase::Lowering { by, window, answers, tries, .. } => match first {
                CommandReply::Stored | CommandReply::NotFound => self.answer(answers),
                CommandReply::Exists if tries < LOWERINGS => {
                    self.lost_races += 1;
                    self.phase = Phase::Lower { by, end_ns: window.end_ns, answers, tries: tries + 1 };
                    Next::Send
                }
                _ => self.leave(by, answers),
            },
        }
    }

    /// The connection broke, or no answer came: requests that may have changed something fail, the others
    /// continue.
    ///
    /// False when no request is left.
    pub(crate) fn interrupted(&mut self, why: &std::io::Error) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Begin) {
            Phase::Begin | Phase::Read => return true,
            Phase::Change { .. } => {
                self.requests.iter().for_each(|request| request.claim.undo());
                return true;
            }
            Phase::Lower { by, answers, .. } | Phase::Lowering { by, answers, .. } => {
                self.leave(by, answers);
            }
            Phase::Counting { .. }
            | Phase::Locate { .. }
            | Phase::Restore { .. }
            | Phase::Changing { .. } => {
                self.requests.drain(..).for_each(|request| request.fail_silent(why));
            }
        }
        false
    }

    /// Gives up on all asks.
    pub(crate) fn fail(&mut self, why: &std::io::Error) {
        self.requests.drain(..).for_each(|request| request.fail_silent(why));
    }

    /// The number of requests that it serves.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> usize {
        self.requests.retain(|ask| !ask.claim.is_given_up());
        match self.hits() {
            Some(hits @ 1..=MOST_AT_ONCE) => {
                self.claim_all();
                // A caller that gave up at the last moment is not counted.
                let hits = self.hits().unwrap_or(hits);
                if hits == 0 {
                    return self.begin(out);
                }
                let end_ns = self.expected_end();
                protocol::incr(out, &self.item, hits);
                self.phase = Phase::Counting { hits, end_ns };
                if end_ns.is_some() {
                    return 1;
                }
                protocol::gets(out, &self.item);
                2
            }
            _ if self.requests.is_empty() => 0,
            _ => {
                protocol::gets(out, &self.item);
                self.phase = Phase::Read;
                1
            }
        }
    }

    /// The hits of all asks, where `incr` can count them.
    fn hits(&self) -> Option<u64> {
        self.requests.iter().try_fold(0_u64, |sum, ask| sum.checked_add(ask.hits()?))
    }

    fn claim_all(&mut self) {
        self.requests.retain(|request| request.claim.change());
    }

    /// The end of the window that a hit would begin now, if that end is enough to recognize the window again.
    fn expected_end(&self) -> Option<u64> {
        let request = self.requests.iter().find(|request| request.hits().is_some_and(|hits| hits > 0))?;
        let Algorithm::FixedWindow { align: Align::Calendar } = request.quota.algorithm() else {
            return None;
        };
        let mut state = request.quota.fresh();
        let _ = request.quota.take(&mut state, Cost::ONE, request.now);
        let State::Word(word) = state else { return None };
        let end_ns = Window::from_word(word)?.end_ns;
        (end_ns % 1_000_000 == 0).then_some(end_ns)
    }

    fn latest(&self) -> Timestamp {
        self.requests.iter().map(|request| request.now).max().unwrap_or_default()
    }

    fn counted(
        &mut self,
        hits: u64,
        end_ns: Option<u64>,
        reply: &CommandReply,
        located: &[CommandReply],
    ) -> Next {
        match reply {
            CommandReply::Number(number) => {
                let Some(after) = Counted::from_number(*number) else {
                    self.phase = Phase::Restore { hits };
                    return Next::Send;
                };
                let window = end_ns.map(|end_ns| Window { count: after.count, end_ns });
                match (window.filter(|window| window.mark() == after.mark), located.first()) {
                    (Some(window), _) => self.in_window(hits, window),
                    (None, Some(reply)) => self.located(hits, after, reply),
                    (None, None) => {
                        self.phase = Phase::Locate { hits, after };
                        Next::Send
                    }
                }
            }
            CommandReply::NotFound => {
                self.phase = Phase::Change { base: State::Word(Word::FRESH), cas: None };
                Next::Send
            }
            // The item is text: another algorithm's state, or foreign. Reading it will show.
            CommandReply::Error(line) if line.contains("non-numeric") => self.read(),
            CommandReply::Error(line) => self.reject(line),
            _ => self.reject("an unexpected answer to `incr`"),
        }
    }

    /// `incr` counted in some window; `reply` is the value soon after.
    fn located(&mut self, hits: u64, after: Counted, reply: &CommandReply) -> Next {
        if let CommandReply::Item { flags, data, .. } = reply
            && number(data).is_some_and(|it| it.mark == after.mark)
            && let Some(window) = value::window(*flags, data, self.latest())
        {
            return self.in_window(hits, Window { count: after.count, ..window });
        }
        self.found(reply)
    }

    /// `incr` made it `after`.
    fn in_window(&mut self, hits: u64, after: Window) -> Next {
        if after.end_ns <= self.latest().as_nanos() || after.count < hits {
            return self.read(); // it has ended, and what was added to it means nothing
        }
        let before = Window { count: after.count - hits, ..after };
        let (state, answers) = replay(&self.requests, State::Word(before.to_word()));
        let count = match state {
            State::Word(word) => Window::from_word(word).map_or(0, |window| window.count),
            State::Wide(_) => 0,
        };
        match after.count.saturating_sub(count) {
            0 if after.count <= MOST_IN_NUMBER => self.answer(answers),
            by => {
                self.phase = Phase::Lower { by, end_ns: after.end_ns, answers, tries: 0 };
                Next::Send
            }
        }
    }

    fn read(&mut self) -> Next {
        self.phase = Phase::Read;
        Next::Send
    }

    /// The item was read.
    fn found(&mut self, reply: &CommandReply) -> Next {
        let (base, cas) = match reply {
            CommandReply::Item { flags, cas, data } => match value::read(*flags, data, self.latest()) {
                Some(state) => (state, Some(*cas)),
                None => return self.reject(&self.not_ours()),
            },
            CommandReply::Missing => (State::Word(Word::FRESH), None),
            CommandReply::Error(line) => return self.reject(line),
            _ => return self.reject("an unexpected answer to `gets`"),
        };
        let (state, answers) = replay(&self.requests, base.clone());
        if state == base || is_none(&state) && cas.is_none() {
            return self.answer(answers);
        }
        self.phase = Phase::Change { base, cas };
        Next::Send
    }

    fn change(&mut self, base: State, cas: Option<u64>, out: &mut Vec<u8>) -> usize {
        self.claim_all();
        let (state, answers) = replay(&self.requests, base.clone());
        if self.requests.is_empty() {
            return 0;
        }
        if state == base {
            self.answer(answers); // the callers that wanted the change have given up
            return 0;
        }
        match (value::write(&state, self.latest(), self.keep), cas) {
            (Some(stored), Some(cas)) => protocol::cas(out, &self.item, &stored, cas),
            (Some(stored), None) => protocol::add(out, &self.item, &stored),
            (None, Some(_)) => protocol::delete(out, &self.item),
            (None, None) => {
                self.answer(answers);
                return 0;
            }
        }
        self.phase = Phase::Changing { answers };
        1
    }

    /// Another connection was faster.
    fn lost(&mut self) -> Next {
        self.lost_races += 1;
        self.requests.iter().for_each(|request| request.claim.undo());
        self.phase = Phase::Begin;
        Next::Send
    }

    fn answer(&mut self, answers: Vec<OpAnswer>) -> Next {
        for (request, answer) in self.requests.drain(..).zip(answers) {
            let _ = request.reply.send(Ok(answer));
        }
        Next::Done
    }

    /// The count stays too high.
    fn leave(&mut self, by: u64, answers: Vec<OpAnswer>) -> Next {
        self.left_counted += by;
        self.answer(answers)
    }

    fn reject(&mut self, why: &str) -> Next {
        for request in self.requests.drain(..) {
            let _ = request.reply.send(Err(Failure::Rejected(why.into())));
        }
        Next::Done
    }

    fn not_ours(&self) -> String {
        format!("the item {} holds what is not a counter of ours", self.item.escape_ascii())
    }
}

/// Whether it is the window that ends at `end_ns`, which `core` rounds for great counts.
fn is_end_of(window: Window, end_ns: u64) -> bool {
    window.end_ns == end_ns || Window::from_word(Window { end_ns, ..window }.to_word()) == Some(window)
}

fn number(data: &[u8]) -> Option<Counted> {
    Counted::from_number(std::str::from_utf8(data).ok()?.trim_ascii_end().parse().ok()?)
}

fn is_none(state: &State) -> bool {
    match state {
        State::Word(word) => word.is_fresh(),
        State::Wide(wide) => wide.cells.is_empty(),
    }
}

#[cfg(test)]
mod tests;
