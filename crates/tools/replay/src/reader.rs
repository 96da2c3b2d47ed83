//! A log as requests in the order of their times, with broken lines, late requests and an early end reported.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::ops::Range;

use tollgate_human_text::{InQuotes, shorten_to};

use crate::format::{Columns, Common, Format, json, unread};
use crate::instant::{Instants, Unit, show};
use crate::mapping::{Mapping, is_as_it_is, is_list, value_of};
use crate::note::Note;
use crate::row::{Names, Row, Wanted};
use crate::source::{Lines, MAX_LINE, Next};
use crate::tally::{Broken, Tally};

/// Broken lines that are quoted.
const QUOTED: usize = 3;
/// Requests that wait for their place, at most, and bytes of their fields.
const MAX_WAITING: usize = 1 << 20;
const MAX_WAITING_BYTES: usize = 256 << 20;

/// Why reading stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("line {}: {}: {}; --strict stops at the first broken line", .0.line, .0.why, .0.quote)]
    Strict(Broken),
}

/// Strictness and tolerance of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadSettings {
    /// Stop at the first broken line.
    pub(crate) is_strict: bool,
    /// Requests are sorted that are at most this much out of order.
    pub(crate) tolerance_ns: u64,
}

/// One request. Its fields are in the [`Row`] that it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) ns: u64,
    pub(crate) cost: u64,
    /// Permits to reserve before the cost is known, if the mapping says so.
    pub(crate) reserved: Option<u64>,
    /// It came too late, and has the latest time before it instead.
    pub(crate) is_late: bool,
}

/// A request that waits for its place: by time, then by line.
struct Waiting(u64, u64, At, Row);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(crate) struct Reader {
    lines: Lines,
    mapping: Mapping,
    settings: ReadSettings,
    wanted: Vec<Wanted>,
    names: Names,
    time_place: usize,
    cost_places: Range<usize>,
    /// Fields of the reserved number, and constants that are added.
    reserve_places: Range<usize>,
    reserve_more: Option<u64>,
    condition_place: usize,
    format: Option<Format>,
    columns: Option<Columns>,
    common: Common,
    /// Names of columns, for messages.
    header: Vec<String>,
    /// Name of the file's actual format, if it has no heading.
    looks_like: Option<&'static str>,
    instants: Instants,
    /// Units of the names that the time may have.
    units: Vec<Option<Unit>>,
    /// By place and rank: whether a descriptor has the value as it is.
    as_it_is: Vec<Vec<bool>>,
    /// The latest time that was read, and the latest that was handed on.
    newest_ns: u64,
    handed_ns: u64,
    /// This many of the first places must have a value.
    key_places: usize,
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    has_ended: bool,
    pub(crate) tally: Tally,
}

impl Reader {
    /// The same, where lines without a value of one of the first `places` are broken.
    pub(crate) fn with_keys(self, places: usize) -> Self {
        Self { key_places: places, ..self }
    }

    /// A reader of a log with `mapping`, which fills rows with the fields `wanted`, in their order.
    pub(crate) fn new(lines: Lines, mapping: Mapping, wanted: &[Wanted], settings: ReadSettings) -> Self {
        // A row has the fields in this order: wanted, time, cost, reservation, condition.
        let mut all = wanted.to_vec();
        let time_place = all.len();
        all.push(mapping.time());
        let cost_begins = all.len();
        all.extend(mapping.cost.iter().map(|field| Wanted(vec![field.clone()])));
        let cost_places = cost_begins..all.len();
        let (numbers, fields): (Vec<_>, Vec<_>) =
            mapping.reserve.iter().partition(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        let reserve_begins = all.len();
        all.extend(fields.into_iter().map(|field| Wanted(vec![field.clone()])));
        let reserve_places = reserve_begins..all.len();
        let more =
            numbers.iter().fold(0_u64, |sum, number| sum.saturating_add(number.parse().unwrap_or(u64::MAX)));
        let condition_place = all.len();
        all.extend(mapping.admitted.iter().map(|condition| Wanted(vec![condition.field.clone()])));
        let names = Names::new(&all);
        Self {
            lines,
            format: mapping.format,
            settings,
            common: Common::new(&names),
            names,
            time_place,
            cost_places,
            reserve_places,
            reserve_more: (!mapping.reserve.is_empty()).then_some(more),
            condition_place,
            columns: None,
            header: Vec::new(),
            looks_like: None,
            instants: Instants::default(),
            units: (0..all[time_place].0.len()).map(|rank| mapping.unit(rank)).collect(),
            as_it_is: all
                .iter()
                .map(|Wanted(names)| names.iter().map(|name| is_as_it_is(name)).collect())
                .collect(),
            newest_ns: 0,
            handed_ns: 0,
            key_places: 0,
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            has_ended: false,
            tally: Tally::default(),
            mapping,
            wanted: all,
        }
    }

    /// The same for rules, which say themselves which address of a list counts.
    pub(crate) fn with_whole_lists(mut self) -> Self {
        for (Wanted(names), is) in self.wanted.iter().zip(&mut self.as_it_is) {
            for (name, is) in names.iter().zip(is) {
                *is |= is_list(name);
            }
        }
        self
    }

    /// The value of the field at this place of the wanted fields, as a descriptor has it.
    #[inline]
    pub(crate) fn value<'a>(&self, row: &'a Row, place: usize) -> Option<&'a str> {
        let value = row.get(place)?;
        let rank = row.rank(place)?;
        if self.as_it_is.get(place)?.get(rank).is_some_and(|is| *is) {
            return Some(value);
        }
        let name = self.wanted.get(place)?.0.get(rank);
        Some(name.map_or(value, |name| value_of(name, value)))
    }

    /// The next request by time, and its fields; `None` at the end.
    pub(crate) fn next(&mut self, row: &mut Row) -> Result<Option<At>, ReadError> {
        if self.settings.tolerance_ns == 0 {
            let next = self.read(row)?;
            return Ok(next.map(|at| self.hand_on(at)));
        }
        loop {
            let is_due = self.waiting.peek().is_some_and(|Reverse(first)| {
                self.has_ended
                    || self.waiting.len() > MAX_WAITING
                    || self.waiting_bytes > MAX_WAITING_BYTES
                    || first.0.saturating_add(self.settings.tolerance_ns) < self.newest_ns
            });
            if is_due && let Some(Reverse(Waiting(_, _, at, fields))) = self.waiting.pop() {
                self.waiting_bytes -= fields.bytes();
                *row = fields;
                return Ok(Some(self.hand_on(at)));
            }
            match self.read(row)? {
                Some(at) => {
                    self.waiting_bytes += row.bytes();
                    self.waiting.push(Reverse(Waiting(at.ns, self.lines.number, at, row.clone())))
                }
                None if self.waiting.is_empty() => return Ok(None),
                None => self.has_ended = true,
            }
        }
    }

    /// Time never goes back: a request that comes too late gets the latest time.
    #[inline]
    fn hand_on(&mut self, at: At) -> At {
        let is_late = at.ns < self.handed_ns;
        self.tally.late += u64::from(is_late);
        self.handed_ns = self.handed_ns.max(at.ns);
        self.tally.first_ns.get_or_insert(self.handed_ns);
        At { ns: self.handed_ns, is_late, ..at }
    }

    /// The next request in the order of the lines.
    fn read(&mut self, row: &mut Row) -> Result<Option<At>, ReadError> {
        while !self.has_ended {
            let next = match self.lines.next() {
                Ok(Next::End) => break,
                Ok(next) => next,
                Err(error) => {
                    self.tally.cut_off = Some(format!("after line {}: {error}", self.lines.number));
                    break;
                }
            };
            match self.parse(next, row) {
                Ok(None) => {}
                Ok(Some(at)) => {
                    self.tally.requests += 1;
                    if at.ns < self.newest_ns {
                        self.tally.back += 1;
                        self.tally.most_back_ns = self.tally.most_back_ns.max(self.newest_ns - at.ns);
                    }
                    if at.ns > self.newest_ns {
                        (self.newest_ns, self.tally.latest_line) = (at.ns, self.lines.number);
                    }
                    self.tally.last_ns = self.newest_ns;
                    return Ok(Some(at));
                }
                Err(why) => self.broken(why)?,
            }
        }
        self.has_ended = true;
        Ok(None)
    }

    #[cold]
    fn broken(&mut self, why: String) -> Result<(), ReadError> {
        self.tally.broken += 1;
        let is_quoted = self.tally.first_broken.len() < QUOTED;
        if is_quoted || self.settings.is_strict {
            let text = String::from_utf8_lossy(&self.lines.line[..self.lines.line.len().min(400)]);
            let quote = InQuotes(&shorten_to(&text, 100)).to_string();
            let broken = Broken { line: self.lines.number, why, quote };
            if self.settings.is_strict {
                return Err(ReadError::Strict(broken));
            }
            self.tally.first_broken.push(broken);
        }
        Ok(())
    }

    /// One line; `None` for one that is no request: empty, a heading, or not admitted.
    fn parse(&mut self, next: Next, row: &mut Row) -> Result<Option<At>, String> {
        if next == Next::TooLong {
            self.tally.lines += 1;
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        let Ok(line) = std::str::from_utf8(&self.lines.line) else {
            self.tally.lines += 1;
            return Err("not UTF-8".to_owned());
        };
        if line.bytes().all(|byte| byte.is_ascii_whitespace()) {
            return Ok(None);
        }
        let format = *self.format.get_or_insert_with(|| Format::guess(line));
        row.clear(&self.names);
        // The first line of CSV names the columns, unless the mapping does.
        if format == Format::Csv && self.columns.is_none() {
            let is_heading = self.mapping.columns.is_empty();
            self.header = if is_heading { Columns::header(line)? } else { self.mapping.columns.clone() };
            self.columns = Some(Columns::new(&self.header, line, &self.names));
            if is_heading {
                self.looks_like = unread(line);
                return Ok(None);
            }
        }
        self.tally.lines += 1;
        match (format, &mut self.columns) {
            (Format::Csv, Some(columns)) => columns.read(line, row)?,
            (Format::Json, _) => json(line, &self.names, row)?,
            _ => self.common.read(line, row)?,
        }
        let Some(time) = row.get(self.time_place) else { return Err(self.missing(self.time_place, "time")) };
        let unit = row.rank(self.time_place).and_then(|rank| self.units.get(rank).copied().flatten());
        let Some(ns) = self.instants.read(time, unit) else {
            return Err(format!(
                "{} is not a time from 1970 to 2554: expected 2026-11-24T12:00:00Z, 24/Nov/2026:12:00:00 +0000 or \
                 a number",
                InQuotes(&shorten_to(time, 40))
            ));
        };
        if let Some(place) = (0..self.key_places).find(|&place| row.get(place).is_none()) {
            return Err(format!("{}; see --key and --one-key", self.missing(place, "the key")));
        }
        // After time and key, so that a broken line is reported even if it was not admitted.
        if let Some(condition) = &self.mapping.admitted {
            let Some(value) = row.get(self.condition_place) else {
                return Err(self.missing(self.condition_place, "admitted"));
            };
            if (value == condition.value) != condition.is_equal {
                self.tally.not_admitted += 1;
                return Ok(None);
            }
        }
        let cost = match self.cost_places.is_empty() {
            true => 1,
            false => self.sum(row, self.cost_places.clone(), "cost")?,
        };
        let reserved = match self.reserve_more {
            Some(more) => Some(self.sum(row, self.reserve_places.clone(), "reserve")?.saturating_add(more)),
            None => None,
        };
        Ok(Some(At { ns, cost, reserved, is_late: false }))
    }

    /// The sum of the numbers in these places.
    fn sum(&self, row: &Row, places: Range<usize>, what: &str) -> Result<u64, String> {
        let mut sum = 0_u64;
        for place in places {
            let Some(text) = row.get(place) else { return Err(self.missing(place, what)) };
            let part: u64 = text.parse().map_err(|_| {
                format!("{} is not a cost; a cost is a whole number", InQuotes(&shorten_to(text, 40)))
            })?;
            sum = sum.checked_add(part).ok_or("the cost is above 2^64")?;
        }
        Ok(sum)
    }

    /// Says that a field is not there, and which are.
    pub(crate) fn missing(&self, place: usize, what: &str) -> String {
        let names = self.wanted.get(place).map_or(&[][..], |wanted| wanted.0.as_slice());
        let mut text = format!("no field for {what}: ");
        let _ = match names {
            [name] => write!(text, "there is no {name}"),
            names => write!(text, "it has none of {}", names.join(", ")),
        };
        if !self.header.is_empty() {
            let _ = write!(text, "; the columns are {}", self.header.join(", "));
        }
        text
    }

    /// Remarks on the lines for people.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let tally = &self.tally;
        let mut notes = Vec::new();
        if let Some(what) = self.looks_like.filter(|_| tally.requests == 0) {
            notes.push(Note::NoHeading(what));
        }
        if let Some(why) = &tally.cut_off {
            notes.push(Note::CutOff(why.clone()));
        }
        if tally.broken > 0 {
            notes.push(Note::Broken { broken: tally.broken, lines: tally.lines });
            notes.extend(tally.first_broken.iter().cloned().map(Note::BrokenLine));
        }
        if tally.not_admitted > 0 {
            notes.push(Note::NotAdmitted(tally.not_admitted));
        }
        if tally.back > 0 {
            notes.push(Note::OutOfOrder {
                requests: tally.back,
                most: show(tally.most_back_ns.min(99_999_999_000_000_000)),
                sorted: tally.back.saturating_sub(tally.late),
                late: tally.late,
                latest_line: tally.latest_line,
            });
        }
        notes
    }
}
