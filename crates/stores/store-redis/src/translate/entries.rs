//! Windows with one entry per instant: a list whose head names its writer and the number of permits that have
//! left.

use tollgate_core::{CellParams, LogParams, Quota, State, Timestamp};
use tollgate_redis_link::Value;

use super::arguments::{Packed, holds, push_counts};
use super::values::{StoredValue, foreign, numbers, text};
use crate::ask::{Ask, AskError};
use crate::script::Swap;

const NANOS_PER_MS: u64 = 1_000_000;
/// The tag in the head of a log.
const LOG: &str = "log";

pub(super) fn cells_argument(
    packed: &mut Packed,
    cells: CellParams<'_>,
    asks: &[&Ask],
    hint: Timestamp,
) -> Result<(), AskError> {
    let cell_ns = cells.cell_ns();
    if cell_ns < 1_000 {
        let what = "cells below a microsecond";
        return Err(AskError::Unsupported { algorithm: "sliding_window", what });
    }
    let begins_ns = hint.as_nanos() - hint.as_nanos() % cell_ns;
    packed.count(cells.limit()).nanos(cells.counted() * cell_ns).nanos(cell_ns).nanos(begins_ns);
    packed.number(-1.0).text(&tag(&cells));
    push_counts(packed, asks, holds);
    Ok(())
}

pub(super) fn log_argument(packed: &mut Packed, log: LogParams<'_>, asks: &[&Ask]) {
    packed.count(log.limit()).nanos(log.window_ns()).nanos(0).nanos(0);
    packed.count(u64::from(log.logs_denied())).text(LOG);
    push_counts(packed, asks, holds);
}

/// The length of the counted span and of a cell, in ns.
fn tag(cells: &CellParams<'_>) -> String {
    format!("{}/{}", cells.counted() * cells.cell_ns(), cells.cell_ns())
}

/// The part of a list that the reply shows.
struct List {
    tag: String,
    newest_ns: u64,
    /// Instants in ns and permits, oldest first.
    taken: Vec<(u64, u64)>,
}

/// From the elements after the head; `None` when another program has written them. `since` is the number of
/// permits that had left by the first of them.
fn list(head: &str, since: Option<u64>, elements: &[Value]) -> Result<Option<List>, AskError> {
    let Some((tag, rest)) = head.split_once(' ') else { return Ok(None) };
    let Some([newest_ms, newest_ns, base]) = numbers(rest) else { return Ok(None) };
    let instant = |ms: u64, ns: u64| ms.saturating_mul(NANOS_PER_MS).saturating_add(ns);
    let mut before = since.unwrap_or(base);
    let mut taken = Vec::with_capacity(elements.len());
    for element in elements {
        let Some([ms, ns, upto]) = text(element)?.as_deref().and_then(numbers) else { return Ok(None) };
        taken.push((instant(ms, ns), upto.saturating_sub(before)));
        before = before.max(upto);
    }
    Ok(Some(List { tag: tag.to_owned(), newest_ns: instant(newest_ms, newest_ns), taken }))
}

/// The list as the step shows it: head, permits that had left, elements; or, of one that it cannot read, all
/// elements.
enum Shown<'a> {
    Nothing,
    Part(String, u64, &'a [Value]),
    All(String, &'a [Value]),
}

fn shown(reply: &Value) -> Result<Shown<'_>, AskError> {
    let Value::Array(values) = reply else { return Err(AskError::Reply(format!("{reply:?}"))) };
    let Some((head, rest)) = values.split_first() else { return Ok(Shown::Nothing) };
    match (text(head)?, rest) {
        (None, _) => Ok(Shown::Nothing),
        (Some(head), [Value::Int(since), elements @ ..]) => {
            Ok(Shown::Part(head, u64::try_from(*since).unwrap_or(0), elements))
        }
        (Some(head), elements) => Ok(Shown::All(head, elements)),
    }
}

pub(super) fn read_cells(
    quota: &Quota,
    cells: CellParams<'_>,
    reply: &Value,
    at: Timestamp,
) -> Result<StoredValue, AskError> {
    let (head, since, elements, is_odd) = match shown(reply)? {
        Shown::Nothing => return Ok(StoredValue::State(quota.fresh(), false)),
        Shown::Part(head, since, elements) => (head, Some(since), elements, false),
        Shown::All(head, elements) => (head, None, elements, true),
    };
    let Some(list) = list(&head, since, elements)? else { return Ok(foreign(&head)) };
    let lengths = list
        .tag
        .split_once('/')
        .and_then(|(counted, cell)| Some((counted.parse().ok()?, cell.parse().ok()?)));
    let Some((counted_ns, cell_ns)) =
        lengths.filter(|(counted_ns, cell_ns): &(u64, u64)| *cell_ns > 0 && counted_ns >= cell_ns)
    else {
        return Ok(foreign(&head));
    };
    let taken: Vec<(u64, u64)> = list.taken.iter().map(|(at, permits)| (at / cell_ns, *permits)).collect();
    let state = CellParams::state(cell_ns, counted_ns / cell_ns, list.newest_ns / cell_ns, &taken);
    if !is_odd {
        return Ok(StoredValue::State(State::Wide(state), true));
    }
    // Other cells, or numbers that have become too large: rewritten.
    let (newest, taken) = cells.taken(&state, at);
    let own_ns = cells.cell_ns();
    let taken: Vec<(u64, u64)> = taken.iter().map(|(number, permits)| (number * own_ns, *permits)).collect();
    Ok(anew(&head, elements, &tag(&cells), newest * own_ns, &taken, cells.counted() * own_ns))
}

pub(super) fn read_log(quota: &Quota, log: LogParams<'_>, reply: &Value) -> Result<StoredValue, AskError> {
    let (head, since, elements, is_odd) = match shown(reply)? {
        Shown::Nothing => return Ok(StoredValue::State(quota.fresh(), false)),
        Shown::Part(head, since, elements) => (head, Some(since), elements, false),
        Shown::All(head, elements) => (head, None, elements, true),
    };
    match list(&head, since, elements)? {
        Some(list) if list.tag == LOG && is_odd => {
            Ok(anew(&head, elements, LOG, 0, &list.taken, log.window_ns()))
        }
        Some(list) if list.tag == LOG => {
            Ok(StoredValue::State(State::Wide(LogParams::state(&list.taken)), true))
        }
        _ => Ok(foreign(&head)),
    }
}

/// The rewritten list, counting from zero.
fn anew(
    head: &str,
    elements: &[Value],
    tag: &str,
    newest_ns: u64,
    taken: &[(u64, u64)],
    counted_ns: u64,
) -> StoredValue {
    let limbs = |ns: u64| format!("{} {}", ns / NANOS_PER_MS, ns % NANOS_PER_MS);
    let last = elements.last().and_then(|last| text(last).ok().flatten());
    let mut words = vec![head.as_bytes().to_vec(), last.unwrap_or_else(|| head.to_owned()).into_bytes()];
    let expires_ns = taken.last().map_or(0, |(at, _)| at.saturating_add(counted_ns));
    words.push(expires_ns.div_ceil(NANOS_PER_MS).to_string().into_bytes());
    let mut written = Vec::new();
    if !taken.is_empty() {
        written.push(format!("{tag} {} 0", limbs(newest_ns)).into_bytes());
    }
    let mut upto = 0_u64;
    for (at, permits) in taken.iter().filter(|(_, permits)| *permits > 0) {
        upto = upto.saturating_add(*permits);
        written.push(format!("{} {upto}", limbs(*at)).into_bytes());
    }
    words.push(written.len().to_string().into_bytes());
    words.extend(written);
    StoredValue::Odd(Swap::Lists, words)
}
