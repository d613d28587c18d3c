//! Copies a repository within the store. Objects are hard links, so a copy needs neither disk space nor memory.
//!
//! The source may be written, repacked and removed at the same time. Git never changes an object file, it only
//! adds and removes files. A link therefore keeps its content when the other name is removed. A repack can move
//! objects from unlinked files into packs that were already listed; then the copy starts again
//! (`docs/adr/0014-hard-link-objects-in-forks.md`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::process::Program;
use super::{Error, Repository, Result, layout};

/// Maximum number of attempts to copy.
const MAX_ATTEMPTS: usize = 20;

/// Extensions of the pack files to link; the index over several packs is written again.
pub(super) const PACK_EXTENSIONS: [&str; 5] = ["pack", "idx", "rev", "bitmap", "mtimes"];

impl Repository {
    /// Returns all branches and tags in the format of `packed-refs`.
    pub(super) async fn packed_references(&self) -> Result<Vec<u8>> {
        let program = Program::new("for-each-ref")
            .flag("--format=%(objectname) %(refname)")
            .path("refs/heads")
            .path("refs/tags");
        Ok(self.run(program).await?.stdout)
    }
}

/// Creates a repository at `to` with the objects of the repository at `from`.
pub(super) fn create(
    root: &Path,
    from: &Path,
    to: &Path,
    default_branch: &str,
    references: &[u8],
) -> Result<()> {
    if !layout::is_repository(from)? {
        return Err(Error::RepositoryMissing);
    }
    layout::create_with(root, to, default_branch, |staged| {
        let (from, objects) = (from.join("objects"), staged.join("objects"));
        for _ in 0..MAX_ATTEMPTS {
            match link_objects(&from, &objects) {
                Ok(true) => {
                    // `for-each-ref` sorts them in the order of this file.
                    let packed = [b"# pack-refs with: sorted \n", references].concat();
                    layout::write_synced(&staged.join("packed-refs"), packed)?;
                    return Ok(());
                }
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Locked)
    })
}

/// Links all object files and returns whether the set is complete. A file that vanishes is an error of kind
/// `NotFound`.
fn link_objects(from: &Path, to: &Path) -> io::Result<bool> {
    let before = packs(&from.join("pack"))?;
    // Loose objects first: one that is packed and pruned meanwhile is in a pack of the second listing.
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        if name.len() == 2
            && name
                .to_string_lossy()
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit())
        {
            let (from, to) = (from.join(&name), to.join(&name));
            match fs::create_dir(&to) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            for entry in fs::read_dir(&from)? {
                let name = entry?.file_name();
                // Files that are still being written have temporary names.
                if name.len() == 38 {
                    link(&from.join(&name), &to.join(&name))?;
                }
            }
            layout::sync_directory(&to)?;
        }
    }
    let found = packs(&from.join("pack"))?;
    for name in &found {
        link(&from.join("pack").join(name), &to.join("pack").join(name))?;
    }
    commit_graph(&from.join("info"), &to.join("info"))?;
    // If the names are unchanged, no repack ran in between.
    Ok(before == found && packs(&from.join("pack"))? == found)
}

/// Returns the names of the files of all complete packs.
pub(super) fn packs(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let path = Path::new(&name);
        let kind = path.extension().and_then(|extension| extension.to_str());
        if name.to_string_lossy().starts_with("pack-")
            && kind.is_some_and(|kind| PACK_EXTENSIONS.contains(&kind))
        {
            names.insert(name);
        }
    }
    // A pack without an index is being added or removed.
    let complete = names.iter().filter(|name| {
        let index = Path::new(name).with_extension("idx");
        let pack = Path::new(name).with_extension("pack");
        names.contains(index.as_os_str()) && names.contains(pack.as_os_str())
    });
    Ok(complete.cloned().collect())
}

/// Links the commit-graph, which is usable only if it is complete.
fn commit_graph(from: &Path, to: &Path) -> io::Result<()> {
    const CHAIN: &str = "commit-graph-chain";
    let (from, to) = (from.join("commit-graphs"), to.join("commit-graphs"));
    let chain = match fs::read_to_string(from.join(CHAIN)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        chain => chain?,
    };
    match fs::create_dir(&to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for id in chain
        .lines()
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        let name = format!("graph-{id}.graph");
        link(&from.join(&name), &to.join(&name))?;
    }
    match fs::remove_file(to.join(CHAIN)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    layout::write_synced(&to.join(CHAIN), &chain)?;
    layout::sync_directory(&to)
}

/// Creates a hard link, or a copy if the file system has no hard links.
pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        // Linked by an earlier attempt.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        Err(_) => copy(from, to),
    }
}

/// Copies a file for its owner.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mode = source.metadata()?.permissions().mode() & 0o700;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use crate::test_repository::TestRepository;
    use crate::testing::{self, Fixture};
    use crate::{Error, RepackExtent, RepositoryId};

    fn fork_id() -> RepositoryId {
        RepositoryId::of_project(4711)
    }

    #[tokio::test]
    async fn fork_has_all_branches_and_tags_and_survives_its_source() {
        let sample = TestRepository::with_history();
        sample.repository.write_commit_graph().await.unwrap();
        let references = sample.git(&["for-each-ref", "refs/heads", "refs/tags"]);
        sample.git(&["update-ref", "refs/keep/hidden", &sample.id("main").to_string()]);
        let source = sample.repository.id().clone();
        let fork = sample.store.fork(&source, &fork_id()).await.unwrap();
        let again = sample.store.fork(&source, &fork_id()).await;
        assert!(matches!(again, Err(Error::RepositoryExists)));
        sample.store.remove(&source).await.unwrap();
        assert_eq!(fork.fsck().await.unwrap(), [""; 0]);
        let list = std::process::Command::new("git")
            .args(["for-each-ref"])
            .current_dir(fork.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&list.stdout).trim(), references.trim());
        let none = sample.store.fork(&source, &RepositoryId::of_project(4712)).await;
        assert!(matches!(none, Err(Error::RepositoryMissing)));
    }

    #[test]
    fn copied_object_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::write(&from, "object").unwrap();
        std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o444)).unwrap();
        super::copy(&from, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"object");
        assert_eq!(
            std::fs::metadata(&to).unwrap().permissions().mode() & 0o777,
            0o400
        );
    }

    #[tokio::test]
    async fn fork_shares_packs_and_both_sides_survive_maintenance() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        testing::commit(repository, "main", &[("file", "0")]).await;
        repository.repack(RepackExtent::Full).await.unwrap();
        let tip = testing::commit(repository, "main", &[("file", "1")]).await;
        let fork = fixture.store.fork(repository.id(), &fork_id()).await.unwrap();
        let packs = std::fs::read_dir(fork.path().join("objects/pack")).unwrap();
        for pack in packs {
            assert_eq!(pack.unwrap().metadata().unwrap().nlink(), 2);
        }
        let forked = testing::commit(&fork, "main", &[("file", "2")]).await;
        for side in [repository, &fork] {
            side.repack(RepackExtent::Full).await.unwrap();
            side.write_commit_graph().await.unwrap();
            assert_eq!(side.fsck().await.unwrap(), [""; 0]);
        }
        assert_eq!(repository.branch("main").await.unwrap().commit, tip);
        assert_eq!(fork.branch("main").await.unwrap().commit, forked);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn forks_during_writes_and_repacks_are_complete() {
        let fixture = Fixture::new("main").await;
        let repository = fixture.repository.clone();
        testing::commit(&repository, "main", &[("file", "first")]).await;
        let upkeep = testing::write_and_repack(&repository);
        let mut number = 5_000;
        loop {
            let last = upkeep.is_finished();
            let id = RepositoryId::of_project(number);
            let fork = fixture.store.fork(repository.id(), &id).await.unwrap();
            assert_eq!(fork.fsck().await.unwrap(), [""; 0]);
            number += 1;
            if last {
                break;
            }
        }
        upkeep.await.unwrap();
    }
}
