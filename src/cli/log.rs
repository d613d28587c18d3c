//! The log of a command (`docs/LOGS.md`).

use std::io::IsTerminal;

use holdfast::config::{ConfigError, ConfigOptions};
use tracing_subscriber::EnvFilter;

/// Initializes the log with the filter of the options, else with `filter`.
///
/// # Errors
/// [`ConfigError::Value`] if the filter is invalid.
pub(super) fn initialize(options: &ConfigOptions, filter: &str) -> Result<(), ConfigError> {
    let filter = options.log.as_deref().unwrap_or(filter);
    let filter = EnvFilter::try_new(filter).map_err(|error| ConfigError::Value {
        name: "log",
        cause: format!(
            "\"{filter}\" is not a log filter such as info or info,holdfast::access=off ({error})"
        ),
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if options.log_json.unwrap_or(false) {
        // Each line names its request once, in `span`.
        builder
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .init();
    } else {
        let is_colored = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        builder.with_ansi(is_colored).init();
    }
    Ok(())
}
