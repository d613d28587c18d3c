//! Branches, and `HEAD` as the name of the default branch.

use super::ref_locks;
use super::refs::{self, NameFilter, PageWindow};
use super::{Error, LockedRepository, Oid, Repository, Result, check_branch_name, revision};

/// Prefix of all branch refs.
pub(super) const PREFIX: &str = "refs/heads/";

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The name, without `refs/heads/`.
    pub name: String,
    /// The commit it points to.
    pub commit: Oid,
}

/// A page of branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchPage {
    /// The branches of the page, ordered by name.
    pub branches: Vec<Branch>,
    /// Number of branches on all pages.
    pub total: usize,
}

impl Repository {
    /// Returns the branches that match `search`, ordered by name. `^x` matches a prefix, `x$` a suffix, and
    /// other text matches anywhere.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn branches(&self, search: Option<&str>, window: PageWindow) -> Result<BranchPage> {
        let filter = NameFilter::new(search);
        self.git2(move |repository| {
            let found = refs::with_prefix(repository, PREFIX, &filter)?;
            let branches = window.of(&found).iter().map(|(name, commit)| Branch {
                name: name.clone(),
                commit: *commit,
            });
            Ok(BranchPage {
                branches: branches.collect(),
                total: found.len(),
            })
        })
        .await
    }

    /// Returns a branch by name.
    ///
    /// # Errors
    /// [`Error::InvalidReferenceName`] for an invalid name, [`Error::BranchNotFound`].
    pub async fn branch(&self, name: &str) -> Result<Branch> {
        check_branch_name(name)?;
        let name = name.to_owned();
        self.git2(move |repository| {
            let commit = tip(repository, &name)?.ok_or(Error::BranchNotFound)?;
            Ok(Branch { name, commit })
        })
        .await
    }

    /// As [`LockedRepository::create_branch`].
    ///
    /// # Errors
    /// As [`LockedRepository::create_branch`], and those of [`Self::lock`].
    pub async fn create_branch(&self, name: &str, revision: &str) -> Result<Branch> {
        check_branch_name(name)?;
        self.lock().await?.create_branch(name, revision).await
    }

    /// As [`LockedRepository::delete_branch`].
    ///
    /// # Errors
    /// As [`LockedRepository::delete_branch`], and those of [`Self::lock`].
    pub async fn delete_branch(&self, name: &str, expected: Option<Oid>) -> Result<Oid> {
        check_branch_name(name)?;
        self.lock().await?.delete_branch(name, expected).await
    }

    /// Returns the name of the default branch, which may not exist yet.
    ///
    /// # Errors
    /// [`Error::BranchNotFound`] if `HEAD` names no branch.
    pub async fn default_branch(&self) -> Result<String> {
        self.git2(|repository| head_branch(repository)?.ok_or(Error::BranchNotFound))
            .await
    }

    /// Returns the existing branch that can become the default branch, or `None` if the repository is empty. The branch
    /// of `HEAD` is preferred, then `main` and `master`, then the first branch.
    ///
    /// # Errors
    /// As [`Self::default_branch`], and failures of the repository.
    pub async fn preferred_branch(&self) -> Result<Option<String>> {
        if self.is_empty().await? {
            return Ok(None);
        }
        let head = self.default_branch().await?;
        for name in [head.as_str(), "main", "master"] {
            if self.branch(name).await.is_ok() {
                return Ok(Some(name.to_owned()));
            }
        }
        let first = self.branches(None, PageWindow { offset: 0, limit: 1 }).await?;
        Ok(first.branches.into_iter().next().map(|first| first.name))
    }

    /// As [`LockedRepository::set_default_branch`].
    ///
    /// # Errors
    /// As [`LockedRepository::set_default_branch`], and those of [`Self::lock`].
    pub async fn set_default_branch(&self, name: &str) -> Result<()> {
        self.lock().await?.set_default_branch(name).await
    }

    /// Checks that no other process has locked `HEAD`, by setting it to its own value.
    ///
    /// # Errors
    /// [`Error::Locked`] if `HEAD` or the repository is locked, and failures of the repository.
    pub async fn check_head_unlocked(&self) -> Result<()> {
        let locked = self.lock().await?;
        let check = |repository: &git2::Repository| match head_branch(repository)? {
            Some(name) => point_head(repository, &name),
            None => Ok(()),
        };
        locked.publish(check).await
    }

    /// Returns whether the repository has no branch.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn is_empty(&self) -> Result<bool> {
        self.git2(|repository| Ok(!has_branches(repository)?)).await
    }
}

impl LockedRepository {
    /// Sets the default branch. The branch must exist, unless the repository is empty.
    ///
    /// # Errors
    /// [`Error::InvalidReferenceName`], [`Error::BranchNotFound`].
    pub async fn set_default_branch(self, name: &str) -> Result<()> {
        check_branch_name(name)?;
        let name = name.to_owned();
        let publish = move |repository: &git2::Repository| {
            if tip(repository, &name)?.is_none() && has_branches(repository)? {
                return Err(Error::BranchNotFound);
            }
            point_head(repository, &name)
        };
        self.publish(publish).await
    }

    /// Creates a branch at the commit of a revision.
    ///
    /// # Errors
    /// [`Error::InvalidReferenceName`], [`Error::RevisionNotFound`], [`Error::ReferenceExists`].
    pub async fn create_branch(self, name: &str, revision: &str) -> Result<Branch> {
        check_branch_name(name)?;
        let (name, revision) = (name.to_owned(), revision.to_owned());
        self.publish(move |repository| {
            let commit = revision::resolve(repository, &revision)?;
            refs::create(repository, &format!("{PREFIX}{name}"), commit)?;
            Ok(Branch { name, commit })
        })
        .await
    }

    /// Deletes a branch and returns its last commit. If `expected` is given, the branch must point to it.
    ///
    /// # Errors
    /// [`Error::BranchNotFound`], [`Error::StaleReference`].
    pub async fn delete_branch(self, name: &str, expected: Option<Oid>) -> Result<Oid> {
        check_branch_name(name)?;
        let name = format!("{PREFIX}{name}");
        self.delete_ref(name, expected, Error::BranchNotFound).await
    }

    /// Deletes every branch whose commits are all in `into`, except `into` itself and branches for which
    /// `is_excluded` returns true. `is_excluded` must be a pure function because the repository is locked. Returns the
    /// deleted branches. A branch that moved concurrently stays.
    ///
    /// # Errors
    /// [`Error::BranchNotFound`] for `into`.
    pub async fn delete_merged_branches<K>(self, into: &str, is_excluded: K) -> Result<Vec<Branch>>
    where
        K: Fn(&str) -> bool + Send + 'static,
    {
        check_branch_name(into)?;
        let into = into.to_owned();
        let Self { repository, guard } = self;
        repository
            .blocking(move |opened| {
                let _guard = guard;
                let (base, candidates) = opened.with_git2(|repository| {
                    let base = tip(repository, &into)?.ok_or(Error::BranchNotFound)?;
                    let mut all = refs::with_prefix(repository, PREFIX, &NameFilter::new(None))?;
                    all.retain(|(name, _)| *name != into && !is_excluded(name));
                    Ok((base, all))
                })?;
                let tips: Vec<Oid> = candidates.iter().map(|(_, tip)| *tip).collect();
                let merged = opened.history.merged(opened.path(), base, &tips)?;
                opened.with_git2(|repository| {
                    let mut deleted = Vec::new();
                    for (name, commit) in candidates.into_iter().filter(|(_, tip)| merged.contains(tip)) {
                        match refs::delete(repository, &format!("{PREFIX}{name}"), commit) {
                            Ok(()) => deleted.push(Branch { name, commit }),
                            Err(Error::StaleReference) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(deleted)
                })
            })
            .await
    }
}

/// Returns the head commit of a branch.
pub(super) fn tip(repository: &git2::Repository, name: &str) -> Result<Option<Oid>> {
    refs::target(repository, &format!("{PREFIX}{name}"))
}

/// Returns the branch that `HEAD` names, which may not exist; `None` if it names no branch.
fn head_branch(repository: &git2::Repository) -> Result<Option<String>> {
    let head = repository.find_reference("HEAD")?;
    let name = head
        .symbolic_target()
        .ok()
        .flatten()
        .and_then(|name| name.strip_prefix(PREFIX));
    Ok(name.map(str::to_owned))
}

/// Returns whether the repository has a branch.
pub(super) fn has_branches(repository: &git2::Repository) -> Result<bool> {
    Ok(repository
        .references_glob(&format!("{PREFIX}*"))?
        .next()
        .is_some())
}

/// Points `HEAD` to a branch.
pub(super) fn point_head(repository: &git2::Repository, name: &str) -> Result<()> {
    ref_locks::retry_while_locked(repository, "HEAD", || {
        repository.set_head(&format!("{PREFIX}{name}"))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, Fixture};
    use crate::{Error, Oid, PageWindow};

    const ALL: PageWindow = PageWindow {
        offset: 0,
        limit: usize::MAX,
    };

    async fn names(fixture: &Fixture, search: Option<&str>, window: PageWindow) -> (Vec<String>, usize) {
        let page = fixture.repository.branches(search, window).await.unwrap();
        (
            page.branches.into_iter().map(|branch| branch.name).collect(),
            page.total,
        )
    }

    #[tokio::test]
    async fn branches_are_listed_by_name_with_search_and_page() {
        let fixture = Fixture::new("main").await;
        assert!(fixture.repository.is_empty().await.unwrap());
        testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        for name in ["zoo", "feature/b", "feature/a", "Fix"] {
            fixture.repository.create_branch(name, "main").await.unwrap();
        }
        fixture.git(&["pack-refs", "--all"]);
        fixture.repository.create_branch("loose", "main").await.unwrap();
        let all = ["Fix", "feature/a", "feature/b", "loose", "main", "zoo"];
        assert_eq!(
            names(&fixture, None, ALL).await,
            (all.map(str::to_owned).to_vec(), 6)
        );
        let page = names(&fixture, None, PageWindow { offset: 1, limit: 2 }).await;
        assert_eq!(page, (vec!["feature/a".to_owned(), "feature/b".to_owned()], 6));
        assert_eq!(names(&fixture, Some("^f"), ALL).await.1, 3);
        assert_eq!(names(&fixture, Some("o$"), ALL).await.0, ["zoo"]);
        assert!(!fixture.repository.is_empty().await.unwrap());
        fixture.fsck();
    }

    #[tokio::test]
    async fn create_branch_rejects_existing_and_invalid_names() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let result = repository.create_branch("x", "main").await;
        assert!(matches!(result, Err(Error::RevisionNotFound)));
        let commit = testing::commit(repository, "main", &[("a", "1")]).await;
        assert_eq!(
            repository.create_branch("a/b", "HEAD").await.unwrap().commit,
            commit
        );
        for existing in ["a/b", "a", "a/b/c", "main"] {
            let result = repository.create_branch(existing, "main").await;
            assert!(matches!(result, Err(Error::ReferenceExists)), "{existing}");
        }
        for invalid in ["a..b", "-x", "HEAD", "x.lock", "refs/heads/y", "", "a b"] {
            let result = repository.create_branch(invalid, "main").await;
            assert!(matches!(result, Err(Error::InvalidReferenceName)), "{invalid}");
            assert!(
                matches!(repository.branch(invalid).await, Err(Error::InvalidReferenceName)),
                "{invalid}"
            );
        }
        fixture.fsck();
    }

    #[tokio::test]
    async fn delete_branch_requires_expected_head() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let commit = testing::commit(repository, "main", &[("a", "1")]).await;
        for packed in [false, true] {
            repository.create_branch("deep/er/x", "main").await.unwrap();
            if packed {
                fixture.git(&["pack-refs", "--all"]);
            }
            let result = repository.delete_branch("deep/er/x", Some(Oid::ZERO_SHA1)).await;
            assert!(matches!(result, Err(Error::StaleReference)));
            assert_eq!(repository.delete_branch("deep/er/x", None).await.unwrap(), commit);
            assert!(matches!(
                repository.delete_branch("deep/er/x", None).await,
                Err(Error::BranchNotFound)
            ));
            // The name of a removed directory is free.
            repository.create_branch("deep", "main").await.unwrap();
            repository.delete_branch("deep", Some(commit)).await.unwrap();
        }
        assert_eq!(
            fixture.git(&["branch", "--format=%(refname)"]).trim(),
            "refs/heads/main"
        );
    }

    #[tokio::test]
    async fn check_head_unlocked_detects_lock_file_and_keeps_head() {
        let fixture = Fixture::new("main").await;
        testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        fixture.repository.check_head_unlocked().await.unwrap();
        let lock = fixture.repository.path().join("HEAD.lock");
        std::fs::write(&lock, "").unwrap();
        assert!(matches!(
            fixture.repository.check_head_unlocked().await,
            Err(Error::Locked)
        ));
        std::fs::remove_file(&lock).unwrap();
        assert_eq!(fixture.repository.default_branch().await.unwrap(), "main");
    }

    #[tokio::test]
    async fn damaged_packed_refs_are_never_read_as_empty() {
        let fixture = Fixture::new("main").await;
        std::fs::write(fixture.repository.path().join("packed-refs"), "no reference\n").unwrap();
        for _ in 0..3 {
            let branch = fixture.repository.branch("main").await;
            assert!(matches!(branch, Err(Error::Git2(_))), "{branch:?}");
        }
    }

    #[tokio::test]
    async fn set_default_branch_changes_head() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        assert_eq!(repository.default_branch().await.unwrap(), "main");
        repository.set_default_branch("early").await.unwrap();
        assert_eq!(repository.default_branch().await.unwrap(), "early");
        testing::commit(repository, "early", &[("a", "1")]).await;
        repository.create_branch("later", "early").await.unwrap();
        repository.set_default_branch("later").await.unwrap();
        assert_eq!(fixture.git(&["symbolic-ref", "HEAD"]).trim(), "refs/heads/later");
        assert!(matches!(
            repository.set_default_branch("nope").await,
            Err(Error::BranchNotFound)
        ));
        assert!(matches!(
            repository.set_default_branch("a..b").await,
            Err(Error::InvalidReferenceName)
        ));
    }

    #[tokio::test]
    async fn delete_merged_branches_skips_unmerged_and_excluded_branches() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        testing::commit(repository, "main", &[("a", "1")]).await;
        for name in ["old", "kept", "ahead"] {
            repository.create_branch(name, "main").await.unwrap();
        }
        testing::commit(repository, "main", &[("a", "2")]).await;
        repository.create_branch("same", "main").await.unwrap();
        testing::commit(repository, "ahead", &[("b", "1")]).await;
        let locked = repository.lock().await.unwrap();
        let deleted = locked
            .delete_merged_branches("main", |name| name == "kept")
            .await
            .unwrap();
        let deleted: Vec<String> = deleted.into_iter().map(|branch| branch.name).collect();
        assert_eq!(deleted, ["old", "same"]);
        assert_eq!(names(&fixture, None, ALL).await.0, ["ahead", "kept", "main"]);
        assert!(matches!(
            repository
                .lock()
                .await
                .unwrap()
                .delete_merged_branches("no", |_| false)
                .await,
            Err(Error::BranchNotFound)
        ));
    }
}
