//! Traces of requests, database statements, Git programs and jobs, which are sent to an OpenTelemetry collector (ADR 48).
//!
//! Spans have the target `holdfast::trace`. Without a collector no subscriber enables the target, so a span costs a few
//! nanoseconds.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
};
use storage::database::StatementObserver;
use tracing::field::Empty;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::registry::LookupSpan;

use crate::config::TraceSettings;

/// Target of all spans. The filter of the log excludes it.
pub const TARGET: &str = "holdfast::trace";
/// Maximum number of spans that wait for the collector. Further spans are dropped.
const MAX_QUEUE: usize = 4_096;
/// Maximum number of spans of a request to the collector.
const MAX_BATCH: usize = 512;
/// Longest time for which a span waits for other spans of its batch.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Maximum time of a request to the collector.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time to send the remaining spans when the process stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);
/// Minimum time between two log lines about errors of the collector.
const ERROR_INTERVAL: Duration = Duration::from_secs(60);

/// The traces of this process.
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Starts the thread that sends spans. Does not connect to the collector.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn start(settings: &TraceSettings) -> Result<Self, ExporterBuildError> {
        // As for webhooks; another part of the process may have installed a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let headers = settings.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.expose().to_owned()));
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", settings.endpoint))
            .with_headers(headers.collect())
            .with_timeout(EXPORT_TIMEOUT)
            // The spans of a failed request are lost, so that the queue is free for later spans.
            .with_retry_policy(RetryPolicy::disabled())
            .build()?;
        let exporter = ReportingExporter {
            inner: exporter,
            reported: Mutex::default(),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUE)
            .with_max_export_batch_size(MAX_BATCH)
            .with_scheduled_delay(MAX_DELAY)
            .build();
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let resource = Resource::builder_empty()
            .with_service_name(settings.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            // A caller that sends a sampled trace context has decided for the whole trace.
            .with_sampler(Sampler::parent_based(Sampler::TraceIdRatioBased(
                settings.sampling_ratio,
            )))
            .with_resource(resource)
            .build();
        Ok(Self { provider })
    }

    /// Returns the layer that records the spans with the target of traces.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let filter = FilterFn::new(|metadata| metadata.is_span() && metadata.target() == TARGET);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("holdfast"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(filter)
    }

    /// Returns an observer that records a span for each database statement within a trace. The span has the operation, but
    /// neither the text nor values of the statement.
    #[must_use]
    pub fn statement_observer(&self) -> StatementObserver {
        let tracer = self.provider.tracer("holdfast");
        std::sync::Arc::new(move |sql, elapsed| {
            let context = Span::current().context();
            if !context.span().span_context().is_sampled() {
                return;
            }
            let end = SystemTime::now();
            let operation = statement_operation(sql);
            let mut span = tracer
                .span_builder(operation)
                .with_kind(SpanKind::Client)
                .with_start_time(end.checked_sub(elapsed).unwrap_or(end))
                .with_attributes([KeyValue::new("db.operation.name", operation)])
                .start_with_context(&tracer, &context);
            span.end_with_timestamp(end);
        })
    }

    /// Sends the remaining spans, for at most four seconds.
    pub async fn shutdown(self) {
        let stop = move || self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
        match tokio::task::spawn_blocking(stop).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to send the last traces"),
            Err(error) => tracing::warn!(%error, "failed to stop the traces"),
        }
    }
}

/// Returns the kind of a statement.
fn statement_operation(sql: &str) -> &'static str {
    match sql.split_ascii_whitespace().next().unwrap_or_default() {
        "SELECT" => "SELECT",
        "INSERT" => "INSERT",
        "UPDATE" => "UPDATE",
        "DELETE" => "DELETE",
        "WITH" => "WITH",
        _ => "OTHER",
    }
}

/// An exporter whose errors are logged once a minute at most.
#[derive(Debug)]
struct ReportingExporter<E> {
    inner: E,
    /// When an error was logged.
    reported: Mutex<Option<Instant>>,
}

impl<E: SpanExporter> SpanExporter for ReportingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.inner.export(batch).await;
        if let Err(error) = &result {
            let mut reported = self
                .reported
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if reported.is_none_or(|instant| instant.elapsed() >= ERROR_INTERVAL) {
                *reported = Some(Instant::now());
                tracing::warn!(%error, spans, "failed to send traces to the collector");
            }
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// The trace context of a request: its headers `traceparent` and `tracestate`, as in W3C Trace Context.
#[derive(Debug, Clone, Copy)]
pub struct TraceParent<'a> {
    /// Value of `traceparent`.
    pub parent: Option<&'a str>,
    /// Value of `tracestate`.
    pub state: Option<&'a str>,
}

impl Extractor for TraceParent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.parent,
            "tracestate" => self.state,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Starts the span of a request. `parent` returns the trace context of the request.
#[must_use]
pub fn request_span<'a>(
    method: &'static str,
    request_id: &str,
    parent: impl FnOnce() -> TraceParent<'a>,
) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "request",
        otel.name = method,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = Empty,
        http.response.status_code = Empty,
        operation = Empty,
        request_id,
    );
    if span.is_disabled() {
        return span;
    }
    let parent = parent();
    if parent.parent.is_some() {
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &parent);
        let _ = span.set_parent(context);
    }
    span
}

/// Records the result of a request in its span. `route` is the path template of the operation.
pub fn finish_request(span: &Span, operation: &'static str, route: Option<&'static str>, status: u16) {
    if span.is_disabled() {
        return;
    }
    // The library does not record a new name of a span that has started.
    span.context().span().update_name(operation);
    span.record("operation", operation);
    span.record("http.response.status_code", status);
    if let Some(route) = route {
        span.record("http.route", route);
    }
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_operations_without_values() {
        for (sql, operation) in [
            ("SELECT 1 WHERE x = 'secret'", "SELECT"),
            ("INSERT INTO a VALUES ($1)", "INSERT"),
            ("WITH a AS (SELECT 1) SELECT * FROM a", "WITH"),
            ("PRAGMA user_version", "OTHER"),
            ("", "OTHER"),
        ] {
            assert_eq!(statement_operation(sql), operation, "{sql}");
        }
    }

    #[test]
    fn span_without_collector_is_disabled() {
        let parent = TraceParent {
            parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            state: None,
        };
        assert!(request_span("GET", "id", || parent).is_disabled());
    }
}
