//! Logs and traces.

use tollgate_telemetry::LogFormat;
use tracing::level_filters::LevelFilter;

use super::layers::Layers;
use super::parse;
use super::row::Heading::{Observe, Process};
use super::row::{OptionalRow, Row, rows};

rows! {
    /// The rows of this file.
    ROWS:
    OTLP: OptionalRow<String> = OptionalRow::new("otlp", "URL", parse::collector)
        .envoy_compat(&["TRACING_ENABLED", "OTEL_EXPORTER_OTLP_ENDPOINT"])
        .help(Observe, "OpenTelemetry collector that receives traces over gRPC, such as http://localhost:4317");
    TRACE_RATIO: Row<f32> = Row::new("trace-ratio", "RATIO", "0.01", parse::ratio)
        .envoy_compat(&["TRACING_SAMPLING_RATE"])
        .help(Observe, "Share of requests that are traced if the caller's traceparent does not decide it");
    LOG_LEVEL: Row<LevelFilter> = Row::new("log-level", "LEVEL", "info", parse::log_level)
        .one_of(parse::LOG_LEVELS)
        .envoy_compat(&["LOG_LEVEL"])
        .help(Process, "off, error, warn, info, debug or trace");
    LOG_FORMAT: Row<LogFormat> = Row::new("log-format", "FORMAT", "text", parse::log_format)
        .one_of(&["text", "json"])
        .envoy_compat(&["LOG_FORMAT"])
        .help(Process, "text or json, one line per event, on stderr");
}

/// Logs and traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The collector of traces.
    pub otlp: Option<String>,
    /// Share of requests that are traced; 0 without a collector.
    pub trace_ratio: f64,
    /// Least severe level that is logged.
    pub log_level: LevelFilter,
    /// Format of log lines.
    pub log_format: LogFormat,
}

impl Telemetry {
    pub(super) fn read(layers: &mut Layers) -> Self {
        let otlp = layers.maybe(&OTLP);
        let ratio = layers.one(&TRACE_RATIO);
        Self {
            trace_ratio: if otlp.is_some() { f64::from(ratio) } else { 0.0 },
            otlp,
            log_level: layers.one_or(&LOG_LEVEL, LevelFilter::INFO),
            log_format: layers.one(&LOG_FORMAT),
        }
    }
}
