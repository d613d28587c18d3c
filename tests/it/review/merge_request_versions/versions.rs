//! Creation of versions, and their contents.

use std::time::Duration;

use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{merge_request_commits, merge_request_versions};

use super::{Fixture, values};
use crate::support::git::{Work, address};
use crate::support::{TestServer, on_every_database};

async fn merge_request_has_a_first_version(server: TestServer) {
    let fixture = Fixture::new(&server, "first").await;
    let merge_request = fixture.get("").await;
    let versions = fixture.root.get(&fixture.url("/versions")).await.expect(200);
    assert_eq!(versions.header("X-Total"), "1");
    let version = &versions.json()[0];
    assert_eq!(
        *version,
        json!({
            "id": version["id"],
            "head_commit_sha": fixture.project.id("feature/x"),
            "base_commit_sha": fixture.project.id("main~1"),
            "start_commit_sha": fixture.project.id("main"),
            "created_at": merge_request["created_at"],
            "merge_request_id": merge_request["id"],
            "state": "collected",
            "real_size": "1",
        })
    );
    let one = fixture.get(&format!("/versions/{}", version["id"])).await;
    assert_eq!(values(&one["commits"], "id"), [json!(fixture.project.id("feature/x"))]);
    let diff = json!({
        "old_path": "x.txt", "new_path": "x.txt", "a_mode": "0", "b_mode": "100644", "new_file": true,
        "renamed_file": false, "deleted_file": false, "diff": "@@ -0,0 +1 @@\n+x\n", "collapsed": false,
        "too_large": false,
    });
    assert_eq!(one["diffs"], json!([diff]));
    for (name, value) in version.as_object().expect("an object") {
        assert_eq!(one[name], *value, "{name}");
    }
    let with_paths = fixture.get(&format!("/versions/{}?unidiff=true", version["id"])).await;
    assert_eq!(with_paths["diffs"][0]["diff"], "--- /dev/null\n+++ b/x.txt\n@@ -0,0 +1 @@\n+x\n");
    fixture.check_diff_refs().await;
}

async fn each_push_creates_a_version_that_survives_force_pushes(server: TestServer) {
    let fixture = Fixture::new(&server, "pushed").await;
    let first = fixture.project.id("feature/x");
    fixture.copy.commit("two.txt", "2").await;
    let second = fixture.push().await;
    // Two pushes before any job runs: the version in between never is the head that a job stores.
    fixture.copy.git(&["reset", "--quiet", "--hard", "origin/main"]).await;
    fixture.copy.commit("between.txt", "b").await;
    let between = fixture.push().await;
    fixture.copy.git(&["reset", "--quiet", "--hard", "origin/main"]).await;
    fixture.copy.commit("last.txt", "l").await;
    let last = fixture.push().await;
    server.finish_jobs().await;
    let versions = fixture.get("/versions").await;
    let heads = [&last, &between, &second, &first].map(|id| json!(id));
    assert_eq!(values(&versions, "head_commit_sha"), heads);
    assert_eq!(values(&versions, "real_size"), ["1", "1", "2", "1"].map(|size| json!(size)));
    let main = fixture.project.id("main");
    let bases = [&main, &main, &fixture.project.id("main~1"), &fixture.project.id("main~1")].map(|id| json!(id));
    assert_eq!(values(&versions, "base_commit_sha"), bases);
    fixture.check_diff_refs().await;

    // Objects without references are deleted.
    fixture.project.git(&["reflog", "expire", "--expire=now", "--all"]);
    fixture.project.git(&["gc", "--quiet", "--prune=now"]);
    for (version, files) in versions.as_array().expect("a list").iter().zip([
        vec!["last.txt"],
        vec!["between.txt"],
        vec!["two.txt", "x.txt"],
        vec!["x.txt"],
    ]) {
        let one = fixture.get(&format!("/versions/{}", version["id"])).await;
        assert_eq!(values(&one["diffs"], "new_path"), files.iter().map(|path| json!(path)).collect::<Vec<_>>());
        assert_eq!(one["commits"][0]["id"], version["head_commit_sha"]);
    }
    // The current head contains none of the former heads.
    let kept = fixture.project.references("refs/keep-around/merge-requests/1");
    let mut expected = [&first, &second, &between].map(|id| format!("merge-requests/1/{id}"));
    expected.sort();
    assert_eq!(kept, expected);
    let listed = fixture.copy.git(&["ls-remote", "origin"]).await;
    assert!(!listed.contains("keep-around"), "{listed}");
}

async fn version_is_collected_by_the_first_read_without_a_job(server: TestServer) {
    let fixture = Fixture::new(&server, "early").await;
    let main = fixture.project.id("main");
    // The merge base moves as well.
    fixture.copy.git(&["merge", "--quiet", "--no-edit", "origin/main"]).await;
    let head = fixture.push().await;
    let newest = fixture.get("/versions").await[0].clone();
    assert_eq!(
        (&newest["head_commit_sha"], &newest["base_commit_sha"], &newest["real_size"]),
        (&json!(head), &json!(main), &json!("1"))
    );
    fixture.check_diff_refs().await;
    fixture.copy.commit("more", "m").await;
    fixture.push().await;
    let unread = merge_request_versions::Entity::find()
        .filter(merge_request_versions::Column::Collected.eq(false))
        .one(server.backend.database.read())
        .await
        .expect("versions")
        .expect("a version");
    let one = fixture.get(&format!("/versions/{}", unread.id)).await;
    assert_eq!(one["real_size"], "2");
    let before = server.statements();
    fixture.get("/versions").await;
    assert!(server.statements() - before <= 4, "{:?}", server.statement_texts(before));
}

async fn push_records_the_version_in_its_transaction(server: TestServer) {
    let fixture = Fixture::new(&server, "atomic").await;
    fixture.copy.commit("two", "2").await;
    let head = fixture.push().await;
    let found = merge_request_versions::Entity::find()
        .filter(merge_request_versions::Column::HeadSha.eq(head))
        .count(server.backend.database.read())
        .await;
    assert_eq!(found.expect("a count"), 1);
    // A push to another branch creates none.
    fixture.copy.git(&["push", "--quiet", "origin", "HEAD:other"]).await;
    assert_eq!(values(&fixture.get("/versions").await, "id").len(), 2);
}

async fn empty_version_has_the_state_empty(server: TestServer) {
    let fixture = Fixture::new(&server, "empty").await;
    fixture.copy.git(&["reset", "--quiet", "--hard", "origin/main"]).await;
    fixture.copy.git(&["commit", "--quiet", "--allow-empty", "-m", "nothing"]).await;
    fixture.push().await;
    let newest = fixture.get("/versions").await[0].clone();
    assert_eq!((&newest["state"], &newest["real_size"]), (&json!("empty"), &json!("0")));
    let one = fixture.get(&format!("/versions/{}", newest["id"])).await;
    assert_eq!((&one["diffs"], values(&one["commits"], "title")), (&json!([]), vec![json!("nothing")]));
}

async fn new_target_and_reopening_create_versions_if_commits_differ(server: TestServer) {
    let fixture = Fixture::new(&server, "targets").await;
    let update = |body: Value| {
        let (root, url) = (fixture.root.clone(), fixture.url(""));
        async move { root.put(&url, body).await.expect(200) }
    };
    update(json!({"target_branch": "merged"})).await;
    let versions = fixture.get("/versions").await;
    assert_eq!(values(&versions, "start_commit_sha"), ["merged", "main"].map(|name| json!(fixture.project.id(name))));
    fixture.check_diff_refs().await;
    update(json!({"title": "Other"})).await;
    update(json!({"state_event": "close"})).await;
    update(json!({"state_event": "reopen"})).await;
    assert_eq!(values(&fixture.get("/versions").await, "id").len(), 2, "the same commits");
    update(json!({"state_event": "close"})).await;
    fixture.copy.commit("two", "2").await;
    let head = fixture.push().await;
    assert_eq!(values(&fixture.get("/versions").await, "id").len(), 2, "a closed merge request");
    update(json!({"state_event": "reopen"})).await;
    let versions = fixture.get("/versions").await;
    assert_eq!((values(&versions, "id").len(), &versions[0]["head_commit_sha"]), (3, &json!(head)));
    fixture.check_diff_refs().await;
}

async fn merge_preserves_the_versions(server: TestServer) {
    let fixture = Fixture::new(&server, "merged").await;
    let head = fixture.project.id("feature/x");
    let body = json!({"should_remove_source_branch": true});
    fixture.root.put(&fixture.url("/merge"), body).await.expect(200);
    server.finish_jobs().await;
    let versions = fixture.get("/versions").await;
    assert_eq!(values(&versions, "head_commit_sha"), [json!(head)]);
    fixture.check_diff_refs().await;
    let one = fixture.get(&format!("/versions/{}", versions[0]["id"])).await;
    assert_eq!(values(&one["diffs"], "new_path"), [json!("x.txt")]);
}

async fn versions_of_forks_are_stored_in_the_target(server: TestServer) {
    let fixture = Fixture::new(&server, "origin").await;
    let project = fixture.project.id;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{project}/fork"), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let url = address(&server.base, "ada", &ada.token, fork["path_with_namespace"].as_str().expect("a path"));
    let work = Work::empty();
    work.git(&["clone", "--quiet", &url, "c"]).await;
    let copy = work.below("c");
    copy.git(&["checkout", "--quiet", "-b", "own", "origin/main"]).await;
    let first = copy.commit("one.txt", "1").await;
    copy.git(&["push", "--quiet", "origin", "own"]).await;
    let body = json!({"source_branch": "own", "target_branch": "main", "target_project_id": project, "title": "t"});
    let created = ada.client.post(&format!("/projects/{}/merge_requests", fork["id"]), body).await.expect(201).json();
    for name in ["two.txt", "three.txt"] {
        copy.git(&["reset", "--quiet", "--hard", "origin/main"]).await;
        copy.commit(name, name).await;
        copy.git(&["push", "--quiet", "--force", "origin", "own"]).await;
    }
    server.finish_jobs().await;
    fixture.root.delete(&format!("/projects/{}", fork["id"])).await.expect(202);
    server.finish_jobs().await;
    let path = format!("/projects/{project}/merge_requests/{}/versions", created["iid"]);
    let versions = fixture.root.get(&path).await.expect(200).json();
    assert_eq!(values(&versions, "real_size"), ["1", "1", "1"].map(|size| json!(size)));
    assert_eq!(versions[2]["head_commit_sha"], json!(first));
    for (version, name) in versions.as_array().expect("a list").iter().zip(["three.txt", "two.txt", "one.txt"]) {
        let one = fixture.root.get(&format!("{path}/{}", version["id"])).await.expect(200).json();
        assert_eq!(values(&one["diffs"], "new_path"), [json!(name)]);
    }
}

async fn version_without_stored_commits_has_no_size(server: TestServer) {
    let fixture = Fixture::new(&server, "lost").await;
    let project = fixture.project.id;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{project}/fork"), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let commit = |content: &str| {
        json!({
            "branch": "own", "start_branch": "main", "force": true, "commit_message": "m",
            "actions": [{"action": "create", "file_path": "own.txt", "content": content}],
        })
    };
    let commits = format!("/projects/{}/repository/commits", fork["id"]);
    ada.client.post(&commits, commit("1")).await.expect(201);
    let body = json!({"source_branch": "own", "target_branch": "main", "target_project_id": project, "title": "t"});
    let created = ada.client.post(&format!("/projects/{}/merge_requests", fork["id"]), body).await.expect(201).json();
    ada.client.post(&commits, commit("2")).await.expect(201);
    // The repository is removed before the job that stores the second version.
    let id = ::git::RepositoryId::of_project(fork["id"].as_i64().expect("an id"));
    server.backend.repositories.remove(&id).await.expect("a removal");
    let path = format!("/projects/{project}/merge_requests/{}/versions", created["iid"]);
    let versions = fixture.root.get(&path).await.expect(200).json();
    assert_eq!(values(&versions, "real_size"), [Value::Null, json!("1")]);
    let missing = fixture.root.get(&format!("{path}/{}", versions[0]["id"])).await.expect(404);
    assert_eq!(missing.message(), "404 Commit Not Found");
}

async fn deleted_merge_request_leaves_no_rows_and_refs(server: TestServer) {
    let fixture = Fixture::new(&server, "gone").await;
    fixture.copy.git(&["reset", "--quiet", "--hard", "origin/main"]).await;
    fixture.copy.commit("other", "o").await;
    fixture.push().await;
    fixture.get("/versions").await;
    fixture.get("/merge_ref").await;
    assert_eq!(fixture.project.references("refs/keep-around").len(), 1);
    let commits = || merge_request_commits::Entity::find().count(server.backend.database.read());
    assert_ne!(commits().await.expect("a count"), 0);
    fixture.root.delete(&fixture.url("")).await.expect(204);
    for prefix in ["refs/keep-around", "refs/merge-requests"] {
        assert_eq!(fixture.project.references(prefix), [""; 0], "{prefix}");
    }
    let versions = merge_request_versions::Entity::find().count(server.backend.database.read()).await;
    assert_eq!((versions.expect("a count"), commits().await.expect("a count")), (0, 0));
    fixture.root.get(&fixture.url("/versions")).await.expect(404);
}

async fn transferred_project_keeps_its_versions(server: TestServer) {
    let fixture = Fixture::new(&server, "moved").await;
    let versions = fixture.get("/versions").await;
    let group = fixture.root.post("/groups", json!({"name": "g", "path": "g"})).await.expect(201).json();
    let transfer = format!("/projects/{}/transfer", fixture.project.id);
    fixture.root.put(&transfer, json!({"namespace": group["id"]})).await.expect(200);
    assert_eq!(fixture.get("/versions").await, versions);
    let one = fixture.get(&format!("/versions/{}", versions[0]["id"])).await;
    let url = one["commits"][0]["web_url"].as_str().expect("a URL");
    assert!(url.contains("/g/moved/-/commit/"), "{url}");
}

async fn sweep_collects_versions_whose_job_is_missing(server: TestServer) {
    use domain::review::merge_requests::sweep_versions;
    use sea_orm::sea_query::Expr;

    let fixture = Fixture::new(&server, "swept").await;
    server.finish_jobs().await;
    assert_eq!(sweep_versions(&server.backend).await.expect("a sweep"), 0);
    let reset = merge_request_versions::Entity::update_many()
        .col_expr(merge_request_versions::Column::Collected, Expr::value(false))
        .col_expr(merge_request_versions::Column::RealSize, Expr::value(None::<String>))
        .col_expr(
            merge_request_versions::Column::CreatedAt,
            Expr::value(storage::entities::now() - Duration::from_secs(3600)),
        )
        .exec(server.backend.database.write())
        .await;
    assert_eq!(reset.expect("an update").rows_affected, 1);
    assert_eq!(sweep_versions(&server.backend).await.expect("a sweep"), 1);
    server.finish_jobs().await;
    let found = merge_request_versions::Entity::find().one(server.backend.database.read()).await;
    let found = found.expect("versions").expect("a version");
    assert_eq!((found.collected, found.real_size.as_deref()), (true, Some("1")));
    assert_eq!(fixture.get("/versions").await[0]["real_size"], "1");
}

async fn concurrent_pushes_and_reads_agree(server: TestServer) {
    let fixture = Fixture::new(&server, "busy").await;
    let commits = fixture.project.url("/commits");
    for number in 0..5 {
        let body = json!({
            "branch": "feature/x", "commit_message": "m",
            "actions": [{"action": "create", "file_path": format!("f{number}"), "content": "x"}],
        });
        let push = fixture.root.post(&commits, body);
        let url = fixture.url("/versions");
        let (pushed, first, second) = tokio::join!(push, fixture.root.get(&url), fixture.root.get(&url));
        pushed.expect(201);
        first.expect(200);
        second.expect(200);
    }
    server.finish_jobs().await;
    let versions = fixture.get("/versions").await;
    let sizes: Vec<Value> = (1..=6).rev().map(|size| json!(size.to_string())).collect();
    assert_eq!(values(&versions, "real_size"), sizes);
    fixture.check_diff_refs().await;
    let paged = fixture.root.get(&fixture.url("/versions?per_page=2&page=3")).await.expect(200);
    assert_eq!((paged.header("X-Total"), paged.pluck("real_size")), ("6", vec![json!("2"), json!("1")]));
}

on_every_database![
    merge_request_has_a_first_version,
    each_push_creates_a_version_that_survives_force_pushes,
    version_is_collected_by_the_first_read_without_a_job,
    push_records_the_version_in_its_transaction,
    empty_version_has_the_state_empty,
    new_target_and_reopening_create_versions_if_commits_differ,
    merge_preserves_the_versions,
    versions_of_forks_are_stored_in_the_target,
    version_without_stored_commits_has_no_size,
    deleted_merge_request_leaves_no_rows_and_refs,
    transferred_project_keeps_its_versions,
    sweep_collects_versions_whose_job_is_missing,
    concurrent_pushes_and_reads_agree,
];
