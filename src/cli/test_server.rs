//! `holdfast test-server`: a temporary instance for the tests of clients.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;
use domain::secrets::Secret;
use holdfast::config::ConfigOptions;
use holdfast::server::test_server::faults::FaultRule;
use holdfast::server::test_server::{TestServer, TestServerOptions};
use tokio::sync::oneshot;

use super::context::{CommandResult, print, stop_signal};
use super::log;

/// Log filter. A reset ends jobs in progress, which the runner reports as a warning.
const LOG_FILTER: &str = "warn,storage::jobs::runner=error";
/// Size of the stack of the thread that reads standard input, in bytes.
const READER_STACK: usize = 64 << 10;

/// Options of a test server. It reads no settings file and no variables for settings, so that tests do not depend on them.
#[derive(Debug, Args)]
pub(super) struct TestServerArguments {
    /// Address and port to listen on [default: a free port of 127.0.0.1]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Directory for the temporary data [default: /dev/shm if it has 512 MiB of room, else the directory for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Snapshot to start with: a directory that a test server has saved [default: an empty instance]
    #[arg(long)]
    snapshot: Option<PathBuf>,
    /// Start with the data of holdfast demo
    #[arg(long, conflicts_with = "snapshot")]
    demo: bool,
    /// Time at which the clock stops, such as 2026-01-31T12:00:00Z
    #[arg(long, value_parser = parse_time)]
    freeze_time: Option<DateTime<Utc>>,
    /// Fault to inject, such as "GET /projects 503 x3", "* /projects/** delay 200ms", "GET /user close x1" or
    /// "* /** rate-limit"; can be repeated
    #[arg(long = "fail", value_name = "RULE")]
    faults: Vec<FaultRule>,
    /// Token of the administrator, at least 20 characters [default: generated and printed]
    #[arg(long)]
    root_token: Option<String>,
    /// Token of the control requests [default: generated and printed]
    #[arg(long)]
    control_token: Option<String>,
    /// Plan of the instance: free, starter, premium or ultimate [default: ultimate]
    #[arg(long)]
    plan: Option<String>,
    /// Repeat X-Service-* headers under the names that clients of the reference service expect, and report its version
    #[arg(long)]
    compat: bool,
    /// Version of the reference service to report with --compat
    #[arg(long)]
    compat_version: Option<String>,
    /// Comma-separated origins of web pages that can call the API; * allows every origin [default: none]
    #[arg(long, value_delimiter = ',')]
    cors_origins: Option<Vec<String>>,
    /// Do not stop when standard input closes
    #[arg(long)]
    keep_running: bool,
    /// Log filter, in the syntax of RUST_LOG [default: warn,storage::jobs::runner=error]
    #[arg(long, env = "HOLDFAST_LOG")]
    log: Option<String>,
}

fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    let time = DateTime::parse_from_rfc3339(text).map_err(|error| error.to_string())?;
    let time = time.to_utc();
    let (first, last) = (
        DateTime::<Utc>::UNIX_EPOCH,
        DateTime::<Utc>::from_timestamp(253_402_300_799, 0),
    );
    match time >= first && last.is_some_and(|last| time <= last) {
        true => Ok(time),
        false => Err("the time is out of range (the years 1970 to 9999)".to_owned()),
    }
}

/// Serves a temporary instance until it is stopped, or until standard input closes.
pub(super) async fn run(arguments: TestServerArguments) -> CommandResult {
    let options = ConfigOptions {
        log: arguments.log,
        ..ConfigOptions::default()
    };
    log::initialize(&options, LOG_FILTER)?;
    let stopped = stop_signal()?;
    let closed = match arguments.keep_running {
        true => None,
        false => Some(input_closed()?),
    };
    let secret = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Secret::new);
    let server = TestServer::start(TestServerOptions {
        listen: arguments.listen,
        directory: arguments.directory,
        snapshot: arguments.snapshot,
        demo: arguments.demo,
        freeze_time: arguments.freeze_time,
        faults: arguments.faults,
        token: secret(arguments.root_token),
        control_token: secret(arguments.control_token),
        plan: arguments.plan,
        compat: arguments.compat,
        compat_version: arguments.compat_version,
        cors_origins: arguments.cors_origins,
    })
    .await?;
    print(&format!("{}\n", serde_json::to_string(&server.info)?));
    let stop = async {
        match closed {
            None => stopped.await,
            Some(closed) => tokio::select! {
                () = stopped => {}
                _ = closed => {}
            },
        }
    };
    server.serve(stop).await?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a receiver that resolves when standard input closes. This also happens when the parent process is killed.
fn input_closed() -> std::io::Result<oneshot::Receiver<()>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .stack_size(READER_STACK)
        .spawn(move || {
            let mut input = std::io::stdin().lock();
            let mut buffer = [0; 256];
            // The data does not matter.
            while input.read(&mut buffer).is_ok_and(|count| count > 0) {}
            let _ = sender.send(());
        })?;
    Ok(receiver)
}
