//! Protection of the data directory from other users of the machine (ADR 31).
//!
//! Processes of the server create files with a mask that excludes other users. [`restrict`] corrects the directory and
//! its entries when a server starts, which makes everything below unreachable. [`correct`] then corrects what is below,
//! in small steps. [`examine`] only counts.

use std::fs::{self, File, Metadata, Permissions, ReadDir};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::integrations::object_storage;
use crate::operations::instance_identity::{
    DATABASE_LOCK, FILE, KEY, REPOSITORIES, RESTORE_FILE, SERVE_LOCK,
};
use crate::operations::key_rotation::KEYS_LOCK;
use crate::operations::startup::PRESENCE_LOCK;

/// Bits of a mode that allow access to the group or to others.
const OTHER_USERS: u32 = 0o077;
/// Bit of a mode that directories for several users have, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// All bits of a mode.
const MODE: u32 = 0o7777;
/// Directories that a server creates in a data directory. An operator may replace them with links.
const DIRECTORIES: [&str; 3] = [REPOSITORIES, object_storage::DIRECTORY, object_storage::SPOOL];
/// Files that a server creates in a data directory.
const FILES: [&str; 10] = [
    KEY,
    FILE,
    SERVE_LOCK,
    DATABASE_LOCK,
    PRESENCE_LOCK,
    KEYS_LOCK,
    RESTORE_FILE,
    "holdfast.db",
    "holdfast.db-wal",
    "holdfast.db-shm",
];
/// Entries that a pass reads at a time.
const MAX_STEP: usize = 500;
/// Pause of a correcting pass between two steps, so that it delays no requests.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of paths in the findings.
const MAX_EXAMPLES: usize = 3;

/// Result of a pass over the files and directories.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AccessFindings {
    /// Number of examined files and directories.
    pub examined: u64,
    /// Number of those that other users can access.
    pub accessible: u64,
    /// Number of those of them that could not be corrected, for example because another user owns them.
    pub failed: u64,
    /// Some that other users can access; of those that could not be corrected, if there are any.
    pub examples: Vec<PathBuf>,
}

/// Restricts a data directory and its entries to their owner. A path that cannot be corrected is logged and is no
/// error: volumes of containers belong to another user, and each file below is private by itself. Blocks.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn restrict(directory: &Path) -> io::Result<()> {
    let roots = Roots::of(directory)?;
    for path in roots.top_entries()? {
        let restricted = restrict_entry(&path);
        let path = path.display();
        match restricted {
            Ok(None) => {}
            Ok(Some(mode)) => {
                let mode = format!("{mode:o}");
                tracing::warn!(%path, mode, "restricted a path to its owner");
            }
            Err(error) => tracing::error!(%path, %error, "failed to restrict a path to its owner"),
        }
    }
    if roots.is_shared {
        tracing::error!(path = %roots.directory.display(), "found a data directory that is shared with other users");
    }
    Ok(())
}

/// Restricts everything in a data directory to its owner, in small steps with pauses.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub async fn correct(directory: &Path) -> io::Result<AccessFindings> {
    run(directory, Treatment::Correct).await
}

/// Finds everything in a data directory that other users can access.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub async fn examine(directory: &Path) -> io::Result<AccessFindings> {
    run(directory, Treatment::Report).await
}

async fn run(directory: &Path, treatment: Treatment) -> io::Result<AccessFindings> {
    let directory = directory.to_owned();
    let begin = move || AccessPass::begin(&directory, treatment);
    let mut pass = tokio::task::spawn_blocking(begin)
        .await
        .map_err(io::Error::other)??;
    loop {
        let step = move || {
            let is_complete = pass.step();
            (pass, is_complete)
        };
        let done = tokio::task::spawn_blocking(step).await;
        let (next, is_complete) = done.map_err(io::Error::other)?;
        if is_complete {
            return Ok(next.findings);
        }
        pass = next;
        if treatment == Treatment::Correct {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The paths that belong to a server.
struct Roots {
    directory: PathBuf,
    /// Whether the data directory has other users, too. Then only the entries that a server creates belong to it.
    is_shared: bool,
}

impl Roots {
    fn of(directory: &Path) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        let mode = fs::metadata(&directory)?.permissions().mode();
        let is_shared = (mode & STICKY != 0 && mode & OTHER_USERS != 0) || directory.parent().is_none();
        Ok(Self { directory, is_shared })
    }

    /// Returns the data directory and its entries, without following links except those to directories of a server.
    fn top_entries(&self) -> io::Result<Vec<PathBuf>> {
        let mut entries = Vec::new();
        if self.is_shared {
            let names = DIRECTORIES.iter().chain(&FILES);
            entries.extend(names.map(|name| self.directory.join(name)));
        } else {
            entries.push(self.directory.clone());
            for entry in fs::read_dir(&self.directory)? {
                entries.push(entry?.path());
            }
        }
        entries.extend(self.linked_directories());
        Ok(entries)
    }

    /// Returns the directories of a server that were replaced with links.
    fn linked_directories(&self) -> Vec<PathBuf> {
        let paths = DIRECTORIES.iter().map(|name| self.directory.join(name));
        let links = paths.filter(|path| path.is_symlink());
        links.filter_map(|path| path.canonicalize().ok()).collect()
    }
}

/// Treatment of files and directories that other users can access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Report,
    Correct,
}

/// A pass over all files and directories. Directories are corrected before they are read.
struct AccessPass {
    treatment: Treatment,
    /// Directories that are still to be read.
    pending: Vec<PathBuf>,
    reading: Option<ReadDir>,
    findings: AccessFindings,
}

impl AccessPass {
    fn begin(directory: &Path, treatment: Treatment) -> io::Result<Self> {
        let roots = Roots::of(directory)?;
        let mut pass = Self {
            treatment,
            pending: Vec::new(),
            reading: None,
            findings: AccessFindings::default(),
        };
        let visited = if roots.is_shared {
            pass.findings.add(&roots.directory, true);
            roots.top_entries()?
        } else {
            [vec![roots.directory.clone()], roots.linked_directories()].concat()
        };
        visited.into_iter().for_each(|path| pass.visit(path));
        Ok(pass)
    }

    /// Visits the next entries. Returns whether none remain.
    fn step(&mut self) -> bool {
        for _ in 0..MAX_STEP {
            match self.reading.as_mut().and_then(Iterator::next) {
                Some(Ok(entry)) => self.visit(entry.path()),
                Some(Err(_)) | None => match self.pending.pop() {
                    // A directory that was deleted meanwhile, or that another user closed to the server, has no
                    // files of the server.
                    Some(directory) => self.reading = fs::read_dir(directory).ok(),
                    None => return true,
                },
            }
        }
        false
    }

    fn visit(&mut self, path: PathBuf) {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            // Deleted meanwhile.
            return;
        };
        self.findings.examined += 1;
        if accessible_mode(&metadata).is_some() {
            let failed = self.treatment == Treatment::Correct && restrict_entry(&path).is_err();
            self.findings.add(&path, failed);
        }
        if metadata.is_dir() {
            self.pending.push(path);
        }
    }
}

impl AccessFindings {
    fn add(&mut self, path: &Path, failed: bool) {
        self.accessible += 1;
        if failed && self.failed == 0 {
            self.examples.clear();
        }
        self.failed += u64::from(failed);
        if self.examples.len() < MAX_EXAMPLES && (failed || self.failed == 0) {
            self.examples.push(path.to_owned());
        }
    }
}

/// Returns the mode of a file or directory that other users can access. Links and special files have no content.
fn accessible_mode(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.permissions().mode() & MODE;
    ((metadata.is_file() || metadata.is_dir()) && mode & OTHER_USERS != 0).then_some(mode)
}

/// Excludes other users from a file or directory. Returns its former mode if that changed.
fn restrict_entry(path: &Path) -> io::Result<Option<u32>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if accessible_mode(&found).is_none() {
        return Ok(None);
    }
    // Opened without following links: the path may be replaced meanwhile, and must not lead to another file then.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mode = accessible_mode(&file.metadata()?);
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode & !OTHER_USERS))?;
    }
    Ok(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("a file").permissions().mode() & MODE
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    }

    /// Creates a directory with a tree that other users can access.
    fn open_tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        let below = directory.path().join("repositories/ab");
        fs::create_dir_all(&below).expect("a directory");
        for (path, bits) in [("secret.key", 0o644), ("repositories/ab/object", 0o444)] {
            let path = directory.path().join(path);
            fs::write(&path, "x").expect("a file");
            set_mode(&path, bits);
        }
        set_mode(&below, 0o2775);
        set_mode(&directory.path().join("repositories"), 0o755);
        set_mode(directory.path(), 0o755);
        directory
    }

    #[tokio::test]
    async fn restrict_corrects_top_and_pass_corrects_everything() {
        let directory = open_tree();
        let path = |name: &str| directory.path().join(name);
        assert_eq!(examine(directory.path()).await.expect("a pass").accessible, 5);
        restrict(directory.path()).expect("a directory");
        for (name, expected) in [
            ("", 0o700),
            ("repositories", 0o700),
            ("secret.key", 0o600),
            ("repositories/ab", 0o2775),
        ] {
            assert_eq!(mode(&path(name)), expected, "{name}");
        }
        let found = correct(directory.path()).await.expect("a pass");
        assert_eq!((found.accessible, found.failed), (2, 0));
        assert_eq!(mode(&path("repositories/ab")), 0o2700);
        assert_eq!(mode(&path("repositories/ab/object")), 0o400);
        let none = AccessFindings {
            examined: 5,
            ..AccessFindings::default()
        };
        assert_eq!(examine(directory.path()).await.expect("a pass"), none);
    }

    #[tokio::test]
    async fn links_are_followed_only_to_directories_of_the_server() {
        let outside = open_tree();
        let directory = tempfile::tempdir().expect("a directory");
        let link = |from: &str, to: &str| {
            std::os::unix::fs::symlink(outside.path().join(from), directory.path().join(to)).expect("a link");
        };
        link("repositories", "repositories");
        link("secret.key", "secret.key");
        link("", "notes");
        let alias = outside.path().join("alias");
        std::os::unix::fs::symlink(directory.path(), &alias).expect("a link");
        set_mode(directory.path(), 0o750);
        restrict(&alias).expect("a directory");
        correct(&alias).await.expect("a pass");
        for (name, expected) in [
            ("", 0o755),
            ("secret.key", 0o644),
            ("repositories", 0o700),
            ("repositories/ab/object", 0o400),
        ] {
            assert_eq!(mode(&outside.path().join(name)), expected, "{name}");
        }
        assert_eq!(mode(directory.path()), 0o700);
    }

    #[tokio::test]
    async fn shared_directory_keeps_its_mode_and_files_of_others() {
        let directory = open_tree();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("notes"), "x").expect("a file");
        set_mode(&path("notes"), 0o644);
        set_mode(directory.path(), 0o1777);
        restrict(directory.path()).expect("a directory");
        assert_eq!(mode(&path("secret.key")), 0o600);
        let found = correct(directory.path()).await.expect("a pass");
        assert_eq!((found.failed, found.examples.len()), (1, 1));
        for (name, expected) in [("", 0o1777), ("notes", 0o644), ("repositories/ab/object", 0o400)] {
            assert_eq!(mode(&path(name)), expected, "{name}");
        }
    }

    /// The kernel refuses to change the mode of this directory, also to the administrator of the machine.
    #[tokio::test]
    async fn directory_that_cannot_be_corrected_is_no_error() {
        let directory = Path::new("/proc/self/task");
        let before = mode(directory);
        assert!(before & OTHER_USERS != 0, "{before:o}");
        restrict(directory).expect("a directory");
        assert!(restrict_entry(directory).is_err());
        assert_eq!(mode(directory), before);
    }

    #[test]
    fn findings_prefer_paths_that_could_not_be_corrected() {
        let mut findings = AccessFindings::default();
        for number in 0..5 {
            findings.add(Path::new(&format!("corrected-{number}")), false);
        }
        assert_eq!(findings.examples.len(), MAX_EXAMPLES);
        findings.add(Path::new("failed"), true);
        findings.add(Path::new("corrected"), false);
        assert_eq!((findings.accessible, findings.failed), (7, 1));
        assert_eq!(findings.examples, [PathBuf::from("failed")]);
    }
}
