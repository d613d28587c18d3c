//! The command line of Holdfast (design 8).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast::api::{DOCUMENT_JSON, DOCUMENT_YAML};
use holdfast::config::Options;
use holdfast::server;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// A repository-hosting server with a spec-first REST API
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API, git and the docs (the default)
    Serve(Serve),
    /// Print the OpenAPI document
    Openapi {
        /// How to write it
        #[arg(long, value_enum, default_value_t = Format::Json)]
        format: Format,
    },
}

#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    options: Options,
    /// Settings file [default: holdfast.toml when it exists]
    #[arg(long, env = "HOLDFAST_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => serve(cli.serve),
        Some(Command::Serve(arguments)) => serve(arguments),
        Some(Command::Openapi { format }) => {
            print(match format {
                Format::Json => DOCUMENT_JSON,
                Format::Yaml => DOCUMENT_YAML,
            });
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output; a reader that has gone away is no failure.
fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn complain(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "holdfast: {text}");
}

fn log(options: &Options) {
    let filter = options
        .log
        .as_deref()
        .unwrap_or("info,sqlx=warn,sea_orm_migration=warn");
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if options.log_json.unwrap_or(false) {
        builder.json().init();
    } else {
        builder.init();
    }
}

#[tokio::main]
async fn serve(arguments: Serve) -> Result<(), server::Error> {
    let options = arguments.options.over_file(arguments.config.as_deref())?;
    log(&options);
    let bound = server::bind(options.settings()?, server::chosen(&options), None).await?;
    let base = &bound.backend.instance.base_url;
    let mut greeting = format!("Holdfast {} is ready\n", env!("CARGO_PKG_VERSION"));
    if let Some(made) = &bound.made_up {
        greeting.push_str("First start: the administrator is root.\n");
        let secrets = [("Token", &made.token), ("Password", &made.password)];
        for (name, secret) in secrets {
            if let Some(secret) = secret {
                greeting.push_str(&format!("{name} (shown once): {}\n", secret.expose()));
            }
        }
    }
    greeting.push_str(&format!(
        "API: {base}/api/v4\nDocs: {base}/docs\nHealth: {base}/-/health\n"
    ));
    print(&greeting);
    bound.serve(stopped()).await
}

/// Resolves at SIGTERM or SIGINT.
async fn stopped() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
