//! Single commits, their refs and diffs, and access to them.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::projects::FeatureAccess;
use storage::entities::{AccessLevel, Visibility};

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn get_commit_returns_all_fields(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (id, parent) = (sample.id_of("ends-with.json"), sample.id_of("v1.0"));
    let path = format!("root/{}", sample.project().await.path);
    let mut expected = json!({
        "id": id,
        "short_id": id[..8],
        "created_at": "2020-01-03T12:00:00.000Z",
        "parent_ids": [parent],
        "title": "Greet the world",
        "message": "Greet the world\n\nAt last\n",
        "author_name": "Ada Lovelace",
        "author_email": "ada@example.com",
        "authored_date": "2020-01-03T12:00:00.000Z",
        "committer_name": "Ada Lovelace",
        "committer_email": "ada@example.com",
        "committed_date": "2020-01-03T12:00:00.000Z",
        "web_url": format!("{}/{path}/-/commit/{id}", server.backend.instance.base_url),
        "stats": { "additions": 2, "deletions": 1, "total": 3 },
        "status": null,
        "project_id": sample.id,
        "last_pipeline": null,
    });
    for revision in [id.as_str(), &id[..8], "ends-with.json", "main~1", "main^"] {
        let answer = server.root().get(&sample.commit(revision)).await.expect(200);
        assert_eq!(answer.json(), expected, "{revision}");
    }
    let bare = server.root().get(&format!("{}?stats=false", sample.commit(&id))).await.expect(200).json();
    expected.as_object_mut().expect("an object").remove("stats");
    assert_eq!(bare, expected);
}

async fn commit_stats_match_git_numstat(server: TestServer) {
    let sample = Sample::new(&server).await;
    for revision in ["v1.0", "v2.0", "topic"] {
        let answer = server.root().get(&sample.commit(revision)).await.expect(200).json();
        let parents = answer["parent_ids"].as_array().expect("parents").len();
        let base =
            if parents == 0 { "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned() } else { format!("{revision}^1") };
        let numbers = sample.git_raw(&["diff", "--numstat", &base, revision]);
        let column = |index: usize| {
            numbers.lines().filter_map(|line| line.split('\t').nth(index)?.parse::<u64>().ok()).sum::<u64>()
        };
        let (added, removed) = (column(0), column(1));
        assert_eq!(
            answer["stats"],
            json!({ "additions": added, "deletions": removed, "total": added + removed }),
            "{revision}"
        );
    }
}

async fn unknown_commit_returns_404_for_all_operations(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    for revision in
        ["unknown", "--output=x", "main:README.md", "0000000000000000000000000000000000000000", "main..topic"]
    {
        let url = sample.commit(revision);
        let body = json!({ "branch": "main", "note": "x" });
        for answer in [
            root.get(&url).await,
            root.get(&format!("{url}/refs")).await,
            root.get(&format!("{url}/sequence")).await,
            root.get(&format!("{url}/diff")).await,
            root.get(&format!("{url}/comments")).await,
            root.post(&format!("{url}/comments"), body.clone()).await,
            root.post(&format!("{url}/cherry_pick"), body.clone()).await,
            root.post(&format!("{url}/revert"), body.clone()).await,
        ] {
            assert_eq!(answer.expect(404).message(), "404 Commit Not Found", "{revision}");
        }
    }
    for bad in ["%00", "%ff"] {
        for suffix in ["", "/refs", "/sequence", "/diff", "/comments"] {
            root.get(&format!("{}/{bad}{suffix}", sample.commits())).await.expect(400);
        }
    }
    root.get(&format!("{}?stats=perhaps", sample.commit("main"))).await.expect(400);
}

async fn list_commit_refs_returns_branches_then_tags(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let url = format!("{}/refs", sample.commit("v1.0"));
    let names = |list: &[(&str, &str)]| {
        list.iter().map(|(kind, name)| json!({ "type": kind, "name": name })).collect::<Vec<_>>()
    };
    let (branches, tags) =
        ([("branch", "ends-with.json"), ("branch", "main"), ("branch", "topic")], [("tag", "v1.0"), ("tag", "v2.0")]);
    let all = [&branches[..], &tags[..]].concat();
    for (query, expected) in [
        ("", names(&all)),
        ("?type=all", names(&all)),
        ("?type=branch", names(&branches)),
        ("?type=tag", names(&tags)),
        ("?per_page=2&page=2", names(&all[2..4])),
    ] {
        assert_eq!(root.get(&format!("{url}{query}")).await.expect(200).json(), json!(expected), "{query}");
    }
    assert_eq!(root.get(&url).await.header("x-total"), "5");
    let fault = root.get(&format!("{url}?type=stash")).await.expect(400);
    assert_eq!(fault.message(), "type does not have a valid value");
    let on_topic = root.get(&format!("{}/refs?type=branch", sample.commit("topic"))).await.expect(200);
    assert_eq!(on_topic.pluck("name"), ["main", "topic"]);
}

async fn get_commit_diff_returns_one_entry_per_file(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let diff = root.get(&format!("{}/diff", sample.commit("ends-with.json"))).await.expect(200);
    assert_eq!(
        diff.json(),
        json!([{
            "old_path": "README.md", "new_path": "README.md", "a_mode": "100644", "b_mode": "100644",
            "new_file": false, "renamed_file": false, "deleted_file": false,
            "diff": "@@ -1,3 +1,4 @@\n # Title\n \n-Hello\n+Hello, world\n+Bye\n",
        }])
    );
    let first = root.get(&format!("{}/diff", sample.commit("v1.0"))).await.expect(200);
    let all = first.json();
    let of = |path: &str| {
        all.as_array().expect("a list").iter().find(|entry| entry["new_path"] == path).expect("an entry").clone()
    };
    assert_eq!(of("sub")["b_mode"], "160000");
    assert_eq!(of("link")["b_mode"], "120000");
    assert_eq!((of("empty")["a_mode"].clone(), of("empty")["diff"].clone()), (json!("0"), json!("")));
    assert_eq!(of("image.bin")["diff"], "Binary files /dev/null and b/image.bin differ\n");
    assert_eq!(first.header("x-total"), all.as_array().expect("a list").len().to_string());
    let merge = root.get(&format!("{}/diff", sample.commit("main"))).await.expect(200);
    assert_eq!(merge.pluck("new_path"), ["topic.txt"]);
    let paged = root.get(&format!("{}/diff?per_page=1&page=2", sample.commit("v1.0"))).await.expect(200);
    assert_eq!(paged.json(), json!([all[1]]));
}

async fn private_project_commits_require_reporter(server: TestServer) {
    let sample = Sample::new(&server).await;
    let stranger = sample.member(None).await;
    let guest = sample.member(Some(AccessLevel::Guest)).await;
    let reporter = sample.member(Some(AccessLevel::Reporter)).await;
    let scoped = sample.member_with_scopes(Some(AccessLevel::Reporter), &["read_repository"]).await;
    let commit = sample.commit("main");
    for url in [
        sample.commits(),
        commit.clone(),
        format!("{commit}/refs"),
        format!("{commit}/sequence"),
        format!("{commit}/diff"),
        format!("{commit}/comments"),
    ] {
        assert_eq!(stranger.get(&url).await.expect(404).message(), "404 Project Not Found");
        server.anonymous().get(&url).await.expect(404);
        server.with_token("unknown").get(&url).await.expect(401);
        guest.get(&url).await.expect(403);
        reporter.get(&url).await.expect(200);
        assert_eq!(scoped.get(&url).await.expect(403).json()["error"], "insufficient_scope");
    }
    sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    server.anonymous().get(&sample.commits()).await.expect(200);
    sample.update(|row| row.repository_access_level = Set(FeatureAccess::Disabled)).await;
    let off = reporter.get(&sample.commits()).await.expect(404);
    assert_eq!(off.message(), "404 Repository Not Found");
}

on_every_database![
    get_commit_returns_all_fields,
    commit_stats_match_git_numstat,
    unknown_commit_returns_404_for_all_operations,
    list_commit_refs_returns_branches_then_tags,
    get_commit_diff_returns_one_entry_per_file,
    private_project_commits_require_reporter,
];
