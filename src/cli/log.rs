//! The log of a command (`docs/LOGS.md`), and the traces of a process.

use std::io::IsTerminal;

use holdfast::config::{ConfigError, ConfigOptions};
use holdfast::observability::traces::{self, Traces};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

/// Initializes the log with the filter of the options, else with `filter`.
///
/// # Errors
/// [`ConfigError::Value`] if the filter is invalid.
pub(super) fn initialize(options: &ConfigOptions, filter: &str) -> Result<(), ConfigError> {
    initialize_with(options, filter, None)
}

/// Like [`initialize`], and also records traces if there are any.
///
/// # Errors
/// [`ConfigError::Value`] if the filter is invalid.
pub(super) fn initialize_with(
    options: &ConfigOptions,
    filter: &str,
    traces: Option<&Traces>,
) -> Result<(), ConfigError> {
    let filter = options.log.as_deref().unwrap_or(filter);
    // The spans of traces are not part of the log.
    let parsed = EnvFilter::try_new(format!("{filter},{}=off", traces::TARGET));
    let parsed = parsed.map_err(|error| ConfigError::Value {
        name: "log",
        cause: format!(
            "\"{filter}\" is not a log filter such as info or info,holdfast::access=off ({error})"
        ),
    })?;
    let is_json = options.log_json.unwrap_or(false);
    let is_colored = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    match (traces, is_json) {
        (Some(traces), true) => registry()
            .with(json_layer().with_filter(parsed))
            .with(traces.layer())
            .init(),
        (Some(traces), false) => registry()
            .with(text_layer(is_colored).with_filter(parsed))
            .with(traces.layer())
            .init(),
        // A filter of the whole process costs less than a filter of a layer.
        (None, true) => registry().with(parsed).with(json_layer()).init(),
        (None, false) => registry().with(parsed).with(text_layer(is_colored)).init(),
    }
    Ok(())
}

/// Returns the layer that writes each line as a JSON object, which names its request once, in `span`.
fn json_layer<S>() -> impl Layer<S>
where
    S: tracing::Subscriber + for<'span> registry::LookupSpan<'span>,
{
    fmt::layer()
        .with_writer(std::io::stderr)
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
}

fn text_layer<S>(is_colored: bool) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'span> registry::LookupSpan<'span>,
{
    fmt::layer().with_writer(std::io::stderr).with_ansi(is_colored)
}
