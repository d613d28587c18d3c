//! Blobs and trees, by id and by path.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::process::{Program, Running};
use super::refs::Window;
use super::{Error, Oid, Repository, Result, path};

/// Blobs up to this many bytes are read whole; larger ones come from a process, piece by piece.
const IN_MEMORY: u64 = 4 << 20;

/// How many entries a recursive listing may visit.
const MOST_ENTRIES: usize = 1_000_000;

/// What a tree entry is; the order is that of listings (facts, 5: trees, blobs, submodules).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A directory.
    Tree,
    /// A file or symbolic link.
    Blob,
    /// A submodule: a commit of another repository.
    Commit,
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The id of the object.
    pub id: Oid,
    /// The file mode as Git stores it, such as `0o100644`.
    pub mode: u32,
    /// What it is.
    pub kind: EntryKind,
    /// The path from the root of the tree; bytes that are no UTF-8 are replaced.
    pub path: String,
}

impl TreeEntry {
    /// The last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A page of a tree listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePage {
    /// The entries of the page.
    pub entries: Vec<TreeEntry>,
    /// How many entries all pages hold.
    pub total: usize,
}

/// A file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The id of the blob.
    pub id: Oid,
    /// The length in bytes.
    pub size: u64,
    /// All bytes.
    pub data: Bytes,
}

/// A file's content to be read once, from start to end. A content that turns out shorter than [`Self::size`] is
/// an error of the last read, never a silent end.
pub struct BlobStream {
    size: u64,
    remaining: u64,
    source: Pin<Box<dyn AsyncRead + Send>>,
    // Ends the process with the stream, however far it was read.
    _process: Option<Running>,
}

impl BlobStream {
    /// The length of the whole content in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl AsyncRead for BlobStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let result = self.source.as_mut().poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = result {
            let read = (buf.filled().len() - before) as u64;
            self.remaining = self.remaining.saturating_sub(read);
            if read == 0 && self.remaining > 0 {
                return Poll::Ready(Err(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        result
    }
}

impl Repository {
    /// What stands at a path in a commit; the root itself for an empty path.
    ///
    /// # Errors
    /// [`Error::RevisionNotFound`] when the id is no commit's.
    pub async fn entry_at(&self, commit: Oid, path: &str) -> Result<Option<TreeEntry>> {
        let path = path.to_owned();
        self.git2(move |repository| {
            let tree = root(repository, commit)?;
            entry_at(&tree, &path)
        })
        .await
    }

    /// The content of a blob of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`], or [`Error::LimitExceeded`] when it is longer.
    pub async fn blob(&self, id: Oid, limit: u64) -> Result<Blob> {
        self.git2(move |repository| {
            let odb = repository.odb()?;
            if blob_size(&odb, id)? > limit {
                return Err(Error::LimitExceeded("the file is too large"));
            }
            let object = odb.read(id).map_err(absent)?;
            Ok(Blob {
                id,
                size: object.len() as u64,
                data: Bytes::copy_from_slice(object.data()),
            })
        })
        .await
    }

    /// The length of a blob in bytes, without reading it.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when nothing, or no blob, has the id.
    pub async fn blob_size(&self, id: Oid) -> Result<u64> {
        self.git2(move |repository| blob_size(&repository.odb()?, id))
            .await
    }

    /// Opens a blob of any length for reading. Large ones never stand in this process's memory.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`], or what starting a process says.
    pub async fn open_blob(&self, id: Oid) -> Result<BlobStream> {
        let size = self.blob_size(id).await?;
        if size <= IN_MEMORY {
            let blob = self.blob(id, IN_MEMORY).await?;
            let source = Box::pin(std::io::Cursor::new(blob.data));
            return Ok(BlobStream {
                size,
                remaining: size,
                source,
                _process: None,
            });
        }
        let program = Program::new("cat-file")
            .config("core.bigFileThreshold", "1m")
            .flag("blob")
            .id(id);
        let mut process = self
            .start_under(program, Arc::clone(&self.shared().streams))
            .await?;
        let source = process.take_stdout().ok_or(Error::Worker)?;
        Ok(BlobStream {
            size,
            remaining: size,
            source: Box::pin(source),
            _process: Some(process),
        })
    }

    /// The SHA-256 of a blob's bytes in lower-case hex; remembered by blob id.
    ///
    /// # Errors
    /// As [`Self::open_blob`], or [`Error::Io`] when reading breaks off.
    pub async fn content_sha256(&self, id: Oid) -> Result<Arc<str>> {
        if let Some(digest) = self.shared().digests.get(&id) {
            return Ok(digest);
        }
        let mut stream = self.open_blob(id).await?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
        }
        let digest: Arc<str> = hex::encode(hasher.finalize()).into();
        self.shared().digests.insert(id, Arc::clone(&digest));
        Ok(digest)
    }

    /// Lists the directory at `path` (the root when empty) in a commit: trees, then blobs, then submodules, each
    /// by name, or by path when `recursive`. A path that names no directory lists nothing.
    ///
    /// # Errors
    /// [`Error::RevisionNotFound`] when the id is no commit's, [`Error::LimitExceeded`] for a recursive listing
    /// of more than a million entries.
    pub async fn tree(&self, commit: Oid, path: &str, recursive: bool, window: Window) -> Result<TreePage> {
        let path = path.to_owned();
        self.git2(move |repository| {
            let root = root(repository, commit)?;
            let Some(entry) = entry_at(&root, &path)?.filter(|entry| entry.kind == EntryKind::Tree) else {
                return Ok(TreePage {
                    entries: Vec::new(),
                    total: 0,
                });
            };
            let mut found = list(repository, entry.id, recursive)?;
            found.sort_unstable_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
            let prefix = path::components(&path).collect::<Vec<_>>().join("/");
            let entries = window
                .of(&found)
                .iter()
                .map(|entry| entry.placed_below(&prefix))
                .collect();
            Ok(TreePage {
                entries,
                total: found.len(),
            })
        })
        .await
    }
}

/// An entry found by [`list`], its path relative and raw.
struct Found {
    kind: EntryKind,
    path: Vec<u8>,
    mode: u32,
    id: Oid,
}

impl Found {
    fn placed_below(&self, prefix: &str) -> TreeEntry {
        let relative = String::from_utf8_lossy(&self.path);
        let path = if prefix.is_empty() {
            relative.into_owned()
        } else {
            format!("{prefix}/{relative}")
        };
        TreeEntry {
            id: self.id,
            mode: self.mode,
            kind: self.kind,
            path,
        }
    }
}

fn list(repository: &git2::Repository, tree: Oid, recursive: bool) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    // A stack of our own: a hostile tree can be deeper than a thread's.
    let mut pending = vec![(tree, Vec::new())];
    while let Some((tree, prefix)) = pending.pop() {
        for entry in repository.find_tree(tree)?.iter() {
            let kind = kind(entry.filemode_raw());
            let mut path = Vec::with_capacity(prefix.len() + entry.name_bytes().len());
            path.extend_from_slice(&prefix);
            path.extend_from_slice(entry.name_bytes());
            if recursive && kind == EntryKind::Tree {
                let mut below = path.clone();
                below.push(b'/');
                pending.push((entry.id(), below));
            }
            found.push(Found {
                kind,
                path,
                mode: mode(entry.filemode_raw()),
                id: entry.id(),
            });
            if found.len() > MOST_ENTRIES {
                return Err(Error::LimitExceeded("the tree has too many entries"));
            }
        }
    }
    Ok(found)
}

/// The root tree of a commit.
pub(super) fn root(repository: &git2::Repository, commit: Oid) -> Result<git2::Tree<'_>> {
    let commit = repository
        .find_commit(commit)
        .map_err(|error| match error.code() {
            git2::ErrorCode::NotFound => Error::RevisionNotFound,
            _ => Error::Git2(error),
        })?;
    Ok(commit.tree()?)
}

/// What stands at a path below a tree; the tree itself for an empty path.
pub(super) fn entry_at(tree: &git2::Tree<'_>, path: &str) -> Result<Option<TreeEntry>> {
    let components: Vec<&str> = path::components(path).collect();
    if components.is_empty() {
        let mode = 0o040_000;
        return Ok(Some(TreeEntry {
            id: tree.id(),
            mode,
            kind: EntryKind::Tree,
            path: String::new(),
        }));
    }
    // libgit2 takes a NUL for a fault of the caller; to us it is a name that no tree holds.
    if path.contains('\0') {
        return Ok(None);
    }
    let path = components.join("/");
    match tree.get_path(std::path::Path::new(&path)) {
        Ok(entry) => {
            let raw = entry.filemode_raw();
            Ok(Some(TreeEntry {
                id: entry.id(),
                mode: mode(raw),
                kind: kind(raw),
                path,
            }))
        }
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn blob_size(odb: &git2::Odb<'_>, id: Oid) -> Result<u64> {
    match odb.read_header(id).map_err(absent)? {
        (size, git2::ObjectType::Blob) => Ok(size as u64),
        _ => Err(Error::ObjectNotFound),
    }
}

/// The kind of object behind a file mode.
pub(super) fn kind(mode: i32) -> EntryKind {
    match mode & 0o170_000 {
        0o040_000 => EntryKind::Tree,
        0o160_000 => EntryKind::Commit,
        _ => EntryKind::Blob,
    }
}

fn mode(raw: i32) -> u32 {
    u32::try_from(raw).unwrap_or_default()
}

/// Turns libgit2's "not found" into ours.
pub(super) fn absent(error: git2::Error) -> Error {
    match error.code() {
        git2::ErrorCode::NotFound => Error::ObjectNotFound,
        _ => Error::Git2(error),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::EntryKind;
    use crate::git::testing::{self, Fixture};
    use crate::git::{Error, Oid, Window};

    const ALL: Window = Window {
        offset: 0,
        limit: usize::MAX,
    };

    #[tokio::test]
    async fn lists_trees_before_blobs_before_submodules() {
        let fixture = Fixture::new("main").await;
        let files = [
            ("b.txt", "1"),
            ("a.txt", "2"),
            ("z/q/deep", "3"),
            ("z/p", "4"),
            ("a/x", "5"),
        ];
        let commit = testing::commit(&fixture.repository, "main", &files).await;
        let tree = fixture.git(&["ls-tree", &commit.to_string()]) + &format!("160000 commit {commit}\tC\n");
        let tree = fixture.git_stdin(&["mktree"], tree.as_bytes());
        let commit = fixture.git(&["commit-tree", "-m", "m", tree.trim()]);
        let commit = Oid::from_str(commit.trim()).unwrap();
        let paths = |page: super::TreePage| {
            page.entries
                .into_iter()
                .map(|entry| entry.path)
                .collect::<Vec<_>>()
        };

        let page = fixture.repository.tree(commit, "", false, ALL).await.unwrap();
        assert_eq!(page.total, 5);
        assert_eq!(page.entries[0].mode, 0o040_000);
        assert_eq!(page.entries[4].kind, EntryKind::Commit);
        assert_eq!(paths(page), ["a", "z", "a.txt", "b.txt", "C"]);

        let page = fixture.repository.tree(commit, "", true, ALL).await.unwrap();
        assert_eq!(
            paths(page),
            ["a", "z", "z/q", "a.txt", "a/x", "b.txt", "z/p", "z/q/deep", "C"]
        );
        let page = fixture
            .repository
            .tree(commit, "/z/", true, Window { offset: 1, limit: 1 })
            .await
            .unwrap();
        assert_eq!((page.total, paths(page)), (3, vec!["z/p".to_owned()]));
        for nothing in ["nope", "a.txt", "C", "z/../a", "a\0"] {
            let page = fixture
                .repository
                .tree(commit, nothing, false, ALL)
                .await
                .unwrap();
            assert_eq!((page.total, page.entries.len()), (0, 0), "{nothing:?}");
        }
        assert!(matches!(
            fixture.repository.tree(Oid::ZERO_SHA1, "", false, ALL).await,
            Err(Error::RevisionNotFound)
        ));
    }

    #[tokio::test]
    async fn finds_entries_by_path() {
        let fixture = Fixture::new("main").await;
        let commit = testing::commit(&fixture.repository, "main", &[("d/f:[*].txt", "x")]).await;
        let entry = fixture
            .repository
            .entry_at(commit, "./d/f:[*].txt")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (entry.name(), entry.mode, entry.kind),
            ("f:[*].txt", 0o100_644, EntryKind::Blob)
        );
        assert_eq!(
            entry.id.to_string(),
            fixture.git_stdin(&["hash-object", "--stdin"], b"x").trim()
        );
        assert!(
            fixture
                .repository
                .entry_at(commit, "d/f*")
                .await
                .unwrap()
                .is_none()
        );
        assert_eq!(
            fixture
                .repository
                .entry_at(commit, "")
                .await
                .unwrap()
                .unwrap()
                .kind,
            EntryKind::Tree
        );
    }

    #[tokio::test]
    async fn reads_blobs_loose_and_packed_small_and_large() {
        let fixture = Fixture::new("main").await;
        let large: Vec<u8> = (0..6_000_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let contents = [b"".to_vec(), b"small\0bytes\n".to_vec(), large];
        let mut ids = Vec::new();
        for content in &contents {
            let id = fixture.git_stdin(&["hash-object", "-w", "--stdin"], content);
            ids.push(Oid::from_str(id.trim()).unwrap());
        }
        for packed in [false, true] {
            if packed {
                let names: String = ids.iter().map(|id| format!("{id}\n")).collect();
                fixture.git_stdin(&["pack-objects", "-q", "objects/pack/pack"], names.as_bytes());
                fixture.git(&["prune-packed", "-q"]);
            }
            for (id, content) in ids.iter().zip(&contents) {
                let size = content.len() as u64;
                assert_eq!(fixture.repository.blob_size(*id).await.unwrap(), size);
                assert_eq!(fixture.repository.blob(*id, size).await.unwrap().data, content);
                let mut stream = fixture.repository.open_blob(*id).await.unwrap();
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.unwrap();
                assert!(read == *content && stream.size() == size);
            }
        }
        assert!(matches!(
            fixture.repository.blob(ids[1], 3).await,
            Err(Error::LimitExceeded(_))
        ));
        assert!(matches!(
            fixture.repository.blob(Oid::ZERO_SHA1, 3).await,
            Err(Error::ObjectNotFound)
        ));
        let digest = fixture.repository.content_sha256(ids[0]).await.unwrap();
        assert_eq!(
            &*digest,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(fixture.repository.content_sha256(ids[0]).await.unwrap(), digest);
    }

    #[tokio::test]
    async fn stream_that_breaks_off_is_an_error() {
        let fixture = Fixture::new("main").await;
        let id = fixture.git_stdin(&["hash-object", "-w", "--stdin"], &vec![7; 5 << 20]);
        let mut stream = fixture
            .repository
            .open_blob(Oid::from_str(id.trim()).unwrap())
            .await
            .unwrap();
        stream.remaining += 1;
        assert!(stream.read_to_end(&mut Vec::new()).await.is_err());
    }
}
