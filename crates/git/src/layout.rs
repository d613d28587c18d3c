//! Layout of a repository on disk, and its atomic creation and removal.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{Error, Result};

/// Directories of a new repository, parents first.
const DIRECTORIES: [&str; 7] = [
    "info",
    "objects",
    "objects/info",
    "objects/pack",
    "refs",
    "refs/heads",
    "refs/tags",
];

/// Prefix of directories in which repositories are created.
const STAGING_PREFIX: &str = ".new-";

/// Age from which such a directory counts as abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Configuration of every repository.
///
/// `git` must sync its files like libgit2 does in this server. Automatic housekeeping is off, because jobs do
/// it. Pushed objects are checked, except for faults that well-known old histories have.
const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\tcommitGraph = true
\tfsync = objects,derived-metadata,reference
\tfsyncMethod = fsync
[gc]
\tauto = 0
[maintenance]
\tauto = false
[transfer]
\tfsckObjects = true
\thideRefs = refs/holdfast
[receive]
\tautogc = false
\tupdateServerInfo = false
[receive \"fsck\"]
\tbadTimezone = ignore
\tmissingSpaceBeforeDate = ignore
\tzeroPaddedFilemode = ignore
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = false
";

/// libgit2 syncs only with this old name of the setting, but `git` prints a warning about it at every start,
/// also to pushing users. So the setting is in a file that only libgit2 reads.
const LIBGIT2_SETTINGS: &str = "[core]\n\tfsyncObjectFiles = true\n";

/// Returns the path of the libgit2 settings below the root of all repositories.
pub(super) fn libgit2_settings(root: &Path) -> PathBuf {
    root.join("libgit2.config")
}

/// Writes [`libgit2_settings`], atomically replacing other content.
pub(super) fn write_libgit2_settings(root: &Path) -> Result<()> {
    let path = libgit2_settings(root);
    if fs::read(&path).is_ok_and(|found| found == LIBGIT2_SETTINGS.as_bytes()) {
        return Ok(());
    }
    let mut staged = tempfile::NamedTempFile::new_in(root)?;
    staged.write_all(LIBGIT2_SETTINGS.as_bytes())?;
    staged.as_file().sync_all()?;
    staged.persist(&path).map_err(|failed| failed.error)?;
    Ok(sync_directory(root)?)
}

/// Deletes the leftovers of interrupted creations from the root, once they are a day old.
pub(super) fn delete_abandoned(root: &Path) -> Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if !entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(STAGING_PREFIX.as_bytes())
        {
            continue;
        }
        // Another node may run the same sweep, so a missing file is not an error.
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .map(|modified| modified.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > ABANDONED_AFTER)) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns the names of the repositories two directories below `root`: 64 hex digits each.
pub(super) fn repository_names(root: &Path) -> Result<Vec<String>> {
    let mut directories = vec![root.to_owned()];
    for _ in 0..2 {
        directories = directories
            .iter()
            .map(|directory| children(directory))
            .collect::<Result<Vec<_>>>()?
            .concat();
        directories.retain(|path| path.file_name().is_some_and(|name| name.len() == 2));
    }
    let mut names = Vec::new();
    for path in directories
        .iter()
        .map(|directory| children(directory))
        .collect::<Result<Vec<_>>>()?
        .concat()
    {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_suffix(".git")) else {
            continue;
        };
        let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        // An unreadable repository is listed, so that its error is reported when the repository is used.
        if is_id && is_repository(&path).unwrap_or(true) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Returns the entries of a directory; none if it is missing or not a directory.
fn children(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    Ok(paths?)
}

/// Returns whether a repository exists at `path`.
///
/// # Errors
/// I/O errors: with a failed disk, the repository is not missing.
pub(super) fn is_repository(path: &Path) -> io::Result<bool> {
    match fs::metadata(path.join("HEAD")) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Creates an empty temporary directory below the root, which is deleted on drop, or later if the server is killed.
pub(super) fn temporary_directory(root: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(STAGING_PREFIX).tempdir_in(root)
}

/// Creates a repository in a temporary directory and renames it to `path`, which is two directories below
/// `root`.
pub(super) fn create(root: &Path, path: &Path, default_branch: &str) -> Result<()> {
    create_with(root, path, default_branch, |_| Ok(()))
}

/// As [`create`]; `fill` adds files before the repository becomes visible, and syncs them.
pub(super) fn create_with(
    root: &Path,
    path: &Path,
    default_branch: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let staged = temporary_directory(root)?;
    for directory in DIRECTORIES {
        fs::create_dir(staged.path().join(directory))?;
    }
    write_synced(&staged.path().join("config"), CONFIG)?;
    write_synced(
        &staged.path().join("HEAD"),
        format!("ref: refs/heads/{default_branch}\n"),
    )?;
    fill(staged.path())?;
    for directory in DIRECTORIES {
        sync_directory(&staged.path().join(directory))?;
    }
    sync_directory(staged.path())?;

    let parent = path.parent().unwrap_or(root);
    fs::create_dir_all(parent)?;
    match fs::rename(staged.path(), path) {
        Ok(()) => {}
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            ) =>
        {
            return Err(Error::RepositoryExists);
        }
        Err(error) => return Err(error.into()),
    }
    // The directory was renamed; without this the guard would try to delete it.
    let _ = staged.keep();
    for directory in parent
        .ancestors()
        .take_while(|directory| directory.starts_with(root))
    {
        sync_directory(directory)?;
    }
    Ok(())
}

/// Renames the repository, so that it disappears atomically, and deletes it.
pub(super) fn remove(path: &Path) -> Result<()> {
    let aside = path.with_extension("removed");
    remove_tree(&aside)?;
    match fs::rename(path, &aside) {
        Ok(()) => {
            if let Some(parent) = path.parent() {
                sync_directory(parent)?;
            }
            remove_tree(&aside)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the total size of all files below `path`. Files that vanish meanwhile, as in a repack, do not
/// count.
pub(super) fn size(path: &Path) -> Result<u64> {
    if !is_repository(path)? {
        return Err(Error::RepositoryMissing);
    }
    let mut total = 0;
    let mut pending = vec![path.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => total += metadata.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(total)
}

fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

pub(super) fn write_synced(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content.as_ref())?;
    file.sync_all()
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, Fixture};
    use super::super::{Error, RepositoryId, RepositoryStore};

    #[tokio::test]
    async fn created_repository_is_valid_for_git() {
        let fixture = Fixture::new("trunk").await;
        assert_eq!(fixture.git(&["symbolic-ref", "HEAD"]).trim(), "refs/heads/trunk");
        assert_eq!(fixture.git(&["rev-parse", "--is-bare-repository"]).trim(), "true");
        fixture.fsck();
        assert!(fixture.store.exists(&fixture.id).await.unwrap());
        assert!(fixture.store.size(&fixture.id).await.unwrap() > 200);
    }

    #[tokio::test]
    async fn create_rejects_existing_repository_and_leaves_no_files() {
        let fixture = Fixture::new("main").await;
        assert!(matches!(
            fixture.store.create(&fixture.id, "main").await,
            Err(Error::RepositoryExists)
        ));
        let hidden = std::fs::read_dir(fixture.root.path())
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with('.')
            })
            .count();
        assert_eq!(hidden, 0);
    }

    #[tokio::test]
    async fn remove_is_immediate_and_repeatable() {
        let fixture = Fixture::new("main").await;
        testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        fixture.store.remove(&fixture.id).await.unwrap();
        assert!(!fixture.store.exists(&fixture.id).await.unwrap());
        assert!(matches!(
            fixture.repository.branch("main").await,
            Err(Error::RepositoryMissing)
        ));
        fixture.store.remove(&fixture.id).await.unwrap();
        fixture.store.create(&fixture.id, "main").await.unwrap();
        assert!(matches!(
            fixture.repository.branch("main").await,
            Err(Error::BranchNotFound)
        ));
    }

    #[tokio::test]
    async fn stored_lists_only_repositories() {
        let fixture = Fixture::new("main").await;
        for stray in ["ab/cd/x.git", "ab/file", ".new-x/y"] {
            std::fs::create_dir_all(fixture.root.path().join(stray)).unwrap();
        }
        std::fs::write(fixture.root.path().join("ab/cd/y"), "").unwrap();
        assert_eq!(
            fixture.store.stored().await.unwrap(),
            std::slice::from_ref(&fixture.id)
        );
    }

    #[tokio::test]
    async fn new_store_deletes_stale_incomplete_repositories() {
        let fixture = Fixture::new("main").await;
        let directories = ["old", "young"].map(|name| fixture.root.path().join(format!(".new-{name}")));
        for directory in &directories {
            std::fs::create_dir_all(directory.join("objects")).unwrap();
        }
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(200_000);
        std::fs::File::open(&directories[0])
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        let store = RepositoryStore::new(fixture.root.path(), 2).unwrap();
        assert_eq!(directories.map(|directory| directory.exists()), [false, true]);
        assert!(store.exists(&fixture.id).await.unwrap());
    }

    #[tokio::test]
    async fn libgit2_syncs_objects_without_git_warning() {
        let fixture = Fixture::new("main").await;
        let synced = fixture
            .repository
            .git2(|repository| Ok(repository.config()?.get_bool("core.fsyncObjectFiles")?))
            .await
            .unwrap();
        assert!(synced);
        let output = fixture
            .command(&["hash-object", "-w", "--stdin"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }

    #[tokio::test]
    async fn unreadable_repository_is_not_missing() {
        let fixture = Fixture::new("main").await;
        let head = fixture.repository.path().join("HEAD");
        std::fs::remove_file(&head).unwrap();
        // The system returns an error for a link to itself, as it does for a failed disk.
        std::os::unix::fs::symlink("HEAD", &head).unwrap();
        let store = RepositoryStore::new(fixture.root.path(), 2).unwrap();
        assert!(matches!(store.exists(&fixture.id).await, Err(Error::Io(_))));
        assert!(matches!(store.size(&fixture.id).await, Err(Error::Io(_))));
        assert_eq!(store.stored().await.unwrap(), std::slice::from_ref(&fixture.id));
        let branch = store.repository(&fixture.id).branch("main").await;
        assert!(matches!(branch, Err(Error::Io(_))));
    }

    #[tokio::test]
    async fn missing_repository_returns_error() {
        let root = tempfile::tempdir().unwrap();
        let store = RepositoryStore::new(root.path(), 2).unwrap();
        let id = RepositoryId::of_project(1);
        assert!(!store.exists(&id).await.unwrap());
        assert!(matches!(store.size(&id).await, Err(Error::RepositoryMissing)));
        assert!(matches!(
            store.repository(&id).default_branch().await,
            Err(Error::RepositoryMissing)
        ));
    }
}
