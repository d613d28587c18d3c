//! References of merge requests: the head, the result of a merge, and the heads of former versions.

use crate::write::ObjectBatch;
use crate::{Error, Oid, Repository, Result, Signature, WriteGuard, commit, refs};

/// Attributes of the commit that a merge of a merge request would create.
#[derive(Debug, Clone)]
pub struct TestMerge {
    /// The IID of the merge request.
    pub iid: i64,
    /// The head of the target branch.
    pub target: Oid,
    /// The head of the merge request.
    pub head: Oid,
    /// The message of the commit.
    pub message: String,
    /// The author and committer of the commit.
    pub committer: Signature,
}

impl Repository {
    /// Sets the reference that preserves the head of a merge request for fetches, independent of its branch. If the new head
    /// does not contain the former head, another reference preserves the former head.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit is not in the repository.
    pub async fn set_merge_request_head(&self, iid: i64, head: Oid) -> Result<()> {
        loop {
            let former = self.merge_request_head(iid).await?;
            if former == Some(head) {
                return Ok(());
            }
            let replaced = match former {
                Some(former) if !self.is_ancestor(former, head).await? => Some(former),
                _ => None,
            };
            let guard = self.write_lock().await?;
            let is_set = self.git2(move |repository| {
                if refs::target(repository, &head_ref(iid))? != former {
                    return Ok(false);
                }
                commit::read(repository, head)?;
                if let Some(replaced) = replaced {
                    keep(repository, iid, replaced)?;
                }
                set(repository, &head_ref(iid), head, &guard)?;
                Ok(true)
            });
            // Otherwise another node has changed the reference since it was read.
            if is_set.await? {
                return Ok(());
            }
        }
    }

    /// Returns the target of that reference, if it exists.
    ///
    /// # Errors
    /// Failures of the repository.
    pub async fn merge_request_head(&self, iid: i64) -> Result<Option<Oid>> {
        self.git2(move |repository| refs::target(repository, &head_ref(iid)))
            .await
    }

    /// Returns whether a reference of a merge request preserves the head of a version.
    ///
    /// # Errors
    /// Failures of the repository.
    pub async fn has_merge_request_version(&self, iid: i64, head: Oid) -> Result<bool> {
        let names = vec![format!("{}{head}", version_prefix(iid)), head_ref(iid)];
        let [kept, current] = self.targets(names).await?[..] else {
            return Err(Error::Worker);
        };
        let Some(current) = current.filter(|_| kept.is_none()) else {
            return Ok(kept.is_some());
        };
        match self.is_ancestor(head, current).await {
            Err(Error::ObjectNotFound) => Ok(false),
            result => result,
        }
    }

    /// Preserves the head of a former version of a merge request.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit is not in the repository.
    pub async fn keep_merge_request_version(&self, iid: i64, head: Oid) -> Result<()> {
        let guard = self.write_lock().await?;
        self.git2(move |repository| {
            let _guard = guard;
            commit::read(repository, head)?;
            keep(repository, iid, head)
        })
        .await
    }

    /// Stores the commit that a merge would create, points `refs/merge-requests/:iid/merge` to it, and returns its ID. If the
    /// reference already leads to a merge of the same commits, nothing changes.
    ///
    /// # Errors
    /// [`Error::Conflict`]; [`Error::EmptyChange`] if the target contains the head; [`Error::ObjectNotFound`] if a commit is
    /// not in the repository; [`Error::Timeout`].
    pub async fn set_merge_request_merge(&self, merge: TestMerge) -> Result<Oid> {
        let (target, head) = (merge.target, merge.head);
        let name = merge_ref(merge.iid);
        if let Some(found) = self
            .targets(vec![name.clone()])
            .await?
            .into_iter()
            .flatten()
            .next()
            && self.commit(found).await?.parents == [target, head]
        {
            return Ok(found);
        }
        let bases = self.merge_bases(vec![target, head]).await?;
        if bases.contains(&head) {
            return Err(Error::EmptyChange);
        }
        let tree = self.merged_tree(target, head, &bases).await?;
        let guard = self.write_lock().await?;
        self.git2(move |repository| {
            let mut batch = ObjectBatch::default();
            let who = &merge.committer;
            let data = commit::serialize(tree, &[target, head], &merge.message, who, who);
            let id = batch.add(git2::ObjectType::Commit, data)?;
            batch.flush(repository)?;
            set(repository, &name, id, &guard)?;
            Ok(id)
        })
        .await
    }

    /// Removes all references of a merge request.
    ///
    /// # Errors
    /// Failures of the repository.
    pub async fn delete_merge_request_refs(&self, iid: i64) -> Result<()> {
        let guard = self.write_lock().await?;
        self.git2(move |repository| {
            let _guard = guard;
            let prefix = version_prefix(iid);
            let all = refs::NameFilter::new(None);
            let versions = refs::with_prefix(repository, &prefix, &all)?.into_iter();
            let mut found: Vec<_> = versions
                .map(|(name, id)| (format!("{prefix}{name}"), id))
                .collect();
            for name in [head_ref(iid), merge_ref(iid)] {
                let target = refs::target(repository, &name)?;
                found.extend(target.map(|target| (name, target)));
            }
            found
                .into_iter()
                .try_for_each(|(name, target)| refs::delete(repository, &name, target))
        })
        .await
    }
}

/// Points a reference to a commit. The guard shows that no other writer does so.
fn set(repository: &git2::Repository, name: &str, to: Oid, _guard: &WriteGuard) -> Result<()> {
    match refs::target(repository, name)? {
        None => refs::create(repository, name, to),
        Some(old) if old == to => Ok(()),
        Some(old) => refs::advance(repository, name, old, to),
    }
}

/// Preserves the head of a version, in the hidden namespace: clients do not fetch former versions.
fn keep(repository: &git2::Repository, iid: i64, head: Oid) -> Result<()> {
    let name = format!("{}{head}", version_prefix(iid));
    match refs::target(repository, &name)? {
        Some(_) => Ok(()),
        None => refs::create(repository, &name, head),
    }
}

fn head_ref(iid: i64) -> String {
    format!("refs/merge-requests/{iid}/head")
}

fn merge_ref(iid: i64) -> String {
    format!("refs/merge-requests/{iid}/merge")
}

fn version_prefix(iid: i64) -> String {
    format!("refs/keep-around/merge-requests/{iid}/")
}
