//! States of large whole numbers, kept as their digits: takes that pay for those before, and classes of
//! priority.

use tollgate_core::{
    Cost, MAX_COUNT, PriorityParams, Quota, State, StepParams, Timestamp, WarmUpParams, Wide,
};
use tollgate_redis_link::Value;

use super::arguments::{Packed, TOO_MANY, groups};
use super::values::{StoredValue, foreign, int, numbers, text};
use crate::ask::{Ask, AskError, KeyOperation};
use crate::script::Swap;

/// Additional lifetime of the key of a state that is kept past its expiry: 30 days.
const KEPT_MS: u64 = 30 * 86_400_000;
/// Base of the limbs in `big.lua`.
const LIMB: u64 = 10_000_000;
const MS_PER_SECOND: u64 = 1_000;

pub(super) fn warm_up_argument(packed: &mut Packed, warm_up: WarmUpParams<'_>, asks: &[&Ask]) {
    packed.text(&warm_up_head(warm_up));
    for number in [warm_up.interval(), warm_up.refill(), warm_up.full(), warm_up.most()] {
        packed.text(&number.to_string());
    }
    packed.text(&WarmUpParams::MOST_OWED.to_string());
    let (cold, keep_ms) = warm_up.cold_factor().map_or((0, KEPT_MS), |cold| (cold, 0));
    packed.count(warm_up.scale()).count(u64::from(cold)).count(keep_ms);
    for (n, kind) in groups(asks) {
        let (code, cost, wait_ns) = match kind {
            KeyOperation::Take(cost) => (n as f64, cost, 0),
            KeyOperation::Reserve(cost, max_wait) => (n as f64, cost, tollgate_core::nanos(max_wait)),
            KeyOperation::Pay(Cost::PEEK) => (-3.0, Cost::PEEK, 0),
            KeyOperation::Charge(cost) | KeyOperation::Pay(cost) => (0.0, cost.min(Cost(MAX_COUNT)), 0),
            KeyOperation::GiveBack(cost) => (-1.0, cost, 0),
            KeyOperation::Reset => (-2.0, Cost::PEEK, 0),
            KeyOperation::Inspect => (-3.0, Cost::PEEK, 0),
        };
        packed.number(code).limbs(u128::from(cost.permits()), LIMB).nanos(wait_ns);
    }
}

/// The beginning of each state of this rate.
fn warm_up_head(warm_up: WarmUpParams<'_>) -> String {
    let [tag, scale, full] = warm_up.head();
    format!("{tag} {scale} {full} ")
}

pub(super) fn read_warm_up(
    quota: &Quota,
    warm_up: WarmUpParams<'_>,
    expires: &Value,
    value: &Value,
    at: Timestamp,
) -> Result<StoredValue, AskError> {
    let Some(text) = text(value)? else { return Ok(StoredValue::State(quota.fresh(), false)) };
    let Some(cells) = numbers::<6>(&text) else { return of_total(text) };
    if cells[0] != warm_up.head()[0] {
        return Ok(foreign(&text));
    }
    let state = Wide { cells: cells.into(), ..Wide::default() };
    if cells[..3] == warm_up.head() {
        return Ok(StoredValue::State(State::Wide(state), true));
    }
    let carried = warm_up.carried(&state, at);
    let cells: Vec<String> = carried.cells.iter().map(u64::to_string).collect();
    replaced(text, expires, &cells.join(" "), &carried)
}

pub(super) fn priority_argument(packed: &mut Packed, parent: PriorityParams<'_>, asks: &[&Ask]) {
    packed.text(&priority_head(parent)).text(&parent.units_per_permit().to_string());
    packed.text(&parent.inflow().to_string()).count(parent.weights().len() as u64);
    for weight in parent.weights() {
        packed.count(*weight);
    }
    // A run of asks of one class and one kind; the classes of a parent may come in one call.
    for run in asks.chunk_by(|a, b| a.quota.algorithm() == b.quota.algorithm()) {
        let Some(StepParams::Priority(params)) = run.first().map(|ask| ask.quota.step_params()) else {
            continue;
        };
        let (class, burst) = (params.class(), params.bursts().get(params.class()).copied().unwrap_or(0));
        for (n, kind) in groups(run) {
            let (code, cost, most) = match kind {
                KeyOperation::Take(cost) | KeyOperation::Reserve(cost, _) => {
                    (n as f64, cost.permits().min(TOO_MANY), burst)
                }
                KeyOperation::Pay(Cost::PEEK) => (-3.0, 0, 0),
                KeyOperation::Charge(cost) | KeyOperation::Pay(cost) => {
                    (0.0, cost.permits().min(MAX_COUNT), MAX_COUNT)
                }
                KeyOperation::GiveBack(cost) => (-1.0, cost.permits().min(MAX_COUNT), 0),
                KeyOperation::Reset => (-2.0, 0, 0),
                KeyOperation::Inspect => (-3.0, 0, 0),
            };
            packed.number(code).number(cost as f64).count(class as u64 + 1).count(most);
        }
    }
}

/// The beginning of each state of this parent.
fn priority_head(parent: PriorityParams<'_>) -> String {
    format!("{PRIORITY} {} ", parent.units_per_permit())
}

/// The beginning of the states of all parents.
const PRIORITY: u64 = PriorityParams::TAG;

pub(super) fn read_priority(
    quota: &Quota,
    parent: PriorityParams<'_>,
    expires: &Value,
    value: &Value,
    at: Timestamp,
) -> Result<StoredValue, AskError> {
    let Some(text) = text(value)? else { return Ok(StoredValue::State(quota.fresh(), false)) };
    let numbers: Option<Vec<u128>> = text.split(' ').map(|word| word.parse().ok()).collect();
    let Some([tag, permit, last, missing @ ..]) = numbers.as_deref() else { return of_total(text) };
    let last = u64::try_from(*last).ok().filter(|_| *tag == u128::from(PRIORITY));
    let Some(last) = last else { return Ok(foreign(&text)) };
    let state = PriorityParams::state(last, *permit, missing);
    if *permit == parent.units_per_permit() {
        return Ok(StoredValue::State(State::Wide(state), true));
    }
    let carried = parent.carried(&state, at);
    let [_, last, cells @ ..] = &carried.cells[..] else { return Ok(foreign(&text)) };
    let wide = |halves: &[u64]| u128::from(halves[0]) | u128::from(halves[1]) << 64;
    let numbers: Vec<String> = cells.chunks_exact(2).map(|halves| wide(halves).to_string()).collect();
    let [permit, missing @ ..] = &numbers[..] else { return Ok(foreign(&text)) };
    let to_be = format!("{PRIORITY} {permit} {last} {}", missing.join(" "));
    replaced(text, expires, &to_be, &carried)
}

/// The call that replaces the `text` that another rule wrote.
fn replaced(text: String, expires: &Value, to_be: &str, state: &Wide) -> Result<StoredValue, AskError> {
    let keep_ms = if state.expires.is_sticky() { KEPT_MS } else { 0 };
    let expires_ms = state.expires.seconds().saturating_mul(MS_PER_SECOND).saturating_add(keep_ms);
    let seen_ms = int(expires)?.to_string();
    let words = [text, seen_ms, to_be.to_owned(), expires_ms.to_string()].map(String::into_bytes);
    Ok(StoredValue::Odd(Swap::Strings, words.into()))
}

/// A value of no state of these algorithms: the rule's limit may have been 0, and a total counted. Nothing of
/// it counts here.
fn of_total(text: String) -> Result<StoredValue, AskError> {
    match text.parse::<u64>() {
        Ok(used) if used <= MAX_COUNT => {
            let words = [text.into_bytes(), b"-1".to_vec(), Vec::new(), Vec::new()];
            Ok(StoredValue::Odd(Swap::Strings, words.into()))
        }
        _ => Ok(foreign(&text)),
    }
}
