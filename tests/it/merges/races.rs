//! Several who merge and push at once: one outcome, and no change is lost.

use serde_json::{Value, json};

use super::Scene;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

async fn of_many_who_merge_one_does(server: TestServer) {
    let scene = Scene::new(&server, "many").await;
    let url = scene.url("/merge_requests/1/merge");
    let all: Vec<_> = (0..8).map(|_| scene.root.put(&url, json!({}))).collect();
    let mut statuses: Vec<u16> = futures_util::future::join_all(all).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200);
    assert!(statuses[1..].iter().all(|status| [405, 406].contains(status)), "{statuses:?}");
    assert_eq!(scene.project.git(&["rev-list", "--count", "--merges", "main"]), "1");
    assert_eq!(scene.notes(1).await, ["merged"]);
    scene.project.fsck();
}

async fn many_are_merged_at_once_and_all_arrive(server: TestServer) {
    let scene = Scene::new(&server, "all").await;
    let mut iids = vec![1];
    for number in 0..6 {
        scene.branch(&format!("b{number}"), "main", &format!("b{number}.txt"), "b\n");
        iids.push(scene.propose(&format!("b{number}"), json!({})).await);
    }
    let merges = iids.iter().map(|iid| scene.merge(*iid, json!({})));
    for answer in futures_util::future::join_all(merges).await {
        answer.expect(200);
    }
    let names = scene.project.git(&["ls-tree", "--name-only", "main"]);
    for number in 0..6 {
        assert!(names.contains(&format!("b{number}.txt")), "{names}");
    }
    assert_eq!(scene.project.git(&["rev-list", "--count", "--merges", "main"]), "7");
    scene.project.fsck();
}

async fn pushes_to_the_target_meanwhile_lose_nothing(server: TestServer) {
    let scene = Scene::new(&server, "pushes").await;
    let mut iids = vec![1];
    for number in 0..5 {
        scene.branch(&format!("b{number}"), "main", &format!("b{number}.txt"), "b\n");
        iids.push(scene.propose(&format!("b{number}"), json!({})).await);
    }
    let pushing = async {
        let work = Work::empty();
        let url = address(&server.base, "root", ROOT_TOKEN, "root/pushes");
        work.git(&["clone", "--quiet", &url, "c"]).await;
        let copy = work.below("c");
        for number in 0..5 {
            copy.commit(&format!("p{number}.txt"), "p").await;
            let mut refused = 0;
            while !copy.run(&["push", "--quiet", "origin", "main"]).await.status.success() {
                refused += 1;
                assert!(refused < 100, "no push gets through");
                copy.git(&["pull", "--quiet", "--rebase", "origin", "main"]).await;
            }
        }
    };
    let merging = async {
        for iid in &iids {
            loop {
                let answer = scene.merge(*iid, json!({})).await;
                match answer.status {
                    200 => break,
                    // Pushes were faster time and again; that is for the caller to know.
                    status => assert_eq!(status, 409),
                }
            }
        }
    };
    tokio::join!(pushing, merging);
    let names = scene.project.git(&["ls-tree", "--name-only", "main"]);
    for number in 0..5 {
        for name in [format!("b{number}.txt"), format!("p{number}.txt")] {
            assert!(names.contains(&name), "{name}: {names}");
        }
    }
    for iid in iids {
        let read = scene.read(iid).await;
        assert_eq!(read["state"], "merged");
        let commit = read["merge_commit_sha"].as_str().expect("a commit");
        scene.project.git(&["merge-base", "--is-ancestor", commit, "main"]);
    }
    scene.project.fsck();
}

async fn a_push_to_the_source_meanwhile_is_merged_or_kept(server: TestServer) {
    let scene = Scene::new(&server, "source").await;
    let body = |number: i32| json!({"branch": "feature/x", "content": "1", "commit_message": format!("More {number}")});
    let url = |number: i32| scene.project.url(&format!("/files/more{number}"));
    let pushing = async {
        for number in 0..5 {
            scene.root.post(&url(number), body(number)).await.expect(201);
        }
    };
    let wanted = json!({"should_remove_source_branch": true});
    let merging = async {
        loop {
            let answer = scene.merge(1, wanted.clone()).await;
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
    scene.project.git(&["merge-base", "--is-ancestor", sha, "main"]);
    let left = scene.project.references("refs/heads/feature");
    let all = match left.is_empty() {
        true => scene.project.git(&["ls-tree", "--name-only", "main"]),
        false => scene.project.git(&["ls-tree", "--name-only", "feature/x"]),
    };
    for number in 0..5 {
        assert!(all.contains(&format!("more{number}")), "{all}");
    }
}

on_every_database![
    of_many_who_merge_one_does,
    many_are_merged_at_once_and_all_arrive,
    pushes_to_the_target_meanwhile_lose_nothing,
    a_push_to_the_source_meanwhile_is_merged_or_kept,
];
