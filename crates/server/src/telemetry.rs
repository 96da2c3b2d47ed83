//! What leaves the process about itself: log lines on stderr, for people or as JSON, and traces.
//!
//! One line a state change, none a request, but for those of denials, which the limiter samples.

#[cfg_attr(not(feature = "otlp"), path = "telemetry/no_otlp.rs")]
pub(crate) mod otlp;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::LogFormat;

/// Starts logging for the whole process, panics included. `more` sees what it asks for besides, at any level.
pub(crate) fn start<L>(level: LevelFilter, format: LogFormat, more: Option<L>)
where
    L: Layer<tracing_subscriber::Registry> + Send + Sync,
{
    let started = tracing_subscriber::registry().with(more).with(lines(level, format)).try_init();
    drop(started); // only fails when a test has already started it
    // A panic costs one connection, not the process; it is told as everything else is.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a fault of this server")));
}

/// Lines for events only: spans are there for traces, and cost nothing where there are none.
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
