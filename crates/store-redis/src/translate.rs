//! Between our states and what a key in Redis holds: arguments of a step, and its reply read.
//!
//! One module an algorithm's form of state. Not here: the flow of calls ([`call`](crate::call)).

mod bucket;
mod entries;
mod texts;
mod window;

use tollgate_core::{Cost, Quota, State, StepParams, Timestamp};
use tollgate_redis_link::Value;

use crate::ask::{Ask, Fault, Kind};
use crate::script::{Step, Swap};

/// How far the numbers of a state may lie beyond a count that is given back: more than any count.
const ALL: u64 = 1 << 50;

/// What a key held before a step.
pub(crate) enum Read {
    /// A state, and whether there was one at all.
    State(State, bool),
    /// What another rule of the key's has written: how it is to go on.
    Odd(Swap, Vec<Vec<u8>>),
    /// Nothing of ours; what it looks like.
    Foreign(String),
}

/// Which step counts this quota; `None` where nothing is counted.
pub(crate) fn step_of(quota: &Quota) -> Option<Step> {
    match quota.step_params() {
        StepParams::Bucket(_) => Some(Step::Bucket),
        StepParams::Window(_) => Some(Step::Window),
        StepParams::Total { .. } => Some(Step::Total),
        StepParams::Interval(_) => Some(Step::Interval),
        StepParams::Counter(_) => Some(Step::Counter),
        StepParams::Cells(_) | StepParams::Log(_) => Some(Step::Entries),
        _ => None,
    }
}

/// Appends the argument of the step: the quota's numbers, then the asks, equal ones in a row as one group. Half of it where it fails.
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
        _ => {}
    }
    Ok(())
}

/// What the key held, as the step answers it: its status, and `a` and `b` of its reply.
pub(crate) fn read(
    quota: &Quota,
    (status, a, b): (i64, &Value, &Value),
    at: Timestamp,
) -> Result<Read, Fault> {
    match quota.step_params() {
        StepParams::Bucket(bucket) => bucket::read(quota, bucket, status, a, b),
        StepParams::Window(window) => window::read(quota, window, a, b),
        StepParams::Total { .. } => window::read_total(quota, b),
        StepParams::Interval(interval) => texts::read_interval(quota, interval, b, at),
        StepParams::Counter(counter) => texts::read_counter(quota, counter, a, b, at),
        StepParams::Cells(cells) => entries::read_cells(quota, cells, a, at),
        StepParams::Log(log) => entries::read_log(quota, log, a),
        _ => Ok(Read::State(quota.fresh(), false)),
    }
}

/// Runs of equal takes and holds, and everything else one by one.
fn groups<'a>(asks: &'a [&'a Ask]) -> impl Iterator<Item = (u64, Kind)> + 'a {
    let alike = |a: &&Ask, b: &&Ask| a.kind == b.kind && matches!(a.kind, Kind::Take(_) | Kind::Reserve(..));
    asks.chunk_by(alike).map(|run| (run.len() as u64, run[0].kind))
}

/// The groups of every step but the bucket's: how many (or what else), cost, and whether a refusal changes nothing.
fn push_counts(packed: &mut Packed, asks: &[&Ask], third: impl Fn(Cost, bool) -> f64) {
    for (n, kind) in groups(asks) {
        let most = |cost: Cost, most: u64| cost.permits().min(most);
        let (code, cost, third) = match kind {
            Kind::Take(cost) => (n as f64, most(cost, tollgate_core::MAX_COUNT), third(cost, false)),
            Kind::Reserve(cost, _) => (n as f64, most(cost, tollgate_core::MAX_COUNT), third(cost, true)),
            Kind::Charge(cost) => (0.0, most(cost, tollgate_core::MAX_COUNT), 0.0),
            Kind::GiveBack(cost) => (-1.0, most(cost, ALL), 0.0),
            Kind::Reset => (-2.0, 0, 0.0),
            Kind::Inspect => (-3.0, 0, 0.0),
        };
        packed.number(code).count(cost).number(third);
    }
}

fn holds(_: Cost, hold: bool) -> f64 {
    f64::from(u8::from(hold))
}

/// Numbers as a step unpacks them: doubles, lowest byte first, each a whole number below 2^53.
struct Packed<'a>(&'a mut Vec<u8>);

impl Packed<'_> {
    fn number(&mut self, number: f64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A whole number below 2^53.
    fn count(&mut self, count: u64) -> &mut Self {
        debug_assert!(count < 1 << 53, "{count} is no whole double");
        self.number(count as f64)
    }

    /// Nanoseconds as ms, and ns within.
    fn nanos(&mut self, nanos: u64) -> &mut Self {
        self.limbs(u128::from(nanos), 1_000_000)
    }

    /// A span as so many whole parts, and the rest.
    fn limbs(&mut self, span: u128, part: u64) -> &mut Self {
        let (whole, rest) = (span / u128::from(part), span % u128::from(part));
        self.count(u64::try_from(whole).unwrap_or(u64::MAX)).count(rest as u64)
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }
}

/// The instant that counts, as `time.lua` reads it.
pub fn instant(now: Timestamp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    Packed(&mut bytes).nanos(now.as_nanos());
    bytes
}

/// A string of the reply; `None` for none.
pub(crate) fn text(value: &Value) -> Result<Option<String>, Fault> {
    match value {
        Value::Nil | Value::Boolean(false) => Ok(None),
        Value::BulkString(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        Value::SimpleString(text) => Ok(Some(text.clone())),
        other => Err(Fault::Reply(format!("{other:?}"))),
    }
}

/// A whole number, which Redis may tell as such or as a string; `Err` holds what is none.
fn whole(value: &Value) -> Result<Option<Result<u64, String>>, Fault> {
    if let Value::Int(int) = value {
        return Ok(Some(u64::try_from(*int).map_err(|_| int.to_string())));
    }
    Ok(text(value)?.map(|text| text.parse().map_err(|_| text)))
}

pub(crate) fn int(value: &Value) -> Result<i64, Fault> {
    match value {
        Value::Int(int) => Ok(*int),
        other => Err(Fault::Reply(format!("{other:?}"))),
    }
}

/// How a value that is not ours is told of.
fn foreign(text: &str) -> Read {
    const SHOWN: usize = 40;
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_default).collect();
    let more = if text.chars().count() > SHOWN { "…" } else { "" };
    Read::Foreign(format!("the value \"{shown}{more}\""))
}

/// Whole numbers between single blanks.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut words = text.split(' ');
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(numbers)
}
