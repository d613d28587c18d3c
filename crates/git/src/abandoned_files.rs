//! Files that killed programs and servers left in a repository.
//!
//! A push stores its objects in a directory of its own until its references move. Git and the server write other objects and
//! packs to temporary files. Git deletes its temporary files and its lock files when it ends, but not if it is killed, and it
//! never deletes a lock file of another process. So one file can prevent the maintenance of a repository forever.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Repository, Result};

/// Prefixes of the names of temporary files and directories below `objects`.
const TEMPORARY_PREFIXES: [&[u8]; 2] = [b"tmp_", b".tmp-"];
/// Age from which a temporary file counts as abandoned. No push and no program takes as long.
const TEMPORARY_ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Lock files of programs that maintain a repository.
const LOCKS: [&str; 5] = [
    "objects/info/commit-graph.lock",
    "objects/info/commit-graphs/commit-graph-chain.lock",
    "objects/pack/multi-pack-index.lock",
    "packed-refs.lock",
    // The new content, which Git creates as exclusively as the lock file.
    "packed-refs.new",
];
/// Age from which such a lock file counts as abandoned. The programs have a time limit of an hour; the rest allows for
/// programs of a killed server, which continue without it.
const LOCK_ABANDONED_AFTER: Duration = Duration::from_secs(6 * 60 * 60);

impl Repository {
    /// Deletes temporary files and lock files of programs and servers that were killed, once they are too old to be in use.
    ///
    /// # Errors
    /// [`super::Error::RepositoryMissing`], or an I/O error.
    pub async fn delete_abandoned_files(&self) -> Result<()> {
        let has_locks = self.blocking(|opened| {
            let objects = opened.path().join("objects");
            for directory in ["", "pack", "info", "info/commit-graphs"] {
                report(delete_temporary_files(&objects.join(directory)));
            }
            Ok(LOCKS
                .iter()
                .any(|lock| is_abandoned_lock(&opened.path().join(lock))))
        });
        if !has_locks.await? {
            return Ok(());
        }
        // Otherwise, this could delete a file that another writer has created instead of the abandoned one.
        let guard = self.write_lock().await?;
        self.blocking(move |opened| {
            let _guard = guard;
            for lock in LOCKS {
                let path = opened.path().join(lock);
                if is_abandoned_lock(&path) {
                    tracing::warn!(lock, "deleting a lock file of a killed program");
                    report(fs::remove_file(path));
                }
            }
            Ok(())
        })
        .await
    }
}

fn is_abandoned_lock(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    is_older(modified, LOCK_ABANDONED_AFTER)
}

fn delete_temporary_files(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_temporary = |prefix: &[u8]| name.as_encoded_bytes().starts_with(prefix);
        if TEMPORARY_PREFIXES.into_iter().any(is_temporary) {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if is_older(modified, TEMPORARY_ABANDONED_AFTER) {
                report(delete(&entry));
            }
        }
    }
    Ok(())
}

fn delete(entry: &DirEntry) -> io::Result<()> {
    match entry.file_type()?.is_dir() {
        true => fs::remove_dir_all(entry.path()),
        false => fs::remove_file(entry.path()),
    }
}

/// Returns whether a file was last modified before this time. A file that does not exist, or no longer, is not older.
fn is_older(modified: io::Result<SystemTime>, age: Duration) -> bool {
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|elapsed| elapsed > age))
}

/// Logs a failed deletion. Another node may have deleted the file at the same time.
fn report(deleted: io::Result<()>) {
    match deleted {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, "failed to delete a file of a killed program");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::RepackExtent;
    use crate::test_repository::TestRepository;

    fn set_age(path: &Path, age: Duration) {
        let modified = SystemTime::now() - age - Duration::from_secs(60);
        File::open(path).unwrap().set_modified(modified).unwrap();
    }

    #[tokio::test]
    async fn temporary_files_are_deleted_after_a_day() {
        let sample = TestRepository::with_history();
        let objects = sample.repository.path().join("objects");
        let directories = ["tmp_objdir-incoming-a", "tmp_objdir-b"];
        let files = [
            "tmp_obj_a",
            "pack/tmp_pack_a",
            "pack/.tmp-1-pack-a.pack",
            "info/commit-graphs/tmp_graph_a",
        ];
        let create = |suffix: &str| -> Vec<_> {
            let named = |name: &&str| objects.join(format!("{name}{suffix}"));
            let (directories, files) = (directories.iter().map(named), files.iter().map(named));
            let (directories, files): (Vec<_>, Vec<_>) = (directories.collect(), files.collect());
            directories
                .iter()
                .for_each(|path| fs::create_dir_all(path.join("pack")).unwrap());
            for path in &files {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "x").unwrap();
            }
            [directories, files].concat()
        };
        let (old, new) = (create("-old"), create("-new"));
        old.iter()
            .for_each(|path| set_age(path, TEMPORARY_ABANDONED_AFTER));
        sample.repository.delete_abandoned_files().await.unwrap();
        assert!(old.iter().all(|path| !path.exists()) && new.iter().all(|path| path.exists()));
        assert_eq!(sample.repository.fsck().await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn repository_with_lock_files_of_killed_programs_is_maintained() {
        let sample = TestRepository::with_history();
        let repository = &sample.repository;
        let paths = LOCKS.map(|lock| repository.path().join(lock));
        for path in &paths {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        repository.delete_abandoned_files().await.unwrap();
        assert!(
            paths.iter().all(|path| path.exists()),
            "the programs may still run"
        );
        assert!(repository.write_commit_graph().await.is_err());

        paths.iter().for_each(|path| set_age(path, LOCK_ABANDONED_AFTER));
        repository.delete_abandoned_files().await.unwrap();
        repository.write_commit_graph().await.unwrap();
        for how in [RepackExtent::Geometric, RepackExtent::Full] {
            repository.repack(how).await.unwrap();
        }
        assert_eq!(repository.fsck().await.unwrap(), [""; 0]);
    }
}
