//! Slots in Redis: acquired and released by one script each, on the server's clock. A sorted set of holders under the counter's key and
//! `|slots`. Not here: what a slot is ([`Slots`]).

use std::sync::LazyLock;
use std::time::Duration;

use tollgate_core::{Decision, Holder, Slots, Timestamp};
use tollgate_redis_link::Value;

use crate::call::Call;
use crate::config::StoreTime;
use crate::script::Script;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::of(&[include_str!("lua/slots.lua")]));

/// The end of the names of keys of slots: no counter's key ends so.
const SUFFIX: &[u8] = b"|slots";

/// What to do with a holder's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Acquire,
    Release,
}

/// What the script answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) done: bool,
    held: u64,
    first: Duration,
    last: Duration,
}

impl Said {
    pub(crate) fn decision(&self, slots: &Slots) -> Decision {
        slots.decision(self.done, self.held, self.first, self.last)
    }
}

/// The script call for `key`, a counter's.
pub(crate) fn call(
    mut key: Vec<u8>,
    slots: &Slots,
    holder: Holder,
    what: What,
    now: Timestamp,
    time: StoreTime,
) -> Call {
    key.extend_from_slice(SUFFIX);
    // Up: a slot never lapses before its time.
    let ttl_us = slots.ttl().as_nanos().div_ceil(1_000);
    let what = if what == What::Acquire { "a" } else { "r" };
    let mut args = vec![
        slots.limit().to_string().into_bytes(),
        ttl_us.to_string().into_bytes(),
        format!("{:032x}", holder.0).into_bytes(),
        what.into(),
    ];
    if time == StoreTime::Node {
        args.push((now.as_nanos() / 1_000).to_string().into_bytes());
    }
    Call { script: &SCRIPT, keys: vec![key], args }
}

/// Reads the reply; `None` when it is none of this script's.
pub(crate) fn said(reply: &Value) -> Option<Said> {
    let Value::Array(items) = reply else { return None };
    let [Value::Int(done), Value::Int(held), Value::Int(first), Value::Int(last)] = items[..] else {
        return None;
    };
    let micros = |us: i64| u64::try_from(us).ok().map(Duration::from_micros);
    Some(Said {
        done: done == 1,
        held: u64::try_from(held).ok()?,
        first: micros(first)?,
        last: micros(last)?,
    })
}
