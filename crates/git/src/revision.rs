//! Resolution of revisions to commits.
//!
//! The grammar is deliberately small: a branch, a tag, or a full or short ID, followed by any number of `~n`
//! and `^n`. Reflogs and message searches are not supported, and no text is passed to another program.

use super::{Error, Oid, Repository, Result, object_memory, refs};

/// Maximum length of a revision in bytes.
const MAX_REVISION_BYTES: usize = 1024;

/// Maximum total number of steps to parents by `~n` and `^n`.
const MAX_STEPS: u32 = 10_000;

/// Maximum number of tags between a name and its commit.
const MAX_TAG_DEPTH: usize = 50;

/// Minimum number of hex digits of a short ID, as in `git`.
const MIN_ID_DIGITS: usize = 4;

impl Repository {
    /// Resolves a revision to a commit. A full ID comes first, so that no branch can pose as one. Then follow
    /// a branch, a tag, a reference under `refs/heads/` or `refs/tags/` with a full or partial prefix,
    /// `HEAD`, and a short ID.
    ///
    /// # Errors
    /// [`Error::RevisionNotFound`] if it matches no commit or several.
    pub async fn resolve_commit(&self, revision: &str) -> Result<Oid> {
        let revision = revision.to_owned();
        self.git2(move |repository| resolve(repository, &revision)).await
    }
}

/// Resolves a revision; see [`Repository::resolve_commit`].
pub(super) fn resolve(repository: &git2::Repository, revision: &str) -> Result<Oid> {
    if revision.len() > MAX_REVISION_BYTES {
        return Err(Error::RevisionNotFound);
    }
    let base_end = revision.find(['~', '^']).unwrap_or(revision.len());
    let (base, suffix) = revision.split_at(base_end);
    let base = resolve_name(repository, base)?;
    if suffix.is_empty() {
        Ok(base)
    } else {
        follow_suffix(repository, base, suffix)
    }
}

fn resolve_name(repository: &git2::Repository, name: &str) -> Result<Oid> {
    let is_hex = name.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex && name.len() == 40 {
        let id = Oid::from_str(name).map_err(|_| Error::RevisionNotFound)?;
        return peel(repository, id);
    }
    for full in candidates(name) {
        if let Some(target) = refs::target(repository, &full)? {
            return peel(repository, target);
        }
    }
    if is_hex && (MIN_ID_DIGITS..40).contains(&name.len()) {
        let prefix = Oid::from_str(name).map_err(|_| Error::RevisionNotFound)?;
        return match repository.odb()?.exists_prefix(prefix, name.len()) {
            Ok(id) => peel(repository, id),
            Err(error) => match error.code() {
                git2::ErrorCode::Ambiguous | git2::ErrorCode::NotFound => Err(Error::RevisionNotFound),
                _ => Err(error.into()),
            },
        };
    }
    Err(Error::RevisionNotFound)
}

/// Returns the full reference names that a name may mean, in order of precedence.
fn candidates(name: &str) -> Vec<String> {
    if name == "HEAD" {
        return vec!["HEAD".to_owned()];
    }
    let mut names = vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")];
    if name.starts_with("heads/") || name.starts_with("tags/") {
        names.push(format!("refs/{name}"));
    } else if name.starts_with("refs/heads/") || name.starts_with("refs/tags/") {
        names.push(name.to_owned());
    }
    names
}

/// Follows annotated tags from an object to a commit. The type of each object is checked before the object is read,
/// because an ID can be that of a large file.
pub(super) fn peel(repository: &git2::Repository, id: Oid) -> Result<Oid> {
    let odb = repository.odb()?;
    let mut next = id;
    for _ in 0..MAX_TAG_DEPTH {
        let (_, kind) = odb.read_header(next).map_err(|error| match error.code() {
            git2::ErrorCode::NotFound => Error::RevisionNotFound,
            _ => Error::Git2(error),
        })?;
        match kind {
            git2::ObjectType::Commit => {
                object_memory::check(repository, next)?;
                return Ok(next);
            }
            git2::ObjectType::Tag => {
                object_memory::check(repository, next)?;
                next = repository.find_tag(next)?.target_id();
            }
            _ => break,
        }
    }
    Err(Error::RevisionNotFound)
}

/// Follows `~n` (n times the first parent) and `^n` (the nth parent; `^0` is the commit itself) from a commit that
/// [`peel`] returned.
fn follow_suffix(repository: &git2::Repository, from: Oid, suffix: &str) -> Result<Oid> {
    let mut commit = from;
    let mut steps: u32 = 0;
    let mut rest = suffix;
    while let Some(operator) = rest.chars().next() {
        rest = rest.get(1..).unwrap_or_default();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        rest = after;
        let number: u32 = if number.is_empty() {
            1
        } else {
            number.parse().map_err(|_| Error::RevisionNotFound)?
        };
        let (times, parent) = match operator {
            '~' => (number, 0),
            '^' if number == 0 => (0, 0),
            '^' => (1, number as usize - 1),
            _ => return Err(Error::RevisionNotFound),
        };
        steps = steps.saturating_add(times);
        if steps > MAX_STEPS {
            return Err(Error::RevisionNotFound);
        }
        for _ in 0..times {
            // libgit2 reads the commit as a whole, so the size of each is checked first.
            let child = repository.find_commit(commit)?;
            let id = child.parent_id(parent).map_err(|_| Error::RevisionNotFound)?;
            commit = peel(repository, id)?;
        }
    }
    Ok(commit)
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, Fixture};
    use crate::{Error, OBJECT_TOO_LARGE};

    #[tokio::test]
    async fn revision_resolves_like_git() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let first = testing::commit(repository, "main", &[("a", "1")]).await;
        let second = testing::commit(repository, "main", &[("a", "2")]).await;
        fixture.git(&["branch", "feature/x", &first.to_string()]);
        fixture.git(&["tag", "light", &first.to_string()]);
        fixture.git(&["tag", "-a", "-m", "m", "heavy", &second.to_string()]);
        fixture.git(&["tag", "-a", "-m", "m", "heavier", "heavy"]);
        let short = &second.to_string()[..8];
        let mut tried = vec![
            "main",
            "HEAD",
            "feature/x",
            "light",
            "heavy",
            "heavier",
            "heads/main",
            "tags/heavy",
        ];
        tried.extend([
            "refs/heads/feature/x",
            "refs/tags/heavier",
            "main~1",
            "main^",
            "HEAD^0",
            "heavy~0",
            short,
        ]);
        for revision in tried {
            let expected = fixture.git(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")]);
            assert_eq!(
                repository.resolve_commit(revision).await.unwrap().to_string(),
                expected.trim(),
                "{revision}"
            );
        }
        let tag_object = fixture.git(&["rev-parse", "heavy"]);
        assert_eq!(
            repository.resolve_commit(tag_object.trim()).await.unwrap(),
            second
        );
        assert_eq!(
            repository
                .resolve_commit(&second.to_string().to_uppercase())
                .await
                .unwrap(),
            second
        );
    }

    #[tokio::test]
    async fn revision_prefers_full_id_then_branch_then_tag() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let first = testing::commit(repository, "main", &[("a", "1")]).await;
        let second = testing::commit(repository, "main", &[("a", "2")]).await;
        fixture.git(&["branch", "same", &first.to_string()]);
        fixture.git(&["tag", "same", &second.to_string()]);
        fixture.git(&["update-ref", &format!("refs/heads/{second}"), &first.to_string()]);
        assert_eq!(repository.resolve_commit("same").await.unwrap(), first);
        assert_eq!(repository.resolve_commit("tags/same").await.unwrap(), second);
        assert_eq!(
            repository.resolve_commit(&second.to_string()).await.unwrap(),
            second
        );
    }

    #[tokio::test]
    async fn parents_that_take_too_much_memory_are_not_read() {
        let fixture = Fixture::new("main").await;
        let first = testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let message = "x".repeat(13 << 20);
        let large = ["commit-tree", "main^{tree}", "-p", &first.to_string()];
        let large = fixture.git_stdin(&large, message.as_bytes());
        let last = fixture.git(&["commit-tree", "main^{tree}", "-p", large.trim(), "-m", "Last"]);
        fixture.git(&["update-ref", "refs/heads/main", last.trim()]);
        assert_eq!(
            fixture
                .repository
                .resolve_commit("main")
                .await
                .unwrap()
                .to_string(),
            last.trim()
        );
        for revision in ["main~1", "main~2", large.trim()] {
            let refused = fixture.repository.resolve_commit(revision).await;
            assert!(
                matches!(refused, Err(Error::LimitExceeded(OBJECT_TOO_LARGE))),
                "{revision}: {refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn revision_rejects_hidden_and_unsupported_names() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        assert!(matches!(
            repository.resolve_commit("HEAD").await,
            Err(Error::RevisionNotFound)
        ));
        let id = testing::commit(repository, "main", &[("a", "1")]).await;
        fixture.git(&["branch", "second", "main"]);
        testing::commit(repository, "second", &[("a", "2")]).await;
        fixture.git(&["update-ref", "refs/holdfast/hidden", &id.to_string()]);
        let tree = fixture.git(&["rev-parse", "main^{tree}"]);
        let many = format!("main{}", "^".repeat(2000));
        for revision in [
            "",
            "nope",
            "main~",
            "main~1",
            "main^2",
            "main~99999999999",
            "main~0~4294967295",
            "second~1~4294967295",
            "main^{tree}",
            "main^{/x}",
            "main@{0}",
            "@",
            "@{-1}",
            ":/commit",
            ":a",
            "main:a",
            "main..main",
            "--all",
            "-n",
            "main\0",
            "main\n",
            "../main",
            "refs/heads/../heads/main",
            "refs/holdfast/hidden",
            "holdfast/hidden",
            "abc",
            "0000000000000000000000000000000000000000",
            "deadbeef",
            tree.trim(),
            &many,
            &"x".repeat(5000),
        ] {
            let result = repository.resolve_commit(revision).await;
            assert!(
                matches!(result, Err(Error::RevisionNotFound)),
                "{revision:?} gave {result:?}"
            );
        }
    }
}
