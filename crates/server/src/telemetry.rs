//! Log lines on stderr, as text or JSON, and traces.
//!
//! One line per state change. Requests are not logged, except denials, which the limiter samples.

#[cfg_attr(not(feature = "otlp"), path = "telemetry/no_otlp.rs")]
pub(crate) mod otlp;
pub(crate) mod span_counts;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::LogFormat;

/// Starts logging for the whole process, including panics. `more` is a further layer with a filter of its
/// own.
pub(crate) fn start<L>(level: LevelFilter, format: LogFormat, more: Option<L>)
where
    L: Layer<tracing_subscriber::Registry> + Send + Sync,
{
    let started = tracing_subscriber::registry().with(more).with(lines(level, format)).try_init();
    drop(started); // only fails if a test has already started it
    // A panic ends one connection, not the process; it is logged like everything else.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panicked; this is a bug")));
}

/// Lines for events only: spans are for traces, and cost nothing without them.
fn lines<S>(level: LevelFilter, format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let events = FilterFn::new(move |about| about.is_event() && *about.level() <= level);
    let events = events.with_max_level_hint(level);
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_filter(events).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_filter(events)
            .boxed(),
    }
}
