//! Slots of concurrency in Redis: acquired and released by one script, on the server's clock. A sorted set of
//! holders under the counter's key and `|slots`. Not here: the meaning of a slot ([`Slots`]).

use std::sync::LazyLock;
use std::time::Duration;

use tollgate_core::{Acquired, Holder, Released, Slots, Timestamp};
use tollgate_redis_link::Value;

use crate::call::ScriptCall;
use crate::config::StoreTime;
use crate::script::Script;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::of(&[include_str!("lua/slots.lua")]));

/// Suffix of the keys of slots. No counter's key ends with it.
pub(crate) const SUFFIX: &[u8] = b"|slots";

/// An action on a holder's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotAction {
    /// Takes a slot, or renews it.
    Acquire,
    /// Frees the slot.
    Release,
}

/// The script's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReply {
    /// The holder has a slot now, or had one until now.
    pub done: bool,
    is_renewal: bool,
    expired: u64,
    held: u64,
    first: Duration,
    last: Duration,
}

impl SlotReply {
    pub(crate) fn acquired(&self, slots: &Slots) -> Acquired {
        let decision = slots.decision(self.done, self.held, self.first, self.last);
        Acquired { decision, is_renewal: self.is_renewal, expired: self.expired }
    }

    pub(crate) const fn released(&self) -> Released {
        Released { was_held: self.done, expired: self.expired }
    }
}

/// The script call for `key`, a counter's.
pub fn call(
    mut key: Vec<u8>,
    slots: &Slots,
    holder: Holder,
    action: SlotAction,
    now: Timestamp,
    time: StoreTime,
) -> ScriptCall {
    key.extend_from_slice(SUFFIX);
    // Rounded up: a slot never lapses before its time.
    let ttl_us = slots.ttl().as_nanos().div_ceil(1_000);
    let action = if action == SlotAction::Acquire { "a" } else { "r" };
    let mut args = vec![
        slots.limit().to_string().into_bytes(),
        ttl_us.to_string().into_bytes(),
        format!("{:032x}", holder.0).into_bytes(),
        action.into(),
    ];
    if time == StoreTime::Node {
        args.push((now.as_nanos() / 1_000).to_string().into_bytes());
    }
    ScriptCall { script: &SCRIPT, keys: vec![key], args }
}

/// Reads the reply; `None` when it is not one of this script's.
pub fn read(reply: &Value) -> Option<SlotReply> {
    let Value::Array(items) = reply else { return None };
    let numbers = items.iter().map(|item| if let Value::Int(number) = item { Some(*number) } else { None });
    let numbers: Option<Vec<i64>> = numbers.collect();
    let [done, expired, held, first, last] = numbers?[..] else { return None };
    let micros = |us: i64| u64::try_from(us).ok().map(Duration::from_micros);
    Some(SlotReply {
        done: done > 0,
        is_renewal: done == 2,
        expired: u64::try_from(expired).ok()?,
        held: u64::try_from(held).ok()?,
        first: micros(first)?,
        last: micros(last)?,
    })
}
