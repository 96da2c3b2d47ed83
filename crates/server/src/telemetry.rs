//! Log lines on stderr, for people or as JSON. One line a state change, none a request.

use tracing::level_filters::LevelFilter;

use crate::settings::LogFormat;

/// Starts logging for the whole process, panics included.
pub fn start(level: LevelFilter, format: LogFormat) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    drop(started); // only fails when a test has already started it
    // A panic costs one connection, not the process; it is told as everything else is.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a fault of this server")));
}
