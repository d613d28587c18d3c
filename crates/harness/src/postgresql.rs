//! The PostgreSQL server of the tests: the one that the environment names, or one that the test run starts.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::process::{Pid, Signal, kill_process};

use crate::{directory, processes};

/// Environment variable with the URL of a server on which databases can be created. If it is empty, no server is used.
const URL: &str = "HOLDFAST_TEST_DATABASE_URL";
/// Directory of the server in the directory of the run.
const FOLDER: &str = "pg";
/// Prefix of the directories of the servers of single tests.
const PRIVATE_FOLDER: &str = "pg-";
/// Setting of a server whose acknowledged commits survive the end of its processes, but not of the machine.
const DURABLE: &str = "synchronous_commit=on";
/// Name of the socket, which the port determines.
const SOCKET: &str = ".s.PGSQL.5432";
/// Time limit for the start of a server.
const START: Duration = Duration::from_secs(60);
/// Settings of a server whose data is not needed afterwards. A test runs each statement a few times, so plans for single
/// executions take longer than they save. The tests of query plans choose the kind of plan.
const SETTINGS: [&str; 14] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=1GB",
    "checkpoint_timeout=1h",
    "autovacuum=off",
    "shared_buffers=64MB",
    "max_connections=400",
    "deadlock_timeout=200ms",
    "plan_cache_mode=force_generic_plan",
    "listen_addresses=",
    "port=5432",
];

/// The requirement of tests on PostgreSQL.
#[must_use]
pub fn missing() -> Option<&'static str> {
    let is_available = match configured() {
        Some(url) => !url.is_empty(),
        None => programs().is_some(),
    };
    (!is_available).then_some(
        "PostgreSQL is not installed. Install it (Debian: apt-get install postgresql), or set HOLDFAST_TEST_DATABASE_URL \
         to the URL of a server.",
    )
}

/// Returns the URL of a database on the server, and starts the server if no process of the run has started it yet.
///
/// # Panics
/// If no server is available.
pub fn url() -> &'static str {
    static STARTED: OnceLock<String> = OnceLock::new();
    STARTED.get_or_init(|| {
        if let Some(reason) = missing() {
            panic!("{reason}");
        }
        match configured().map_or_else(start, Ok) {
            Ok(url) => url,
            Err(error) => panic!("cannot start PostgreSQL: {error}"),
        }
    })
}

/// Returns whether the run uses its own server, which is discarded with all databases.
#[must_use]
pub fn is_own() -> bool {
    configured().is_none()
}

fn configured() -> Option<String> {
    std::env::var(URL).ok()
}

/// Returns the directory of the programs of the newest installed version.
fn programs() -> Option<PathBuf> {
    let is_complete = |folder: &PathBuf| {
        ["initdb", "postgres"]
            .iter()
            .all(|name| folder.join(name).is_file())
    };
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let version = |folder: &PathBuf| {
        let name = folder
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        name.and_then(|name| name.parse::<u32>().ok())
    };
    let newest = versions
        .map(|entry| entry.path().join("bin"))
        .filter(is_complete)
        .max_by_key(version);
    newest.or_else(|| std::env::split_paths(&std::env::var_os("PATH")?).find(is_complete))
}

/// Starts the server in the first process of the run and returns its URL.
fn start() -> io::Result<String> {
    let run = directory::shared();
    directory::create_once("pg.url", |started| -> io::Result<()> {
        let folder = run.join(FOLDER);
        stop_server(&folder);
        directory::remove(&folder)?;
        let server = Server::new(folder)?;
        server.initialize()?;
        // The supervisor stops it.
        server.start(&[])?;
        std::fs::write(started, server.url())
    })
    .and_then(std::fs::read_to_string)
}

/// Stops the servers of a run.
pub(crate) fn stop(run: &Path) {
    stop_server(&run.join(FOLDER));
    for entry in std::fs::read_dir(run).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PRIVATE_FOLDER) {
            stop_server(&entry.path());
        }
    }
}

fn stop_server(folder: &Path) {
    let data = folder.join("data");
    let pid = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(id) = pid.lines().next().and_then(|line| line.trim().parse().ok()) {
        processes::stop(id, &data);
    }
}

/// A server of one test, which the test can crash and start again. It stops on drop.
pub struct PrivateServer {
    server: Server,
    process: Child,
}

impl PrivateServer {
    /// Creates and starts a server. The name is unique among the tests.
    ///
    /// # Errors
    /// If the programs are not installed, or fail.
    pub fn start(name: &str) -> io::Result<Self> {
        let folder = directory::shared().join(format!("{PRIVATE_FOLDER}{name}-{}", std::process::id()));
        let server = Server::new(folder)?;
        server.initialize()?;
        let process = server.start(&[DURABLE])?;
        Ok(Self { server, process })
    }

    /// Returns the URL of a database, on which others can be created.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Ends all processes of the server at once, so that it recovers from its log at the next start.
    ///
    /// # Errors
    /// If the server cannot be stopped.
    pub fn crash(&mut self) -> io::Result<()> {
        self.end(Signal::QUIT)
    }

    /// Ends all connections and stops the server, as a restart by an administrator does.
    ///
    /// # Errors
    /// If the server cannot be stopped.
    pub fn stop(&mut self) -> io::Result<()> {
        self.end(Signal::INT)
    }

    /// Starts the server again.
    ///
    /// # Errors
    /// If the server does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.process = self.server.start(&[DURABLE])?;
        Ok(())
    }

    fn end(&mut self, signal: Signal) -> io::Result<()> {
        // The ID of a process that has ended may belong to another one.
        if self.process.try_wait()?.is_some() {
            return Ok(());
        }
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(id.ok_or(ErrorKind::NotFound)?, signal)?;
        self.process.wait().map(drop)
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // The server may be stopped already. The supervisor removes a folder that is left.
        let _ = self.end(Signal::QUIT);
        let _ = directory::remove(&self.server.folder);
    }
}

/// A server in a directory.
struct Server {
    folder: PathBuf,
    programs: PathBuf,
    /// User and group of the server, if this process is root. PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

impl Server {
    fn new(folder: PathBuf) -> io::Result<Self> {
        let programs = programs().ok_or(ErrorKind::NotFound)?;
        DirBuilder::new().mode(0o700).create(&folder)?;
        let user = match rustix::process::geteuid().is_root() {
            true => Some(unprivileged_user()?),
            false => None,
        };
        if let Some((user, group)) = user {
            chown(&folder, Some(user), Some(group))?;
        }
        Ok(Self {
            folder,
            programs,
            user,
        })
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns the URL, in which the path of the socket is encoded.
    fn url(&self) -> String {
        let folder = self.folder.to_string_lossy();
        format!(
            "postgres://postgres@{}:5432/postgres",
            utf8_percent_encode(&folder, NON_ALPHANUMERIC)
        )
    }

    fn command(&self, program: &str) -> io::Result<Command> {
        let mut command = Command::new(self.programs.join(program));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))?;
        command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // Variables such as PGDATA and LC_ALL would change the server.
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        Ok(command)
    }

    fn initialize(&self) -> io::Result<()> {
        let mut command = self.command("initdb")?;
        command
            .arg("--pgdata")
            .arg(self.data())
            .args(["--username=postgres", "--auth=trust", "--no-sync"]);
        command.args(["--encoding=UTF8", "--locale=C.UTF-8"]);
        match command.status()?.success() {
            true => Ok(()),
            false => Err(self.failure("initdb failed")),
        }
    }

    /// Starts the server with these settings in addition to [`SETTINGS`], and waits until it accepts connections.
    fn start(&self, further: &[&str]) -> io::Result<Child> {
        let mut command = self.command("postgres")?;
        command.arg("-D").arg(self.data());
        for setting in SETTINGS.iter().chain(further) {
            command.arg("-c").arg(setting);
        }
        command
            .arg("-c")
            .arg(format!("unix_socket_directories={}", self.folder.display()));
        // Signals to the group of the test process do not stop it.
        let mut child = command.process_group(0).spawn()?;
        let socket = self.folder.join(SOCKET);
        let started = Instant::now();
        while !self.is_ready(&socket) {
            if child.try_wait()?.is_some() {
                return Err(self.failure("postgres ended"));
            }
            if started.elapsed() > START {
                child.kill()?;
                return Err(self.failure("postgres did not start in time"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(child)
    }

    /// Returns whether the server accepts connections. Before that it rejects them, although the socket exists.
    fn is_ready(&self, socket: &Path) -> bool {
        let status = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        status.lines().any(|line| line.trim() == "ready") && UnixStream::connect(socket).is_ok()
    }

    fn failure(&self, problem: &str) -> io::Error {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        io::Error::other(format!("{problem}:\n{log}"))
    }
}

/// Returns the IDs of `postgres`, or else of `nobody`.
fn unprivileged_user() -> io::Result<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = ids("postgres").or_else(|| ids("nobody"));
    found.ok_or_else(|| {
        io::Error::other("PostgreSQL cannot run as root, and neither `postgres` nor `nobody` is a user")
    })
}
