//! Concurrent writers in one process, in several processes, and with pushes.

use super::super::{Base, CommitRequest, CommitResult, ObjectBatch, build, publish};
use super::{commit, create, listing, request};
use crate::testing::{self, Fixture};
use crate::{Error, PageWindow, RepositoryStore, Result};

/// Runs the last part of a commit on a base that was determined earlier.
fn finish(git: &git2::Repository, request: &CommitRequest, base: &Base) -> Result<CommitResult> {
    let mut batch = ObjectBatch::default();
    let commit = build(git, request, base, &[], &mut batch)?;
    batch.flush(git)?;
    publish(git, &request.branch, base.old, base.parent, commit)
}

#[tokio::test]
async fn commit_fails_after_concurrent_push_and_preserves_it() {
    let fixture = Fixture::new("main").await;
    let repository = fixture.repository.clone();
    let first = testing::commit(&repository, "main", &[("a", "1")]).await;
    let base = repository
        .git2(|git| Base::find(git, &request("main", vec![])))
        .await
        .unwrap();
    let pushed = testing::commit(&repository, "main", &[("a", "2")]).await;
    let lost = repository
        .git2(move |git| {
            let request = CommitRequest {
                allow_empty: true,
                ..request("main", vec![])
            };
            finish(git, &request, &base)
        })
        .await;
    assert!(matches!(lost, Err(Error::StaleReference)));
    assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), pushed.to_string());

    let base = Base {
        parent: Some(pushed),
        old: Some(pushed),
    };
    fixture.git(&["update-ref", "-d", "refs/heads/main"]);
    let lost = repository
        .git2(move |git| {
            let request = CommitRequest {
                allow_empty: true,
                ..request("main", vec![])
            };
            finish(git, &request, &base)
        })
        .await;
    assert!(matches!(lost, Err(Error::StaleReference)));
    assert_eq!(fixture.git(&["for-each-ref"]), "");

    let base = repository
        .git2(|git| Base::find(git, &request("main", vec![])))
        .await
        .unwrap();
    fixture.git(&["update-ref", "refs/heads/main", &first.to_string()]);
    let lost = repository
        .git2(move |git| {
            let request = CommitRequest {
                allow_empty: true,
                ..request("main", vec![])
            };
            finish(git, &request, &base)
        })
        .await;
    assert!(matches!(lost, Err(Error::StaleReference)));
    fixture.fsck();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_commits_all_succeed() {
    let fixture = Fixture::new("main").await;
    testing::commit(&fixture.repository, "main", &[("start", "")]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..300 {
        let repository = fixture.repository.clone();
        tasks.spawn(async move {
            let path = format!("d{}/f{number}", number % 7);
            commit(&repository, vec![create(&path, &number.to_string())])
                .await
                .unwrap()
                .commit
        });
    }
    let commits = tasks.join_all().await;
    let history = fixture.git(&["rev-list", "main"]);
    assert_eq!(history.lines().count(), 301);
    assert!(commits.iter().all(|commit| history.contains(&commit.to_string())));
    let window = PageWindow { offset: 0, limit: 0 };
    let tip = fixture.repository.branch("main").await.unwrap().commit;
    assert_eq!(
        fixture
            .repository
            .tree(tip, "", true, window)
            .await
            .unwrap()
            .total,
        300 + 7 + 1
    );
    fixture.fsck();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_commits_of_several_processes_all_succeed() {
    let fixture = Fixture::new("main").await;
    let mut tasks = tokio::task::JoinSet::new();
    for process in 0..3 {
        // A separate store shares only the files with the others, like another process.
        let repository = RepositoryStore::new(fixture.root.path(), 2)
            .unwrap()
            .repository(&fixture.id);
        for number in 0..20 {
            let repository = repository.clone();
            tasks.spawn(async move {
                let path = format!("p{process}/f{number}");
                commit(&repository, vec![create(&path, &path)]).await.unwrap();
            });
        }
    }
    tasks.join_all().await;
    assert_eq!(fixture.git(&["rev-list", "--count", "main"]).trim(), "60");
    assert_eq!(listing(&fixture).len(), 60);
    fixture.fsck();
}
