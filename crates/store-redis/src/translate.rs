//! Between states of `core` and the values of Redis keys: the arguments of a step, and its reply.
//!
//! One module per form of state. Not here: the flow of calls ([`call`](crate::call)).

mod arguments;
mod bucket;
mod entries;
mod texts;
mod values;
mod window;

pub use self::arguments::instant;
pub(crate) use self::values::{Read, StepReply, int, text};

use tollgate_core::{Quota, StepParams, Timestamp};

use self::arguments::Packed;
use crate::ask::{Ask, Fault};
use crate::script::Step;

/// Which step counts this quota; `None` where nothing is counted.
pub(crate) fn step_of(quota: &Quota) -> Option<Step> {
    match quota.step_params() {
        StepParams::Bucket(_) => Some(Step::Bucket),
        StepParams::Window(_) => Some(Step::Window),
        StepParams::Total { .. } => Some(Step::Total),
        StepParams::Interval(_) => Some(Step::Interval),
        StepParams::Counter(_) => Some(Step::Counter),
        StepParams::Cells(_) | StepParams::Log(_) => Some(Step::Entries),
        StepParams::WarmUp | StepParams::Priority(_) => Some(Step::Bucket), // whose argument fails
        _ => None,
    }
}

/// Appends the argument of the step: the quota's numbers, then the asks, equal ones in a row as one group.
/// Leaves half of it where it fails.
pub(crate) fn argument(bytes: &mut Vec<u8>, asks: &[&Ask], hint: Timestamp) -> Result<(), Fault> {
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
        StepParams::WarmUp => {
            let algorithm = first.quota.algorithm().name();
            return Err(Fault::Unsupported { algorithm, what: "prices that are squares" });
        }
        StepParams::Priority(_) => {
            let what = "classes of priority are counted in memory";
            return Err(Fault::Unsupported { algorithm: first.quota.algorithm().name(), what });
        }
        _ => {}
    }
    Ok(())
}

/// What the key held, from the step's reply.
pub(crate) fn read(quota: &Quota, reply: StepReply<'_>, at: Timestamp) -> Result<Read, Fault> {
    let StepReply { status, first, second } = reply;
    match quota.step_params() {
        StepParams::Bucket(bucket) => bucket::read(quota, bucket, status, first, second),
        StepParams::Window(window) => window::read(quota, window, first, second),
        StepParams::Total { .. } => window::read_total(quota, second),
        StepParams::Interval(interval) => texts::read_interval(quota, interval, second, at),
        StepParams::Counter(counter) => texts::read_counter(quota, counter, first, second, at),
        StepParams::Cells(cells) => entries::read_cells(quota, cells, first, at),
        StepParams::Log(log) => entries::read_log(quota, log, first),
        _ => Ok(Read::State(quota.fresh(), false)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::{Algorithm, Cost, Period, Quota, Timestamp};

    use super::{argument, step_of};
    use crate::ask::{Ask, Fault, Kind};

    /// A rule with one is an error when it is loaded; one that comes by another way is never uncounted.
    #[test]
    fn a_class_of_priority_is_an_error_and_not_unlimited() {
        let algorithm = Algorithm::PriorityBuckets { burst: None, weights: [3, 1].into(), class: 0 };
        let quota = Quota::new(10, Period::Span(Duration::from_secs(1)), algorithm).expect("a quota");
        assert!(step_of(&quota).is_some());
        let ask = Ask { key: b"k".to_vec(), quota, kind: Kind::Take(Cost::ONE) };
        let result = argument(&mut Vec::new(), &[&ask], Timestamp::ZERO);
        assert!(matches!(result, Err(Fault::Unsupported { algorithm: "priority_buckets", .. })));
    }
}
