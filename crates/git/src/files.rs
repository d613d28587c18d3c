//! The files of a repository for a backup, and a repository from the files of a backup.
//!
//! The repository may be written, repacked and removed while its files are read. The refs are read before the objects,
//! so all objects that the refs lead to exist. A repack can move objects from files that were not yet read into a pack
//! that was not listed; then the files are listed again, as for a fork (ADR 14).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::store::{RepositoryId, RepositoryStore};
use super::{Error, Repository, Result, fork, layout};

/// Maximum number of attempts to list the files between two repacks.
const MAX_ATTEMPTS: usize = 20;
/// Maximum length of a file with a single ref, in bytes.
const MAX_REF_BYTES: u64 = 4096;
/// Maximum number of nested directories of refs. Git limits the length of a path to 4,096 bytes.
const MAX_REF_DEPTH: usize = 2048;
/// First line of the refs. Git reads them with a binary search then.
const PACKED_REFS_HEADER: &[u8] = b"# pack-refs with: sorted \n";
/// Content of `HEAD` before the name of the branch.
const HEAD_PREFIX: &str = "ref: refs/heads/";
/// Number of hex digits of an object ID.
const ID_LENGTH: usize = 40;

/// A file with one or more objects. Git adds and removes such files and never changes their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFile {
    /// Path below the directory of objects, such as `pack/pack-1234.pack`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was modified, in nanoseconds since 1970.
    pub modified: i64,
    /// Number of the file in the file system.
    pub inode: u64,
}

/// The state of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryFiles {
    /// The branch that `HEAD` names.
    pub head: String,
    /// All refs in the format of `packed-refs`, also those that clients do not see.
    pub references: Vec<u8>,
    /// The files of the objects.
    pub objects: Vec<ObjectFile>,
}

/// Receives the files of a repository.
pub trait FileVisitor: Send + 'static {
    /// Reads a file of objects. A file may be visited again in a later attempt.
    ///
    /// # Errors
    /// An I/O error. [`ErrorKind::NotFound`] means that the file was removed, and starts another attempt.
    fn visit(&mut self, file: &ObjectFile, path: &Path) -> io::Result<()>;
}

impl ObjectFile {
    /// Returns whether a path below the directory of objects has the form of a loose object or of a file of a pack.
    #[must_use]
    pub fn is_valid_name(name: &str) -> bool {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match name.split_once('/') {
            Some(("pack", file)) => {
                let Some((stem, extension)) = file.split_once('.') else {
                    return false;
                };
                let digits = stem.strip_prefix("pack-").unwrap_or_default();
                digits.len() == ID_LENGTH && is_hex(digits) && fork::PACK_EXTENSIONS.contains(&extension)
            }
            Some((directory, file)) => {
                directory.len() == 2 && file.len() == ID_LENGTH - 2 && is_hex(directory) && is_hex(file)
            }
            None => false,
        }
    }

    fn read(objects: &Path, name: String) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(objects.join(&name))?;
        Ok(Self {
            name,
            size: metadata.len(),
            modified: metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec()),
            inode: metadata.ino(),
        })
    }
}

impl Repository {
    /// Passes all files of objects to a visitor, and returns the state of the repository with the visitor.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Locked`] if repacks prevented every attempt, and errors of the visitor.
    pub async fn visit_files<V: FileVisitor>(&self, mut visitor: V) -> Result<(RepositoryFiles, V)> {
        self.blocking(move |opened| {
            for _ in 0..MAX_ATTEMPTS {
                match visit(opened.path(), &mut visitor) {
                    Ok(Some(found)) => return Ok((found, visitor)),
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        if !layout::is_repository(opened.path())? {
                            return Err(Error::RepositoryMissing);
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Error::Locked)
        })
        .await
    }
}

impl RepositoryStore {
    /// Creates a repository from the state of another one. `fill` writes the files of the objects below the given
    /// directory, which has the directories of all files, and syncs them. The repository is durable when this returns.
    ///
    /// # Errors
    /// [`Error::RepositoryExists`], [`Error::InvalidReferenceName`] if a name or a ref is malformed, errors of `fill`,
    /// or an I/O error.
    pub async fn create_from<F>(&self, id: &RepositoryId, files: RepositoryFiles, fill: F) -> Result<()>
    where
        F: FnOnce(&Path) -> io::Result<()> + Send + 'static,
    {
        super::check_branch_name(&files.head)?;
        check_references(&files.references)?;
        if !files
            .objects
            .iter()
            .all(|file| ObjectFile::is_valid_name(&file.name))
        {
            return Err(Error::InvalidReferenceName);
        }
        let id = id.clone();
        self.run_creation(move |root, path| {
            let path = path(&id);
            layout::create_with(root, &path, &files.head, |staged| {
                let objects = staged.join("objects");
                let mut directories: Vec<PathBuf> = Vec::new();
                for file in &files.objects {
                    let directory = objects.join(&file.name[..file.name.find('/').unwrap_or(0)]);
                    if directories.last() != Some(&directory) && !directories.contains(&directory) {
                        fs::create_dir_all(&directory)?;
                        directories.push(directory);
                    }
                }
                fill(&objects)?;
                for directory in directories {
                    layout::sync_directory(&directory)?;
                }
                layout::write_synced(&staged.join("packed-refs"), &files.references)?;
                Ok(())
            })
        })
        .await
    }
}

/// Reads the state of a repository. Returns `None` if a repack ran meanwhile.
fn visit(directory: &Path, visitor: &mut impl FileVisitor) -> io::Result<Option<RepositoryFiles>> {
    let head = head(directory)?;
    let references = references(directory)?;
    let objects = directory.join("objects");
    let before = fork::packs(&objects.join("pack"))?;
    let mut found = Vec::new();
    let mut visit = |name: String| -> io::Result<()> {
        let file = ObjectFile::read(&objects, name)?;
        visitor.visit(&file, &objects.join(&file.name))?;
        found.push(file);
        Ok(())
    };
    // Loose objects first: one that is packed and pruned meanwhile is in a pack of the second listing.
    for name in loose_objects(&objects)? {
        visit(name)?;
    }
    let packs = fork::packs(&objects.join("pack"))?;
    for name in &packs {
        let name = name.to_str().map(|name| format!("pack/{name}"));
        if let Some(name) = name.filter(|name| ObjectFile::is_valid_name(name)) {
            visit(name)?;
        }
    }
    let unchanged = before == packs && fork::packs(&objects.join("pack"))? == packs;
    Ok(unchanged.then_some(RepositoryFiles {
        head,
        references,
        objects: found,
    }))
}

/// Returns the names of all loose objects, sorted. Files that are still being written have other names.
fn loose_objects(objects: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for directory in fs::read_dir(objects)? {
        let directory = directory?.file_name();
        let Some(directory) = directory.to_str().filter(|name| name.len() == 2) else {
            continue;
        };
        let entries = match fs::read_dir(objects.join(directory)) {
            Ok(entries) => entries,
            // The last object of the directory was packed.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().map(|name| format!("{directory}/{name}"));
            names.extend(name.filter(|name| ObjectFile::is_valid_name(name)));
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn malformed(what: &Path) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{} is malformed", what.display()))
}

fn head(directory: &Path) -> io::Result<String> {
    let text = read_short(&directory.join("HEAD"))?;
    let name = std::str::from_utf8(&text).ok();
    let name = name.and_then(|text| text.trim_end().strip_prefix(HEAD_PREFIX));
    name.filter(|name| super::check_branch_name(name).is_ok())
        .map(str::to_owned)
        .ok_or_else(|| malformed(Path::new("HEAD")))
}

fn read_short(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_REF_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Returns all refs in the format of `packed-refs`. Loose refs are read first: one that is packed meanwhile is in the
/// file that is read afterwards. Starting Git for each repository of a large instance would take hours.
fn references(directory: &Path) -> io::Result<Vec<u8>> {
    let mut found = loose_references(directory)?;
    let packed = match fs::read(directory.join("packed-refs")) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        packed => packed?,
    };
    for (id, name) in lines(&packed) {
        let (id, name) = (id.to_owned(), name.to_owned());
        found.entry(name).or_insert(id);
    }
    let mut text = PACKED_REFS_HEADER.to_vec();
    for (name, id) in found {
        text.extend_from_slice(&[&id[..], b" ", &name, b"\n"].concat());
    }
    Ok(text)
}

fn loose_references(directory: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![(b"refs".to_vec(), 0)];
    while let Some((name, depth)) = pending.pop() {
        let path = directory.join(OsStr::from_bytes(&name));
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            // Git removes directories that become empty.
            Err(error) if error.kind() == ErrorKind::NotFound && depth > 0 => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = [&name[..], b"/", entry.file_name().as_bytes()].concat();
            let kind = entry.file_type()?;
            if kind.is_dir() && depth < MAX_REF_DEPTH {
                pending.push((name, depth + 1));
            } else if kind.is_file() && !name.ends_with(b".lock") {
                let text = match read_short(&entry.path()) {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    text => text?,
                };
                let id = text.trim_ascii();
                if !is_id(id) {
                    return Err(malformed(Path::new(OsStr::from_bytes(&name))));
                }
                found.insert(name, id.to_owned());
            }
        }
    }
    Ok(found)
}

/// Returns the IDs and names of the refs in the format of `packed-refs`.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let (id, name) = line.split_at_checked(ID_LENGTH)?;
        let name = name.strip_prefix(b" ")?;
        is_id(id).then_some((id, name))
    })
}

fn is_id(text: &[u8]) -> bool {
    text.len() == ID_LENGTH && text.iter().all(u8::is_ascii_hexdigit)
}

/// Checks that each line after the first is a ref.
fn check_references(text: &[u8]) -> Result<()> {
    let rest = text.strip_prefix(PACKED_REFS_HEADER);
    let rest = rest.ok_or(Error::InvalidReferenceName)?;
    let count = rest.iter().filter(|byte| **byte == b'\n').count();
    let is_ref = |name: &[u8]| {
        name.starts_with(b"refs/") && std::str::from_utf8(name).is_ok_and(git2::Reference::is_valid_name)
    };
    let valid = lines(rest).filter(|(_, name)| is_ref(name)).count();
    match valid == count && (rest.is_empty() || rest.ends_with(b"\n")) {
        true => Ok(()),
        false => Err(Error::InvalidReferenceName),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{FileVisitor, ObjectFile, RepositoryFiles, check_references};
    use crate::test_repository::TestRepository;
    use crate::testing::{self, Fixture};
    use crate::{Error, Repository, RepositoryId, RepositoryStore};

    /// Copies the files of objects to a directory.
    struct Copy(PathBuf);

    impl FileVisitor for Copy {
        fn visit(&mut self, file: &ObjectFile, path: &Path) -> io::Result<()> {
            let target = self.0.join(&file.name);
            fs::create_dir_all(target.parent().unwrap())?;
            if !target.exists() {
                fs::copy(path, target)?;
            }
            Ok(())
        }
    }

    async fn restore(
        store: &RepositoryStore,
        id: &RepositoryId,
        files: RepositoryFiles,
        copies: PathBuf,
    ) -> crate::Result<Repository> {
        let names: Vec<String> = files.objects.iter().map(|file| file.name.clone()).collect();
        let fill = move |objects: &Path| {
            for name in names {
                fs::copy(copies.join(&name), objects.join(&name))?;
            }
            Ok(())
        };
        store.create_from(id, files, fill).await?;
        Ok(store.repository(id))
    }

    #[tokio::test]
    async fn created_repository_has_all_refs_and_objects() {
        let sample = TestRepository::with_history();
        let tip = sample.id("main").to_string();
        sample.git(&["pack-refs", "--all"]);
        for name in [
            "refs/merge-requests/1/head",
            "refs/holdfast/hidden",
            "refs/heads/a/b/c",
            "refs/heads/main",
        ] {
            sample.git(&["update-ref", name, &tip]);
        }
        let copies = tempfile::tempdir().unwrap();
        let visitor = Copy(copies.path().to_owned());
        let (files, _) = sample.repository.visit_files(visitor).await.unwrap();
        let id = RepositoryId::of_project(77);
        let made = restore(&sample.store, &id, files.clone(), copies.path().to_owned()).await;
        let made = made.unwrap();
        assert_eq!(made.fsck().await.unwrap(), [""; 0]);
        let list = |path: PathBuf| testing::run(testing::command(&path, &["for-each-ref"]), b"");
        assert_eq!(list(made.path()), list(sample.repository.path()));
        assert_eq!(made.default_branch().await.unwrap(), "main");
        let again = restore(&sample.store, &id, files, copies.path().to_owned()).await;
        assert!(matches!(again, Err(Error::RepositoryExists)));
    }

    #[tokio::test]
    async fn malformed_names_and_refs_create_no_repository() {
        let fixture = Fixture::new("main").await;
        let head = "# pack-refs with: sorted \n";
        let id = "12".repeat(20);
        let files = |head: &str, references: String, name: &str| RepositoryFiles {
            head: head.to_owned(),
            references: references.into_bytes(),
            objects: vec![ObjectFile {
                name: name.to_owned(),
                size: 0,
                modified: 0,
                inode: 0,
            }],
        };
        let good = format!("12/{}", "34".repeat(19));
        for files in [
            files("../x", head.to_owned(), &good),
            files("main", String::new(), &good),
            files("main", format!("{head}{id} refs/heads/a..b\n"), &good),
            files("main", format!("{head}{id} HEAD\n"), &good),
            files("main", format!("{head}{id} refs/heads/a"), &good),
            files("main", format!("{head}12 refs/heads/a\n"), &good),
            files("main", head.to_owned(), "../../config"),
            files("main", head.to_owned(), "pack/pack-1.pack"),
            files("main", head.to_owned(), "info/alternates"),
        ] {
            let made = fixture
                .store
                .create_from(&RepositoryId::of_project(78), files, |_| Ok(()))
                .await;
            assert!(matches!(made, Err(Error::InvalidReferenceName)), "{made:?}");
        }
        assert!(check_references(format!("{head}{id} refs/heads/a\n").as_bytes()).is_ok());
        assert!(check_references(head.as_bytes()).is_ok());
    }

    #[tokio::test]
    async fn malformed_head_and_missing_repository_are_errors() {
        let fixture = Fixture::new("main").await;
        let visitor = || Copy(PathBuf::new());
        fs::write(fixture.repository.path().join("HEAD"), "ref: refs/heads/../x\n").unwrap();
        let error = fixture
            .repository
            .visit_files(visitor())
            .await
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains("HEAD is malformed"), "{error}");
        fixture.store.remove(&fixture.id).await.unwrap();
        let error = fixture.repository.visit_files(visitor()).await.map(drop);
        assert!(matches!(error, Err(Error::RepositoryMissing)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn files_that_are_read_during_writes_and_repacks_are_complete() {
        let fixture = Fixture::new("main").await;
        let repository = fixture.repository.clone();
        testing::commit(&repository, "main", &[("file", "first")]).await;
        let upkeep = testing::write_and_repack(&repository);
        let mut number = 5_000;
        loop {
            let last = upkeep.is_finished();
            let copies = tempfile::tempdir().unwrap();
            let (files, _) = repository
                .visit_files(Copy(copies.path().to_owned()))
                .await
                .unwrap();
            let id = RepositoryId::of_project(number);
            let made = restore(&fixture.store, &id, files, copies.path().to_owned()).await;
            assert_eq!(made.unwrap().fsck().await.unwrap(), [""; 0]);
            number += 1;
            if last {
                break;
            }
        }
        upkeep.await.unwrap();
    }
}
