//! Log lines on stderr, as text or JSON, and traces. Neither is ever waited for.
//!
//! One line per state change. Requests are not logged, except denials, which the limiter samples. Not here:
//! what is counted (`observe`), and which levels and collectors there are (settings).

mod line_limit;
mod log_queue;
mod one_line;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
mod otlp;
mod span_counts;

use std::sync::Arc;

use tollgate_clock::SystemClock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

pub use log_queue::{FlushOnDrop, LogQueue};
pub use otlp::Traces;
pub use span_counts::SpanCounts;

use line_limit::LineFilter;
use one_line::{PlainJson, TextFields};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Counts of logging and tracing, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// Lines on their way to stderr.
    pub lines: LogQueue,
    /// `None` without traces.
    pub spans: Option<Arc<SpanCounts>>,
}

/// Starts logging to `queue` for the whole process, including panics. `more` is a further layer with a filter
/// of its own.
pub fn start<L>(level: LevelFilter, format: LogFormat, queue: LogQueue, more: Option<L>)
where
    L: Layer<tracing_subscriber::Registry> + Send + Sync,
{
    let started = tracing_subscriber::registry().with(more).with(lines(level, format, queue)).try_init();
    drop(started); // only fails if a test has already started it
    // A panic ends one connection, not the process; it is logged like everything else.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panicked; this is a bug")));
}

/// Lines for events only: spans are for traces, and cost nothing without them.
fn lines<S>(level: LevelFilter, format: LogFormat, queue: LogQueue) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let filter = LineFilter::new(level, Arc::new(SystemClock::new()), queue.clone());
    lines_to(format, std::io::IsTerminal::is_terminal(&std::io::stderr()), queue, filter)
}

fn lines_to<S, W, F>(
    format: LogFormat,
    is_terminal: bool,
    to: W,
    filter: F,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
    F: Filter<S> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_ansi(is_terminal).with_writer(to);
    match format {
        LogFormat::Text => lines.fmt_fields(TextFields).with_filter(filter).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .map_event_format(PlainJson)
            .with_filter(filter)
            .boxed(),
    }
}
