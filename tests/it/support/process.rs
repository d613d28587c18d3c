//! The compiled binary, as operators run it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;

use harness::{Run, TestFuture};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{DatabaseKind, PostgresqlDatabase, databases, git};

/// Token of the first administrator.
pub const TOKEN: &str = "root-token-of-the-binary";

/// Environment variable with the path of the binary that [`Site`] starts, such as a release build.
const BINARY: &str = "HOLDFAST_TEST_BINARY";

/// Returns the binary to test if it is not the one that was built with the tests.
pub fn other_binary() -> Option<OsString> {
    std::env::var_os(BINARY)
}

/// A data directory and a database for the binary. Clones share both.
#[derive(Clone)]
pub struct Site {
    /// Data directory. It need not exist yet, or contains only a migrated database.
    pub data: PathBuf,
    /// The kind of its database.
    pub kind: DatabaseKind,
    database: Option<Arc<PostgresqlDatabase>>,
    /// URL of a database that belongs to the test.
    given_url: Option<String>,
    _guard: Arc<tempfile::TempDir>,
}

impl Site {
    /// Creates a new site with an empty database, whose first command applies all migrations. Its data is in memory if there
    /// is room.
    pub async fn new(kind: &DatabaseKind) -> Self {
        Self::within(super::temporary_directory(), kind).await
    }

    /// Creates a new site whose database has all migrations, which take up to two seconds.
    pub async fn migrated(kind: &DatabaseKind) -> Self {
        let site = Self::without_database(super::temporary_directory(), kind);
        match kind {
            DatabaseKind::Sqlite => {
                databases::copy_migrated_sqlite_database(&site.data);
                site
            }
            DatabaseKind::Postgresql(url) => {
                let database = databases::migrated_postgresql_database(url).await;
                Self { database: Some(Arc::new(database)), ..site }
            }
        }
    }

    /// Creates a new site for gigabytes of data.
    pub async fn on_disk(kind: &DatabaseKind) -> Self {
        Self::within(tempfile::tempdir().expect("a directory"), kind).await
    }

    /// Creates a new site on an existing, empty PostgreSQL database.
    pub fn on_database(url: &str) -> Self {
        let guard = super::temporary_directory();
        Self {
            data: guard.path().join("data"),
            kind: DatabaseKind::Postgresql(url.to_owned()),
            database: None,
            given_url: Some(url.to_owned()),
            _guard: Arc::new(guard),
        }
    }

    async fn within(guard: tempfile::TempDir, kind: &DatabaseKind) -> Self {
        let database = match kind {
            DatabaseKind::Sqlite => None,
            DatabaseKind::Postgresql(url) => Some(Arc::new(PostgresqlDatabase::create(url).await)),
        };
        Self { database, ..Self::without_database(guard, kind) }
    }

    fn without_database(guard: tempfile::TempDir, kind: &DatabaseKind) -> Self {
        Self {
            data: guard.path().join("data"),
            kind: kind.clone(),
            database: None,
            given_url: None,
            _guard: Arc::new(guard),
        }
    }

    /// Creates another site on the same kind of database.
    pub async fn another(&self) -> Self {
        Self::new(&self.kind).await
    }

    /// Creates another site on a copy of the PostgreSQL database, which nothing uses.
    pub async fn with_copy_of_database(&self) -> Self {
        let database = self.database.as_ref().expect("a database of PostgreSQL").copy().await;
        let guard = super::temporary_directory();
        Self {
            data: guard.path().join("data"),
            kind: self.kind.clone(),
            database: Some(Arc::new(database)),
            given_url: None,
            _guard: Arc::new(guard),
        }
    }

    /// Returns the same data directory with the database of another site, as after a move of the database.
    pub fn on_database_of(&self, other: &Self) -> Self {
        Self { kind: other.kind.clone(), database: other.database.clone(), ..self.clone() }
    }

    /// Returns a path next to the data directory.
    pub fn sibling_path(&self, name: &str) -> PathBuf {
        self.data.with_file_name(name)
    }

    /// Drops the database. The temporary directory removes itself.
    pub async fn remove(self) {
        if let Some(database) = &self.database {
            database.remove().await;
        }
    }

    /// Returns the URL of the database.
    pub fn database_url(&self) -> String {
        match (&self.given_url, &self.database) {
            (Some(url), _) => url.clone(),
            (None, Some(database)) => database.url.clone(),
            (None, None) => format!("sqlite://{}", self.data.join("holdfast.db").display()),
        }
    }

    /// Returns a command of the binary for this site.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let binary = other_binary().unwrap_or_else(|| env!("CARGO_BIN_EXE_holdfast").into());
        let mut command = Command::new(binary);
        command.args(arguments).arg("--data-dir").arg(&self.data);
        command.arg("--database-url").arg(self.database_url());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
            command.env_remove(name);
        }
        command
            .env("HOLDFAST_ROOT_TOKEN", TOKEN)
            .env("HOLDFAST_LOG", "warn")
            .current_dir(self.data.parent().expect("a parent"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Returns a server command that inherits a listening socket, in the way of systemd: as the file descriptor 3, with
    /// `LISTEN_FDS` and the ID of the process in `LISTEN_PID`.
    pub fn command_with_socket(&self, arguments: &[&str], socket: &std::net::TcpListener) -> Command {
        const PASS: &str = r#"export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@" 3<&0 0</dev/null"#;
        let mut command = started_by("sh", &["-c", PASS, "sh"], &self.command(arguments));
        command.stdin(std::os::fd::OwnedFd::from(socket.try_clone().expect("a socket")));
        command
    }

    /// Runs a command to completion.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.expect("the binary")
    }

    /// Runs a command that must succeed, and returns its output.
    pub async fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", git::output_text(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Checks that `doctor` finds this number of projects and no problem.
    pub async fn assert_sound(&self, projects: usize) {
        let output = self.succeeds(&["doctor"]).await;
        assert!(output.ends_with(&format!("\nProjects: {projects}. Problems: 0.\n")), "{output}");
    }

    /// Runs a command that must exit with status 1, and returns its output.
    pub async fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", git::output_text(&output));
        git::output_text(&output)
    }

    /// Starts a server.
    pub async fn serve(&self, arguments: &[&str]) -> Process {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        Self::ready(self.command(&arguments)).await
    }

    /// Starts a server that logs into a file at the most verbose level.
    pub async fn serve_logging(&self, log: &Path) -> Process {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        let log = std::fs::File::create(log).expect("a log");
        command.env("HOLDFAST_LOG", "debug").stderr(log);
        Self::ready(command).await
    }

    /// Starts a server with a given command and waits until it listens.
    pub async fn ready(mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut base = None;
        while let Some(line) = lines.next_line().await.expect("a line") {
            if let Some(rest) = line.strip_prefix("API: ") {
                base = rest.strip_suffix("/api/v4").map(str::to_owned);
            }
            if line.starts_with("Health: ") {
                break;
            }
        }
        Process { child, base: base.expect("an address") }
    }

    /// Imports a repository into a project of the administrator's namespace.
    pub async fn import(&self, name: &str, repository: &Path) {
        let project = format!("root/{name}");
        let path = repository.to_str().expect("UTF-8");
        self.succeeds(&["admin", "import-repo", "--project", &project, path]).await;
    }
}

/// A running server process.
pub struct Process {
    child: Child,
    /// `http://127.0.0.1:port`.
    pub base: String,
}

impl Process {
    /// Returns the git URL, with credentials, of a project of the administrator's namespace.
    pub fn address(&self, name: &str) -> String {
        git::address(&self.base, "root", TOKEN, &format!("root/{name}"))
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    /// Returns the ID and command line of each descendant process.
    pub fn descendants(&self) -> Vec<(u32, String)> {
        descendants(self.id())
    }

    /// Returns the peak memory of the process in kilobytes.
    pub fn peak_memory(&self) -> u64 {
        self.memory_figure("VmHWM:")
    }

    /// Returns the peak memory of the process without its mapped files, in kilobytes. A debug binary has 70 MB of
    /// mapped pages, which the system can reclaim.
    pub fn peak_private_memory(&self) -> u64 {
        self.peak_memory() - self.memory_figure("RssFile:")
    }

    /// Returns the current memory of the process without its mapped files, in kilobytes.
    pub fn private_memory(&self) -> u64 {
        self.memory_figure("RssAnon:")
    }

    fn memory_figure(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        figure.expect("a figure")
    }

    /// Kills the process at once, as a power failure would.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killing");
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let id = i32::try_from(self.id()).expect("an id");
        kill_process(Pid::from_raw(id).expect("an id"), Signal::TERM).expect("a signal");
    }

    /// Waits for the process to exit.
    pub async fn wait(mut self) -> ExitStatus {
        self.child.wait().await.expect("waiting")
    }

    /// Sends SIGTERM and waits; the process must exit successfully.
    pub async fn stop(self) {
        self.terminate();
        let status = self.wait().await;
        assert_eq!(status.code(), Some(0), "{status}");
    }
}

/// Returns a command that starts `program`, which replaces itself by the program of `command` after its own arguments.
pub fn started_by(program: &str, arguments: &[&str], command: &Command) -> Command {
    let command = command.as_std();
    let mut starter = Command::new(program);
    starter.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        starter.current_dir(directory);
    }
    starter.stdin(Stdio::null()).kill_on_drop(true);
    starter
}

/// Returns the ID and command line of each descendant of a process.
pub fn descendants(id: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut parents = vec![id];
    while let Some(parent) = parents.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            // A task may end while its files are read.
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()) {
                let command = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
                found.push((child, command.replace('\0', " ")));
                parents.push(child);
            }
        }
    }
    found
}

/// A test function for an instance on each database.
#[derive(Debug)]
pub struct SiteTest {
    /// The function.
    pub test: fn(Site) -> TestFuture,
}

impl Run for SiteTest {
    fn run(&self, variant: &'static str) {
        let test = self.test;
        let run = async move {
            let site = Site::migrated(&DatabaseKind::of_variant(variant)).await;
            test(site.clone()).await;
            site.remove().await;
        };
        harness::run_on_threads(1, Box::pin(run));
    }
}

/// Runs test functions with the binary on each database.
///
/// `async fn name(site: Site)` becomes the tests `name::on_sqlite` and `name::on_postgresql`.
macro_rules! on_every_site {
    ($($name:ident),* $(,)?) => {
        harness::register![$(
            $name: harness::EVERY_DATABASE, $crate::support::process::SiteTest {
                test: |site| ::std::boxed::Box::pin($name(site)),
            };
        )*];
    };
}
pub(crate) use on_every_site;
