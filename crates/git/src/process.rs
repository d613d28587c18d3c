//! Runs the `git` program; no other module does.
//!
//! A [`Program`] is built from typed parts, so that client input can never become an option. Flags are
//! `'static` and revisions are resolved IDs. Free text is passed only after `--`, after a flag's `=`, or on
//! standard input.
//!
//! The child gets neither the server's environment nor the machine's Git configuration. It leads its own
//! process group, which is killed with the handle, and has limits on time and memory.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Error, Oid, Repository, Result};

/// Length of standard error that is stored for the log, in bytes; the rest is read and dropped.
const MAX_STDERR_BYTES: usize = 4 * 1024;

/// Niceness of background programs, from 0 (none) to 19.
const BACKGROUND_NICENESS: i32 = 10;

/// Default time limit of a program.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Default limit of a buffered standard output, in bytes.
const DEFAULT_OUTPUT_LIMIT: usize = 64 * 1024 * 1024;

/// Settings of every run. The configuration of a repository cannot override them.
const FIXED_CONFIG: [&str; 3] = [
    "safe.directory=*",
    "gc.auto=0",
    // Files are private to their owner, also if a repository was shared before it was copied here.
    "core.sharedRepository=0600",
];

/// Path of the program, found on the search path. Starting a program by path avoids copying this process's
/// page tables, which takes longer the more memory is in use.
static GIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&searched)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("git"))
        .find(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("git"))
});

/// A run of the `git` program that has not started.
pub(super) struct Program {
    name: &'static str,
    config: Vec<OsString>,
    arguments: Vec<OsString>,
    paths: Option<Vec<OsString>>,
    environment: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    time_limit: Duration,
    output_limit: usize,
    accepted: &'static [i32],
    niceness: i32,
}

impl Program {
    /// Creates a run of `git <name>`.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            config: Vec::new(),
            arguments: Vec::new(),
            paths: None,
            environment: Vec::new(),
            input: Vec::new(),
            time_limit: DEFAULT_TIME_LIMIT,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            accepted: &[0],
            niceness: 0,
        }
    }

    /// Adds an option or another fixed argument.
    pub(super) fn flag(mut self, flag: &'static str) -> Self {
        self.arguments.push(flag.into());
        self
    }

    /// Adds several options.
    pub(super) fn flags(mut self, flags: &[&'static str]) -> Self {
        self.arguments.extend(flags.iter().map(OsString::from));
        self
    }

    /// Adds `flag` and `value` as one argument, as in `--prefix=value`; `flag` ends in `=`.
    pub(super) fn option(mut self, flag: &'static str, value: &str) -> Self {
        debug_assert!(
            flag.starts_with('-') && flag.ends_with('='),
            "a value is only safe behind `--flag=`"
        );
        let mut argument = OsString::from(flag);
        argument.push(value);
        self.arguments.push(argument);
        self
    }

    /// Adds a resolved object ID.
    pub(super) fn id(mut self, id: Oid) -> Self {
        self.arguments.push(id.to_string().into());
        self
    }

    /// Adds a path after the final `--`; it is matched literally.
    pub(super) fn path(mut self, path: impl Into<OsString>) -> Self {
        self.paths.get_or_insert_default().push(path.into());
        self
    }

    /// Sets a configuration value for this run and its children.
    pub(super) fn config(mut self, key: &'static str, value: impl AsRef<OsStr>) -> Self {
        let mut setting = OsString::from(key);
        setting.push("=");
        setting.push(value);
        self.config.push(setting);
        self
    }

    /// Sets an environment variable for this run and its children.
    pub(super) fn environment(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Writes `input` to standard input; only [`Repository::run`] uses it.
    pub(super) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// Kills the run after `limit`.
    pub(super) fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Fails a buffered run whose standard output exceeds `bytes`.
    pub(super) fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Accepts these exit codes as success instead of 0 alone.
    pub(super) fn accept(mut self, codes: &'static [i32]) -> Self {
        self.accepted = codes;
        self
    }

    /// Lowers the priority of the run, for work that no client waits for.
    pub(super) fn in_background(mut self) -> Self {
        self.niceness = BACKGROUND_NICENESS;
        self
    }

    /// Returns the command for the repository at `directory`.
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&*GIT);
        command
            .env_clear()
            .env(
                "PATH",
                std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()),
            )
            .env("LC_ALL", "C")
            .env("GIT_DIR", directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(directory);
        let fixed = FIXED_CONFIG.iter().map(OsStr::new);
        for setting in fixed.chain(self.config.iter().map(OsString::as_os_str)) {
            command.arg("-c").arg(setting);
        }
        command.arg(self.name).args(&self.arguments);
        if let Some(paths) = &self.paths {
            command.arg("--").args(paths);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// Result of a buffered run.
pub(super) struct ProgramOutput {
    /// The whole standard output.
    pub(super) stdout: Vec<u8>,
    /// The beginning of standard error.
    pub(super) stderr: String,
    /// The exit code, one of the accepted codes.
    pub(super) code: i32,
}

/// A running program. Dropping it kills the program and all its children.
pub(super) struct RunningProgram {
    child: Child,
    name: &'static str,
    accepted: &'static [i32],
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: JoinHandle<Vec<u8>>,
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

impl RunningProgram {
    /// Takes the program's standard input; `None` if already taken.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the program's standard output; `None` if already taken.
    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Runs `work` until the program's time limit.
    ///
    /// # Errors
    /// [`Error::Timeout`], and errors of `work`.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout_at(self.deadline, work)
            .await
            .map_err(|_| Error::Timeout)?
    }

    /// Waits for the program and returns its exit code and the beginning of its standard error.
    ///
    /// # Errors
    /// [`Error::Program`] for an exit code that is not accepted, [`Error::Timeout`].
    pub(super) async fn finish(mut self) -> Result<(i32, String)> {
        drop(self.stdin.take());
        drop(self.stdout.take());
        let ended = tokio::time::timeout_at(self.deadline, self.child.wait()).await;
        let status = ended.map_err(|_| Error::Timeout)??;
        // A grandchild may still have the pipe open; its output is not worth waiting for.
        let joined_stderr = tokio::time::timeout(Duration::from_secs(1), &mut self.stderr).await;
        let text = joined_stderr
            .ok()
            .and_then(|joined| joined.ok())
            .unwrap_or_default();
        let stderr = String::from_utf8_lossy(&text).trim_end().to_owned();
        match status.code() {
            Some(code) if self.accepted.contains(&code) => Ok((code, stderr)),
            _ => Err(Error::Program {
                command: self.name,
                stderr: format!("{stderr} ({status})"),
            }),
        }
    }
}

/// Returns the process ID of a child that is not reaped yet.
fn process_id(child: &Child) -> Option<Pid> {
    child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw)
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.stderr.abort();
        // The ID is unavailable after the child is reaped, so the signal cannot reach a process that reuses
        // it.
        if let Some(group) = process_id(&self.child) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Repository {
    /// Runs `program` to its end under a permit of the store and returns its output.
    ///
    /// Must not be called while another permit is in use.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Timeout`], [`Error::LimitExceeded`] for too much output,
    /// [`Error::Program`] for an exit code that is not accepted.
    pub(super) async fn run(&self, mut program: Program) -> Result<ProgramOutput> {
        let input = std::mem::take(&mut program.input);
        let limit = program.output_limit;
        let mut running = self.start(program).await?;
        let stdin = running.take_stdin();
        let stdout = running.take_stdout();
        let work = async {
            let (_, stdout) = tokio::join!(write_stdin(stdin, &input), read_bounded(stdout, limit));
            stdout
        };
        let stdout = running.within(work).await?;
        let (code, stderr) = running.finish().await?;
        Ok(ProgramOutput { stdout, stderr, code })
    }

    /// Starts `program` under a permit of the store, which is released when the handle is dropped.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], and failures to start the program.
    pub(super) async fn start(&self, program: Program) -> Result<RunningProgram> {
        let permits = Arc::clone(&self.shared().permits);
        self.start_with_permits(program, permits).await
    }

    /// Starts `program` under a permit of `permits`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) async fn start_with_permits(
        &self,
        program: Program,
        permits: Arc<Semaphore>,
    ) -> Result<RunningProgram> {
        let path = self.path();
        if !tokio::fs::try_exists(path.join("HEAD")).await? {
            return Err(Error::RepositoryMissing);
        }
        let permit = permits.acquire_owned().await.map_err(|_| Error::Worker)?;
        let mut child = program.command(&path).spawn()?;
        if program.niceness > 0
            && let Some(id) = process_id(&child)
            && let Err(error) = rustix::process::setpriority_process(Some(id), program.niceness)
        {
            tracing::debug!(%error, program = program.name, "failed to lower process priority");
        }
        let stderr = tokio::spawn(read_start(child.stderr.take()));
        Ok(RunningProgram {
            name: program.name,
            accepted: program.accepted,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr,
            deadline: Instant::now() + program.time_limit,
            child,
            _permit: permit,
        })
    }
}

/// Writes `input` and closes the pipe. A program that stops reading early is not an error.
async fn write_stdin(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
}

/// Reads to the end and fails above `limit` bytes.
async fn read_bounded(source: Option<impl AsyncRead + Unpin>, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(source) = source {
        source.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > limit {
        return Err(Error::LimitExceeded("git printed more than it may"));
    }
    Ok(bytes)
}

/// Reads to the end and stores the beginning, so that the writer never blocks on a full pipe.
async fn read_start(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut start = Vec::new();
    let mut chunk = [0; 1024];
    if let Some(mut source) = source {
        while let Ok(read @ 1..) = source.read(&mut chunk).await {
            let room = MAX_STDERR_BYTES.saturating_sub(start.len()).min(read);
            start.extend_from_slice(chunk.get(..room).unwrap_or_default());
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::test_repository::TestRepository;

    /// Returns whether a process still runs, rather than being gone or a zombie.
    fn works(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    }

    /// Waits until a condition becomes true, with a time limit.
    async fn until(holds: impl Fn() -> bool) {
        let waiting = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn dropped_program_is_killed_with_its_children() {
        let sample = TestRepository::empty();
        let hook = sample.repository.path().join("hooks/pre-receive");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\nsleep 600 &\nwait\n").unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::new("hook").flags(&["run", "pre-receive"]);
        let running = sample.repository.start(program).await.unwrap();
        let leader = running.child.id().unwrap().to_string();
        // Git, the shell and the child of the shell.
        until(|| members_of(&leader).len() >= 3).await;
        let group = members_of(&leader);
        drop(running);
        until(|| !group.iter().any(|pid| works(pid))).await;
    }

    #[tokio::test]
    async fn program_over_time_limit_times_out() {
        let sample = TestRepository::empty();
        let program = || {
            Program::new("cat-file")
                .flag("--batch")
                .time_limit(Duration::from_millis(50))
        };
        // The program waits for input that never comes.
        let running = sample.repository.start(program()).await.unwrap();
        let answer = running.within(std::future::pending::<Result<()>>()).await;
        assert!(matches!(answer, Err(Error::Timeout)), "{answer:?}");
        let mut running = sample.repository.start(program()).await.unwrap();
        let held_open = running.take_stdin();
        assert!(matches!(running.finish().await, Err(Error::Timeout)));
        drop(held_open);
    }

    #[tokio::test]
    async fn background_program_has_low_priority() {
        let sample = TestRepository::empty();
        let program = Program::new("cat-file").flag("--batch").in_background();
        let running = sample.repository.start(program).await.unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.child.id().unwrap())).unwrap();
        // Niceness is the nineteenth field; the second, in parentheses, may contain spaces.
        let niceness = stat.rsplit(") ").next().unwrap().split(' ').nth(16);
        assert_eq!(niceness, Some(BACKGROUND_NICENESS.to_string().as_str()), "{stat}");
    }

    /// Returns the processes of a group.
    fn members_of(group: &str) -> Vec<String> {
        let mut members = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().into_string().unwrap_or_default();
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // Fields after the name: state, parent, group.
            if stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(2)) == Some(group) {
                members.push(pid);
            }
        }
        members
    }

    #[tokio::test]
    async fn program_input_and_output_are_exact_and_limited() {
        let sample = TestRepository::with_history();
        let log = || Program::new("log").flag("--format=%H").id(sample.id("main"));
        let output = sample.repository.run(log()).await.unwrap().stdout;
        assert_eq!(
            String::from_utf8(output.clone()).unwrap(),
            sample.git(&["log", "--format=%H", "main"])
        );
        assert!(
            sample
                .repository
                .run(log().output_limit(output.len()))
                .await
                .is_ok()
        );
        let answer = sample.repository.run(log().output_limit(output.len() - 1)).await;
        assert!(matches!(answer.err(), Some(Error::LimitExceeded(_))));
        let large = vec![b'x'; 3 << 20];
        let hash = Program::new("hash-object").flag("--stdin").input(large.clone());
        let id = sample.repository.run(hash).await.unwrap().stdout;
        let expected = Oid::hash_object(git2::ObjectType::Blob, &large).unwrap();
        assert_eq!(String::from_utf8(id).unwrap().trim(), expected.to_string());
    }

    #[tokio::test]
    async fn failed_program_returns_stderr_and_exit_status() {
        let sample = TestRepository::empty();
        let answer = sample
            .repository
            .run(Program::new("log").id(Oid::ZERO_SHA1))
            .await;
        let Some(Error::Program {
            command: "log",
            stderr,
        }) = answer.err()
        else {
            panic!("no failure")
        };
        assert!(
            stderr.contains("bad object") && stderr.contains("128"),
            "{stderr}"
        );
        let accepted = sample
            .repository
            .run(Program::new("log").id(Oid::ZERO_SHA1).accept(&[128]))
            .await
            .unwrap();
        assert_eq!(accepted.code, 128);
        assert!(accepted.stderr.contains("bad object"));
    }

    #[tokio::test]
    async fn system_configuration_is_ignored() {
        let sample = TestRepository::empty();
        let program = Program::new("config").flags(&["--list", "--show-scope"]);
        let listed = String::from_utf8(sample.repository.run(program).await.unwrap().stdout).unwrap();
        assert!(
            listed
                .lines()
                .all(|line| line.starts_with("local") || line.starts_with("command")),
            "{listed}"
        );
        let absent = sample.store.repository(&crate::RepositoryId::of_project(404));
        let answer = absent.run(Program::new("version")).await;
        assert!(matches!(answer.err(), Some(Error::RepositoryMissing)));
    }
}
