//! Concurrent merges and pushes: consistent outcomes without lost changes.

use serde_json::{Value, json};

use super::Fixture;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
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

on_every_database![
    concurrent_merges_of_one_merge_request_succeed_once,
    concurrent_merges_of_several_merge_requests_all_succeed,
    concurrent_pushes_to_target_and_merges_lose_no_commit,
    concurrent_pushes_to_source_and_merge_lose_no_commit,
];
