//! Snapshot of a repository: a tar file with the bare repository, which Git can use after it was unpacked.
//!
//! The refs are read before the objects are linked into a temporary directory (`files`), so the objects of all refs are in the
//! snapshot, even if pushes and repacks run meanwhile. The links keep the objects until the client has received them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;

use super::files::{FileVisitor, ObjectFile, RepositoryFiles};
use super::stream::{self, ByteStream, ChunkSender};
use super::{Error, Repository, Result, fork, layout};

/// Time limit for creating and sending a snapshot.
const TIME_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Number of bytes that are read from a file at once.
const CHUNK: usize = 256 << 10;
/// Size of a block of a tar file in bytes. Two empty blocks are its end.
const BLOCK: usize = 512;
/// Directories of the repository, parents first.
const DIRECTORIES: [&str; 6] = [
    "refs/",
    "refs/heads/",
    "refs/tags/",
    "objects/",
    "objects/info/",
    "objects/pack/",
];
/// Configuration of a bare repository, without the settings of this server.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

impl Repository {
    /// Streams a tar file with the bare repository. Dropping the stream ends it.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Busy`] if too many transfers are running, and [`Error::Locked`] if repacks
    /// prevented every attempt to list the objects. The stream ends in an error if a file cannot be read.
    pub async fn snapshot(&self) -> Result<ByteStream> {
        let slots = &self.shared().slots.transfers;
        let permit = self.slot(slots, "too many transfers are in progress").await?;
        let root = self.shared().root().to_owned();
        let directory = tokio::task::spawn_blocking(move || layout::temporary_directory(&root));
        let directory = directory.await.map_err(|_| Error::Worker)??;
        let links = LinkedObjects { directory };
        let (files, links) = self.visit_files(links).await?;
        Ok(stream::produced(TIME_LIMIT, move |sender| async move {
            let sent = send(&sender, &files, links.directory.path()).await;
            drop(permit);
            // Deleting many links blocks.
            let _ = tokio::task::spawn_blocking(move || drop(links)).await;
            sent
        }))
    }
}

/// Links the object files into a directory.
struct LinkedObjects {
    directory: TempDir,
}

impl FileVisitor for LinkedObjects {
    fn visit(&mut self, file: &ObjectFile, path: &Path) -> io::Result<()> {
        let link = self.directory.path().join(&file.name);
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent)?;
        }
        fork::link(path, &link)
    }
}

async fn send(sender: &ChunkSender, files: &RepositoryFiles, objects: &Path) -> Result<()> {
    let mut head = Vec::new();
    for directory in DIRECTORIES {
        head.extend_from_slice(&header(directory, 0)?);
    }
    let head_file = format!("ref: refs/heads/{}\n", files.head);
    for (name, content) in [
        ("HEAD", head_file.as_bytes()),
        ("config", CONFIG.as_bytes()),
        ("packed-refs", files.references.as_slice()),
    ] {
        head.extend_from_slice(&header(name, content.len() as u64)?);
        head.extend_from_slice(content);
        head.resize(head.len().next_multiple_of(BLOCK), 0);
    }
    for chunk in head.chunks(CHUNK) {
        sender.send(Bytes::copy_from_slice(chunk)).await?;
    }
    for file in &files.objects {
        sender
            .send(header(&format!("objects/{}", file.name), file.size)?.into())
            .await?;
        send_file(sender, objects.join(&file.name), file.size).await?;
    }
    sender.send(vec![0; 2 * BLOCK].into()).await
}

/// Sends the content of a file, filled to whole blocks.
async fn send_file(sender: &ChunkSender, path: PathBuf, size: u64) -> Result<()> {
    let opened = tokio::task::spawn_blocking(move || File::open(path));
    let file = Arc::new(opened.await.map_err(|_| Error::Worker)??);
    let mut offset = 0;
    while offset < size {
        let (file, length) = (Arc::clone(&file), (size - offset).min(CHUNK as u64));
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; usize::try_from(length).unwrap_or(CHUNK)];
            file.read_exact_at(&mut chunk, offset)?;
            if offset + length == size {
                chunk.resize(chunk.len().next_multiple_of(BLOCK), 0);
            }
            Ok::<_, io::Error>(chunk)
        });
        sender
            .send(read.await.map_err(|_| Error::Worker)??.into())
            .await?;
        offset += length;
    }
    Ok(())
}

/// Returns the header of a file, or of a directory if the name ends with a slash.
fn header(name: &str, size: u64) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    let (kind, mode) = match name.ends_with('/') {
        true => (tar::EntryType::Directory, 0o755),
        false => (tar::EntryType::Regular, 0o644),
    };
    header.set_entry_type(kind);
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::test_repository::TestRepository;
    use crate::testing::{self, Fixture};
    use crate::{RepackExtent, RepositoryId};

    /// Unpacks the snapshot of a repository.
    async fn unpacked(repository: &Repository) -> TempDir {
        let bytes = repository
            .snapshot()
            .await
            .unwrap()
            .collect(1 << 28)
            .await
            .unwrap();
        assert_eq!(bytes.len() % BLOCK, 0);
        let directory = tempfile::tempdir().unwrap();
        tar::Archive::new(bytes.as_slice())
            .unpack(directory.path())
            .unwrap();
        directory
    }

    fn git(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[tokio::test]
    async fn snapshot_is_a_complete_bare_repository() {
        let sample = TestRepository::with_history();
        sample.repository.repack(RepackExtent::Full).await.unwrap();
        sample.git(&["update-ref", "refs/keep/hidden", &sample.id("main").to_string()]);
        let directory = unpacked(&sample.repository).await;
        assert_eq!(
            git(directory.path(), &["for-each-ref"]),
            sample.git(&["for-each-ref"])
        );
        assert_eq!(
            git(directory.path(), &["fsck", "--full", "--no-dangling"]).trim(),
            ""
        );
        let mut names: Vec<String> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["HEAD", "config", "objects", "packed-refs", "refs"]);
        let copy = directory.path().join("copy");
        git(directory.path(), &["clone", "--quiet", ".", "copy"]);
        assert_eq!(
            git(&copy, &["rev-parse", "HEAD"]).trim(),
            sample.id("main").to_string()
        );
    }

    #[tokio::test]
    async fn snapshot_of_an_empty_repository_can_be_cloned() {
        let sample = TestRepository::empty();
        let directory = unpacked(&sample.repository).await;
        git(directory.path(), &["clone", "--quiet", ".", "copy"]);
        let missing = sample
            .store
            .repository(&RepositoryId::of_project(9))
            .snapshot()
            .await;
        assert!(matches!(missing, Err(Error::RepositoryMissing)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn snapshots_during_writes_and_repacks_are_complete() {
        let fixture = Fixture::new("main").await;
        let repository = fixture.repository.clone();
        testing::commit(&repository, "main", &[("file", "first")]).await;
        let upkeep = testing::write_and_repack(&repository);
        loop {
            let last = upkeep.is_finished();
            let directory = unpacked(&repository).await;
            assert_eq!(
                git(directory.path(), &["fsck", "--full", "--no-dangling"]).trim(),
                ""
            );
            if last {
                break;
            }
        }
        upkeep.await.unwrap();
        let left = fs::read_dir(fixture.store.directory()).unwrap();
        let left = left.filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with(".new-")
        });
        assert_eq!(left.count(), 0, "temporary directories remain");
    }
}
