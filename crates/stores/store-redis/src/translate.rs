//! The conversion between states of `core` and the values of Redis keys: the arguments of a step, and its
//! reply.
//!
//! One module per form of state. Not here: the flow of calls ([`call`](crate::call)).

mod arguments;
mod bucket;
mod entries;
mod texts;
mod values;
mod whole;
mod window;

pub use self::arguments::instant;
pub(crate) use self::values::{StepReply, StoredValue, int, text};

use tollgate_core::{Quota, StepParams, Timestamp};

use self::arguments::Packed;
use crate::ask::{Ask, AskError};
use crate::script::Step;

/// The step that counts this quota; `None` where nothing is counted.
pub(crate) fn step_of(quota: &Quota) -> Option<Step> {
    match quota.step_params() {
        StepParams::Bucket(_) => Some(Step::Bucket),
        StepParams::Window(_) => Some(Step::Window),
        StepParams::Total { .. } => Some(Step::Total),
        StepParams::Interval(_) => Some(Step::Interval),
        StepParams::Counter(_) => Some(Step::Counter),
        StepParams::Cells(_) | StepParams::Log(_) => Some(Step::Entries),
        StepParams::WarmUp(_) => Some(Step::WarmUp),
        StepParams::Priority(_) => Some(Step::Priority),
        _ => None,
    }
}

/// Appends the argument of the step: the quota's numbers, then the asks, equal ones in a row as one group. On
/// an error, only a part of it.
pub(crate) fn argument(bytes: &mut Vec<u8>, asks: &[&Ask], hint: Timestamp) -> Result<(), AskError> {
    let Some(first) = asks.first() else { return Ok(()) };
    let mut packed = Packed(bytes);
    match first.quota.step_params() {
        StepParams::Bucket(bucket) => bucket::argument(&mut packed, &first.quota, bucket, asks),
        StepParams::Window(window) => window::argument(&mut packed, window, asks, hint),
        StepParams::Total { stock } => window::total_argument(&mut packed, stock, asks),
        StepParams::Interval(interval) => texts::interval_argument(&mut packed, &first.quota, interval, asks),
        StepParams::Counter(counter) => texts::counter_argument(&mut packed, counter, asks, hint)?,
        StepParams::Cells(cells) => entries::cells_argument(&mut packed, cells, asks, hint)?,
        StepParams::Log(log) => entries::log_argument(&mut packed, log, asks),
        StepParams::WarmUp(warm_up) => whole::warm_up_argument(&mut packed, warm_up, asks),
        StepParams::Priority(parent) => whole::priority_argument(&mut packed, parent, asks),
        _ => {}
    }
    Ok(())
}

/// As [`argument`], of asks by several classes of one bucket: their quotas differ in the overdraft alone, so
/// that they write and read the same states.
pub(crate) fn argument_of_classes(
    bytes: &mut Vec<u8>,
    asks: &[&Ask],
    hint: Timestamp,
) -> Result<(), AskError> {
    let mut runs = asks.chunk_by(|a, b| a.quota.algorithm() == b.quota.algorithm());
    let Some(first) = runs.next() else { return Ok(()) };
    let has_overdraft =
        matches!(first[0].quota.step_params(), StepParams::Bucket(_) | StepParams::Interval(_));
    argument(bytes, if has_overdraft { first } else { asks }, hint)?;
    let packed = &mut Packed(bytes);
    for run in runs {
        match run[0].quota.step_params() {
            StepParams::Bucket(bucket) => bucket::push_class(packed, &run[0].quota, bucket, run),
            StepParams::Interval(interval) => texts::push_class_of_interval(packed, interval, run),
            _ => break, // of `priority_buckets`: its argument has all of them
        }
    }
    Ok(())
}

/// The value of the key before the step, from the step's reply.
pub(crate) fn read(quota: &Quota, reply: StepReply<'_>, at: Timestamp) -> Result<StoredValue, AskError> {
    let StepReply { status, first, second } = reply;
    match quota.step_params() {
        StepParams::Bucket(bucket) => bucket::read(quota, bucket, status, first, second),
        StepParams::Window(_) => window::read(quota, first, second),
        StepParams::Total { .. } => window::read_total(quota, second),
        StepParams::Interval(interval) => texts::read_interval(quota, interval, second, at),
        StepParams::Counter(counter) => texts::read_counter(quota, counter, first, second, at),
        StepParams::Cells(cells) => entries::read_cells(quota, cells, first, at),
        StepParams::Log(log) => entries::read_log(quota, log, first),
        StepParams::WarmUp(warm_up) => whole::read_warm_up(quota, warm_up, first, second, at),
        StepParams::Priority(parent) => whole::read_priority(quota, parent, first, second, at),
        _ => Ok(StoredValue::State(quota.fresh(), false)),
    }
}
