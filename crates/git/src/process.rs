//! The one way to run the `git` program.
//!
//! A [`Program`] is built of typed parts, so that nothing a caller chose can become an option: flags are
//! `'static`, revisions are resolved ids, and free text goes only after `--`, behind a flag's `=`, or to
//! standard input. The child sees none of our environment and none of the machine's Git configuration, leads
//! a process group of its own that dies with the handle, and may take neither more time nor more memory than
//! it was given.

use std::ffi::OsString;
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

/// How much of standard error is kept for the log, in bytes; the rest is read and dropped.
const STDERR_KEPT: usize = 4 * 1024;

/// How nice programs are to others that nobody waits for, from 0 (not at all) to 19.
const BACKGROUND: i32 = 10;

/// The time limit of a program that sets none.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// The bound on a buffered standard output, in bytes, of a program that sets none.
const DEFAULT_OUTPUT_LIMIT: usize = 64 * 1024 * 1024;

/// The program, as the path that the search path leads to. A program given by its path is started without copying
/// this process's page tables first, which takes the longer the more memory is in use.
static GIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&searched)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("git"))
        .find(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("git"))
});

/// One run of the `git` program, not yet started.
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
    /// Runs `git <name>`.
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

    /// Adds an option, or another word that is fixed in our source.
    pub(super) fn flag(mut self, flag: &'static str) -> Self {
        self.arguments.push(flag.into());
        self
    }

    /// Adds several options.
    pub(super) fn flags(mut self, flags: &[&'static str]) -> Self {
        self.arguments.extend(flags.iter().map(OsString::from));
        self
    }

    /// Adds `flag` with `value` joined on in one argument, as in `--prefix=value`; `flag` ends in `=`.
    pub(super) fn valued(mut self, flag: &'static str, value: &str) -> Self {
        debug_assert!(
            flag.starts_with('-') && flag.ends_with('='),
            "a value is only safe behind `--flag=`"
        );
        let mut argument = OsString::from(flag);
        argument.push(value);
        self.arguments.push(argument);
        self
    }

    /// Adds a resolved object id.
    pub(super) fn id(mut self, id: Oid) -> Self {
        self.arguments.push(id.to_string().into());
        self
    }

    /// Adds a path after the closing `--`; it is matched literally.
    pub(super) fn path(mut self, path: impl Into<OsString>) -> Self {
        self.paths.get_or_insert_default().push(path.into());
        self
    }

    /// Sets a configuration value for this run and its children.
    pub(super) fn config(mut self, key: &'static str, value: impl AsRef<std::ffi::OsStr>) -> Self {
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

    /// Writes `input` to standard input; only [`Repository::run`] heeds it.
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

    /// Takes these exit codes for success; 0 alone otherwise.
    pub(super) fn accept(mut self, codes: &'static [i32]) -> Self {
        self.accepted = codes;
        self
    }

    /// Lets everything else on the machine go first: nobody waits for this run.
    pub(super) fn in_background(mut self) -> Self {
        self.niceness = BACKGROUND;
        self
    }

    /// The command that runs it in the repository at `directory`.
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
        for setting in [OsString::from("safe.directory=*"), OsString::from("gc.auto=0")]
            .iter()
            .chain(&self.config)
        {
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

/// What a buffered run left behind.
pub(super) struct Output {
    /// Standard output, whole.
    pub(super) stdout: Vec<u8>,
    /// The beginning of standard error.
    pub(super) stderr: String,
    /// The exit code, one of the accepted ones.
    pub(super) code: i32,
}

/// A run under way. Dropping it kills the program with all its children.
pub(super) struct Running {
    child: Child,
    name: &'static str,
    accepted: &'static [i32],
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: JoinHandle<Vec<u8>>,
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Running {
    /// The program's standard input; absent when taken before.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The program's standard output; absent when taken before.
    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Runs `work`, at most until the program's time is up.
    ///
    /// # Errors
    /// [`Error::Timeout`], and whatever `work` answers.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout_at(self.deadline, work)
            .await
            .map_err(|_| Error::Timeout)?
    }

    /// Waits for the program's end and answers its exit code and the beginning of its standard error.
    ///
    /// # Errors
    /// [`Error::Program`] when it ends otherwise than with an accepted code, [`Error::Timeout`].
    pub(super) async fn finish(mut self) -> Result<(i32, String)> {
        drop(self.stdin.take());
        drop(self.stdout.take());
        let ended = tokio::time::timeout_at(self.deadline, self.child.wait()).await;
        let status = ended.map_err(|_| Error::Timeout)??;
        // A grandchild may hold the pipe open; what it still says is not worth waiting for.
        let said = tokio::time::timeout(Duration::from_secs(1), &mut self.stderr).await;
        let text = said.ok().and_then(|joined| joined.ok()).unwrap_or_default();
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

/// The id of a child that is not reaped yet.
fn process_id(child: &Child) -> Option<Pid> {
    child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stderr.abort();
        // The id is gone once the child is reaped, so this can never hit a process that reuses the number.
        if let Some(group) = process_id(&self.child) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Repository {
    /// Runs `program` to its end under a permit of the store and answers what it printed.
    ///
    /// Must not be called while another permit is held.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Timeout`], [`Error::LimitExceeded`] for too much output,
    /// [`Error::Program`] for an exit code that is not accepted.
    pub(super) async fn run(&self, mut program: Program) -> Result<Output> {
        let input = std::mem::take(&mut program.input);
        let limit = program.output_limit;
        let mut running = self.start(program).await?;
        let stdin = running.take_stdin();
        let stdout = running.take_stdout();
        let work = async {
            let (_, stdout) = tokio::join!(feed(stdin, &input), read_bounded(stdout, limit));
            stdout
        };
        let stdout = running.within(work).await?;
        let (code, stderr) = running.finish().await?;
        Ok(Output { stdout, stderr, code })
    }

    /// Starts `program` under a permit of the store, which is held until the handle is dropped.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], and when the program cannot be started.
    pub(super) async fn start(&self, program: Program) -> Result<Running> {
        let permits = Arc::clone(&self.shared().permits);
        self.start_under(program, permits).await
    }

    /// Starts `program` under a permit of `permits`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) async fn start_under(&self, program: Program, permits: Arc<Semaphore>) -> Result<Running> {
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
        let stderr = tokio::spawn(read_kept(child.stderr.take()));
        Ok(Running {
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

/// Writes all of `input` and closes the pipe; a program that stops reading early is no fault.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
}

/// Reads to the end, refusing more than `limit` bytes.
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

/// Reads to the end and keeps the beginning, so that the writer never blocks on a full pipe.
async fn read_kept(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = [0; 1024];
    if let Some(mut source) = source {
        while let Ok(read @ 1..) = source.read(&mut chunk).await {
            let room = STDERR_KEPT.saturating_sub(kept.len()).min(read);
            kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sample::Sample;

    /// Whether a process is still at work, rather than gone or waiting to be buried.
    fn works(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    }

    /// Waits until something holds, which it must soon.
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
    async fn dropped_program_dies_with_its_children() {
        let sample = Sample::empty();
        let hook = sample.repository.path().join("hooks/pre-receive");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\nsleep 600 &\nwait\n").unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::new("hook").flags(&["run", "pre-receive"]);
        let running = sample.repository.start(program).await.unwrap();
        let leader = running.child.id().unwrap().to_string();
        // Git, the shell and what the shell started.
        until(|| members_of(&leader).len() >= 3).await;
        let group = members_of(&leader);
        drop(running);
        until(|| !group.iter().any(|pid| works(pid))).await;
    }

    #[tokio::test]
    async fn program_that_takes_too_long_is_given_up() {
        let sample = Sample::empty();
        let program = || {
            Program::new("cat-file")
                .flag("--batch")
                .time_limit(Duration::from_millis(50))
        };
        // It waits for input that never comes.
        let running = sample.repository.start(program()).await.unwrap();
        let answer = running.within(std::future::pending::<Result<()>>()).await;
        assert!(matches!(answer, Err(Error::Timeout)), "{answer:?}");
        let mut running = sample.repository.start(program()).await.unwrap();
        let held_open = running.take_stdin();
        assert!(matches!(running.finish().await, Err(Error::Timeout)));
        drop(held_open);
    }

    #[tokio::test]
    async fn program_in_the_background_lets_others_go_first() {
        let sample = Sample::empty();
        let program = Program::new("cat-file").flag("--batch").in_background();
        let running = sample.repository.start(program).await.unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.child.id().unwrap())).unwrap();
        // The nineteenth field; the second, in brackets, may hold blanks.
        let niceness = stat.rsplit(") ").next().unwrap().split(' ').nth(16);
        assert_eq!(niceness, Some(BACKGROUND.to_string().as_str()), "{stat}");
    }

    /// The processes of a group.
    fn members_of(group: &str) -> Vec<String> {
        let mut members = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().into_string().unwrap_or_default();
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // Behind the name: state, parent, group.
            if stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(2)) == Some(group) {
                members.push(pid);
            }
        }
        members
    }

    #[tokio::test]
    async fn output_and_input_are_bounded_and_exact() {
        let sample = Sample::with_history();
        let log = || Program::new("log").flag("--format=%H").id(sample.id("main"));
        let whole = sample.repository.run(log()).await.unwrap().stdout;
        assert_eq!(
            String::from_utf8(whole.clone()).unwrap(),
            sample.git(&["log", "--format=%H", "main"])
        );
        assert!(
            sample
                .repository
                .run(log().output_limit(whole.len()))
                .await
                .is_ok()
        );
        let answer = sample.repository.run(log().output_limit(whole.len() - 1)).await;
        assert!(matches!(answer.err(), Some(Error::LimitExceeded(_))));
        let large = vec![b'x'; 3 << 20];
        let hash = Program::new("hash-object").flag("--stdin").input(large.clone());
        let id = sample.repository.run(hash).await.unwrap().stdout;
        let expected = Oid::hash_object(git2::ObjectType::Blob, &large).unwrap();
        assert_eq!(String::from_utf8(id).unwrap().trim(), expected.to_string());
    }

    #[tokio::test]
    async fn failure_tells_what_the_program_said() {
        let sample = Sample::empty();
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
    async fn machine_configuration_has_no_say() {
        let sample = Sample::empty();
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
