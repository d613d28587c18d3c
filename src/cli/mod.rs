//! The command line of Holdfast (design 8).

mod admin;
mod demo;
mod upkeep;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast::api::{DOCUMENT_JSON, DOCUMENT_YAML};
use holdfast::config::{Options, Settings};
use holdfast::server;
use holdfast::services::Backend;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// A repository-hosting server with a spec-first REST API
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API, git and the docs (the default)
    Serve(Common),
    /// Serve an instance full of examples, which is gone when it is stopped
    Demo(demo::Arguments),
    /// Run background jobs only, beside servers that need not
    Worker(Common),
    /// Print the OpenAPI document
    Openapi {
        /// How to write it
        #[arg(long, value_enum, default_value_t = Format::Json)]
        format: Format,
    },
    /// Make users, tokens and projects without the API
    Admin {
        #[command(subcommand)]
        command: admin::Command,
    },
    /// Compare the database with the repositories, and check every object of them
    Doctor(Common),
    /// Copy the database, the repositories and the key into an empty directory; the server may run meanwhile
    Backup(upkeep::Copy),
    /// Bring a backup into an empty data directory and an empty database
    Restore(upkeep::Copy),
}

/// What every command takes: where the data lies and how to talk.
#[derive(Debug, Args)]
struct Common {
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

/// What a command comes to; the error is shown and the process ends with 1.
type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

/// Reads the command line and does what it says.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string()),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            None => serve(cli.common).await,
            Some(Command::Serve(common)) => serve(common).await,
            Some(Command::Demo(arguments)) => demo::run(arguments).await,
            Some(Command::Worker(common)) => work(common).await,
            Some(Command::Openapi { format }) => {
                print(match format {
                    Format::Json => DOCUMENT_JSON,
                    Format::Yaml => DOCUMENT_YAML,
                });
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Admin { command }) => admin::run(command).await,
            Some(Command::Doctor(common)) => upkeep::doctor(common).await,
            Some(Command::Backup(copy)) => upkeep::backup(copy).await,
            Some(Command::Restore(copy)) => upkeep::restore(copy).await,
        }
    });
    outcome.unwrap_or_else(|error| complain(&error.to_string()))
}

/// Writes to standard output; a reader that has gone away is no failure.
fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn complain(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "holdfast: {text}");
    ExitCode::FAILURE
}

/// Begins to log, by what the options say, or else with this filter.
fn log(options: &Options, filter: &str) {
    let filter = options.log.as_deref().unwrap_or(filter);
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

impl Common {
    /// The options with those of the settings file below them; logging begins with what they say, or else with
    /// this filter.
    fn read(self, filter: &str) -> Result<Options, server::Error> {
        let options = self.options.over_file(self.config.as_deref())?;
        log(&options, filter);
        Ok(options)
    }

    /// Opens what a server has set up before, quietly.
    async fn open(self) -> Result<(Settings, Backend), Box<dyn std::error::Error>> {
        let settings = self.read("warn")?.settings()?;
        let base_url = server::public_url(&settings, settings.listen);
        let backend = server::open(&settings, None, base_url).await?;
        Ok((settings, backend))
    }
}

async fn serve(common: Common) -> Outcome {
    let options = common.read("info,sqlx=warn,sea_orm_migration=warn")?;
    let stopped = stopped()?;
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
    bound.serve(stopped).await?;
    Ok(ExitCode::SUCCESS)
}

async fn work(common: Common) -> Outcome {
    let settings = common.read("info,sqlx=warn,sea_orm_migration=warn")?.settings()?;
    server::work(&settings, stopped()?).await?;
    Ok(ExitCode::SUCCESS)
}

/// Resolves at SIGTERM or SIGINT; from the call on neither ends the process any more.
fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
