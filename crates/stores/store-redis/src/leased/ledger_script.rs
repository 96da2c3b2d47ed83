//! Calls of a ledger as script calls, and their replies: `ledger.lua` repeats
//! [`Ledger`](tollgate_lease::Ledger) on the server's clock, number by number. Not here: how a call reaches a
//! server.

use std::sync::LazyLock;

use tollgate_lease::{LedgerCall, LedgerReply, Op, Terms};
use tollgate_redis_link::Value;

use crate::call::ScriptCall;
use crate::script::Script;

/// The script of every call.
pub(crate) static SCRIPT: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[include_str!("../lua/ledger.lua")]));

/// Suffix of leased keys: `tollgate:{shop|user=ann|minute}|leased`. No counter's key ends with it.
pub(crate) const SUFFIX: &[u8] = b"|leased";

/// The job of one run of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerJob {
    /// A call of the ledger.
    Call(LedgerCall),
    /// The key is forgotten; the reply is its account before that.
    Reset,
}

/// The reason why a reply is not the ledger's. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerReplyError {
    /// The key holds something else.
    #[error("holds what is not an account of leases; delete it or choose another prefix")]
    Foreign,
    /// The reply is not one of the script's.
    #[error("has an unexpected answer: {0}")]
    Reply(String),
}

/// Terms as the script reads them: made once per quota.
pub fn pack(terms: &Terms) -> Vec<u8> {
    let first_hit = u64::from(terms.begins_with_first_hit());
    doubles(&[
        terms.interval(),
        terms.per_us(),
        terms.burst(),
        terms.max_promised(),
        terms.ration(),
        terms.tau_us(),
        terms.longest_us(),
        first_hit,
    ])
}

/// One script call. `now_us`: the caller's time, where that counts instead of the server's.
pub fn encode(key: Vec<u8>, terms: Vec<u8>, job: LedgerJob, now_us: Option<u64>) -> ScriptCall {
    let (window_ends_us, numbers) = match job {
        LedgerJob::Reset => (0, [5, 0, 0, 0, 0, 0, 0, 0]),
        LedgerJob::Call(LedgerCall { op, window_ends_us }) => {
            let numbers = match op {
                Op::Lease(it) => [0, it.node, it.seq, it.held, it.spent, it.want, it.need, it.least],
                Op::Take { cost, times } => [1, cost, times, 0, 0, 0, 0, 0],
                Op::GiveBack { cost } => [2, cost, 0, 0, 0, 0, 0, 0],
                Op::Charge { cost } => [3, cost, 0, 0, 0, 0, 0, 0],
                Op::Peek => [4, 0, 0, 0, 0, 0, 0, 0],
                Op::Try { cost, times } => [6, cost, times, 0, 0, 0, 0, 0],
            };
            (window_ends_us, numbers)
        }
    };
    let [op, rest @ ..] = numbers;
    let mut args = vec![terms, doubles(&[&[op, window_ends_us], &rest[..]].concat())];
    args.extend(now_us.map(|now_us| doubles(&[now_us])));
    ScriptCall { script: &SCRIPT, keys: vec![key], args }
}

/// Reads the script's reply.
pub fn decode(value: &Value) -> Result<LedgerReply, LedgerReplyError> {
    let unexpected = || LedgerReplyError::Reply(format!("{value:?}").chars().take(200).collect());
    let Value::Array(items) = value else { return Err(unexpected()) };
    let mut numbers = [0; 13];
    match items.as_slice() {
        [Value::Int(-1)] => return Err(LedgerReplyError::Foreign),
        items if items.len() == numbers.len() => {
            for (number, item) in numbers.iter_mut().zip(items) {
                let Value::Int(item) = item else { return Err(unexpected()) };
                *number = u64::try_from(*item).map_err(|_| unexpected())?;
            }
        }
        _ => return Err(unexpected()),
    }
    let [now_us, rejected, seq, renewed, granted, admitted, taken, out, out_before, rest @ ..] = numbers;
    let [ends_us, active, crowd, dry_us] = rest;
    let rejected = rejected == 1;
    let renewed = renewed == 1;
    Ok(LedgerReply {
        now_us,
        rejected,
        seq,
        renewed,
        granted,
        admitted,
        taken,
        dry_us,
        out,
        out_before,
        ends_us,
        active,
        crowd,
    })
}

/// Whole numbers as the script unpacks them. Numbers beyond 2^53 lose their last digits; no cap lets them
/// through.
fn doubles(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}
