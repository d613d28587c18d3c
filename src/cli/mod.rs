//! The command line of Holdfast.

mod admin;
mod backups;
mod checks;
mod context;
mod database_move;
mod demo;
mod group_domains;
mod jobs;
mod key_rotation;
mod log;
mod lookup;
mod maintenance;
mod manual;
mod moves;
mod openapi;
mod passwords;
mod progress;
mod report;
mod test_server;
mod tokens;
mod users;

use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use context::{CommandResult, CommonOptions, print, stop_signal};
use holdfast::observability::traces::Traces;
use holdfast::server::{self, InheritedSocket};
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
    /// Serve a temporary instance for the tests of clients
    #[command(
        after_help = "Prints one line of JSON when it accepts requests, and stops when standard input closes. \
                      docs/TESTING.md describes the control requests and the rules for faults."
    )]
    TestServer(test_server::TestServerArguments),
    /// Run only background jobs
    Worker(CommonOptions),
    /// Print the OpenAPI document
    Openapi(openapi::OpenapiOptions),
    /// Manage users, tokens, failed jobs, projects, groups, the encryption key and the database without the API
    #[command(
        after_help = "Example:\n  holdfast admin users list --admin\n\nExit codes: 0 if the command succeeded, 1 if it \
                      was refused or failed, 2 if the arguments are invalid."
    )]
    Admin {
        #[command(subcommand)]
        command: admin::AdminCommand,
    },
    /// Check the database and all objects of the repositories
    Doctor(maintenance::DoctorOptions),
    /// Export a backup of the instance, also while the server runs; verify and list backups
    Backup(backups::BackupArguments),
    /// Import a backup into an empty data directory and an empty database
    Restore(backups::RestoreArguments),
    /// Print the script that completes commands and options in a shell
    #[command(
        after_help = "Example for bash:\n  holdfast completions bash > ~/.local/share/bash-completion/completions/holdfast"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a directory, which is created if it does not exist
    #[command(after_help = "Example:\n  holdfast man ~/.local/share/man/man1")]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// Log filter of long-running processes.
const LOG_FILTER: &str = "info,sqlx=warn,sea_orm_migration=warn";
/// Time after which an idle thread for blocking work of a test server ends.
const IDLE_THREAD: Duration = Duration::from_secs(1);
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
    // Set before the first thread starts, because it applies to the whole process.
    rustix::process::umask(Mode::from_raw_mode(FILE_MASK));
    // Before the first thread starts, because it changes the environment.
    let inherited = match cli.command {
        None | Some(Command::Serve(_) | Command::Worker(_)) => server::inherited_socket(),
        _ => Ok(None),
    };
    let inherited = match inherited {
        Ok(inherited) => inherited,
        Err(error) => return print_error(&error.to_string()),
    };
    if let Err(error) = allocator::return_freed_pages() {
        return print_error(&error.to_string());
    }
    let runtime = match &cli.command {
        // Tests run many of these servers at once, and a thread needs more memory than it saves time.
        Some(Command::TestServer(_)) => {
            allocator::share_arena();
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .thread_keep_alive(IDLE_THREAD)
                .build()
        }
        _ => tokio::runtime::Runtime::new(),
    };
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return print_error(&error.to_string()),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            None => serve(cli.common, inherited).await,
            Some(Command::Serve(common)) => serve(common, inherited).await,
            Some(Command::Demo(arguments)) => demo::run(arguments).await,
            Some(Command::TestServer(arguments)) => test_server::run(arguments).await,
            Some(Command::Worker(common)) => work(common, inherited).await,
            Some(Command::Openapi(options)) => openapi::run(&options),
            Some(Command::Admin { command }) => admin::run(command).await,
            Some(Command::Doctor(options)) => maintenance::doctor(options).await,
            Some(Command::Backup(arguments)) => backups::backup(arguments).await,
            Some(Command::Restore(arguments)) => backups::restore(arguments).await,
            Some(Command::Completions { shell }) => {
                print(&completions(shell));
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Man { directory }) => manual::write_pages(Cli::command(), &directory),
        }
    });
    outcome.unwrap_or_else(|error| print_error(&error.to_string()))
}

/// Returns the completion script for a shell.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdfast", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn print_error(text: &str) -> ExitCode {
    use std::io::Write;
    let lines: Vec<String> = text.lines().map(report::printable).collect();
    let _ = writeln!(std::io::stderr(), "holdfast: {}", lines.join("\n"));
    ExitCode::FAILURE
}

async fn serve(common: CommonOptions, inherited: Option<InheritedSocket>) -> CommandResult {
    let (options, settings, traces) = common.read_traced(LOG_FILTER)?;
    let mut stopped = pin!(stop_signal()?);
    let given = server::given_credentials(&options);
    let observer = traces.as_ref().map(Traces::statement_observer);
    let has_base_url = settings.base_url.is_some();
    let start = server::bind_or_inherit(settings, inherited, given, observer);
    let Some(bound) = start_unless_stopped(start, stopped.as_mut()).await? else {
        return end(traces).await;
    };
    let base = &bound.backend.instance.base_url;
    if !has_base_url && bound.address.ip().is_unspecified() {
        tracing::warn!(
            url = base,
            "started without base_url; set base_url to the URL that clients use"
        );
    }
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
        "API: {base}/api/v4\nDocs: {base}/docs\nGit: {base}/GROUP/PROJECT.git\nHealth: {base}/-/health\n"
    ));
    print(&greeting);
    bound.serve(stopped).await?;
    end(traces).await
}

async fn work(common: CommonOptions, inherited: Option<InheritedSocket>) -> CommandResult {
    let (_, settings, traces) = common.read_traced(LOG_FILTER)?;
    let mut stopped = pin!(stop_signal()?);
    let observer = traces.as_ref().map(Traces::statement_observer);
    let start = server::Worker::open(settings, inherited, observer);
    let Some(worker) = start_unless_stopped(start, stopped.as_mut()).await? else {
        return end(traces).await;
    };
    let mut greeting = format!("Holdfast {} runs jobs\n", env!("CARGO_PKG_VERSION"));
    if let Some(address) = worker.address {
        greeting.push_str(&format!("Health: http://{address}/-/health\n"));
    }
    print(&greeting);
    worker.run(stopped).await?;
    end(traces).await
}

/// Waits for the start of a process, or returns `None` if a signal stops the process before. A migration can wait for other
/// sessions for hours.
async fn start_unless_stopped<T>(
    start: impl Future<Output = Result<T, server::Error>>,
    stopped: impl Future<Output = ()>,
) -> Result<Option<T>, server::Error> {
    tokio::select! {
        // A complete start is used, because its credentials are printed only once.
        biased;
        started = start => started.map(Some),
        () = stopped => {
            tracing::info!("stopped before the start was complete");
            Ok(None)
        }
    }
}

/// Ends a process after its last request or job.
async fn end(traces: Option<Traces>) -> CommandResult {
    if let Some(traces) = traces {
        traces.shutdown().await;
    }
    Ok(ExitCode::SUCCESS)
}
