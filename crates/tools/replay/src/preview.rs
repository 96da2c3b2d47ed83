//! Rules on a recorded trace, for programs that ask on behalf of a user: bounded in requests and memory, and
//! stopped from outside.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::Serialize;
use tollgate_limiter::Policy;
use utoipa::ToSchema;

use crate::mapping::Mapping;
use crate::note::Note;
use crate::reader::ReadSettings;
use crate::report::Report;
use crate::run::{ReplaySettings, run};
use crate::source::Source;

/// A trace, sets of rules, and bounds of the replay.
#[derive(Debug)]
pub struct Preview<'a> {
    /// A file; its format and how it is packed are recognized.
    pub trace: &'a Path,
    /// One or two sets of rules. The second is compared with the first.
    pub sets: Vec<Policy>,
    /// Meaning of the fields of the trace, as `KEY=VALUE` of the command's `--map`.
    pub map: &'a [String],
    /// Requests that are replayed at most.
    pub max_requests: u64,
    /// Memory for the counters of each set, and as much for comparing them with exact logs.
    pub max_bytes: usize,
}

/// The result of a preview.
#[derive(Debug, Serialize, ToSchema)]
pub struct Previewed {
    /// The trace was not read to its end: it has more requests, or the time was over.
    pub is_partial: bool,
    /// Remarks on the trace, for people.
    #[schema(value_type = Vec<String>)]
    pub notes: Vec<Note>,
    /// The report of the command.
    #[serde(flatten)]
    pub report: Report,
}

/// Replays a trace until its end, or until `stop` is set.
///
/// # Errors
/// Why it cannot be replayed, as a sentence.
pub fn preview(asked: Preview<'_>, stop: &Arc<AtomicBool>) -> Result<Previewed, String> {
    let mapping = Mapping::read(None, asked.map).map_err(|error| error.to_string())?;
    let source = Source::open_until(asked.trace, Arc::clone(stop));
    let source = source.map_err(|error| format!("cannot read the trace: {error}"))?;
    let sets = asked.sets.into_iter().map(|policy| ("the rules".to_owned(), policy)).collect();
    let plan = ReplaySettings {
        mapping,
        settings: ReadSettings::default(),
        max_bytes: asked.max_bytes,
        compares_algorithms: false,
        percentile: 99.0,
    };
    let replayed =
        run(source, sets, plan, &mut |requests| requests < asked.max_requests && !stop.load(Relaxed))?;
    let lines = &replayed.report.lines;
    let is_stopped = stop.load(Relaxed);
    if lines.requests == 0 && is_stopped {
        return Err("no request was found in the time that a preview may take".to_owned());
    }
    if lines.requests == 0 {
        let why = if lines.lines == 0 { "the trace is empty" } else { "no line can be replayed" };
        let why = std::iter::once(why.to_owned()).chain(replayed.notes.iter().map(Note::to_string));
        return Err(why.collect::<Vec<_>>().join("; "));
    }
    Ok(Previewed {
        is_partial: replayed.is_stopped || is_stopped,
        notes: replayed.notes,
        report: replayed.report,
    })
}
