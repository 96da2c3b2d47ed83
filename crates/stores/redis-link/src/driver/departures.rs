//! The shared state of one queue's flights: their buffers, their numbers, and the scripts that are still to
//! be loaded.

use tokio::time::Instant;

use crate::flight::{Flight, QueueEntry};
use crate::reply::Reply;
use crate::script::Script;
use crate::shared::Shared;
use crate::workload::Workload;

/// Most flights whose buffers are kept.
const MOST_PARKED: usize = 4;

/// The shared state of one queue's flights.
pub(super) struct Departures<W: Workload> {
    parked: Vec<(Flight<W>, Vec<Reply>)>,
    /// Taken from the queue for the next flight; empty between two flights.
    pub(super) entries: Vec<QueueEntry<W>>,
    /// Scripts to load before the next commands.
    pub(super) unknown: Vec<&'static Script>,
    /// Number of the flight that last loaded a script.
    loads: Vec<(&'static Script, u64)>,
    /// Number of flights sent.
    pub(super) sent: u64,
    /// The instant at which the last one was sent.
    pub(super) sent_at: Instant,
    /// Nothing is sent before this instant.
    pub(super) not_before: Option<Instant>,
}

impl<W: Workload> Departures<W> {
    pub(super) fn new() -> Self {
        Self {
            parked: Vec::new(),
            entries: Vec::new(),
            unknown: Vec::new(),
            loads: Vec::new(),
            sent: 0,
            sent_at: Instant::now(),
            not_before: None,
        }
    }

    /// A flight, with the buffers of an earlier one where there are any.
    pub(super) fn unpark(&mut self) -> (Flight<W>, Vec<Reply>) {
        self.parked.pop().unwrap_or_default()
    }

    /// Keeps the buffers of a flight that is over.
    pub(super) fn park(&mut self, flight: Flight<W>, replies: Vec<Reply>) {
        if self.parked.len() < MOST_PARKED {
            self.parked.push((flight, replies));
        }
    }

    /// Notes the scripts to load: those that were missing for a flight that was sent after their last load,
    /// or before there was any.
    pub(super) fn load(&mut self, unknown: Vec<&'static Script>, number: u64, shared: &Shared) {
        for script in unknown {
            let is = |known: &&'static Script| std::ptr::eq(*known, script);
            let is_on_its_way = self.loads.iter().any(|(known, by)| is(known) && *by > number);
            if !is_on_its_way && !self.unknown.iter().any(is) {
                shared.counters().script_loads.add(1);
                self.unknown.push(script);
            }
        }
    }

    /// The flight with this number loads these scripts.
    pub(super) fn loaded(&mut self, scripts: Vec<&'static Script>, number: u64) {
        let is_loaded = |known: &'static Script| scripts.iter().any(|script| std::ptr::eq(known, *script));
        self.loads.retain(|(known, _)| !is_loaded(known));
        self.loads.extend(scripts.into_iter().map(|script| (script, number)));
    }
}
