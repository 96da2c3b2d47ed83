//! Traces: spans of calls to an OpenTelemetry collector, by OTLP over gRPC.
//!
//! The limiter opens a span of the target [`CALL`] for a sampled call; `Calls` makes an OpenTelemetry span of
//! it, as a child of the span that the caller's `traceparent` names. Ended ones wait in a queue of `QUEUE`
//! for one thread, which sends them in batches. A collector that is slow or away costs spans, never time:
//! what finds no room is dropped and counted. Not here: which calls are sampled (the limiter), how fields
//! come over the wire (transports).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use tokio::sync::{mpsc, watch};
use tollgate_observe::CALL;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::{Context as LayerContext, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::span_counts::SpanCounts;

/// Most ended spans that wait to be sent.
const QUEUE: usize = 4096;
/// Most spans of one message to the collector.
const BATCH: usize = 512;
/// Longest wait of a span for others to be sent with.
const GATHER: Duration = Duration::from_secs(1);
/// Timeout of the collector's answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to the collector. Stop it at the end, or the last spans are lost.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    counts: Arc<SpanCounts>,
    stop: watch::Sender<bool>,
    stopped: std::sync::mpsc::Receiver<()>,
}

impl Traces {
    /// Starts the thread that sends to `collector`, `http://host:port`. The service is named `tollgate`,
    /// unless `OTEL_SERVICE_NAME` is set.
    ///
    /// # Errors
    /// When the collector's address is invalid, or the system gives no thread. An unreachable collector is
    /// not an error.
    pub fn start(collector: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let resource = Resource::builder()
            .with_attributes([KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))]);
        let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => resource.build(),
            None => resource.with_service_name("tollgate").build(),
        };
        let mut exporter = {
            let _entered = runtime.enter();
            opentelemetry_otlp::SpanExporter::builder()
                .with_tonic()
                .with_endpoint(collector)
                .with_timeout(EXPORT_TIMEOUT)
                .build()
                .map_err(io::Error::other)?
        };
        exporter.set_resource(&resource);
        let (spans, queue) = mpsc::channel(QUEUE);
        let (stop, told_to_stop) = watch::channel(false);
        let (done, stopped) = std::sync::mpsc::channel();
        let counts = Arc::new(SpanCounts::default());
        let sender = Sender {
            exporter,
            collector: collector.to_owned(),
            counts: Arc::clone(&counts),
            is_failing: false,
        };
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
            runtime.block_on(sender.run(queue, told_to_stop));
            drop(done);
        })?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            // There is a span only where the call is sampled.
            .with_sampler(Sampler::AlwaysOn)
            .with_span_processor(SpanQueue { spans, counts: Arc::clone(&counts) })
            .build();
        Ok(Self { provider, counts, stop, stopped })
    }

    /// The layer that turns spans of sampled calls into traces; it ignores all other spans.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        let calls = FilterFn::new(|about| about.is_span() && about.target() == CALL);
        Calls { tracer: self.provider.tracer("tollgate") }.with_filter(calls)
    }

    /// Counts of exported, failed and dropped spans.
    #[must_use]
    pub fn counts(&self) -> Arc<SpanCounts> {
        Arc::clone(&self.counts)
    }

    /// Sends what waits, for `at_most` that long, and ends the thread.
    pub fn stop(self, at_most: Duration) {
        self.stop.send_replace(true);
        // The thread sends nothing; it drops its end of the channel when it has finished.
        let _ = self.stopped.recv_timeout(at_most);
    }
}

/// Makes an OpenTelemetry span of each span it sees.
struct Calls {
    tracer: SdkTracer,
}

impl<S> Layer<S> for Calls
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: LayerContext<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = SpanFields::default();
        attributes.record(&mut said);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &said);
        let builder = SpanBuilder::from_name(attributes.metadata().name())
            .with_kind(SpanKind::Server)
            .with_attributes(said.attributes);
        span.extensions_mut().insert(self.tracer.build_with_context(builder, &parent));
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: LayerContext<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(ours) = extensions.get_mut::<Span>().filter(|ours| ours.is_recording()) else { return };
        let mut said = SpanFields::default();
        values.record(&mut said);
        if let Some(error) = said.attributes.iter().find(|attribute| attribute.key.as_str() == "error") {
            ours.set_status(Status::error(error.value.as_str().into_owned()));
        }
        ours.set_attributes(said.attributes);
    }

    fn on_close(&self, id: span::Id, context: LayerContext<'_, S>) {
        let ours = context.span(&id).and_then(|span| span.extensions_mut().remove::<Span>());
        if let Some(mut ours) = ours {
            ours.end();
        }
    }
}

/// The fields of a span: attributes, and the two that name its parent.
#[derive(Default)]
struct SpanFields {
    traceparent: Option<String>,
    tracestate: Option<String>,
    attributes: Vec<KeyValue>,
}

impl SpanFields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(field.name(), value));
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "traceparent" => self.traceparent = Some(value.to_owned()),
            "tracestate" => self.tracestate = Some(value.to_owned()),
            _ => self.add(field, value.to_owned()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Extractor for SpanFields {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.traceparent.as_deref(),
            "tracestate" => self.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Takes ended spans from the threads that serve, without waiting.
#[derive(Debug)]
struct SpanQueue {
    spans: mpsc::Sender<SpanData>,
    counts: Arc<SpanCounts>,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// [`Traces::stop`] does it.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends spans from the queue to the collector, in a thread of its own.
struct Sender {
    exporter: opentelemetry_otlp::SpanExporter,
    collector: String,
    counts: Arc<SpanCounts>,
    is_failing: bool,
}

impl Sender {
    async fn run(mut self, mut queue: mpsc::Receiver<SpanData>, mut told_to_stop: watch::Receiver<bool>) {
        let mut is_over = false;
        while !is_over {
            let mut batch = Vec::new();
            is_over = tokio::select! {
                () = gather(&mut queue, &mut batch) => queue.is_closed(),
                _ = told_to_stop.wait_for(|&stop| stop) => true,
            };
            if is_over {
                queue.close();
                while let Ok(span) = queue.try_recv() {
                    batch.push(span);
                }
            }
            self.send(batch).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let number = batch.len() as u64;
        if number == 0 {
            return;
        }
        match self.exporter.export(batch).await {
            Ok(()) => {
                self.counts.sent.fetch_add(number, Ordering::Relaxed);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(collector = self.collector, "traces arrive again");
                }
            }
            Err(error) => {
                self.counts.failed.fetch_add(number, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(collector = self.collector, %error, "traces do not arrive; calls go on without");
                }
            }
        }
    }
}

/// Waits for a span, and a little for those that come with it.
async fn gather(queue: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    if queue.recv_many(batch, BATCH).await == 0 {
        return;
    }
    let full =
        async { while batch.len() < BATCH && queue.recv_many(batch, BATCH - batch.len()).await > 0 {} };
    let _ = tokio::time::timeout(GATHER, full).await;
}
