//! Pipelines of projects.

mod auto_merge;
mod query_plans;
mod webhooks;

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, ci_jobs, events, pipeline_variables, pipelines};

use crate::delivery::commit_statuses::report;
use crate::support::code::Project;
use crate::support::spaces::id;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a pipeline for a branch or tag of a project and returns its ID.
pub async fn pipeline(client: &Client, project: i64, name: &str) -> i64 {
    let body = json!({ "ref": name, "variables": [{ "key": "A", "value": "1" }] });
    id(&client.post(&format!("/projects/{project}/pipeline"), body).await.expect(201).json())
}

/// Returns the IDs of a list, in its order.
async fn ids(client: &Client, path: &str) -> Vec<i64> {
    let list = client.get(path).await.expect(200).pluck("id");
    list.iter().map(|id| id.as_i64().expect("an id")).collect()
}

async fn pipelines_can_be_created_read_and_deleted(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "piped", Visibility::Public).await;
    let project_path = format!("/projects/{}", project.id);
    let body = json!({ "ref": "main", "variables": [
        { "key": "DEPLOY", "value": "staging" }, { "key": "NOTES", "value": "x\ny", "variable_type": "file" },
    ] });
    let created = root.post(&format!("{project_path}/pipeline"), body).await.expect(201).json();
    let number = id(&created);
    let web_url = format!("{}/root/piped/-/pipelines/{number}", server.base);
    assert_eq!(
        created,
        json!({
            "id": number, "project_id": project.id, "sha": project.id("main"), "ref": "main", "status": "pending", "created_at": created["created_at"],
            "updated_at": created["updated_at"], "web_url": web_url, "before_sha": "0".repeat(40), "tag": false, "yaml_errors": null,
            "user": created["user"], "started_at": null, "finished_at": null, "committed_at": null, "duration": null, "coverage": null,
            "detailed_status": {
                "icon": "status_pending", "text": "pending", "label": "pending", "group": "pending", "tooltip": "pending",
                "has_details": true, "details_path": format!("/root/piped/-/pipelines/{number}"), "illustration": null,
                "favicon": "/favicon_status_pending.png",
            },
        })
    );
    assert_eq!(created["user"]["username"], "root");
    let one = format!("{project_path}/pipelines/{number}");
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    assert_eq!(
        root.get(&format!("{project_path}/pipelines")).await.expect(200).json(),
        json!([{
            "id": number, "sha": created["sha"], "ref": "main", "status": "pending", "created_at": created["created_at"],
            "updated_at": created["updated_at"], "web_url": web_url,
        }])
    );
    assert_eq!(
        root.get(&format!("{one}/variables")).await.expect(200).json(),
        json!([
            { "variable_type": "env_var", "key": "DEPLOY", "value": "staging" },
            { "variable_type": "file", "key": "NOTES", "value": "x\ny" },
        ])
    );
    let second = root.get(&format!("{one}/variables?per_page=1&page=2")).await.expect(200);
    assert_eq!((second.pluck("key"), second.header("x-total")), (vec![json!("NOTES")], "2"));
    // The values are stored encrypted.
    let rows = pipeline_variables::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert!(rows.iter().all(|row| !row.value_encrypted.contains("staging")));
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in [
        root.get(&one).await,
        root.delete(&one).await,
        root.get(&format!("{one}/variables")).await,
        root.post(&format!("{one}/cancel"), json!({})).await,
        root.post(&format!("{one}/retry"), json!({})).await,
    ] {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    let db = server.backend.database.read();
    assert_eq!(pipeline_variables::Entity::find().all(db).await.expect("rows"), []);
}

async fn create_pipeline_requires_existing_branch_or_tag(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "refs", Visibility::Private).await;
    project.git(&["tag", "v1", "main~1"]);
    project.git(&["tag", "main", "main~1"]);
    let all = format!("/projects/{}/pipeline", project.id);
    for (name, shown, tag, revision) in [
        ("v1", "v1", true, "refs/heads/main~1"),
        ("feature/x", "feature/x", false, "feature/x"),
        ("main", "main", false, "refs/heads/main"),
        ("refs/heads/main", "main", false, "refs/heads/main"),
        ("refs/tags/main", "main", true, "refs/tags/main"),
    ] {
        let created = root.post(&all, json!({ "ref": name })).await.expect(201).json();
        assert_eq!(
            (&created["ref"], &created["tag"], &created["sha"]),
            (&json!(shown), &json!(tag), &json!(project.id(revision))),
            "{name}"
        );
    }
    let unknown = json!({ "base": ["Reference not found"] });
    let sha = project.id("refs/heads/main~1");
    for name in [
        "nowhere",
        "HEAD",
        "main~1",
        "refs/heads/v1",
        "..",
        "a b",
        "-",
        "refs/notes/x",
        sha.as_str(),
        &"x".repeat(1024),
    ] {
        let rejected = root.post(&all, json!({ "ref": name })).await.expect(400);
        assert_eq!(rejected.json()["message"], unknown, "{name}");
    }
    assert_eq!(root.post(&all, json!({})).await.expect(400).message(), "ref is missing");
    for name in ["", " "] {
        assert_eq!(root.post(&all, json!({ "ref": name })).await.expect(400).message(), "ref is empty");
    }
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    root.post(&format!("/projects/{}/pipeline", empty.id), json!({ "ref": "main" })).await.expect(400);
}

async fn create_pipeline_rejects_invalid_variables(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "vars", Visibility::Private).await;
    let all = format!("/projects/{}/pipeline", project.id);
    let send = async |variables: Value| root.post(&all, json!({ "ref": "main", "variables": variables })).await;
    let error_message = async |variables: Value| send(variables).await.expect(400).json()["message"].clone();
    let characters = json!({ "key": ["can contain only letters, digits and '_'."] });
    for key in ["a-b", "a b", "$A", "a\n", "ä"] {
        assert_eq!(error_message(json!([{ "key": key, "value": "secret" }])).await, characters, "{key}");
    }
    let long = json!({ "key": ["is too long (maximum is 255 characters)"] });
    assert_eq!(error_message(json!([{ "key": "k".repeat(256), "value": "" }])).await, long);
    send(json!([{ "key": "k".repeat(255), "value": "" }])).await.expect(201);
    send(json!([{ "key": "K", "value": "v".repeat(10_000) }])).await.expect(201);
    assert!(error_message(json!([{ "key": "K", "value": "v".repeat(10_001) }])).await["value"].is_array());
    let twice = json!([{ "key": "K", "value": "1" }, { "key": "K", "value": "2" }]);
    assert_eq!(error_message(twice).await, json!({ "variables": ["have duplicate values (K)"] }));
    send(json!([{ "key": "K", "value": "1" }, { "key": "k", "value": "2" }])).await.expect(201);
    let many: Vec<Value> = (0..201).map(|number| json!({ "key": format!("K{number}"), "value": "" })).collect();
    send(json!(many)).await.expect(400);
    send(json!(many[..200])).await.expect(201);
    for bad in [json!("x"), json!({ "K": "v" }), json!([{ "key": "K" }]), json!([{ "value": "v" }]), json!([7])] {
        send(bad).await.expect(400);
    }
    send(json!([{ "key": "K", "value": "", "variable_type": "secret" }])).await.expect(400);
    assert_eq!(pipelines::Entity::find().all(server.backend.database.read()).await.expect("rows").len(), 4);
}

async fn pipeline_permissions_depend_on_role_and_branch_protection(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "roles", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let number = pipeline(&root, project.id, "main").await;
    let one = format!("{project_path}/pipelines/{number}");
    let mut clients = vec![(server.create_user("stranger").await.client, [404; 5])];
    for (name, role, statuses) in [
        ("guest", AccessLevel::Guest, [403; 5]),
        ("reporter", AccessLevel::Reporter, [200, 403, 403, 403, 403]),
        ("developer", AccessLevel::Developer, [200, 200, 201, 403, 403]),
        ("maintainer", AccessLevel::Maintainer, [200, 200, 201, 201, 403]),
    ] {
        clients.push((project.member(name, role).await, statuses));
    }
    for (client, [read, variables, feature, main, removal]) in &clients {
        client.get(&one).await.expect(*read);
        client.get(&format!("{project_path}/pipelines")).await.expect(*read);
        client.get(&format!("{one}/variables")).await.expect(*variables);
        client.post(&format!("{project_path}/pipeline"), json!({ "ref": "feature/x" })).await.expect(*feature);
        // `main` is protected, so only Maintainers can push and merge.
        client.post(&format!("{project_path}/pipeline"), json!({ "ref": "main" })).await.expect(*main);
        let cancel = client.post(&format!("{one}/cancel"), json!({})).await;
        assert_eq!(cancel.status, if *main == 201 { 200 } else { *main });
        client.post(&format!("{one}/retry"), json!({})).await.expect(*main);
        client.delete(&one).await.expect(*removal);
    }
    for path in [&one, &format!("{project_path}/pipelines")] {
        server.anonymous().get(path).await.expect(404);
    }
    server.anonymous().post(&format!("{project_path}/pipeline"), json!({ "ref": "main" })).await.expect(401);
    let other = Project::with_commits(&server, "other", Visibility::Private).await;
    root.get(&one.replace(&project_path, &format!("/projects/{}", other.id))).await.expect(404);
    project.archive().await;
    root.get(&one).await.expect(200);
    root.post(&format!("{project_path}/pipeline"), json!({ "ref": "feature/x" })).await.expect(403);
    root.delete(&one).await.expect(403);
}

async fn public_project_shows_pipelines_unless_public_jobs_is_disabled(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "open", Visibility::Public).await;
    let project_path = format!("/projects/{}", project.id);
    let one = format!("{project_path}/pipelines/{}", pipeline(&root, project.id, "main").await);
    let (anonymous, non_member) = (server.anonymous(), server.create_user("stranger").await.client);
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let reads = async |client: &Client| {
        let listed = client.get(&format!("{project_path}/pipelines")).await.status;
        assert_eq!(client.get(&one).await.status, listed);
        listed
    };
    for client in [&anonymous, &non_member, &reporter] {
        assert_eq!(reads(client).await, 200);
        client.get(&format!("{one}/variables")).await.expect(if client.get("/user").await.status == 401 {
            401
        } else {
            403
        });
    }
    let commit = format!("{project_path}/repository/commits/main");
    assert_eq!(anonymous.get(&commit).await.expect(200).json()["status"], "pending");
    root.put(&project_path, json!({ "public_jobs": false })).await.expect(200);
    assert_eq!([reads(&anonymous).await, reads(&non_member).await, reads(&reporter).await], [403, 403, 200]);
    let shown_commit = anonymous.get(&commit).await.expect(200).json();
    assert_eq!((&shown_commit["status"], &shown_commit["last_pipeline"]), (&Value::Null, &Value::Null));
    root.put(&project_path, json!({ "public_jobs": true, "builds_access_level": "disabled" })).await.expect(200);
    assert_eq!([reads(&anonymous).await, reads(&reporter).await, reads(&root).await], [403, 403, 403]);
    root.post(&format!("{project_path}/pipeline"), json!({ "ref": "main" })).await.expect(403);
}

async fn cancel_and_retry_keep_updated_at_of_successful_pipeline(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "done", Visibility::Private).await;
    let one = format!("/projects/{}/pipelines/{}", project.id, pipeline(&root, project.id, "main").await);
    report(&root, project.id, &project.id("main"), json!({ "state": "success", "ref": "main" })).await;
    let rows = async || pipelines::Entity::find().all(server.backend.database.read()).await.expect("rows");
    let (shown, stored) = (root.get(&one).await.expect(200).json(), rows().await);
    assert_eq!(shown["status"], "success");
    for (action, status) in [("cancel", 200), ("retry", 201)] {
        assert_eq!(root.post(&format!("{one}/{action}"), json!({})).await.expect(status).json(), shown, "{action}");
    }
    assert_eq!(rows().await, stored);
}

async fn list_pipelines_applies_filters_and_orders(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "lists", Visibility::Private).await;
    project.git(&["tag", "v1", "main~1"]);
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    let all = format!("/projects/{}/pipelines", project.id);
    let first = pipeline(&root, project.id, "main").await;
    let second = pipeline(&ann.client, project.id, "feature/x").await;
    let third = pipeline(&root, project.id, "v1").await;
    let fourth = pipeline(&root, project.id, "main").await;
    report(&root, project.id, &project.id("main"), json!({ "state": "running", "pipeline_id": first })).await;
    report(&root, project.id, &project.id("v1"), json!({ "state": "success", "pipeline_id": third })).await;
    for (query, found) in [
        ("", vec![fourth, third, second, first]),
        ("?sort=asc", vec![first, second, third, fourth]),
        ("?scope=running", vec![first]),
        ("?scope=pending", vec![fourth, second]),
        ("?scope=finished", vec![third]),
        ("?scope=branches", vec![fourth, second]),
        ("?scope=tags", vec![third]),
        ("?status=success", vec![third]),
        ("?status=manual", vec![]),
        ("?ref=main", vec![fourth, first]),
        ("?ref=main&status=running", vec![first]),
        (&format!("?sha={}", project.id("feature/x")), vec![second]),
        (&format!("?sha={}", project.id("main").to_uppercase()), vec![fourth, first]),
        ("?yaml_errors=true", vec![]),
        ("?yaml_errors=false", vec![fourth, third, second, first]),
        ("?username=ANN", vec![second]),
        ("?username=missing-user", vec![]),
        ("?name=no", vec![]),
        ("?order_by=ref&sort=asc", vec![second, first, fourth, third]),
        ("?order_by=status&sort=asc", vec![second, fourth, first, third]),
        ("?order_by=user_id", vec![second, fourth, third, first]),
        ("?order_by=updated_at", vec![third, first, fourth, second]),
        ("?updated_after=2000-01-01T00:00:00Z", vec![fourth, third, second, first]),
        ("?updated_before=2000-01-01T00:00:00Z", vec![]),
        ("?per_page=2&page=2", vec![second, first]),
    ] {
        assert_eq!(ids(&root, &format!("{all}{query}")).await, found, "{query}");
    }
    for bad in ["scope=all", "status=x", "order_by=name", "sort=up", "updated_after=x", "yaml_errors=x"] {
        root.get(&format!("{all}?{bad}")).await.expect(400);
    }
}

async fn list_pipelines_sorts_pipelines_of_deleted_users_last(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "orphans", Visibility::Private).await;
    let [gone, ann] = [server.create_user("gone").await, server.create_user("ann").await];
    let mut created = Vec::new();
    for (user, client) in [(Some(gone.id), &gone.client), (None, &root), (Some(ann.id), &ann.client)] {
        if let Some(user) = user {
            server.insert_member(project.id, user, AccessLevel::Developer).await;
        }
        created.push(pipeline(client, project.id, "feature/x").await);
    }
    root.delete(&format!("/users/{}", gone.id)).await.expect(204);
    server.finish_jobs().await;
    let [orphan, by_root, by_ann] = created[..] else { panic!("three pipelines") };
    let all = format!("/projects/{}/pipelines?order_by=user_id", project.id);
    assert_eq!(ids(&root, &all).await, [by_ann, by_root, orphan]);
    assert_eq!(ids(&root, &format!("{all}&sort=asc")).await, [by_root, by_ann, orphan]);
    assert_eq!(ids(&root, &format!("{all}&sort=asc&per_page=2&page=2")).await, [orphan]);
}

async fn get_latest_pipeline_returns_newest_of_current_commit(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "latest", Visibility::Private).await;
    let latest = format!("/projects/{}/pipelines/latest", project.id);
    let missing = root.get(&latest).await.expect(404);
    assert_eq!(missing.message(), "404 Pipeline Not Found");
    pipeline(&root, project.id, "main").await;
    let newest = pipeline(&root, project.id, "main").await;
    let side = pipeline(&root, project.id, "feature/x").await;
    let shown = root.get(&format!("/projects/{}/pipelines/{newest}", project.id)).await.expect(200).json();
    for query in ["", "?ref=", "?ref=main", "?ref=refs/heads/main"] {
        assert_eq!(root.get(&format!("{latest}{query}")).await.expect(200).json(), shown, "{query}");
    }
    assert_eq!(id(&root.get(&format!("{latest}?ref=feature%2Fx")).await.expect(200).json()), side);
    // A tag of the same commit has no pipeline of its own.
    project.git(&["tag", "v1", "main"]);
    for name in ["v1", "missing", "..", "main~1"] {
        root.get(&format!("{latest}?ref={name}")).await.expect(404);
    }
    // Pipelines of earlier commits do not count.
    project.git(&["update-ref", "refs/heads/main", "main~1"]);
    server.backend.database.invalidate();
    root.get(&latest).await.expect(404);
    for (name, role, status) in [("guest", AccessLevel::Guest, 403), ("reporter", AccessLevel::Reporter, 200)] {
        let member = project.member(name, role).await;
        member.get(&format!("{latest}?ref=feature%2Fx")).await.expect(status);
    }
    server.anonymous().get(&latest).await.expect(404);
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    root.get(&format!("/projects/{}/pipelines/latest", empty.id)).await.expect(404);
}

async fn cancel_and_retry_change_pipeline_and_job_statuses(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "stopped", Visibility::Private).await;
    let number = pipeline(&root, project.id, "main").await;
    let one = format!("/projects/{}/pipelines/{number}", project.id);
    let run_operation = async |operation: &str| {
        let status = if operation == "cancel" { 200 } else { 201 };
        let response = root.post(&format!("{one}/{operation}"), json!({})).await.expect(status).json();
        assert_eq!(response, root.get(&one).await.expect(200).json());
        response
    };
    // A pipeline without jobs.
    assert_eq!(run_operation("retry").await["status"], "pending");
    let canceled = run_operation("cancel").await;
    assert!(canceled["status"] == "canceled" && canceled["finished_at"].is_string());
    assert_eq!(run_operation("cancel").await, canceled);
    let again = run_operation("retry").await;
    assert_eq!((&again["status"], &again["finished_at"]), (&json!("pending"), &Value::Null));
    // A pipeline with jobs.
    let sha = project.id("main");
    for (name, state) in [("good", "success"), ("bad", "failed"), ("slow", "running")] {
        report(&root, project.id, &sha, json!({ "state": state, "name": name, "ref": "main" })).await;
    }
    assert_eq!(root.get(&one).await.expect(200).json()["status"], "running");
    assert_eq!(run_operation("cancel").await["status"], "failed");
    let statuses = format!("/projects/{}/repository/commits/{sha}/statuses", project.id);
    let listed = root.get(&statuses).await.expect(200);
    assert_eq!(listed.pluck("status"), [json!("success"), json!("failed"), json!("canceled")]);
    assert_eq!(run_operation("retry").await["status"], "running");
    let listed = root.get(&statuses).await.expect(200);
    assert_eq!(
        (listed.pluck("name"), listed.pluck("status")),
        (vec![json!("good"), json!("bad"), json!("slow")], vec![json!("success"), json!("pending"), json!("pending")],)
    );
    assert_eq!(ids(&root, &format!("{statuses}?all=true")).await.len(), 5);
    for name in ["bad", "slow"] {
        report(&root, project.id, &sha, json!({ "state": "success", "name": name, "ref": "main" })).await;
    }
    assert_eq!(root.get(&one).await.expect(200).json()["status"], "success");
    assert_eq!(run_operation("cancel").await["status"], "success");
    assert_eq!(run_operation("retry").await["status"], "success");
    root.delete(&one).await.expect(204);
    assert_eq!(ci_jobs::Entity::find().all(server.backend.database.read()).await.expect("rows"), []);
}

async fn cancel_and_retry_run_same_statements_for_any_number_of_jobs(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "counted", Visibility::Private).await;
    let hook = json!({ "url": "http://127.0.0.1:1/", "push_events": false, "job_events": true });
    root.post(&format!("/projects/{}/hooks", project.id), hook).await.expect(201);
    let (sha, deployments) = (project.id("main"), format!("/projects/{}/deployments", project.id));
    let add_jobs = async |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let body = json!({ "state": "running", "ref": "main", "name": format!("job {number}") });
            let job = report(&root, project.id, &sha, body).await;
            let body = json!({
                "environment": format!("env-{number}"), "sha": sha, "ref": "main", "tag": false, "status": "running",
                "job_id": job["id"],
            });
            root.post(&deployments, body).await.expect(201);
        }
    };
    add_jobs(0..2).await;
    let pipelines = root.get(&format!("/projects/{}/pipelines", project.id)).await.expect(200);
    let one = format!("/projects/{}/pipelines/{}", project.id, pipelines.pluck("id")[0]);
    let count = async |operation: &str, status: u16| {
        let before = server.statements();
        root.post(&format!("{one}/{operation}"), json!({})).await.expect(status);
        server.statements() - before
    };
    let few = (count("cancel", 200).await, count("retry", 201).await);
    add_jobs(2..12).await;
    let recorded = async || events::Entity::find().all(server.backend.database.read()).await.expect("events");
    let before = recorded().await.len();
    let many = (count("cancel", 200).await, count("retry", 201).await);
    assert_eq!(few, many);
    // Each job has an event for each change, and its deployment follows it.
    assert_eq!(recorded().await.len() - before, 24);
    let statuses = format!("/projects/{}/repository/commits/{sha}/statuses", project.id);
    let (jobs, shown) = (root.get(&statuses).await.expect(200), root.get(&deployments).await.expect(200));
    assert_eq!(jobs.pluck("status"), vec![json!("pending"); 12]);
    assert_eq!(shown.pluck("status"), vec![json!("created"); 12]);
    for deployment in shown.json().as_array().expect("deployments") {
        let environment = deployment["environment"]["name"].as_str().expect("a name");
        let job = environment.replace("env-", "job ");
        assert_eq!(deployment["deployable"]["name"], json!(job));
        assert_eq!(deployment["deployable"]["status"], "pending");
    }
}

async fn freeze_period_sets_ci_deploy_freeze_variable(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "frozen", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let variables = async |body: Value| {
        let created = root.post(&format!("{project_path}/pipeline"), body).await.expect(201).json();
        root.get(&format!("{project_path}/pipelines/{}/variables", created["id"])).await.expect(200).json()
    };
    assert_eq!(variables(json!({ "ref": "main" })).await, json!([]));
    // The freeze starts every minute and ends only on February 29.
    let period = json!({ "freeze_start": "* * * * *", "freeze_end": "0 0 29 2 *" });
    root.post(&format!("{project_path}/freeze_periods"), period).await.expect(201);
    let frozen = json!({ "variable_type": "env_var", "key": "CI_DEPLOY_FREEZE", "value": "true" });
    assert_eq!(variables(json!({ "ref": "main" })).await, json!([frozen]));
    let overridden = json!({ "ref": "main", "variables": [
        { "key": "CI_DEPLOY_FREEZE", "value": "false" }, { "key": "A", "value": "1" },
    ] });
    let other_variable = json!({ "variable_type": "env_var", "key": "A", "value": "1" });
    assert_eq!(variables(overridden).await, json!([other_variable, frozen]));
}

async fn commits_return_status_of_their_last_pipeline(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "commits", Visibility::Private).await;
    let commits = project.url("/commits");
    let statuses = async || root.get(&commits).await.expect(200).pluck("status");
    assert_eq!(statuses().await, [Value::Null, Value::Null]);
    pipeline(&root, project.id, "main").await;
    let last = pipeline(&root, project.id, "main").await;
    let one = root.get(&format!("{commits}/main")).await.expect(200).json();
    let listed = root.get(&format!("/projects/{}/pipelines", project.id)).await.expect(200).json();
    assert_eq!((&one["status"], &one["last_pipeline"]), (&json!("pending"), &listed[0]));
    assert_eq!(listed[0]["id"], last);
    assert_eq!(statuses().await, [json!("pending"), Value::Null]);
    let older = project.id("main~1");
    report(&root, project.id, &older, json!({ "state": "failed", "ref": "merged" })).await;
    assert_eq!(statuses().await, [json!("pending"), json!("failed")]);
    let before = server.statements();
    root.get(&commits).await.expect(200);
    let statement_count = server.statements() - before;
    let before = server.statements();
    root.get(&format!("{commits}?per_page=1")).await.expect(200);
    assert_eq!(server.statements() - before, statement_count);
}

on_every_database![
    pipelines_can_be_created_read_and_deleted,
    create_pipeline_requires_existing_branch_or_tag,
    create_pipeline_rejects_invalid_variables,
    pipeline_permissions_depend_on_role_and_branch_protection,
    public_project_shows_pipelines_unless_public_jobs_is_disabled,
    list_pipelines_applies_filters_and_orders,
    list_pipelines_sorts_pipelines_of_deleted_users_last,
    get_latest_pipeline_returns_newest_of_current_commit,
    cancel_and_retry_change_pipeline_and_job_statuses,
    cancel_and_retry_run_same_statements_for_any_number_of_jobs,
    cancel_and_retry_keep_updated_at_of_successful_pipeline,
    freeze_period_sets_ci_deploy_freeze_variable,
    commits_return_status_of_their_last_pipeline,
];
