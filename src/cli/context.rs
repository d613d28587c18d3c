//! Options, output and signals of commands.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use domain::kernel::Backend;
use domain::kernel::error::Error;
use holdfast::config::{ConfigOptions, ServerSettings};
use holdfast::observability::traces::Traces;
use holdfast::server;
use tokio::signal::unix::{SignalKind, signal};

use super::log;

/// Options of every command: settings and log format.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server options")]
pub(super) struct CommonOptions {
    #[command(flatten)]
    options: ConfigOptions,
    /// Settings file [default: holdfast.toml if it exists]
    #[arg(long, env = "HOLDFAST_CONFIG")]
    config: Option<PathBuf>,
}

impl CommonOptions {
    /// Returns the options merged with the settings file, and initializes the log with their filter, else
    /// with `filter`.
    pub(super) fn read(self, filter: &str) -> Result<ConfigOptions, server::Error> {
        let options = self.options.over_file(self.config.as_deref())?;
        log::initialize(&options, filter)?;
        Ok(options)
    }

    /// Like [`Self::read`] for a process that records traces. Returns the resolved settings too, and the traces if there is a
    /// collector.
    pub(super) fn read_traced(
        self,
        filter: &str,
    ) -> Result<(ConfigOptions, ServerSettings, Option<Traces>), Box<dyn std::error::Error>> {
        let options = self.options.over_file(self.config.as_deref())?;
        let settings = options.settings()?;
        let traces = settings.traces.as_ref().map(Traces::start).transpose()?;
        log::initialize_with(&options, filter, traces.as_ref())?;
        Ok((options, settings, traces))
    }

    /// Opens an existing instance and logs only warnings.
    pub(super) async fn open(self) -> Result<(ServerSettings, Backend), Box<dyn std::error::Error>> {
        let settings = self.read("warn")?.settings()?;
        let base_url = server::public_url(&settings, settings.listen);
        let backend = server::open(&settings, None, base_url).await?;
        Ok((settings, backend))
    }
}

/// Result of a command; an error is printed and the process exits with 1.
pub(super) type CommandResult = Result<ExitCode, Box<dyn std::error::Error>>;

/// Writes to standard output; a closed pipe is not an error.
pub(super) fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Formats an error for the command line.
pub(super) fn error_text(error: Error) -> String {
    match error {
        Error::InvalidAttributes(attributes) => {
            let each = attributes
                .iter()
                .map(|(name, texts)| format!("{name} {}", texts.join(", ")));
            each.collect::<Vec<_>>().join("; ")
        }
        Error::Forbidden(Some(reason)) => reason.into_owned(),
        Error::BySetting { setting, error } => format!("{} (setting: {setting})", error_text(*error)),
        Error::NotFound(kind) => format!("{kind} not found"),
        Error::Internal(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// Returns a future that resolves at SIGTERM or SIGINT. From this call on, neither signal ends the process.
pub(super) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
