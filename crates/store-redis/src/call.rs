//! Asks become one script call, and its reply becomes their answers: "state back, replay here".
//!
//! A script changes the state atomically and answers what it was before and when that was; the answers are then worked out by
//! `core`, from that state, in the order of the asks. So a script holds the transition and nothing that people see.
//! Not here: how a call reaches a server (`wire`), who waits for the answers.
//!
//! Use: [`call`] (or [`together`]) gives the first call or, where no server is needed, the answers; each reply goes to
//! [`answers`] (or [`together_answers`]) with the same arguments, until it is `Done`. More than two calls are only needed
//! while others change the same key's rule at the same time: give up after [`MOST_CALLS`].

use redis::Value;
use tollgate_core::Timestamp;

use crate::ask::{Answer, Ask, Fault};
use crate::config::StoreTime;
use crate::script::Script;

/// How often to ask again for one group of asks before giving up; nothing was taken by then.
pub(crate) const MOST_CALLS: u32 = 5;

/// One `EVALSHA`: `sha numkeys keys… args…`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    /// All is answered, one answer an ask, in their order.
    Done(Vec<Answer>),
    /// Run this, and hand its reply to `answers`.
    Again(Call),
}

/// The first call for `asks`, which are of one key and by quotas that [join](Ask::joins), in order of arrival.
pub(crate) fn call(asks: &[Ask], now: Timestamp, time: StoreTime) -> Result<Next, Fault> {
    let _ = (asks, now, time);
    Err(Fault::Reply("not yet".into()))
}

/// What the reply to a call of [`call`] says. `now` and `time` as then.
pub(crate) fn answers(asks: &[Ask], now: Timestamp, time: StoreTime, reply: &Value) -> Result<Next, Fault> {
    let _ = (asks, now, time, reply);
    Err(Fault::Reply("not yet".into()))
}

/// The first call for takes or holds (nothing else) that are charged together: all or none. Keys of one slot, in any order, also several
/// of one key.
pub(crate) fn together(asks: &[Ask], now: Timestamp, time: StoreTime) -> Result<Next, Fault> {
    let _ = (asks, now, time);
    Err(Fault::Reply("not yet".into()))
}

/// What the reply to a call of [`together`] says.
pub(crate) fn together_answers(
    asks: &[Ask],
    now: Timestamp,
    time: StoreTime,
    reply: &Value,
) -> Result<Next, Fault> {
    let _ = (asks, now, time, reply);
    Err(Fault::Reply("not yet".into()))
}
