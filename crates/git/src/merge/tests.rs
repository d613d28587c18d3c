use super::{MergeMethod, MergeOptions, SquashCommit, TestMerge};
use crate::testing::{self, Fixture, signature};
use crate::{Commit, Error, Oid, Repository, RepositoryId, Signature};

fn lines(changed: usize, to: &str) -> String {
    let line = |line| {
        if line == changed {
            format!("{to}\n")
        } else {
            format!("line {line}\n")
        }
    };
    (0..20).map(line).collect()
}

/// Creates `main` and `side`, which changed different lines of one file.
async fn parted() -> (Fixture, Oid, Oid) {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    testing::commit(repository, "main", &[("f", &lines(99, ""))]).await;
    repository.create_branch("side", "main").await.unwrap();
    let main = testing::commit(repository, "main", &[("f", &lines(2, "early"))]).await;
    testing::commit(repository, "side", &[("f", &lines(17, "late"))]).await;
    let side = testing::commit(repository, "side", &[("new", "n")]).await;
    (fixture, main, side)
}

fn merge(head: Oid, method: MergeMethod, squash: Option<SquashCommit>) -> MergeOptions {
    MergeOptions {
        branch: "main".to_owned(),
        head,
        method,
        message: "Merge it".to_owned(),
        squash,
        committer: signature(),
    }
}

fn squash() -> SquashCommit {
    let author = Signature {
        name: "Grace".to_owned(),
        ..signature()
    };
    SquashCommit {
        message: "All at once".to_owned(),
        author,
    }
}

async fn tip(repository: &Repository, branch: &str) -> Commit {
    let id = repository.branch(branch).await.unwrap().commit;
    repository.commit(id).await.unwrap()
}

#[tokio::test]
async fn merge_commit_has_same_tree_as_git_and_both_parents() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    let expected = fixture.git(&["merge-tree", "--write-tree", "main", "side"]);
    assert!(repository.merges_cleanly(main, side).await.unwrap());
    let prepared = repository
        .prepare_merge(merge(side, MergeMethod::Merge, None))
        .await
        .unwrap();
    assert_eq!(tip(repository, "main").await.id, main);
    let (old, new) = (prepared.target.before(), prepared.target.after());
    assert_eq!(
        (old, Some(new), prepared.squash_commit),
        (main, prepared.merge_commit, None)
    );
    prepared.target.publish().await.unwrap();
    let head = tip(repository, "main").await;
    assert_eq!((head.id, head.tree.to_string().as_str()), (new, expected.trim()));
    assert_eq!(head.parents, [main, side]);
    assert_eq!(
        (head.message.as_str(), &head.author, &head.committer),
        ("Merge it", &signature(), &signature())
    );
    fixture.fsck();
    let again = repository
        .prepare_merge(merge(side, MergeMethod::Merge, None))
        .await;
    assert!(matches!(again, Err(Error::EmptyChange)));
}

#[tokio::test]
async fn squash_merge_adds_one_commit() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    let base = repository.merge_base(vec![main, side]).await.unwrap().unwrap();
    let expected = fixture.git(&["merge-tree", "--write-tree", "main", "side"]);
    let merged = repository
        .prepare_merge(merge(side, MergeMethod::Merge, Some(squash())))
        .await
        .unwrap();
    let one = merged.squash_commit.unwrap();
    merged.target.publish().await.unwrap();
    let head = tip(repository, "main").await;
    assert_eq!(
        (head.parents, head.tree.to_string().as_str()),
        (vec![main, one], expected.trim())
    );
    let one = repository.commit(one).await.unwrap();
    assert_eq!(
        (one.parents, one.tree),
        (vec![base], tip(repository, "side").await.tree)
    );
    assert_eq!(
        (one.author.name.as_str(), one.message.as_str()),
        ("Grace", "All at once")
    );
    fixture.fsck();
}

#[tokio::test]
async fn fast_forward_methods_reject_diverged_branches() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    for method in [MergeMethod::FastForward, MergeMethod::RebaseMerge] {
        for squash in [None, Some(squash())] {
            let result = repository.prepare_merge(merge(side, method, squash)).await;
            assert!(matches!(result, Err(Error::Diverged)));
        }
    }
    let rebased = repository
        .prepare_rebase("side", main, signature())
        .await
        .unwrap();
    let head = rebased.after();
    drop(rebased.publish().await.unwrap());
    let merged = repository
        .prepare_merge(merge(head, MergeMethod::RebaseMerge, None))
        .await
        .unwrap();
    let commit = merged.merge_commit.unwrap();
    drop(merged);
    assert_eq!(repository.commit(commit).await.unwrap().parents, [main, head]);
    let merged = repository
        .prepare_merge(merge(head, MergeMethod::FastForward, Some(squash())))
        .await
        .unwrap();
    assert_eq!(
        (merged.merge_commit, merged.squash_commit),
        (None, Some(merged.target.after()))
    );
    drop(merged);
    let merged = repository
        .prepare_merge(merge(head, MergeMethod::FastForward, None))
        .await
        .unwrap();
    assert_eq!((merged.merge_commit, merged.squash_commit), (None, None));
    merged.target.publish().await.unwrap();
    assert_eq!(tip(repository, "main").await.id, head);
    fixture.fsck();
}

#[tokio::test]
async fn merge_conflict_fails_without_changes() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    testing::commit(repository, "main", &[("f", "1\n")]).await;
    repository.create_branch("side", "main").await.unwrap();
    let main = testing::commit(repository, "main", &[("f", "2\n")]).await;
    let side = testing::commit(repository, "side", &[("f", "3\n")]).await;
    assert!(!repository.merges_cleanly(main, side).await.unwrap());
    let result = repository
        .prepare_merge(merge(side, MergeMethod::Merge, None))
        .await;
    assert!(matches!(result, Err(Error::Conflict)));
    let result = repository.prepare_rebase("side", main, signature()).await;
    assert!(matches!(result, Err(Error::Conflict)));
    assert_eq!(
        (tip(repository, "main").await.id, tip(repository, "side").await.id),
        (main, side)
    );
    let mut missing = merge(side, MergeMethod::Merge, None);
    missing.branch = "nope".to_owned();
    assert!(matches!(
        repository.prepare_merge(missing).await,
        Err(Error::BranchNotFound)
    ));
    fixture.fsck();
}

#[tokio::test]
async fn publish_fails_after_concurrent_push() {
    let (fixture, _, side) = parted().await;
    let repository = &fixture.repository;
    let prepared = repository
        .prepare_merge(merge(side, MergeMethod::Merge, None))
        .await
        .unwrap();
    let pushed = testing::commit(repository, "main", &[("pushed", "1")]).await;
    assert!(matches!(
        prepared.target.publish().await,
        Err(Error::StaleReference)
    ));
    assert_eq!(tip(repository, "main").await.id, pushed);
}

#[tokio::test]
async fn criss_cross_and_unrelated_histories_merge() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    testing::commit(repository, "main", &[("f", &lines(99, ""))]).await;
    repository.create_branch("side", "main").await.unwrap();
    let one = testing::commit(repository, "main", &[("f", &lines(2, "early"))]).await;
    let other = testing::commit(repository, "side", &[("f", &lines(17, "late"))]).await;
    let tree = fixture.git(&["merge-tree", "--write-tree", "main", "side"]);
    for (branch, parents) in [("main", [one, other]), ("side", [other, one])] {
        let [first, second] = parents.map(|id| id.to_string());
        let head = fixture.git(&[
            "commit-tree",
            "-m",
            branch,
            "-p",
            &first,
            "-p",
            &second,
            tree.trim(),
        ]);
        fixture.git(&["update-ref", &format!("refs/heads/{branch}"), head.trim()]);
    }
    let main = testing::commit(repository, "main", &[("m", "1")]).await;
    let side = testing::commit(repository, "side", &[("s", "1")]).await;
    assert_eq!(repository.merge_bases(vec![main, side]).await.unwrap().len(), 2);
    assert!(repository.merges_cleanly(main, side).await.unwrap());
    let apart = testing::commit(repository, "apart", &[("a", "1")]).await;
    assert!(repository.merges_cleanly(main, apart).await.unwrap());
    let clash = testing::commit(repository, "clash", &[("f", "other\n")]).await;
    assert!(!repository.merges_cleanly(main, clash).await.unwrap());
}

#[tokio::test]
async fn rebase_preserves_authors_and_drops_merges_and_duplicates() {
    let (fixture, main, _) = parted().await;
    let repository = &fixture.repository;
    // The same change as on `main`, a merge, and another change.
    testing::commit(
        repository,
        "side",
        &[("f", &{
            let both = lines(17, "late");
            both.replace("line 2\n", "early\n")
        })],
    )
    .await;
    repository.create_branch("twig", "side~1").await.unwrap();
    let twig = testing::commit(repository, "twig", &[("t", "1")]).await;
    let merged = repository
        .prepare_merge(MergeOptions {
            branch: "side".to_owned(),
            ..merge(twig, MergeMethod::Merge, None)
        })
        .await
        .unwrap();
    drop(merged.target.publish().await.unwrap());
    let last = testing::commit(repository, "side", &[("z", "1")]).await;
    let rebased = repository
        .prepare_rebase("side", main, signature())
        .await
        .unwrap();
    assert_eq!(rebased.before(), last);
    drop(rebased.publish().await.unwrap());
    let log = fixture.git(&["log", "--format=%an|%cn|%s|%p", "main..side"]);
    let rows: Vec<Vec<&str>> = log.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(rows.len(), 4, "{log}");
    for row in &rows {
        assert_eq!((row[0], row[1]), ("Fixture", "Ada Lövelace"));
        assert_eq!(row[3].split(' ').count(), 1, "{log}");
    }
    assert_eq!(
        fixture.git(&["diff", "--name-only", &last.to_string(), "side"]),
        ""
    );
    let done = repository.prepare_rebase("side", main, signature()).await;
    assert!(matches!(done, Err(Error::EmptyChange)));
    fixture.fsck();
}

#[tokio::test]
async fn rebase_and_cherry_pick_convert_messages_to_utf8() {
    let (fixture, main, _) = parted().await;
    let repository = &fixture.repository;
    let tree = fixture.git(&["rev-parse", "side^{tree}"]);
    let arguments = [
        "-c",
        "i18n.commitEncoding=windows-1251",
        "commit-tree",
        "-p",
        "side~1",
        tree.trim(),
    ];
    let commit = fixture.git_stdin(&arguments, b"\xcf\xf0\xe8\xe2\xe5\xf2\n");
    fixture.git(&["update-ref", "refs/heads/side", commit.trim()]);
    let change = Oid::from_str(commit.trim()).unwrap();
    repository.create_branch("pick", "main").await.unwrap();
    repository.cherry_pick(change, "pick", signature()).await.unwrap();
    let rebased = repository
        .prepare_rebase("side", main, signature())
        .await
        .unwrap();
    drop(rebased.publish().await.unwrap());
    for branch in ["pick", "side"] {
        assert_eq!(tip(repository, branch).await.title(), "Привет");
        let stored = fixture.git(&["cat-file", "commit", branch]);
        assert!(
            stored.contains("\n\nПривет\n") && !stored.contains("encoding"),
            "{stored}"
        );
    }
    fixture.fsck();
}

#[tokio::test]
async fn rebase_preserves_commits_without_a_change() {
    let (fixture, main, _) = parted().await;
    let repository = &fixture.repository;
    let commit = fixture.git(&[
        "commit-tree",
        "-m",
        "Start the build",
        "-p",
        "side",
        "side^{tree}",
    ]);
    fixture.git(&["update-ref", "refs/heads/side", commit.trim()]);
    let rebased = repository
        .prepare_rebase("side", main, signature())
        .await
        .unwrap();
    drop(rebased.publish().await.unwrap());
    let last = tip(repository, "side").await;
    assert_eq!(last.title(), "Start the build");
    let parent = repository.commit(last.parents[0]).await.unwrap();
    assert_eq!(parent.tree, last.tree);
    fixture.fsck();
}

#[tokio::test]
async fn merge_request_head_ref_is_created_and_deleted() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    for head in [side, main, main] {
        repository.set_merge_request_head(7, head).await.unwrap();
        let head_ref_target = fixture.git(&["rev-parse", "refs/merge-requests/7/head"]);
        assert_eq!(head_ref_target.trim(), head.to_string());
    }
    let missing = repository.set_merge_request_head(8, Oid::ZERO_SHA1).await;
    assert!(matches!(missing, Err(Error::ObjectNotFound)));
    for _ in 0..2 {
        repository.delete_merge_request_refs(7).await.unwrap();
    }
    for namespace in ["refs/merge-requests", "refs/keep-around"] {
        assert_eq!(fixture.git(&["for-each-ref", namespace]), "");
    }
    let other = fixture
        .store
        .create(&RepositoryId::of_project(8), "main")
        .await
        .unwrap();
    other.import_commit(repository, side).await.unwrap();
    other.set_merge_request_head(1, side).await.unwrap();
    testing::run(testing::command(&other.path(), &["fsck", "--strict"]), b"");
}

#[tokio::test]
async fn replaced_head_is_preserved_unless_the_new_head_contains_it() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    let kept = || fixture.git(&["for-each-ref", "--format=%(refname)", "refs/keep-around"]);
    repository.set_merge_request_head(7, main).await.unwrap();
    let next = testing::commit(repository, "main", &[("next", "n")]).await;
    repository.set_merge_request_head(7, next).await.unwrap();
    assert_eq!(kept(), "");
    repository.set_merge_request_head(7, side).await.unwrap();
    assert_eq!(kept().trim(), format!("refs/keep-around/merge-requests/7/{next}"));
    for _ in 0..2 {
        repository.keep_merge_request_version(71, main).await.unwrap();
    }
    let missing = repository.keep_merge_request_version(7, Oid::ZERO_SHA1).await;
    assert!(matches!(missing, Err(Error::ObjectNotFound)));
    repository.delete_merge_request_refs(7).await.unwrap();
    assert_eq!(
        kept().trim(),
        format!("refs/keep-around/merge-requests/71/{main}"),
        "other IID"
    );
}

#[tokio::test]
async fn concurrent_updates_of_a_head_preserve_all_heads() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    repository.set_merge_request_head(7, main).await.unwrap();
    let heads = [side, main, side, main, side];
    let updates = heads.map(|head| repository.set_merge_request_head(7, head));
    for result in futures_util::future::join_all(updates).await {
        result.unwrap();
    }
    let all = fixture.git(&[
        "for-each-ref",
        "--format=%(objectname)",
        "refs/keep-around",
        "refs/merge-requests",
    ]);
    for head in [main, side] {
        assert!(all.contains(&head.to_string()), "{all}");
    }
}

#[tokio::test]
async fn test_merge_is_repeatable_and_refuses_conflicts() {
    let (fixture, main, side) = parted().await;
    let repository = &fixture.repository;
    let merge = |target, head| TestMerge {
        iid: 7,
        target,
        head,
        message: "Merge".to_owned(),
        committer: signature(),
    };
    let first = repository
        .set_merge_request_merge(merge(main, side))
        .await
        .unwrap();
    let again = repository
        .set_merge_request_merge(merge(main, side))
        .await
        .unwrap();
    assert_eq!(first, again);
    assert_eq!(repository.commit(first).await.unwrap().parents, [main, side]);
    let target = fixture.git(&["rev-parse", "refs/merge-requests/7/merge"]);
    assert_eq!(target.trim(), first.to_string());
    let nothing = repository.set_merge_request_merge(merge(first, side)).await;
    assert!(matches!(nothing, Err(Error::EmptyChange)));
    let clash = testing::commit(repository, "main", &[("clash", "1")]).await;
    let other = testing::commit(repository, "side", &[("clash", "2")]).await;
    let conflict = repository.set_merge_request_merge(merge(clash, other)).await;
    assert!(matches!(conflict, Err(Error::Conflict)));
    let missing = repository
        .set_merge_request_merge(merge(main, Oid::ZERO_SHA1))
        .await;
    assert!(matches!(missing, Err(Error::ObjectNotFound)));
    repository.delete_merge_request_refs(7).await.unwrap();
    assert_eq!(fixture.git(&["for-each-ref", "refs/merge-requests"]), "");
    fixture.fsck();
}
