//! Commits from actions on real repositories, checked by the `git` program.

mod races;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{BranchStart, CommitRequest, CommitResult, FileAction};
use crate::testing::{self, Fixture, signature};
use crate::{ActionError, Error, Oid, Repository, Result};

fn create(path: &str, content: &str) -> FileAction {
    FileAction::Create {
        path: path.into(),
        content: Bytes::copy_from_slice(content.as_bytes()),
    }
}

fn update(path: &str, content: &str) -> FileAction {
    FileAction::Update {
        path: path.into(),
        content: Bytes::copy_from_slice(content.as_bytes()),
        last_commit_id: None,
    }
}

fn rename(previous_path: &str, path: &str, content: Option<&str>) -> FileAction {
    FileAction::Move {
        path: path.into(),
        previous_path: previous_path.into(),
        content: content.map(|content| Bytes::copy_from_slice(content.as_bytes())),
        last_commit_id: None,
    }
}

fn delete(path: &str) -> FileAction {
    FileAction::Delete {
        path: path.into(),
        last_commit_id: None,
    }
}

fn chmod(path: &str, executable: bool) -> FileAction {
    FileAction::Chmod {
        path: path.into(),
        executable,
    }
}

fn request(branch: &str, actions: Vec<FileAction>) -> CommitRequest {
    CommitRequest {
        branch: branch.into(),
        start: BranchStart::Head,
        force: false,
        allow_empty: false,
        message: "Subject\n\nBody\n".into(),
        author: signature(),
        committer: signature(),
        actions,
    }
}

async fn commit(repository: &Repository, actions: Vec<FileAction>) -> Result<CommitResult> {
    repository.commit_actions(request("main", actions)).await
}

fn listing(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.git(&["ls-tree", "-r", "-z", "--format=%(objectmode) %(path)", "main"]);
    listed.split_terminator('\0').map(str::to_owned).collect()
}

#[tokio::test]
async fn commit_creates_same_objects_as_git() {
    let fixture = Fixture::new("main").await;
    let files = [
        ("a.txt", "2"),
        ("a/b", "3"),
        ("a-b", "4"),
        ("z/y/x/w", "5"),
        ("ä/日本", "6"),
    ];
    let actions = files
        .iter()
        .map(|(path, content)| create(path, content))
        .collect();
    let result = commit(&fixture.repository, actions).await.unwrap();

    let index = fixture.root.path().join("index");
    let git = |arguments: &[&str], input: &str| {
        let mut command = fixture.command(arguments);
        command.env("GIT_INDEX_FILE", &index);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), signature().name);
            command.env(format!("GIT_{role}_EMAIL"), signature().email);
            command.env(format!("GIT_{role}_DATE"), signature().time.to_rfc3339());
        }
        testing::run(command, input.as_bytes())
    };
    let mut info = String::new();
    for (path, content) in files {
        let id = git(&["hash-object", "-w", "--stdin"], content);
        info.push_str(&format!("100644 {}\t{path}\n", id.trim()));
    }
    git(&["update-index", "--index-info"], &info);
    let tree = git(&["write-tree"], "");
    let expected = git(&["commit-tree", tree.trim()], "Subject\n\nBody\n");
    assert_eq!(result.commit.to_string(), expected.trim());
    assert_eq!(fixture.git(&["rev-parse", "main"]), expected);
    fixture.fsck();
}

#[tokio::test]
async fn actions_apply_in_order() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let first = vec![
        create("/dir//run.sh", "x"),
        chmod("./dir/run.sh", true),
        create("b", ""),
        update("b", "bb"),
    ];
    commit(repository, first).await.unwrap();
    assert_eq!(listing(&fixture), ["100644 b", "100755 dir/run.sh"]);
    let second = vec![
        update("dir/run.sh", "y"),
        rename("dir/run.sh", "dir/run.sh/inner", None),
        rename("b", "deep/er/b", Some("")),
        create("b/c", "now a directory"),
        chmod("b/c", true),
        delete("deep/er/b"),
    ];
    commit(repository, second).await.unwrap();
    assert_eq!(listing(&fixture), ["100755 b/c", "100755 dir/run.sh/inner"]);
    assert_eq!(fixture.git(&["show", "main:dir/run.sh/inner"]), "y");
    let third = vec![
        rename("dir/run.sh/inner", "dir", None),
        delete("b/c"),
        chmod("dir", false),
    ];
    commit(repository, third).await.unwrap();
    assert_eq!(listing(&fixture), ["100644 dir"]);
    commit(repository, vec![delete("dir")]).await.unwrap();
    assert_eq!(
        fixture.git(&["rev-parse", "main^{tree}"]).trim(),
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    );
    fixture.fsck();
}

#[tokio::test]
async fn invalid_action_fails_without_changes() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let tip = testing::commit(repository, "main", &[("f", "1"), ("d/g", "2")]).await;
    let occupied = |path: &str| ActionError::PathOccupied(path.into());
    let invalid = |path: &str| ActionError::PathInvalid(path.into());
    for (action, expected) in [
        (create("f", "x"), ActionError::FileExists),
        (create("d/../f", "x"), ActionError::DirectoryTraversal),
        (create("//", "x"), ActionError::PathEmpty),
        (create("f/x", "x"), occupied("f/x")),
        (create("d", "x"), occupied("d")),
        (create("d/.GIT/hooks/x", "x"), invalid("d/.GIT/hooks/x")),
        (create("a\0b", "x"), invalid("a\0b")),
        (update("nope", "x"), ActionError::FileMissing),
        (update("d", "x"), ActionError::FileMissing),
        (update("f/x", "x"), ActionError::FileMissing),
        (delete("nope"), ActionError::FileMissing),
        (delete("d"), ActionError::FileMissing),
        (delete("../f"), ActionError::DirectoryTraversal),
        (chmod("nope", true), ActionError::FileMissing),
        (chmod("d", true), ActionError::FileMissing),
        (rename("nope", "x", None), ActionError::FileMissing),
        (rename("d", "x", None), ActionError::FileMissing),
        (rename("f", "d/g", None), ActionError::FileExists),
        (rename("f", "f", Some("x")), ActionError::FileExists),
        (rename("f", "d", None), occupied("d")),
        (rename("f", "d/g/h", None), occupied("d/g/h")),
        (rename("f", "git~1", None), invalid("git~1")),
        (rename("", "x", None), ActionError::PathEmpty),
    ] {
        let described = format!("{action:?}");
        match commit(repository, vec![create("new", "x"), action]).await {
            Err(Error::Action(found)) => assert_eq!(found, expected, "{described}"),
            other => panic!("{described} gave {other:?}"),
        }
    }
    assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), tip.to_string());
    fixture.fsck();
}

#[tokio::test]
async fn actions_preserve_type_of_symlinks_and_submodules() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    testing::commit(repository, "main", &[("f", "1")]).await;
    let target = fixture.git_stdin(&["hash-object", "-w", "--stdin"], b"f");
    let tip = fixture.git(&["rev-parse", "main"]);
    let listed = fixture.git(&["ls-tree", "main"])
        + &format!(
            "120000 blob {}\tlink\n160000 commit {}\tsub\n",
            target.trim(),
            tip.trim()
        );
    let tree = fixture.git_stdin(&["mktree"], listed.as_bytes());
    let tip = fixture.git(&["commit-tree", "-m", "m", "-p", "main", tree.trim()]);
    fixture.git(&["update-ref", "refs/heads/main", tip.trim()]);
    let rejected_actions = [
        chmod("link", true),
        rename("link", "x/.gitmodules", None),
        update("sub", "x"),
        chmod("sub", true),
        rename("sub", "x", None),
    ];
    for action in rejected_actions {
        let result = commit(repository, vec![action]).await;
        assert!(matches!(result, Err(Error::Action(_))), "{result:?}");
    }
    commit(
        repository,
        vec![update("link", "g"), rename("link", "moved", None), delete("sub")],
    )
    .await
    .unwrap();
    assert_eq!(listing(&fixture), ["100644 f", "120000 moved"]);
    fixture.fsck();
}

#[tokio::test]
async fn commit_rejects_submodules_that_fsck_rejects() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let valid = "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n";
    let harmful = "[submodule \"lib\"]\n\tpath = lib\n\turl = -u./run\n";
    let actions = vec![create(".gitmodules", valid), create("harmful", harmful)];
    commit(repository, actions).await.unwrap();
    let large = format!("{harmful}{}", "#\n".repeat(600_000));
    for actions in [
        vec![update(".gitmodules", harmful)],
        vec![update(".gitmodules", &large)],
        vec![create("a/.GitModules", harmful)],
        vec![rename("harmful", "a/gitmod~1", None)],
        vec![create("x", harmful), rename("x", "y/.gitmodules", None)],
        vec![rename("harmful", "z/.gitmodules", Some(harmful))],
    ] {
        let result = commit(repository, actions.clone()).await;
        assert!(
            matches!(result, Err(Error::Action(ActionError::SubmodulesInvalid(..)))),
            "{actions:?}: {result:?}"
        );
    }
    let actions = vec![
        update(
            ".gitmodules",
            "[submodule \"b\"]\n\turl = https://example.com/b\n",
        ),
        create("t/.gitmodules", harmful),
        delete("t/.gitmodules"),
    ];
    commit(repository, actions).await.unwrap();
    fixture.fsck();
}

#[tokio::test]
async fn first_commit_sets_default_branch() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let start = CommitRequest {
        start: BranchStart::Branch("main".into()),
        ..request("dev", vec![create("a", "1")])
    };
    assert!(matches!(
        repository.commit_actions(start).await,
        Err(Error::BranchNotFound)
    ));
    let result = repository
        .commit_actions(request("dev", vec![create("a", "1")]))
        .await
        .unwrap();
    assert_eq!((result.branch_created, result.old), (true, None));
    assert_eq!(repository.default_branch().await.unwrap(), "dev");
    assert!(repository.commit(result.commit).await.unwrap().parents.is_empty());
    // From here on a branch must exist, or the commit must start from another branch.
    let next = repository
        .commit_actions(request("main", vec![create("b", "1")]))
        .await;
    assert!(matches!(next, Err(Error::BranchNotFound)));
    fixture.fsck();
}

#[tokio::test]
async fn commit_uses_start_point_and_replaces_branch_only_with_force() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let first = testing::commit(repository, "main", &[("a", "1")]).await;
    let second = testing::commit(repository, "main", &[("a", "2")]).await;
    let from = |branch: &str, start: BranchStart, force: bool| CommitRequest {
        start,
        force,
        ..request(branch, vec![update("a", branch)])
    };
    let result = repository
        .commit_actions(from("new", BranchStart::Branch("main".into()), false))
        .await
        .unwrap();
    assert_eq!((result.branch_created, result.old), (true, None));
    assert_eq!(repository.commit(result.commit).await.unwrap().parents, [second]);
    let result = repository
        .commit_actions(from("old", BranchStart::Sha(first), false))
        .await
        .unwrap();
    assert_eq!(repository.commit(result.commit).await.unwrap().parents, [first]);

    for start in [BranchStart::Branch("main".into()), BranchStart::Sha(first)] {
        let result = repository.commit_actions(from("new", start, false)).await;
        assert!(matches!(result, Err(Error::ReferenceExists)));
    }
    let before = repository.branch("new").await.unwrap().commit;
    let result = repository
        .commit_actions(from("new", BranchStart::Sha(first), true))
        .await
        .unwrap();
    assert_eq!((result.branch_created, result.old), (false, Some(before)));
    assert_eq!(repository.commit(result.commit).await.unwrap().parents, [first]);
    // The branch itself as start point is the same as none, and force without a start point only appends.
    let result = repository
        .commit_actions(from("main", BranchStart::Branch("main".into()), false))
        .await
        .unwrap();
    assert_eq!(result.old, Some(second));
    let request = CommitRequest {
        force: true,
        ..request("main", vec![update("a", "forced")])
    };
    let appended = repository.commit_actions(request).await.unwrap();
    assert_eq!(
        repository.commit(appended.commit).await.unwrap().parents,
        [result.commit]
    );

    let missing = repository
        .commit_actions(from("x", BranchStart::Branch("nope".into()), false))
        .await;
    assert!(matches!(missing, Err(Error::BranchNotFound)));
    for id in [Oid::ZERO_SHA1, repository.commit(first).await.unwrap().tree] {
        let missing = repository
            .commit_actions(from("x", BranchStart::Sha(id), false))
            .await;
        assert!(matches!(missing, Err(Error::RevisionNotFound)));
    }
    let invalid = repository
        .commit_actions(from("a..b", BranchStart::Sha(first), false))
        .await;
    assert!(matches!(invalid, Err(Error::InvalidReferenceName)));
    let below = repository
        .commit_actions(from("main/x", BranchStart::Sha(first), false))
        .await;
    assert!(matches!(below, Err(Error::ReferenceExists)));
    fixture.fsck();
}

#[tokio::test]
async fn unchanged_tree_is_rejected_unless_allowed() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    assert!(matches!(
        commit(repository, vec![]).await,
        Err(Error::EmptyChange)
    ));
    assert!(repository.is_empty().await.unwrap());
    testing::commit(repository, "main", &[("a", "1")]).await;
    for actions in [
        vec![],
        vec![update("a", "1")],
        vec![create("b", ""), delete("b")],
        vec![chmod("a", false)],
    ] {
        assert!(matches!(
            commit(repository, actions).await,
            Err(Error::EmptyChange)
        ));
    }
    let allowed = CommitRequest {
        allow_empty: true,
        ..request("main", vec![])
    };
    repository.commit_actions(allowed).await.unwrap();
    fixture.fsck();
}

#[tokio::test]
async fn last_commit_id_must_match_last_change_of_file() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let first = testing::commit(repository, "main", &[("a", "1"), ("b", "1")]).await;
    let second = testing::commit(repository, "main", &[("b", "2")]).await;
    let with = |path: &str, last: Oid| FileAction::Update {
        path: path.into(),
        content: Bytes::from_static(b"new"),
        last_commit_id: Some(last.to_string()),
    };
    for (path, last) in [("a", second), ("b", first)] {
        // Checked before anything is applied: the first action would fail too.
        let result = commit(repository, vec![delete("nope"), with(path, last)]).await;
        let expected = ActionError::FileChanged(path.into());
        assert!(matches!(result, Err(Error::Action(found)) if found == expected));
    }
    commit(repository, vec![with("./a", first), with("b", second)])
        .await
        .unwrap();
    let moved = |last: Oid| FileAction::Move {
        path: "c".into(),
        previous_path: "b".into(),
        content: None,
        last_commit_id: Some(last.to_string()),
    };
    assert!(matches!(
        commit(repository, vec![moved(second)]).await,
        Err(Error::Action(_))
    ));
    let removed = |last: Oid| FileAction::Delete {
        path: "b".into(),
        last_commit_id: Some(last.to_string()),
    };
    assert!(matches!(
        commit(repository, vec![removed(second)]).await,
        Err(Error::Action(_))
    ));
    let tip = repository.branch("main").await.unwrap().commit;
    commit(repository, vec![moved(tip)]).await.unwrap();
    // A path without history has not changed.
    let fresh = commit(repository, vec![create("fresh", "x"), with("fresh", first)]).await;
    assert!(fresh.is_ok());
}

#[tokio::test]
async fn random_actions_match_map_model() {
    use rand::{RngExt, SeedableRng};
    let fixture = Fixture::new("main").await;
    let paths = ["a", "a/b", "a/b/c", "a/d", "a.x", "a0", "e/f/g", "e/f", "h"];
    const SEED: u64 = 20_261_121;
    let mut random = rand::rngs::StdRng::seed_from_u64(SEED);
    let mut model: BTreeMap<String, (bool, String)> = BTreeMap::new();
    let (mut committed, mut round) = (0, 0);
    while committed < 60 {
        round += 1;
        let mut next = model.clone();
        let mut actions = Vec::new();
        for step in 0..random.random_range(1..4) {
            let mut pick = || paths[random.random_range(0..paths.len())];
            let (path, other) = (pick(), pick());
            let content = format!("{round}.{step}");
            let kind = random.random_range(0..5);
            let free = |next: &BTreeMap<String, (bool, String)>, path: &str| {
                next.keys().all(|existing| {
                    existing != path
                        && !existing.starts_with(&format!("{path}/"))
                        && !path.starts_with(&format!("{existing}/"))
                })
            };
            actions.push(match kind {
                0 => create(path, &content),
                1 => update(path, &content),
                2 => rename(path, other, None),
                3 => delete(path),
                _ => chmod(path, step % 2 == 0),
            });
            let done = match kind {
                0 => free(&next, path) && next.insert(path.into(), (false, content)).is_none(),
                1 => next.get_mut(path).map(|file| file.1 = content).is_some(),
                2 => match next.remove(path) {
                    Some(file) => {
                        path != other && free(&next, other) && next.insert(other.into(), file).is_none()
                    }
                    None => false,
                },
                3 => next.remove(path).is_some(),
                _ => next.get_mut(path).map(|file| file.0 = step % 2 == 0).is_some(),
            };
            if !done {
                next.clear();
                next.insert("!".into(), (false, String::new()));
                break;
            }
        }
        let fails = next.contains_key("!");
        let described = format!("seed {SEED}: {actions:?} on {model:?}");
        match commit(&fixture.repository, actions).await {
            Ok(_) => {
                assert!(!fails, "{described}");
                model = next;
                committed += 1;
            }
            Err(Error::EmptyChange) => assert_eq!(next, model, "{described}"),
            Err(Error::Action(_)) => assert!(fails, "{described}"),
            Err(error) => panic!("{described}: {error}"),
        }
    }
    let mut expected: Vec<String> = Vec::new();
    for (path, (executable, content)) in &model {
        expected.push(format!(
            "{} {path}",
            if *executable { "100755" } else { "100644" }
        ));
        assert_eq!(fixture.git(&["show", &format!("main:{path}")]), *content);
    }
    let mut found = listing(&fixture);
    found.sort_by(|a, b| a[7..].cmp(&b[7..]));
    assert_eq!(found, expected);
    fixture.fsck();
}

#[tokio::test]
async fn commit_of_many_files_creates_one_pack() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    testing::commit(repository, "main", &[("d3/kept", "x")]).await;
    let paths: Vec<String> = (0..400).map(|n| format!("d{}/e{}/f{n}", n % 20, n % 7)).collect();
    let before = fixture.git(&["count-objects", "-v"]);
    commit(repository, paths.iter().map(|path| create(path, path)).collect())
        .await
        .unwrap();
    let after = fixture.git(&["count-objects", "-v"]);
    let count = |text: &str, field: &str| -> i32 {
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(": ").parse().unwrap()
    };
    assert_eq!(count(&after, "packs") - count(&before, "packs"), 1);
    assert_eq!(count(&after, "count"), count(&before, "count"));
    let mut expected: Vec<String> = paths.iter().map(|path| format!("100644 {path}")).collect();
    expected.push("100644 d3/kept".into());
    expected.sort();
    assert_eq!(listing(&fixture), expected);
    assert_eq!(fixture.git(&["show", "main:d9/e2/f9"]), "d9/e2/f9");
    fixture.fsck();
}
