//! Commit statuses that external systems report.

use std::collections::HashSet;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, ci_jobs};

use crate::delivery::deployments::deploy;
use crate::delivery::pipelines::pipeline;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a commit status and returns it.
pub async fn report(client: &Client, project: i64, sha: &str, body: Value) -> Value {
    client.post(&format!("/projects/{project}/statuses/{sha}"), body).await.expect(201).json()
}

async fn create_and_list_commit_status_return_all_fields(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "fields", Visibility::Private).await;
    let sha = project.id("main");
    let body = json!({
        "state": "running", "ref": "main", "name": "build", "target_url": "https://ci.example.com/7", "description": "Half done",
        "coverage": 12.5,
    });
    let created = report(&root, project.id, &sha, body).await;
    assert_eq!(
        created,
        json!({
            "id": created["id"], "sha": sha, "ref": "main", "status": "running", "name": "build",
            "target_url": "https://ci.example.com/7", "description": "Half done", "created_at": created["created_at"],
            "started_at": created["started_at"], "finished_at": null, "allow_failure": false, "coverage": 12.5,
            "pipeline_id": created["pipeline_id"], "author": created["author"],
        })
    );
    assert!(created["started_at"].is_string() && created["author"]["username"] == "root");
    let all = project.url(&format!("/commits/{sha}/statuses"));
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created]));
    // Absent attributes are unchanged.
    let done = report(&root, project.id, &sha, json!({ "state": "success", "context": "build", "coverage": 80 })).await;
    assert_eq!(
        done,
        json!({
            "id": created["id"], "sha": sha, "ref": "main", "status": "success", "name": "build",
            "target_url": "https://ci.example.com/7", "description": "Half done", "created_at": created["created_at"],
            "started_at": created["started_at"], "finished_at": done["finished_at"], "allow_failure": false,
            "coverage": 80.0,
            "pipeline_id": created["pipeline_id"], "author": created["author"],
        })
    );
    let one =
        root.get(&format!("/projects/{}/pipelines/{}", project.id, created["pipeline_id"])).await.expect(200).json();
    assert_eq!((&one["status"], &one["coverage"], &one["ref"]), (&json!("success"), &json!("80.00"), &json!("main")));
    assert_eq!((&one["started_at"], &one["finished_at"]), (&done["started_at"], &done["finished_at"]));
    assert!(one["duration"].is_i64() && one["detailed_status"]["text"] == "passed");
}

async fn pipeline_status_follows_commit_statuses(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "state", Visibility::Private).await;
    let sha = project.id("main");
    let number = pipeline(&root, project.id, "main").await;
    for (name, state, becomes) in [
        ("a", "pending", "pending"),
        ("b", "pending", "pending"),
        ("a", "running", "running"),
        ("a", "success", "running"),
        ("b", "failed", "failed"),
        // A retry: the new status replaces the old one.
        ("b", "pending", "running"),
        ("b", "canceled", "canceled"),
        ("b", "skipped", "success"),
    ] {
        let status = report(&root, project.id, &sha, json!({ "state": state, "name": name, "ref": "main" })).await;
        assert_eq!(status["pipeline_id"], number);
        let one = root.get(&format!("/projects/{}/pipelines/{number}", project.id)).await.expect(200).json();
        assert_eq!(one["status"], becomes, "{name} {state}");
        assert_eq!(one["finished_at"].is_null(), ["pending", "running"].contains(&becomes));
    }
    let all = project.url(&format!("/commits/{sha}/statuses"));
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), [json!("a"), json!("b")]);
    assert_eq!(
        root.get(&format!("{all}?all=true")).await.expect(200).pluck("status"),
        [json!("success"), json!("failed"), json!("canceled"), json!("skipped"),]
    );
}

async fn create_commit_status_deletes_oldest_replaced_statuses(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "bounded", Visibility::Private).await;
    let (sha, success) = (project.id("main"), json!({ "state": "success", "ref": "main" }));
    let first = report(&root, project.id, &sha, success.clone()).await;
    let other = report(&root, project.id, &sha, json!({ "state": "running", "ref": "main", "name": "other" })).await;
    // A replaced job with a deployment remains.
    let job = json!({ "environment": "production", "sha": sha, "ref": "main", "tag": false, "status": "success", "job_id": first["id"] });
    deploy(&root, project.id, job).await;
    let deployed = first["id"].as_i64().expect("an ID");
    let db = server.backend.database.write();
    let columns = "project_id, pipeline_id, name, stage, status, allow_failure, retried, created_at, updated_at";
    let replaced = columns.replace("retried", "TRUE");
    let copy = format!("INSERT INTO ci_jobs ({columns}) SELECT {replaced} FROM ci_jobs WHERE name = 'default'");
    for _ in 0..13 {
        db.execute_unprepared(&copy).await.expect("jobs");
    }
    let replaced = async || {
        let jobs = ci_jobs::Entity::find().filter(ci_jobs::Column::Retried.eq(true));
        let jobs = jobs.order_by_asc(ci_jobs::Column::Id).all(server.backend.database.read()).await.expect("jobs");
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    let mut before = replaced().await;
    assert_eq!(before.len(), 8_191);
    let mut newest = deployed;
    for _ in 0..5 {
        before.push(newest);
        before.sort_unstable();
        // One report deletes at most 1,000.
        let older = before[..before.len() - 5_000].iter().filter(|id| **id != deployed);
        let deleted: HashSet<i64> = older.take(1_000).copied().collect();
        before.retain(|id| !deleted.contains(id));
        newest = report(&root, project.id, &sha, success.clone()).await["id"].as_i64().expect("an ID");
        assert_eq!(replaced().await, before);
    }
    assert_eq!((before.len(), before[0]), (5_001, deployed));
    let current = root.get(&project.url(&format!("/commits/{sha}/statuses"))).await.expect(200);
    assert_eq!(current.pluck("id"), [other["id"].clone(), json!(newest)]);
    // A retry replaces a job too, which is then the oldest one without a deployment.
    let pipeline = format!("/projects/{}/pipelines/{}", project.id, other["pipeline_id"]);
    root.post(&format!("{pipeline}/cancel"), json!({})).await.expect(200);
    root.post(&format!("{pipeline}/retry"), json!({})).await.expect(201);
    assert_eq!(replaced().await, before);
}

async fn create_commit_status_rejects_invalid_transition(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "moves", Visibility::Private).await;
    let sha = project.id("main");
    let path = format!("/projects/{}/statuses/{sha}", project.id);
    let first = report(&root, project.id, &sha, json!({ "state": "running", "ref": "main" })).await;
    let back = root.post(&path, json!({ "state": "pending", "ref": "main" })).await.expect(400);
    assert_eq!(back.json()["message"], json!({ "status": ["cannot transition via \"enqueue\""] }));
    // Repeating the state updates the other attributes.
    let again = report(&root, project.id, &sha, json!({ "state": "running", "ref": "main", "description": "x" })).await;
    assert_eq!(
        (&again["id"], &again["started_at"], &again["description"]),
        (&first["id"], &first["started_at"], &json!("x"))
    );
    assert_eq!(again["name"], "default");
}

async fn commit_status_joins_pipeline_of_commit_and_ref(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "belongs", Visibility::Private).await;
    project.git(&["tag", "v1", "main"]);
    let sha = project.id("main");
    let of = async |body: Value| report(&root, project.id, &sha, body).await;
    // Without a ref, a branch with the commit is used, the default branch first.
    let first = of(json!({ "state": "success" })).await;
    assert_eq!(first["ref"], "main");
    let second = of(json!({ "state": "success", "ref": "v1" })).await;
    assert!(second["ref"] == "v1" && second["pipeline_id"] != first["pipeline_id"]);
    let pipelines = root.get(&format!("/projects/{}/pipelines?scope=tags", project.id)).await.expect(200);
    assert_eq!(pipelines.pluck("id"), [second["pipeline_id"].clone()]);
    // If the commit has a pipeline, the ref of the newest one is used.
    assert_eq!(of(json!({ "state": "success" })).await["ref"], "v1");
    let named = of(json!({ "state": "success", "pipeline_id": first["pipeline_id"] })).await;
    assert_eq!((&named["ref"], &named["pipeline_id"]), (&json!("main"), &first["pipeline_id"]));
    let path = format!("/projects/{}/statuses/{sha}", project.id);
    for body in [
        json!({ "state": "success", "pipeline_id": 4711 }),
        json!({ "state": "success", "pipeline_id": first["pipeline_id"], "ref": "v1" }),
    ] {
        assert_eq!(root.post(&path, body).await.expect(404).message(), "404 Pipeline Not Found");
    }
    let elsewhere = format!("/projects/{}/statuses/{}", project.id, project.id("main~1"));
    root.post(&elsewhere, json!({ "state": "success", "pipeline_id": first["pipeline_id"] })).await.expect(404);
    let unknown = root.post(&path, json!({ "state": "success", "ref": "nowhere" })).await.expect(400);
    assert_eq!(unknown.json()["message"], json!({ "ref": ["The branch or tag does not exist"] }));
    // A status can be updated after its branch was deleted.
    let body = json!({ "state": "running", "ref": "feature/x" });
    let started = report(&root, project.id, &project.id("feature/x"), body).await;
    let head = project.id("feature/x");
    project.git(&["update-ref", "refs/keep/x", "feature/x"]);
    project.git(&["branch", "-D", "feature/x"]);
    let done = report(&root, project.id, &head, json!({ "state": "success", "ref": "feature/x" })).await;
    assert_eq!(done["id"], started["id"]);
    project.git(&["update-ref", "refs/keep/y", "merged"]);
    let orphan = project.git(&["commit-tree", "-m", "x", "main^{tree}"]);
    let orphan = format!("/projects/{}/statuses/{orphan}", project.id);
    let unused_address = root.post(&orphan, json!({ "state": "success" })).await.expect(404);
    assert_eq!(unused_address.message(), "404 References for commit Not Found");
}

async fn list_commit_statuses_supports_filters_and_pages(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "filters", Visibility::Public).await;
    project.git(&["tag", "v1", "main"]);
    let sha = project.id("main");
    for (name, reference) in [("a", "main"), ("b", "main"), ("a", "v1")] {
        report(&root, project.id, &sha, json!({ "state": "success", "name": name, "ref": reference })).await;
    }
    let all = project.url("/commits/main/statuses");
    let first = root.get(&all).await.expect(200).json()[0]["pipeline_id"].clone();
    for (query, count) in [
        ("", 3),
        ("?ref=main", 2),
        ("?ref=v1", 1),
        ("?ref=x", 0),
        ("?name=a", 2),
        ("?name=a&ref=v1", 1),
        ("?stage=external", 3),
        ("?stage=test", 0),
        ("?all=true", 3),
        (&format!("?pipeline_id={first}"), 2),
        ("?per_page=2", 2),
        ("?per_page=2&page=2", 1),
    ] {
        let found = server.anonymous().get(&format!("{all}{query}")).await.expect(200);
        assert_eq!(found.pluck("id").len(), count, "{query}");
    }
    let before = server.statements();
    root.get(&format!("{all}?per_page=2")).await.expect(200);
    let many = server.statements() - before;
    let before = server.statements();
    root.get(&format!("{all}?per_page=1")).await.expect(200);
    assert_eq!(server.statements() - before, many);
    assert_eq!(root.get(&project.url("/commits/main~1/statuses")).await.expect(200).json(), json!([]));
    for unknown in ["nowhere", "1234567"] {
        assert_eq!(
            root.get(&project.url(&format!("/commits/{unknown}/statuses"))).await.expect(404).message(),
            "404 Commit Not Found"
        );
        root.post(&format!("/projects/{}/statuses/{unknown}", project.id), json!({ "state": "success" }))
            .await
            .expect(404);
    }
}

async fn create_commit_status_rejects_invalid_parameters(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "hostile", Visibility::Private).await;
    let path = format!("/projects/{}/statuses/{}", project.id, project.id("main"));
    let blocked = json!({ "target_url": ["is blocked: Only allowed schemes are http, https"] });
    for url in ["javascript:alert(1)", "ftp://h/", "data:text/html,x", "//h/x", "x", " https://h/"] {
        let rejected = root.post(&path, json!({ "state": "success", "target_url": url })).await.expect(400);
        assert_eq!(rejected.json()["message"], blocked, "{url}");
    }
    for (body, text) in [
        (json!({}), "state is missing"),
        (json!({ "state": "created" }), "state does not have a valid value"),
        (json!({ "state": "" }), "state does not have a valid value"),
        (json!({ "state": "success", "coverage": "much" }), "coverage is invalid"),
        (json!({ "state": "success", "pipeline_id": "x" }), "pipeline_id is invalid"),
    ] {
        assert_eq!(root.post(&path, body).await.expect(400).message(), text);
    }
    for coverage in [-0.1, 100.1, 1e300] {
        root.post(&path, json!({ "state": "success", "coverage": coverage })).await.expect(400);
    }
    for (name, length) in [("name", 256), ("context", 256), ("description", 1025), ("ref", 1025)] {
        root.post(&path, json!({ "state": "success", name: "x".repeat(length) })).await.expect(400);
    }
    root.post(&path, json!({ "state": "success", "name": "a\0b" })).await.expect(400);
    assert_eq!(root.get(&format!("/projects/{}/pipelines", project.id)).await.expect(200).json(), json!([]));
}

async fn commit_status_on_protected_branch_requires_push_or_merge_access(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "guarded", Visibility::Private).await;
    let id = project.id;
    let (main, feature) = (project.id("main"), project.id("feature/x"));
    let developer = project.member("developer", AccessLevel::Developer).await;
    let maintainer = project.member("maintainer", AccessLevel::Maintainer).await;
    let of_main = pipeline(&root, id, "main").await;
    let of_feature = pipeline(&root, id, "feature/x").await;
    let on = |sha: &str| format!("/projects/{id}/statuses/{sha}");
    for (sha, body, status) in [
        (&main, json!({ "state": "success", "ref": "main" }), 403),
        (&main, json!({ "state": "success" }), 403),
        (&main, json!({ "state": "success", "pipeline_id": of_main }), 403),
        (&feature, json!({ "state": "success", "ref": "feature/x" }), 201),
        (&feature, json!({ "state": "success" }), 201),
        (&feature, json!({ "state": "success", "pipeline_id": of_feature }), 201),
        (&feature, json!({ "state": "success", "ref": "main" }), 403),
    ] {
        assert_eq!(developer.post(&on(sha), body.clone()).await.status, status, "{sha} {body}");
        maintainer.post(&on(sha), body).await.expect(201);
    }
    // The protection of a deleted branch still applies, unless a newer pipeline of a tag has its name.
    project.protect("gone", 40, 40).await;
    root.post(&format!("/projects/{id}/repository/branches"), json!({ "branch": "gone", "ref": feature }))
        .await
        .expect(201);
    root.post(&on(&feature), json!({ "state": "pending", "ref": "gone" })).await.expect(201);
    project.git(&["update-ref", "-d", "refs/heads/gone"]);
    developer.post(&on(&feature), json!({ "state": "success", "ref": "gone" })).await.expect(403);
    project.git(&["tag", "gone", &feature]);
    let of_tag = report(&developer, id, &feature, json!({ "state": "pending", "ref": "refs/tags/gone" })).await;
    project.git(&["tag", "-d", "gone"]);
    let updated = report(&developer, id, &feature, json!({ "state": "success", "ref": "gone" })).await;
    assert_eq!(updated["id"], of_tag["id"]);
}

async fn commit_statuses_require_developer_to_write_reporter_to_read(server: TestServer) {
    let project = Project::with_commits(&server, "roles", Visibility::Private).await;
    let sha = project.id("feature/x");
    let (path, all) =
        (format!("/projects/{}/statuses/{sha}", project.id), project.url(&format!("/commits/{sha}/statuses")));
    let body = json!({ "state": "success", "ref": "feature/x" });
    server.anonymous().post(&path, body.clone()).await.expect(401);
    server.anonymous().get(&all).await.expect(404);
    let non_member = server.create_user("stranger").await.client;
    non_member.post(&path, body.clone()).await.expect(404);
    for (name, role, reads, reports) in [
        ("guest", AccessLevel::Guest, 403, 403),
        ("reporter", AccessLevel::Reporter, 200, 403),
        ("developer", AccessLevel::Developer, 200, 201),
        ("maintainer", AccessLevel::Maintainer, 200, 201),
    ] {
        let client = project.member(name, role).await;
        client.get(&all).await.expect(reads);
        client.post(&path, body.clone()).await.expect(reports);
    }
    let root = server.root();
    root.put(&format!("/projects/{}", project.id), json!({ "builds_access_level": "disabled" })).await.expect(200);
    root.get(&all).await.expect(403);
    root.post(&path, body.clone()).await.expect(403);
    root.put(&format!("/projects/{}", project.id), json!({ "builds_access_level": "enabled" })).await.expect(200);
    project.archive().await;
    root.get(&all).await.expect(200);
    root.post(&path, body).await.expect(403);
}

async fn concurrent_commit_statuses_create_one_pipeline(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "atonce", Visibility::Private).await;
    let sha = project.id("main");
    let reports = (0..16).map(|number| {
        let body = json!({ "state": "success", "ref": "main", "name": format!("job-{}", number % 4) });
        report(&root, project.id, &sha, body)
    });
    futures_util::future::join_all(reports).await;
    let pipelines = root.get(&format!("/projects/{}/pipelines", project.id)).await.expect(200);
    assert_eq!(pipelines.pluck("status"), [json!("success")]);
    let all = project.url(&format!("/commits/{sha}/statuses"));
    assert_eq!(root.get(&all).await.expect(200).pluck("id").len(), 4);
    assert_eq!(root.get(&format!("{all}?all=true")).await.expect(200).pluck("id").len(), 16);
}

on_every_database![
    create_and_list_commit_status_return_all_fields,
    pipeline_status_follows_commit_statuses,
    create_commit_status_deletes_oldest_replaced_statuses,
    create_commit_status_rejects_invalid_transition,
    commit_status_joins_pipeline_of_commit_and_ref,
    list_commit_statuses_supports_filters_and_pages,
    create_commit_status_rejects_invalid_parameters,
    commit_status_on_protected_branch_requires_push_or_merge_access,
    commit_statuses_require_developer_to_write_reporter_to_read,
    concurrent_commit_statuses_create_one_pipeline,
];
