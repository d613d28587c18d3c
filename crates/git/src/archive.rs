//! Archives of a commit's files, streamed from `git archive`.

use std::time::Duration;

use bytes::Bytes;

use super::memory_budget::MemoryNeed;
use super::merge::EMPTY_TREE;
use super::process::Program;
use super::stream::{self, ByteStream};
use super::{Oid, Repository, Result, trees};

/// Time limit for creating and sending an archive.
const TIME_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// A plain tar file.
    Tar,
    /// A tar file compressed with gzip.
    TarGz,
    /// A tar file compressed with bzip2.
    TarBz2,
    /// A zip file.
    Zip,
}

impl ArchiveFormat {
    fn flag(self) -> &'static str {
        match self {
            // Git has no compressor for bzip2.
            Self::Tar | Self::TarBz2 => "--format=tar",
            Self::TarGz => "--format=tar.gz",
            Self::Zip => "--format=zip",
        }
    }
}

/// Parameters of an archive.
#[derive(Debug, Clone)]
pub struct ArchiveRequest {
    /// The commit that contains the files.
    pub commit: Oid,
    /// The format.
    pub format: ArchiveFormat,
    /// Directory that contains all files of the archive, without a trailing slash. Components that would
    /// leave it are dropped; empty means none.
    pub prefix: String,
    /// Literal path; only files at or below it are included.
    pub path: Option<String>,
    /// Literal paths; files at or below them are excluded. Paths that do not exist have no effect.
    pub excluded_paths: Vec<String>,
}

impl Repository {
    /// Streams an archive. Dropping the stream stops the program.
    ///
    /// # Errors
    /// [`super::Error::ObjectNotFound`] if the commit or the path does not exist, [`super::Error::Busy`] if
    /// too many transfers are running. The stream ends in an error if the program fails.
    pub async fn archive(&self, archive: ArchiveRequest) -> Result<ByteStream> {
        let path = archive.path.unwrap_or_default();
        let path = path.trim_matches('/');
        self.is_file(archive.commit, path).await?;
        let excluded: Vec<String> = archive
            .excluded_paths
            .iter()
            .filter_map(|path| entry_path(path))
            .collect();
        let all_excluded = self.contains_only(archive.commit, excluded.clone()).await?;
        let program = Program::new("archive")
            .flag(archive.format.flag())
            .option("--prefix=", &safe_prefix(&archive.prefix))
            .memory(MemoryNeed::Repository)
            .time_limit(TIME_LIMIT);
        let program = match all_excluded {
            // Git rejects a path that excludes all entries.
            true => program.id(Oid::from_str(EMPTY_TREE)?),
            false => {
                let program = program.id(archive.commit);
                let program = match path.is_empty() {
                    true => program,
                    false => program.path(path),
                };
                excluded.into_iter().fold(program, Program::excluded_path)
            }
        };
        let running = self.start_transfer(program).await?;
        let output = stream::output(self, running, Bytes::new());
        Ok(match archive.format {
            ArchiveFormat::TarBz2 => output.compressed_with_bzip2(),
            ArchiveFormat::Tar | ArchiveFormat::TarGz | ArchiveFormat::Zip => output,
        })
    }

    /// Returns whether all files of a commit are at or below one of several paths.
    async fn contains_only(&self, commit: Oid, paths: Vec<String>) -> Result<bool> {
        if paths.is_empty() {
            return Ok(false);
        }
        self.git2(move |repository| {
            let longest = paths.iter().map(String::len).max().unwrap_or_default();
            let mut tree = trees::root(repository, commit)?;
            let mut path = String::new();
            // Only the first directories can contain all files, and each of them has a single entry.
            while tree.len() == 1 && path.len() <= longest {
                let entry = tree.iter().next().map(|entry| {
                    let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
                    (name, entry.kind(), entry.id())
                });
                let Some((name, kind, id)) = entry else {
                    return Ok(false);
                };
                path.push_str(&name);
                if paths.contains(&path) {
                    return Ok(true);
                }
                if kind != Some(git2::ObjectType::Tree) {
                    return Ok(false);
                }
                path.push('/');
                tree = trees::find(repository, id)?;
            }
            Ok(false)
        })
        .await
    }
}

/// Returns a path without empty components, or none if no entry of a tree can have this path.
fn entry_path(path: &str) -> Option<String> {
    let components: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let exists = !components.is_empty() && !components.iter().any(|part| matches!(*part, "." | ".."));
    exists.then(|| components.join("/"))
}

/// Returns a relative directory with a trailing slash, or an empty string.
fn safe_prefix(prefix: &str) -> String {
    let parts = prefix.split('/').map(|part| part.replace(char::is_control, "_"));
    let components = parts.filter(|part| !matches!(part.as_str(), "" | "." | ".."));
    components.map(|part| part + "/").collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::Error;
    use crate::test_repository::TestRepository;

    fn archive(sample: &TestRepository, format: ArchiveFormat, path: Option<&str>) -> ArchiveRequest {
        ArchiveRequest {
            commit: sample.id("main"),
            format,
            prefix: "project-main".to_owned(),
            path: path.map(str::to_owned),
            excluded_paths: Vec::new(),
        }
    }

    async fn collected(sample: &TestRepository, archive: ArchiveRequest) -> Vec<u8> {
        sample
            .repository
            .archive(archive)
            .await
            .unwrap()
            .collect(1 << 24)
            .await
            .unwrap()
    }

    fn files_of(tar: impl Read) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        for entry in tar::Archive::new(tar).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if entry.header().entry_type().is_file() {
                files.push((name, content));
            }
        }
        files
    }

    #[tokio::test]
    async fn archive_formats_contain_all_files_of_commit() {
        let sample = TestRepository::with_history();
        let plain = files_of(&*collected(&sample, archive(&sample, ArchiveFormat::Tar, None)).await);
        let gz = collected(&sample, archive(&sample, ArchiveFormat::TarGz, None)).await;
        assert_eq!(files_of(flate2::read::GzDecoder::new(&*gz)), plain);
        let bz2 = collected(&sample, archive(&sample, ArchiveFormat::TarBz2, None)).await;
        assert_eq!(files_of(bzip2::read::BzDecoder::new(&*bz2)), plain);
        let zip = collected(&sample, archive(&sample, ArchiveFormat::Zip, None)).await;
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
        for (name, content) in &plain {
            let mut unzipped = Vec::new();
            zip.by_name(name).unwrap().read_to_end(&mut unzipped).unwrap();
            assert_eq!(unzipped, *content, "{name}");
            let path = name.strip_prefix("project-main/").unwrap();
            assert_eq!(
                String::from_utf8_lossy(content),
                sample.git(&["show", &format!("main:{path}")])
            );
        }
        assert!(plain.len() > 4);
    }

    #[tokio::test]
    async fn archive_path_restricts_files() {
        let sample = TestRepository::with_history();
        let tar = collected(&sample, archive(&sample, ArchiveFormat::Tar, Some("src/"))).await;
        let files = files_of(&*tar);
        assert!(
            !files.is_empty()
                && files
                    .iter()
                    .all(|(name, _)| name.starts_with("project-main/src/"))
        );
        let answer = sample
            .repository
            .archive(archive(&sample, ArchiveFormat::Tar, Some("absent")))
            .await;
        assert!(matches!(answer.err(), Some(Error::ObjectNotFound)));
    }

    #[tokio::test]
    async fn archive_excludes_literal_paths() {
        let sample = TestRepository::with_history();
        let names = async |path: Option<&str>, excluded: &[&str]| {
            let request = ArchiveRequest {
                excluded_paths: excluded.iter().map(ToString::to_string).collect(),
                ..archive(&sample, ArchiveFormat::Tar, path)
            };
            let files = files_of(&*collected(&sample, request).await);
            files.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let all = names(None, &[]).await;
        let outside: Vec<_> = all
            .iter()
            .filter(|name| !name.starts_with("project-main/src/"))
            .cloned()
            .collect();
        assert!(!outside.is_empty() && outside.len() < all.len());
        assert_eq!(names(None, &["/src/"]).await, outside);
        assert_eq!(names(Some("src"), &["src"]).await, [""; 0]);
        for ignored in [
            "absent",
            "*",
            "s?c",
            ":(glob)**",
            "..",
            "src/..",
            "./src",
            "/",
            "--help",
        ] {
            assert_eq!(names(None, &[ignored]).await, all, "{ignored}");
        }
        let top: Vec<&str> = all
            .iter()
            .filter_map(|name| name.strip_prefix("project-main/")?.split('/').next())
            .collect();
        assert_eq!(names(None, &top).await, [""; 0]);
    }

    #[test]
    fn entry_path_has_no_relative_components() {
        assert_eq!(entry_path("//a//b/"), Some("a/b".to_owned()));
        for absent in ["", "/", ".", "a/../b", "./a"] {
            assert_eq!(entry_path(absent), None, "{absent}");
        }
    }

    #[test]
    fn archive_prefix_loses_parent_directories() {
        assert_eq!(safe_prefix("a/../../b\n/./c/"), "a/b_/c/");
        assert_eq!(safe_prefix("/"), "");
    }
}
