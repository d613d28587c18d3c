//! The command line of Holdfast.

mod admin;
mod allocator;
mod context;
mod demo;
mod group_domains;
mod key_rotation;
mod log;
mod maintenance;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use context::{CommandResult, CommonOptions, print, stop_signal};
use contract::{DOCUMENT_JSON, DOCUMENT_YAML};
use holdfast::server;
use rustix::fs::Mode;

/// Serve repositories over Git and a REST API
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API, Git and the documentation (the default)
    Serve(CommonOptions),
    /// Serve a temporary instance with sample data
    Demo(demo::DemoOptions),
    /// Run only background jobs
    Worker(CommonOptions),
    /// Print the OpenAPI document
    Openapi {
        /// Format of the document
        #[arg(long, value_enum, default_value_t = LogFormat::Json)]
        format: LogFormat,
    },
    /// Create users, tokens and projects, verify email domains of groups, and rotate the encryption key, without the API
    Admin {
        #[command(subcommand)]
        command: admin::AdminCommand,
    },
    /// Check the database and all objects of the repositories
    Doctor(CommonOptions),
    /// Export a backup of the instance to an empty directory, also while the server runs
    Backup(maintenance::BackupOptions),
    /// Import a backup into an empty data directory and an empty database
    Restore(maintenance::BackupOptions),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Json,
    Yaml,
}

/// Log filter of long-running processes.
const LOG_FILTER: &str = "info,sqlx=warn,sea_orm_migration=warn";
/// Mask of the files that this process and its children create: only their owner can access them (ADR 31).
const FILE_MASK: u32 = 0o077;

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Some(worker) = matches.subcommand_matches("worker")
        && worker.value_source("listen") == Some(ValueSource::CommandLine)
    {
        return print_error(
            "worker does not serve the API, so --listen has no effect; use --worker-listen for its health endpoints",
        );
    }
    if matches!(
        cli.command,
        None | Some(Command::Serve(_) | Command::Demo(_) | Command::Worker(_))
    ) {
        allocator::apply_settings();
    }
    // Set before the first thread starts, because it applies to the whole process.
    rustix::process::umask(Mode::from_raw_mode(FILE_MASK));
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return print_error(&error.to_string()),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            None => serve(cli.common).await,
            Some(Command::Serve(common)) => serve(common).await,
            Some(Command::Demo(arguments)) => demo::run(arguments).await,
            Some(Command::Worker(common)) => work(common).await,
            Some(Command::Openapi { format }) => {
                print(match format {
                    LogFormat::Json => DOCUMENT_JSON,
                    LogFormat::Yaml => DOCUMENT_YAML,
                });
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Admin { command }) => admin::run(command).await,
            Some(Command::Doctor(common)) => maintenance::doctor(common).await,
            Some(Command::Backup(copy)) => maintenance::backup(copy).await,
            Some(Command::Restore(copy)) => maintenance::restore(copy).await,
        }
    });
    outcome.unwrap_or_else(|error| print_error(&error.to_string()))
}

fn print_error(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "holdfast: {text}");
    ExitCode::FAILURE
}

async fn serve(common: CommonOptions) -> CommandResult {
    let options = common.read(LOG_FILTER)?;
    let stopped = stop_signal()?;
    let bound = server::bind(options.settings()?, server::given_credentials(&options), None).await?;
    let base = &bound.backend.instance.base_url;
    let mut greeting = format!("Holdfast {} is ready\n", env!("CARGO_PKG_VERSION"));
    if let Some(credentials) = &bound.generated_credentials {
        greeting.push_str("First start: the administrator is root.\n");
        let secrets = [("Token", &credentials.token), ("Password", &credentials.password)];
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

async fn work(common: CommonOptions) -> CommandResult {
    let settings = common.read(LOG_FILTER)?.settings()?;
    let stopped = stop_signal()?;
    let worker = server::Worker::open(settings).await?;
    let mut greeting = format!("Holdfast {} runs jobs\n", env!("CARGO_PKG_VERSION"));
    if let Some(address) = worker.address {
        greeting.push_str(&format!("Health: http://{address}/-/health\n"));
    }
    print(&greeting);
    worker.run(stopped).await?;
    Ok(ExitCode::SUCCESS)
}
