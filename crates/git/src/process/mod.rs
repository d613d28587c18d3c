//! Runs the `git` program; no other module does.
//!
//! A [`Program`] is built from typed parts, so that client input can never become an option. Flags are
//! `'static` and revisions are resolved IDs. Free text is passed only after `--`, after a flag's `=`, or on
//! standard input.
//!
//! The child gets neither the server's environment nor the machine's Git configuration. It leads its own process group,
//! which is killed with the handle. [`confinement`] limits its resources and the files that it can access.

mod confinement;
mod kind;
mod processor_time;
#[cfg(test)]
mod tests;
mod version;

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use confinement::Access;
pub(super) use confinement::is_out_of_memory;
pub(super) use kind::ProgramKind;
use kind::{ProgramResult, ProgramRun};
pub use processor_time::ProcessorBudget;
pub use version::{ProgramVersion, VersionError, program_version};

use super::fair_semaphore::FairPermit;
use super::memory_budget::{MemoryNeed, MemoryReservation};
use super::{Error, OBJECT_TOO_LARGE, Oid, Repository, Result};

/// Length of standard error that is stored for the log, in bytes; the rest is read and dropped.
const MAX_STDERR_BYTES: usize = 4 * 1024;

/// Niceness of background programs, from 0 (none) to 19.
const BACKGROUND_NICENESS: i32 = 10;

/// Time that a program has to remove its temporary files before it is killed.
const CLEANUP_TIME: Duration = Duration::from_secs(5);

/// Default time limit of a program.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Default limit of a buffered standard output, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;

/// Settings of every run. The configuration of a repository cannot override them.
const FIXED_CONFIG: [&str; 8] = [
    "safe.directory=*",
    "gc.auto=0",
    // Larger files are streamed where Git can do so, and compared as binary files.
    "core.bigFileThreshold=16m",
    // Memory for caches; the defaults take several hundred megabytes.
    "core.deltaBaseCacheLimit=16m",
    "pack.deltaCacheSize=16m",
    "pack.windowMemory=16m",
    // Each thread has memory of its own.
    "pack.threads=1",
    // Files are private to their owner, also if a repository was shared before it was copied here.
    "core.sharedRepository=0600",
];

/// Variable with the largest allocation that Git attempts. Git checks it before it inflates an object.
const ALLOCATION_LIMIT: &str = "GIT_ALLOC_LIMIT";

/// Variable by which all paths are literal.
const LITERAL_PATHS: &str = "GIT_LITERAL_PATHSPECS";

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
    kind: ProgramKind,
    config: Vec<OsString>,
    arguments: Vec<OsString>,
    paths: Option<Vec<OsString>>,
    excluded_paths: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    time_limit: Duration,
    output_limit: usize,
    accepted: &'static [i32],
    niceness: i32,
    memory: MemoryNeed,
    access: Access,
}

impl Program {
    /// Creates a run of `git <name>`.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            kind: ProgramKind::of_program(name),
            config: Vec::new(),
            arguments: Vec::new(),
            paths: None,
            excluded_paths: Vec::new(),
            environment: Vec::new(),
            input: Vec::new(),
            time_limit: DEFAULT_TIME_LIMIT,
            output_limit: MAX_OUTPUT_BYTES,
            accepted: &[0],
            niceness: 0,
            memory: MemoryNeed::Small,
            access: Access::default(),
        }
    }

    /// Sets the kind in metrics; the default depends on the name.
    pub(super) fn kind(mut self, kind: ProgramKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the memory that the run needs; the default is little.
    pub(super) fn memory(mut self, need: MemoryNeed) -> Self {
        self.memory = need;
        self
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

    /// Excludes a path from the paths of the run; it is matched literally.
    pub(super) fn excluded_path(mut self, path: String) -> Self {
        self.excluded_paths.push(path);
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

    /// Returns the command for the repository at `directory`, with a limit on the memory of each process.
    fn command(&self, directory: &Path, memory: &MemoryReservation) -> Command {
        let mut command = self.confinement(directory, memory.bytes).command(&GIT);
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
            .env(LITERAL_PATHS, "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(
                memory
                    .max_allocation
                    .map(|bytes| (ALLOCATION_LIMIT, bytes.to_string())),
            )
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(directory);
        let fixed = FIXED_CONFIG.iter().map(OsStr::new);
        for setting in fixed.chain(self.config.iter().map(OsString::as_os_str)) {
            command.arg("-c").arg(setting);
        }
        if matches!(self.memory, MemoryNeed::Repository | MemoryNeed::Fetch) {
            command.arg("-c").arg("core.bigFileThreshold=1m");
        }
        command.arg(self.name).args(&self.arguments);
        self.add_paths(&mut command);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }

    /// Adds the paths after the final `--`.
    fn add_paths(&self, command: &mut Command) {
        let included = self.paths.as_deref().unwrap_or_default();
        if self.excluded_paths.is_empty() {
            if self.paths.is_some() {
                command.arg("--").args(included);
            }
            return;
        }
        // Only a prefix can exclude a path, and prefixes are part of the path while all paths are literal. So each path
        // has a prefix, by which it is literal.
        let with_prefix = |prefix: &str, path: &OsStr| {
            let mut argument = OsString::from(prefix);
            argument.push(path);
            argument
        };
        command
            .env(LITERAL_PATHS, "0")
            .arg("--")
            .args(
                included
                    .iter()
                    .map(|path| with_prefix(":(literal)", path.as_os_str())),
            )
            .args(
                self.excluded_paths
                    .iter()
                    .map(|path| with_prefix(":(exclude,literal)", OsStr::new(path))),
            );
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

/// A running program. Dropping it kills the program and all its children, and releases its slot.
pub(super) struct RunningProgram {
    child: Child,
    run: ProgramRun,
    name: &'static str,
    accepted: &'static [i32],
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: JoinHandle<Vec<u8>>,
    deadline: Instant,
    max_allocation: Option<u64>,
    /// The repository whose objects the program reads.
    objects: PathBuf,
    /// The processor time of the client.
    processor: Option<Arc<dyn ProcessorBudget>>,
    _slot: FairPermit,
    _memory: MemoryReservation,
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

    /// Returns when the time limit of the program ends.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
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

    /// Returns the maximum size of an object in bytes that the program reads into memory, if it has one.
    pub(super) fn max_allocation(&self) -> Option<u64> {
        self.max_allocation
    }

    /// Waits until the program, whose input has ended, has removed its temporary files and has ended too. Git removes
    /// none after a signal.
    pub(super) async fn discard(mut self) {
        let stdout = self.take_stdout();
        let ended = async {
            if let Some(mut stdout) = stdout {
                let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
            }
            let _ = self.wait().await;
        };
        let _ = tokio::time::timeout(CLEANUP_TIME, ended).await;
    }

    /// Waits until the program ends, and records its processor time.
    async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(id) = process_id(&self.child) {
            processor_time::ended(id).await;
            processor_time::record(self.name, id, self.processor.as_deref());
        }
        self.child.wait().await
    }

    /// Sends a signal to the program and all its children.
    fn signal(&self, signal: Signal) {
        // The ID is unavailable after the child is reaped, so the signal cannot reach a process that reuses it.
        if let Some(group) = process_id(&self.child) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Waits for the program and returns its exit code and the beginning of its standard error.
    ///
    /// # Errors
    /// [`Error::Program`] for an exit code that is not accepted, [`Error::Timeout`], [`Error::LimitExceeded`] if the
    /// program ran out of memory.
    pub(super) async fn finish(mut self) -> Result<(i32, String)> {
        drop(self.stdin.take());
        drop(self.stdout.take());
        let ended = tokio::time::timeout_at(self.deadline, self.wait()).await;
        // Not earlier: a caller that is dropped while it waits stops the program.
        self.run.result = ProgramResult::Failure;
        let status = ended.map_err(|_| Error::Timeout)??;
        self.run.exit(status.code());
        // A grandchild may still have the pipe open; its output is not worth waiting for.
        let joined_stderr = tokio::time::timeout(Duration::from_secs(1), &mut self.stderr).await;
        let text = joined_stderr
            .ok()
            .and_then(|joined| joined.ok())
            .unwrap_or_default();
        let stderr = String::from_utf8_lossy(&text).trim_end().to_owned();
        match status.code() {
            Some(code) if self.accepted.contains(&code) => {
                self.run.result = ProgramResult::Success;
                Ok((code, stderr))
            }
            _ => Err(self.failure(&stderr, status).await),
        }
    }

    /// Returns the error of a program that failed.
    async fn failure(&self, stderr: &str, status: ExitStatus) -> Error {
        if let Some(error) = confinement::exceeded_limit(stderr, status) {
            return error;
        }
        if let Some(id) = confinement::unreadable_object(stderr) {
            let objects = self.objects.clone();
            let exists = tokio::task::spawn_blocking(move || {
                let repository = git2::Repository::open_bare(objects)?;
                Ok::<_, git2::Error>(repository.odb()?.exists(id))
            });
            if matches!(exists.await, Ok(Ok(true))) {
                tracing::warn!(stderr, "Git failed to read an object");
                return Error::LimitExceeded(OBJECT_TOO_LARGE);
            }
        }
        Error::Program {
            command: self.name,
            stderr: format!("{stderr} ({status})"),
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
        if self.run.result == ProgramResult::Stopped && Instant::now() >= self.deadline {
            self.run.result = ProgramResult::Failure;
        }
        // None if the program was reaped, whose time is recorded.
        if let Some(id) = process_id(&self.child) {
            processor_time::record(self.name, id, self.processor.as_deref());
        }
        self.signal(Signal::KILL);
    }
}

impl Repository {
    /// Runs `program` to its end in a slot of the store and returns its output.
    ///
    /// Must not be called while another slot of the store is in use.
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

    /// Starts `program` in a slot of the store, which is released when the handle is dropped.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::ProcessorTimeUsed`], and failures to start the program.
    pub(super) async fn start(&self, program: Program) -> Result<RunningProgram> {
        let slots = &self.shared().slots.work;
        let permit = slots.acquire(self.holder()).await.map_err(|_| Error::Worker)?;
        self.start_in_slot(program, permit).await
    }

    /// Starts `program` in a slot, once its memory is available.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) async fn start_in_slot(&self, program: Program, slot: FairPermit) -> Result<RunningProgram> {
        let path = self.path();
        if !tokio::fs::try_exists(path.join("HEAD")).await? {
            return Err(Error::RepositoryMissing);
        }
        let memory = match &program.access.copied {
            Some(source) => self.reserve_memory_for(program.memory, source).await?,
            None => self.reserve_memory_for(program.memory, &path).await?,
        };
        self.start_with(program, slot, memory)
    }

    /// Starts `program` in a slot and with memory.
    ///
    /// # Errors
    /// [`Error::ProcessorTimeUsed`], and failures to start the program.
    pub(super) fn start_with(
        &self,
        program: Program,
        slot: FairPermit,
        memory: MemoryReservation,
    ) -> Result<RunningProgram> {
        self.check_processor_time()?;
        let path = self.path();
        let mut child = program.command(&path, &memory).spawn()?;
        let run = ProgramRun::start(program.kind, program.name);
        if program.niceness > 0
            && let Some(id) = process_id(&child)
            && let Err(error) = rustix::process::setpriority_process(Some(id), program.niceness)
        {
            tracing::debug!(%error, program = program.name, "failed to lower process priority");
        }
        let stderr = tokio::spawn(read_start(child.stderr.take()));
        Ok(RunningProgram {
            run,
            name: program.name,
            accepted: program.accepted,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr,
            deadline: Instant::now() + program.time_limit,
            child,
            max_allocation: memory.max_allocation,
            objects: program.access.copied.unwrap_or(path),
            processor: self.processor_budget().cloned(),
            _slot: slot,
            _memory: memory,
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
