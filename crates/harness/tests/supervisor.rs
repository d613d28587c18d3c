//! The directory of a test run, tested with copies of this binary. Each copy in a folder of its own is another run.

// Tests fail by panics.
#![allow(clippy::expect_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use harness::directory;
use rustix::process::{Pid, Signal, kill_process};

/// Environment variable that makes this binary use the directory of its run until its input ends.
const USER: &str = "HOLDFAST_TEST_DIRECTORY_USER";
/// Environment variable of the harness for the process that supervises the directory.
const SUPERVISOR: &str = "HOLDFAST_TEST_SUPERVISOR";
/// Longest wait for the supervisor. It waits five seconds for another test process.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if std::env::var_os(USER).is_none() || std::env::var_os(SUPERVISOR).is_some() {
        return harness::main();
    }
    println!("{} {}", directory::shared().display(), directory::supervisor_id());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

/// A process that uses the directory of its run.
struct User {
    child: Child,
    input: ChildStdin,
    directory: PathBuf,
    supervisor: u32,
}

impl User {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .env(USER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut line = String::new();
        let output = child.stdout.take().expect("an output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let (directory, supervisor) = line.trim().rsplit_once(' ').expect("two fields");
        Self {
            input: child.stdin.take().expect("an input"),
            directory: PathBuf::from(directory),
            supervisor: supervisor.parse().expect("a process ID"),
            child,
        }
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("an exit status").success());
    }

    fn kill(mut self) {
        self.child.kill().expect("a running process");
        self.child.wait().expect("an exit status");
    }
}

/// Copies this binary to a new folder.
fn copy_program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("tests");
    // By another process: a child of another test would inherit the open file, and an open file cannot be executed.
    let copy = Command::new("cp")
        .arg(std::env::current_exe().expect("a path"))
        .arg(&program)
        .status();
    assert!(copy.expect("cp").success());
    (folder, program)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn directory_is_removed_after_last_process_is_killed() {
    let (_folder, program) = copy_program();
    let (first, second) = (User::start(&program), User::start(&program));
    assert_eq!(first.directory, second.directory);
    assert_eq!(first.supervisor, second.supervisor);
    let directory = first.directory.clone();
    std::fs::write(directory.join("file"), "content").expect("a file");
    first.end();
    let third = User::start(&program);
    assert_eq!(third.directory, directory);
    assert!(directory.join("file").exists());
    second.kill();
    third.kill();
    wait_until("the directory is removed", || !directory.exists());
}

fn new_process_replaces_killed_supervisor_and_clears_directory() {
    let (_folder, program) = copy_program();
    let first = User::start(&program);
    let (directory, killed) = (first.directory.clone(), first.supervisor);
    std::fs::write(directory.join("file"), "content").expect("a file");
    let process = i32::try_from(killed).ok().and_then(Pid::from_raw);
    kill_process(process.expect("a process ID"), Signal::KILL).expect("a running process");
    let lock = std::fs::File::open(directory.join("supervisor.lock")).expect("a lock");
    wait_until("the supervisor ended", || lock.try_lock().is_ok());
    drop(lock);
    first.end();
    let second = User::start(&program);
    assert_eq!(second.directory, directory);
    assert_ne!(second.supervisor, killed);
    assert!(!directory.join("file").exists());
    second.end();
    wait_until("the directory is removed", || !directory.exists());
}

fn other_copy_of_program_uses_other_directory() {
    let ((_one, first), (_two, second)) = (copy_program(), copy_program());
    let (first, second) = (User::start(&first), User::start(&second));
    assert_ne!(first.directory, second.directory);
    let directories = [first.directory.clone(), second.directory.clone()];
    first.end();
    second.end();
    wait_until("the directories are removed", || {
        directories.iter().all(|directory| !directory.exists())
    });
}

/// Creates a directory next to that of a run that was changed ten minutes ago, and contains empty files.
fn old_directory(run: &Path, name: &str, files: &[&str]) -> PathBuf {
    let base = run.parent().expect("a parent");
    let path = base.join(format!("holdfast-test-{name}-{}", std::process::id()));
    std::fs::create_dir(&path).expect("a directory");
    for file in files {
        std::fs::write(path.join(file), "").expect("a file");
    }
    let old = SystemTime::now() - Duration::from_secs(600);
    let opened = std::fs::File::open(&path).expect("the directory");
    opened.set_modified(old).expect("a time");
    path
}

fn only_abandoned_directories_of_runs_are_removed() {
    let (_folder, program) = copy_program();
    let first = User::start(&program);
    let of_server = old_directory(&first.directory, "server", &["lock"]);
    // Otherwise a test server that starts meanwhile would remove the directory.
    let lock = std::fs::File::open(of_server.join("lock")).expect("a file");
    lock.lock().expect("the lock");
    let abandoned = old_directory(&first.directory, "abandoned", &["supervisor.lock", "users.lock"]);
    let directory = first.directory.clone();
    first.end();
    wait_until("the directory is removed", || !directory.exists());
    let second = User::start(&program);
    wait_until("the abandoned directory is removed", || !abandoned.exists());
    second.end();
    assert!(of_server.join("lock").is_file());
    std::fs::remove_dir_all(of_server).expect("the directory");
}

harness::tests![
    directory_is_removed_after_last_process_is_killed,
    new_process_replaces_killed_supervisor_and_clears_directory,
    other_copy_of_program_uses_other_directory,
    only_abandoned_directories_of_runs_are_removed,
];
