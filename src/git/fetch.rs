//! Copying history from one repository of the store to another.

use std::time::Duration;

use super::process::Program;
use super::{Oid, Repository, Result};

/// How long one copy may take.
const TIME_LIMIT: Duration = Duration::from_secs(120);

impl Repository {
    /// Copies a commit and all it builds on from another repository. No reference is made: the caller builds on
    /// the commit before upkeep would drop what nothing refers to.
    ///
    /// # Errors
    /// [`super::Error::Program`] when the other repository has no such commit, [`super::Error::Timeout`].
    pub async fn copy_commit(&self, from: &Repository, commit: Oid) -> Result<()> {
        if self.path() == from.path() {
            return Ok(());
        }
        let program = Program::new("fetch")
            .flags(&[
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
                "--no-recurse-submodules",
            ])
            .path(from.path())
            .path(commit.to_string())
            .time_limit(TIME_LIMIT);
        self.run(program).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use crate::git::testing::Fixture;
    use crate::git::{Action, CommitRequest, Error, Oid, Signature, Start};

    fn request(start: Start) -> CommitRequest {
        let me = Signature::now("Ada", "ada@example.com");
        CommitRequest {
            branch: "main".to_owned(),
            start,
            force: false,
            allow_empty: false,
            message: "One".to_owned(),
            author: me.clone(),
            committer: me,
            actions: vec![Action::Create {
                path: "a".to_owned(),
                content: "a".into(),
            }],
        }
    }

    #[tokio::test]
    async fn copies_a_commit_that_can_then_be_built_on() {
        let (from, to) = (Fixture::new("main").await, Fixture::new("main").await);
        let made = from
            .repository
            .commit_actions(request(Start::Head))
            .await
            .unwrap();
        assert!(matches!(
            to.repository.commit(made.commit).await,
            Err(Error::ObjectNotFound)
        ));
        for _ in 0..2 {
            to.repository
                .copy_commit(&from.repository, made.commit)
                .await
                .unwrap();
        }
        assert_eq!(to.repository.commit(made.commit).await.unwrap().message, "One");
        assert!(to.repository.is_empty().await.unwrap());
        let unknown = to.repository.copy_commit(&from.repository, Oid::ZERO_SHA1).await;
        assert!(matches!(unknown, Err(Error::Program { .. })));
    }
}
