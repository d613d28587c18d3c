use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::*;
use crate::test_repository::TestRepository;

/// Returns the values that `visit` passes on.
async fn collected<T: Clone + Send + 'static>(
    run: impl AsyncFnOnce(Arc<Mutex<Vec<T>>>) -> Result<Option<()>>,
) -> Result<Vec<T>> {
    let found: Arc<Mutex<Vec<T>>> = Arc::default();
    assert_eq!(run(Arc::clone(&found)).await?, None);
    let found = found.lock().unwrap().clone();
    Ok(found)
}

async fn commits(list: &NewCommitList) -> Result<Vec<NewCommit>> {
    collected(async |found| {
        list.commits(move |new| {
            found.lock().unwrap().push(new);
            ControlFlow::Continue(())
        })
        .await
    })
    .await
}

async fn files(list: &NewCommitList) -> Result<Vec<NewFile>> {
    collected(async |found| {
        list.files(move |new| {
            found.lock().unwrap().push(new);
            ControlFlow::Continue(())
        })
        .await
    })
    .await
}

fn new_objects(sample: &TestRepository, revision: &str) -> NewObjects {
    NewObjects::stored(sample.repository.clone(), &[sample.id(revision)])
}

/// Creates commits that no ref leads to, and returns the ID of the last one.
fn unreferenced(sample: &TestRepository, commands: &str) -> String {
    sample.import(commands.as_bytes());
    let id = sample.id("refs/heads/temporary").to_string();
    sample.git(&["update-ref", "-d", "refs/heads/temporary"]);
    id
}

/// Returns the start of a command that adds a commit to a branch.
fn commit(branch: &str, mark: &str) -> String {
    format!("commit refs/heads/{branch}\n{mark}committer T <t@example.com> 1700000000 +0000\ndata 2\nm\n")
}

#[tokio::test]
async fn only_commits_that_no_ref_of_clients_leads_to_are_new() {
    let sample = TestRepository::with_history();
    let list = new_objects(&sample, "main").list().await.unwrap();
    assert!(list.is_empty());
    assert!(commits(&list).await.unwrap().is_empty());
    assert!(files(&list).await.unwrap().is_empty());
    let main = sample.id("main");
    let id = unreferenced(
        &sample,
        &format!(
            "{}from {main}\nM 100644 inline new name\ndata 3\nabc\n",
            commit("temporary", "")
        ),
    );
    for reference in ["refs/merge-requests/1/head", "refs/keep-around/x"] {
        sample.git(&["update-ref", reference, &id]);
    }
    let list = new_objects(&sample, &id).list().await.unwrap();
    let found = commits(&list).await.unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|new| (new.commit.id.to_string(), new.is_signed))
        .collect();
    assert_eq!(shown, [(id.clone(), false)]);
    assert_eq!(
        found[0].commit,
        sample.repository.commit(sample.id(&id)).await.unwrap()
    );
    let added = files(&list).await.unwrap();
    let shown: Vec<_> = added
        .iter()
        .map(|file| (file.path.as_str(), file.is_added))
        .collect();
    assert_eq!(shown, [("new name", true)]);
    assert_eq!(list.blobs_above(2).await.unwrap(), HashSet::from([added[0].id]));
    assert_eq!(list.blobs_above(3).await.unwrap(), HashSet::new());
    for reference in ["refs/notes/x", "refs/heads/x", "refs/tags/x"] {
        sample.git(&["update-ref", reference, &id]);
        assert!(
            new_objects(&sample, &id).list().await.unwrap().is_empty(),
            "{reference}"
        );
        sample.git(&["update-ref", "-d", reference]);
    }
}

#[tokio::test]
async fn merge_has_only_files_that_differ_from_all_parents() {
    let sample = TestRepository::with_history();
    let main = sample.id("main");
    let (side, other, merge) = (
        commit("temporary", "mark :1\n"),
        commit("other", "mark :2\n"),
        commit("temporary", ""),
    );
    let commands = format!(
        "{side}from {main}\nM 100644 inline side\ndata 1\ns\n\
         {other}from {main}\nM 100644 inline other\ndata 1\no\n\
         {merge}from :1\nmerge :2\nM 100644 inline other\ndata 1\no\nM 100644 inline evil\ndata 1\ne\n\
         M 100644 inline side\ndata 1\nS\n"
    );
    sample.import(commands.as_bytes());
    let merge = sample.id("refs/heads/temporary").to_string();
    let parents = [sample.id("refs/heads/temporary^1"), sample.id("refs/heads/other")];
    for (name, id) in [("parent", parents[0]), ("other", parents[1])] {
        sample.git(&["update-ref", &format!("refs/heads/{name}"), &id.to_string()]);
    }
    sample.git(&["update-ref", "-d", "refs/heads/temporary"]);
    let list = new_objects(&sample, &merge).list().await.unwrap();
    assert_eq!(commits(&list).await.unwrap().len(), 1);
    let found = files(&list).await.unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|file| (file.path.as_str(), file.is_added))
        .collect();
    // `side` exists in one parent only.
    assert_eq!(shown, [("evil", true), ("side", false)]);
}

#[tokio::test]
async fn signature_and_visited_value_are_returned() {
    let sample = TestRepository::with_history();
    let tree = sample.git(&["rev-parse", "main^{tree}"]);
    let signed = format!(
        "tree {tree}author A <a@x> 1700000000 +0000\ncommitter A <a@x> 1700000000 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \
         \n =x\n -----END PGP SIGNATURE-----\n\nm\n"
    );
    let id = sample.git_stdin(
        &["hash-object", "-t", "commit", "-w", "--stdin"],
        signed.as_bytes(),
    );
    let list = new_objects(&sample, id.trim()).list().await.unwrap();
    let found = list
        .commits(|new| ControlFlow::Break(new.is_signed))
        .await
        .unwrap();
    assert_eq!(found, Some(true));
}

#[tokio::test]
async fn changed_paths_contain_both_paths_of_renamed_and_those_of_deleted_files() {
    let sample = TestRepository::empty();
    let first = commit("main", "") + "M 100644 inline a/x\ndata 1\n1\nM 100644 inline gone\ndata 1\n2\n";
    let second =
        commit("main", "") + "from refs/heads/main^0\nR a/x b/x\nD gone\nM 100644 inline new\ndata 1\n3\n";
    sample.import(first.as_bytes());
    let old = sample.id("main");
    sample.import(second.as_bytes());
    let new = sample.id("main");
    let objects = new_objects(&sample, "main");
    let expected = ["a/x", "b/x", "gone", "new"];
    assert_eq!(objects.changed_paths(old, new, 4).await.unwrap(), expected);
    // The commit need not be a descendant.
    assert_eq!(objects.changed_paths(new, old, 4).await.unwrap(), expected);
    assert_eq!(objects.changed_paths(new, new, 4).await.unwrap(), [""; 0]);
    let refused = objects.changed_paths(old, new, 3).await;
    assert!(matches!(refused, Err(Error::LimitExceeded(_))));
}

#[tokio::test]
async fn blob_of_a_tag_is_found_without_commits() {
    let sample = TestRepository::with_history();
    let id = sample.git_stdin(&["hash-object", "-w", "--stdin"], &[7; 2_000]);
    let id = Oid::from_str(id.trim()).unwrap();
    let list = NewObjects::stored(sample.repository.clone(), &[id])
        .list()
        .await
        .unwrap();
    assert!(list.is_empty());
    let found = list.blobs_above(1_999).await.unwrap();
    assert_eq!(found, HashSet::from([id]));
}

#[tokio::test]
async fn too_many_and_too_large_commits_are_refused() {
    let sample = TestRepository::empty();
    let id = unreferenced(&sample, &commit("temporary", "").repeat(MAX_NEW_COMMITS + 1));
    let refused = new_objects(&sample, &id).list().await;
    assert!(matches!(refused, Err(Error::LimitExceeded(text)) if text.contains("10,000")));
    let list = new_objects(&sample, &format!("{id}~1")).list().await.unwrap();
    assert_eq!(commits(&list).await.unwrap().len(), MAX_NEW_COMMITS);
    let message = "x".repeat(2 << 20);
    let large =
        commit("temporary", "").replace("data 2\nm\n", &format!("data {}\n{message}\n", message.len()));
    let id = unreferenced(&sample, &large);
    let list = new_objects(&sample, &id).list().await.unwrap();
    assert!(matches!(commits(&list).await, Err(Error::LimitExceeded(_))));
}

#[test]
fn truncated_output_is_no_list() {
    let stop = |_: NewCommit| ControlFlow::<()>::Continue(());
    for output in [
        &b"0123456789012345678901234567890123456789 commit 9\ntree"[..],
        b"0123456789012345678901234567890123456789 missing\n",
        b"x",
    ] {
        assert!(parse::commits(output, stop).is_err());
    }
    let visit = |_: NewFile| ControlFlow::<()>::Continue(());
    for output in [
        &b":100644 100644 a"[..],
        b":100644 100644 a b M\0",
        b":100644 100644 a b M\0path\0",
    ] {
        assert!(parse::files(output, visit).is_err());
    }
    assert!(parse::paths(&b":100644 100644 a b M\0"[..], 9).is_err());
    assert!(parse::blobs_above(&b"0123456789012345678901234567890123456789 blob 9"[..], 1).is_err());
}
