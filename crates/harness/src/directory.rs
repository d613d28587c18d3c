//! The directory that all test processes of a run share.
//!
//! The first test process creates it and starts a supervisor. The supervisor removes it when no test process is left.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::supervisor;

/// Prefix of the names of the directories.
pub(crate) const PREFIX: &str = "holdfast-test-";
/// File that every test process of a run locks, shared with the others.
pub(crate) const USERS: &str = "users.lock";
/// File that the supervisor locks.
pub(crate) const SUPERVISOR: &str = "supervisor.lock";
/// File that a test process locks while it starts the supervisor.
const SETUP: &str = "setup.lock";
/// Directory in memory.
const MEMORY: &str = "/dev/shm";
/// Free bytes that the directory in memory must have to be used.
const ROOM: u64 = 4 << 30;

/// A directory in use by this process.
struct Directory {
    path: PathBuf,
    /// The lock is released when the process ends.
    _users: File,
}

/// Returns the directory of the run. It is in memory if there is room.
///
/// # Panics
/// If the directory cannot be created.
pub fn shared() -> &'static Path {
    static SHARED: OnceLock<Directory> = OnceLock::new();
    let join = || match join(&path()) {
        Ok(directory) => directory,
        Err(error) => panic!("cannot create the directory of the test run: {error}"),
    };
    &SHARED.get_or_init(join).path
}

/// Runs `create` in the first process of the run that calls it with this name, while all others wait. Returns a new path
/// in the directory of the run, at which `create` leaves a file or a directory.
///
/// # Errors
/// The error of `create`. The next call repeats it.
pub fn create_once<E: From<io::Error>>(
    name: &str,
    create: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let path = shared().join(name);
    let _lock = locked(&shared().join(format!("{name}.lock")))?;
    if !path.exists() {
        let partial = shared().join(format!("{name}.partial"));
        remove(&partial)?;
        create(&partial)?;
        std::fs::rename(&partial, &path)?;
    }
    Ok(path)
}

/// Returns the ID of the process that supervises the directory. It identifies the run.
///
/// # Panics
/// If the supervisor was killed.
#[must_use]
pub fn supervisor_id() -> u32 {
    let text = std::fs::read_to_string(shared().join(SUPERVISOR)).unwrap_or_default();
    match text.trim().parse() {
        Ok(id) => id,
        Err(error) => panic!("the supervisor did not record its process ID: {error}"),
    }
}

/// Creates a directory in the first process of the run that calls this with the name, while all others wait. Returns its
/// path. Another build of the test binary creates another directory.
///
/// # Panics
/// If `create` panics, or the directory cannot be created.
pub fn create_template(name: &str, create: impl AsyncFnOnce(&Path) + Send) -> PathBuf {
    let created = build_key().and_then(|key| {
        create_once(&format!("{name}-{key}"), |path| -> io::Result<()> {
            std::fs::create_dir(path)?;
            // The caller may run in the runtime of a test, which cannot contain another one.
            let run = move || -> io::Result<()> {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(create(path));
                Ok(())
            };
            match std::thread::scope(|scope| scope.spawn(run).join()) {
                Ok(created) => created?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            Ok(())
        })
    });
    match created {
        Ok(path) => path,
        Err(error) => panic!("cannot create the template {name}: {error}"),
    }
}

/// Returns a key that differs between builds of this test binary.
fn build_key() -> io::Result<String> {
    let program = std::env::current_exe()?;
    let metadata = program.metadata()?;
    let text = format!(
        "{} {} {} {}",
        program.display(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec()
    );
    Ok(key(&text))
}

fn key(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..6])
}

/// Returns the path of the directory, which is the same for all test binaries of one target directory.
fn path() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let user = rustix::process::geteuid().as_raw();
    base().join(format!(
        "{PREFIX}{}",
        key(&format!("{} {user}", folder.display()))
    ))
}

fn base() -> PathBuf {
    let has_room = rustix::fs::statvfs(MEMORY).is_ok_and(|space| space.f_bavail * space.f_frsize >= ROOM);
    let memory = Path::new(MEMORY);
    let is_writable = || rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    if has_room && is_writable() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

fn join(path: &Path) -> io::Result<Directory> {
    loop {
        // Other users may pass through: PostgreSQL does not run as root.
        match DirBuilder::new().mode(0o711).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let owner = std::fs::symlink_metadata(path).map(|metadata| (metadata.is_dir(), metadata.uid()));
        if owner.is_ok_and(|owner| owner != (true, rustix::process::geteuid().as_raw())) {
            return Err(io::Error::other(format!(
                "{} belongs to another user",
                path.display()
            )));
        }
        let users = match open(&path.join(USERS)) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            users => users?,
        };
        users.lock_shared()?;
        // A supervisor may have removed the directory in between.
        let is_current = std::fs::metadata(path.join(USERS)).is_ok_and(|current| {
            users
                .metadata()
                .is_ok_and(|own| (own.dev(), own.ino()) == (current.dev(), current.ino()))
        });
        if is_current {
            let _setup = locked(&path.join(SETUP))?;
            if !is_locked(&path.join(SUPERVISOR))? {
                start_supervisor(path)?;
            }
            return Ok(Directory {
                path: path.to_owned(),
                _users: users,
            });
        }
    }
}

/// Starts this binary as a supervisor and waits until it is ready.
fn start_supervisor(path: &Path) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(supervisor::REQUESTED, path);
    // The supervisor must not inherit the output of the test process: nextest would wait for it.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut ready = [0];
    let output = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
    let mut output = io::BufReader::new(output);
    output
        .read_exact(&mut ready)
        .map_err(|_| io::Error::other("the supervisor ended"))
}

/// Opens a file for locking and creates it if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Opens and locks a file, and waits for other processes.
pub(crate) fn locked(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    file.lock()?;
    Ok(file)
}

/// Returns whether a process has locked a file.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    match open(path)?.try_lock() {
        Ok(()) => Ok(false),
        Err(std::fs::TryLockError::WouldBlock) => Ok(true),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Removes a file or a directory, if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
