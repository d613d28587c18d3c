//! Concurrent merges and pushes: consistent outcomes without lost changes.

use domain::code::ref_updates::{UpdateAuthority, update_refs};
use domain::kernel::ref_changes::{RefChange, RefUpdate};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::merge_requests;
use storage::entities::ref_updates::RefUpdateKind;

use super::Fixture;
use crate::support::git::{Work, address};
use crate::support::server::{ROOT_TOKEN, with_more_connections};
use crate::support::{TestServer, on_every_database};

async fn concurrent_merges_of_one_merge_request_succeed_once(server: TestServer) {
    let fixture = Fixture::new(&server, "many").await;
    let url = fixture.url("/merge_requests/1/merge");
    let all: Vec<_> = (0..8).map(|_| fixture.root.put(&url, json!({}))).collect();
    let mut statuses: Vec<u16> = futures_util::future::join_all(all).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200);
    assert!(statuses[1..].iter().all(|status| [405, 406].contains(status)), "{statuses:?}");
    assert_eq!(fixture.project.git(&["rev-list", "--count", "--merges", "main"]), "1");
    assert_eq!(fixture.notes(1).await, ["merged"]);
    fixture.project.fsck();
}

async fn concurrent_merges_of_several_merge_requests_all_succeed(server: TestServer) {
    let fixture = Fixture::new(&server, "all").await;
    let mut iids = vec![1];
    for number in 0..6 {
        fixture.branch(&format!("b{number}"), "main", &format!("b{number}.txt"), "b\n");
        iids.push(fixture.propose(&format!("b{number}"), json!({})).await);
    }
    let merges = iids.iter().map(|iid| fixture.merge(*iid, json!({})));
    for answer in futures_util::future::join_all(merges).await {
        answer.expect(200);
    }
    let names = fixture.project.git(&["ls-tree", "--name-only", "main"]);
    for number in 0..6 {
        assert!(names.contains(&format!("b{number}.txt")), "{names}");
    }
    assert_eq!(fixture.project.git(&["rev-list", "--count", "--merges", "main"]), "7");
    fixture.project.fsck();
}

async fn concurrent_pushes_to_target_and_merges_lose_no_commit(server: TestServer) {
    let fixture = Fixture::new(&server, "pushes").await;
    let mut iids = vec![1];
    for number in 0..5 {
        fixture.branch(&format!("b{number}"), "main", &format!("b{number}.txt"), "b\n");
        iids.push(fixture.propose(&format!("b{number}"), json!({})).await);
    }
    let pushing = async {
        let work = Work::empty();
        let url = address(&server.base, "root", ROOT_TOKEN, "root/pushes");
        work.git(&["clone", "--quiet", &url, "c"]).await;
        let copy = work.below("c");
        for number in 0..5 {
            copy.commit(&format!("p{number}.txt"), "p").await;
            let mut rejected = 0;
            while !copy.run(&["push", "--quiet", "origin", "main"]).await.status.success() {
                rejected += 1;
                assert!(rejected < 100, "no push succeeds");
                copy.git(&["pull", "--quiet", "--rebase", "origin", "main"]).await;
            }
        }
    };
    let merging = async {
        for iid in &iids {
            loop {
                let answer = fixture.merge(*iid, json!({})).await;
                match answer.status {
                    200 => break,
                    // The branch changed on every attempt, so the caller has to retry.
                    status => assert_eq!(status, 409),
                }
            }
        }
    };
    tokio::join!(pushing, merging);
    let names = fixture.project.git(&["ls-tree", "--name-only", "main"]);
    for number in 0..5 {
        for name in [format!("b{number}.txt"), format!("p{number}.txt")] {
            assert!(names.contains(&name), "{name}: {names}");
        }
    }
    for iid in iids {
        let read = fixture.read(iid).await;
        assert_eq!(read["state"], "merged");
        let commit = read["merge_commit_sha"].as_str().expect("a commit");
        fixture.project.git(&["merge-base", "--is-ancestor", commit, "main"]);
    }
    fixture.project.fsck();
}

async fn concurrent_pushes_to_source_and_merge_lose_no_commit(server: TestServer) {
    let fixture = Fixture::new(&server, "source").await;
    let body = |number: i32| json!({"branch": "feature/x", "content": "1", "commit_message": format!("More {number}")});
    let url = |number: i32| fixture.project.url(&format!("/files/more{number}"));
    let pushing = async {
        for number in 0..5 {
            fixture.root.post(&url(number), body(number)).await.expect(201);
        }
    };
    let params = json!({"should_remove_source_branch": true});
    let merging = async {
        loop {
            let answer = fixture.merge(1, params.clone()).await;
            match answer.status {
                200 => break answer.json(),
                status => assert_eq!(status, 409),
            }
        }
    };
    let ((), merged) = tokio::join!(pushing, merging);
    server.finish_jobs().await;
    let merged: &Value = &merged["sha"];
    let sha = merged.as_str().expect("a head");
    fixture.project.git(&["merge-base", "--is-ancestor", sha, "main"]);
    let remaining = fixture.project.references("refs/heads/feature");
    let all = match remaining.is_empty() {
        true => fixture.project.git(&["ls-tree", "--name-only", "main"]),
        false => fixture.project.git(&["ls-tree", "--name-only", "feature/x"]),
    };
    for number in 0..5 {
        assert!(all.contains(&format!("more{number}")), "{all}");
    }
}

/// Stores the plan of a merge into `main`, as the server does before the branch moves. Returns the ID of the merge
/// request and the merge commit.
async fn store_plan(server: &TestServer, fixture: &Fixture<'_>) -> (i64, String) {
    let project = &fixture.project;
    let tree = project.git(&["merge-tree", "--write-tree", "main", "feature/x"]);
    let tip = project.git(&["commit-tree", &tree, "-p", "main", "-p", "feature/x", "-m", "Merge"]);
    let plan = json!({
        "head": project.id("feature/x"), "tip": tip, "merge_commit_sha": tip, "squash_commit_sha": null,
        "remove_source_branch": false,
        "target": {"branch": "main", "base": project.id("main~1"), "start": project.id("main")},
    });
    let found = merge_requests::by_iid(project.id, 1).one(server.backend.database.read()).await;
    let id = found.expect("a query").expect("a merge request").id;
    let params = Set(Some(plan.to_string()));
    let row = merge_requests::ActiveModel { id: Set(id), merge_params: params, ..Default::default() };
    row.update(server.backend.database.write()).await.expect("a change");
    (id, tip)
}

/// Moves `main` and records the merge, as the server does after it stored the plan.
async fn publish(server: &TestServer, fixture: &Fixture<'_>, id: i64, tip: &str) {
    let oid = |text: &str| git::Oid::from_str(text).expect("an id");
    let project = &fixture.project;
    let change = RefChange::branch("main", Some(oid(&project.id("main"))), Some(oid(tip)));
    project.git(&["update-ref", "refs/heads/main", tip]);
    let update = RefUpdate { merges: Some(id), ..RefUpdate::new(project.id, Some(1), RefUpdateKind::Api) };
    let authority = UpdateAuthority::Server(vec!["refs/heads/main".to_owned()]);
    let recorded = update_refs(&server.backend, update, authority, async move { Ok(((), vec![change])) });
    recorded.await.expect("a ref update");
}

async fn merge_request_that_changes_during_its_merge_is_merged(server: TestServer) {
    for case in ["closed", "retargeted", "orphaned"] {
        let fixture = Fixture::new(&server, case).await;
        let head = fixture.project.id("feature/x");
        let (id, tip) = store_plan(&server, &fixture).await;
        let one = fixture.url("/merge_requests/1");
        match case {
            "closed" => drop(fixture.root.put(&one, json!({"state_event": "close"})).await.expect(200)),
            "retargeted" => drop(fixture.root.put(&one, json!({"target_branch": "merged"})).await.expect(200)),
            _ => drop(fixture.root.delete(&fixture.project.url("/branches/feature%2Fx")).await.expect(204)),
        }
        publish(&server, &fixture, id, &tip).await;
        server.finish_jobs().await;
        let read = fixture.read(1).await;
        assert_eq!((&read["state"], &read["target_branch"]), (&json!("merged"), &json!("main")), "{case}");
        assert_eq!((&read["sha"], &read["merge_commit_sha"]), (&json!(head), &json!(tip)), "{case}");
        assert_eq!(
            (&read["merged_by"]["username"], &read["closed_by"], &read["closed_at"]),
            (&json!("root"), &Value::Null, &Value::Null),
            "{case}"
        );
        assert_eq!(fixture.notes(1).await.last().map(String::as_str), Some("merged"), "{case}");
        let events = fixture.root.get(&fixture.url("/events?target_type=merge_request&action=merged")).await;
        assert_eq!(events.expect(200).pluck("target_iid"), [json!(1)], "{case}");
    }
}

async fn merge_and_concurrent_close_agree(server: TestServer) {
    let fixture = Fixture::new(&server, "agreed").await;
    for number in 0..8 {
        let branch = format!("c{number}");
        let path = format!("{branch}.txt");
        fixture.branch(&branch, "main", &path, "c\n");
        let iid = fixture.propose(&branch, json!({})).await;
        let one = fixture.url(&format!("/merge_requests/{iid}"));
        let close = fixture.root.put(&one, json!({"state_event": "close"}));
        let (merged, _) = tokio::join!(fixture.merge(iid, json!({})), close);
        let is_merged = fixture.project.git(&["ls-tree", "--name-only", "main"]).contains(&path);
        assert_eq!(merged.status == 200, is_merged, "{number}: {}", merged.status);
        let state = if is_merged { "merged" } else { "closed" };
        assert_eq!(fixture.read(iid).await["state"], state, "{number}");
    }
}

async fn target_branch_that_changes_while_automatic_merge_is_enabled_returns_409(server: TestServer) {
    if !server.locks_rows() {
        return;
    }
    let fixture = Fixture::new(&server, "redirected").await;
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    let found = merge_requests::by_iid(fixture.project.id, 1).one(server.backend.database.read()).await;
    let id = found.expect("a query").expect("a merge request").id;
    // The request reads the row before this change is committed, and locks it afterwards.
    let transaction = server.backend.database.begin().await.expect("a transaction");
    let target_branch = Set("merged".to_owned());
    let row = merge_requests::ActiveModel { id: Set(id), target_branch, ..Default::default() };
    row.update(&transaction).await.expect("a change");
    let enable = fixture.merge(1, json!({"merge_when_pipeline_succeeds": true}));
    let (response, ()) = tokio::join!(enable, server.commit_when_awaited(transaction));
    assert_eq!(response.expect(409).message(), "The target branch has changed");
    let read = fixture.read(1).await;
    assert_eq!((&read["target_branch"], &read["merge_when_pipeline_succeeds"]), (&json!("merged"), &json!(false)));
}

on_every_database![
    concurrent_merges_of_one_merge_request_succeed_once,
    concurrent_merges_of_several_merge_requests_all_succeed,
    concurrent_pushes_to_target_and_merges_lose_no_commit,
    concurrent_pushes_to_source_and_merge_lose_no_commit,
    merge_request_that_changes_during_its_merge_is_merged,
    merge_and_concurrent_close_agree,
    target_branch_that_changes_while_automatic_merge_is_enabled_returns_409 with with_more_connections(),
];
