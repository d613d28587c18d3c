//! Creating projects.

use domain::code::jobs::create_repository::{self, CreateRepository};
use git::RepositoryId;
use serde_json::{Value, json};
use storage::jobs;

use crate::support::spaces::{group, id, project};
use crate::support::{Client, TestServer, on_every_database};

async fn create_project_returns_defaults_and_empty_repository(server: TestServer) {
    let ada = server.create_user("ada").await;
    let created = ada.client.post("/projects", json!({"name": "Foo Project"})).await.expect(201).json();
    let base = &server.base;
    for (field, value) in [
        ("path", json!("foo-project")),
        ("path_with_namespace", json!("ada/foo-project")),
        ("name_with_namespace", json!("Name of ada / Foo Project")),
        ("default_branch", Value::Null),
        ("empty_repo", json!(true)),
        ("visibility", json!("private")),
        ("merge_method", json!("merge")),
        ("issues_enabled", json!(true)),
        ("ci_default_git_depth", json!(50)),
        ("tag_list", json!([])),
        ("topics", json!([])),
        ("squash_option", json!("default_off")),
        ("creator_id", json!(ada.id)),
        ("http_url_to_repo", json!(format!("{base}/ada/foo-project.git"))),
        ("ssh_url_to_repo", json!("")),
        ("import_error", Value::Null),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    assert_eq!(created["owner"]["username"], "ada");
    assert_eq!(created["namespace"]["kind"], "user");
    assert_eq!(created["runners_token"].as_str().map(str::len), Some(32));
    assert_eq!(created["permissions"]["project_access"]["access_level"], 40);
    assert_eq!(created["repository_storage"], Value::Null);
    assert!(server.backend.repositories.exists(&RepositoryId::of_project(id(&created))).await.expect("a look"));
    let members = ada.client.get(&format!("/projects/{}/members", created["id"])).await.expect(200);
    assert_eq!(members.pluck("access_level"), [40]);
}

async fn initialize_with_readme_creates_first_commit_on_default_branch(server: TestServer) {
    let root = server.root();
    let body = json!({"name": "Engine", "description": "Steam", "initialize_with_readme": true, "tag_list": "b, a,,b"});
    let created = root.post("/projects", body).await.expect(201).json();
    assert_eq!((&created["default_branch"], &created["empty_repo"]), (&json!("main"), &json!(false)));
    assert_eq!(created["tag_list"], json!(["a", "b"]));
    assert_eq!(created["readme_url"], format!("{}/root/engine/-/blob/main/README.md", server.base));
    let repository = server.backend.repositories.repository(&RepositoryId::of_project(id(&created)));
    let tip = repository.resolve_commit("main").await.expect("a commit");
    let file = repository.locate(tip, "README.md").await.expect("a look").entry.expect("a file");
    let blob = repository.blob(file.id, 1_000).await.expect("a blob");
    assert_eq!(blob.data.as_ref(), b"# Engine\n\nSteam\n");
    let other = json!({"path": "other", "initialize_with_readme": true, "default_branch": "trunk/x#1"});
    let other = root.post("/projects", other).await.expect(201).json();
    assert_eq!(other["default_branch"], "trunk/x#1");
    assert_eq!(other["readme_url"], format!("{}/root/other/-/blob/trunk/x%231/README.md", server.base));
}

async fn create_project_rejects_invalid_attributes_by_field(server: TestServer) {
    let root = server.root();
    project(&root, "taken", json!({"name": "Taken"})).await;
    let none = root.post("/projects", json!({})).await.expect(400);
    assert_eq!(none.message(), "name, path are missing, at least one parameter must be provided");
    let both = root.post("/projects", json!({"name": "tAken", "path": "TAKEN"})).await.expect(400);
    assert_eq!(both.json()["message"], json!({"name": ["has already been taken"], "path": ["has already been taken"]}));
    let path = root.post("/projects", json!({"name": "Other", "path": "taken"})).await.expect(400);
    assert_eq!(path.json()["message"], json!({"path": ["has already been taken"]}));
    for (body, field) in [
        (json!({"name": "<b>", "path": "a"}), "name"),
        (json!({"name": "a", "path": ".."}), "path"),
        (json!({"name": "a", "path": "a/b"}), "path"),
        (json!({"name": "a", "path": "a.GIT"}), "path"),
        (json!({"name": "a", "path": "-x"}), "path"),
        (json!({"name": "a", "path": "blob"}), "path"),
        (json!({"name": "日本"}), "path"),
        (json!({"name": "a", "default_branch": "a..b"}), "default_branch"),
    ] {
        let response = root.post("/projects", body.clone()).await.expect(400);
        assert!(response.json()["message"][field].is_array(), "{body}: {}", response.message());
    }
    for body in [
        json!({"name": "a\u{0}"}),
        json!({"name": {"a": 1}}),
        json!({"name": "a", "visibility": "open"}),
        json!({"name": "a", "merge_method": "squash"}),
        json!({"name": "a", "squash_option": "off"}),
        json!({"name": "a", "topics": vec!["x"; 101]}),
        json!({"name": "a", "tag_list": "x".repeat(300)}),
        json!({"name": "a", "tag_list": vec!["x"; 101]}),
        json!({"name": "a", "ci_default_git_depth": 1001}),
        json!({"name": "a", "approvals_before_merge": 4_000_000_000_i64}),
    ] {
        root.post("/projects", body).await.expect(400);
    }
    server.anonymous().post("/projects", json!({"name": "a"})).await.expect(401);
}

async fn project_and_group_cannot_share_a_path(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    group(&root, "inner", json!({"parent_id": engines})).await;
    project(&root, "work", json!({"namespace_id": engines})).await;
    let response = root.post("/projects", json!({"path": "Inner", "namespace_id": engines})).await.expect(400);
    assert_eq!(response.json()["message"], json!({"path": ["has already been taken"]}));
    let body = json!({"name": "w", "path": "Work", "parent_id": engines});
    root.post("/groups", body).await.expect(400);
}

async fn project_creation_level_restricts_project_creation(server: TestServer) {
    let root = server.root();
    let easy = group(&root, "easy", json!({})).await;
    let members = server.create_member_per_role(&root, easy).await;
    let strict = group(&root, "strict", json!({"project_creation_level": "maintainer"})).await;
    let closed = group(&root, "closed", json!({"project_creation_level": "noone"})).await;
    for (level, user) in &members {
        for group_id in [strict, closed] {
            crate::support::spaces::join(&root, &format!("/groups/{group_id}"), user.id, *level).await;
        }
        for (group_id, least) in [(easy, 30), (strict, 40), (closed, 99)] {
            let body = json!({"path": format!("by{level}"), "namespace_id": group_id});
            let response = user.client.post("/projects", body).await;
            assert_eq!(response.status, if *level >= least { 201 } else { 400 }, "{level} in {group_id}");
            if response.status == 400 {
                assert_eq!(response.json()["message"], json!({"namespace": ["is not valid"]}));
            }
        }
    }
    // A Developer of the group is a Maintainer of the projects that they create.
    let developer = &members[2].1;
    let created = developer.client.get("/projects/easy%2Fby30").await.expect(200).json();
    assert_eq!(created["permissions"]["project_access"]["access_level"], 40);
    assert_eq!(created["permissions"]["group_access"]["access_level"], 30);
    let non_member = server.create_user("stranger").await;
    for namespace in [easy, 1, 999_999] {
        let body = json!({"path": "x", "namespace_id": namespace});
        let response = non_member.client.post("/projects", body).await.expect(400);
        assert_eq!(response.json()["message"], json!({"namespace": ["is not valid"]}));
    }
}

async fn create_project_rejects_visibility_above_its_group(server: TestServer) {
    let root = server.root();
    let inside = group(&root, "inside", json!({"visibility": "internal"})).await;
    let body = json!({"path": "a", "namespace_id": inside, "visibility": "public"});
    let response = root.post("/projects", body).await.expect(400);
    assert_eq!(response.json()["message"], json!({"visibility_level": ["public is not allowed in a internal group."]}));
    project(&root, "a", json!({"namespace_id": inside, "visibility": "internal"})).await;
}

async fn create_project_returns_403_at_project_limit(server: TestServer) {
    use sea_orm::ConnectionTrait;
    let ada = server.create_user("ada").await;
    let sql = format!("UPDATE users SET projects_limit = 1 WHERE id = {}", ada.id);
    server.backend.database.write().execute_unprepared(&sql).await.expect("an update");
    project(&ada.client, "one", json!({})).await;
    let response = ada.client.post("/projects", json!({"path": "two"})).await.expect(403);
    assert!(response.message().contains("Your project limit is 1 projects!"), "{}", response.message());
    assert_eq!(response.json()["setting"], "projects_limit");
}

async fn missing_repository_is_created_by_the_job(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    // The repository exists, so no job is pending.
    let backlog = jobs::backlog(server.backend.database.read()).await.expect("a backlog");
    assert_eq!((backlog.waiting, backlog.running), (0, 0));
    let repository = RepositoryId::of_project(work);
    let store = &server.backend.repositories;
    // Simulates a server that was killed after the insert and before the repository was created.
    store.remove(&repository).await.expect("a removal");
    let job = || CreateRepository { project_id: work, default_branch: "main".to_owned() };
    for _ in 0..2 {
        create_repository::run(server.backend.clone(), job()).await.expect("a run");
        assert!(store.exists(&repository).await.expect("a look"));
    }
    let absent = CreateRepository { project_id: 999_999, default_branch: "main".to_owned() };
    create_repository::run(server.backend.clone(), absent).await.expect("a run");
    assert!(!store.exists(&RepositoryId::of_project(999_999)).await.expect("a look"));
}

async fn failed_repository_creation_leaves_no_project(server: TestServer) {
    let root = server.root();
    let last = project(&root, "last", json!({})).await;
    // Another repository exists at the path of the next one.
    let store = &server.backend.repositories;
    let next = RepositoryId::of_project(last + 1);
    let repository = store.create(&next, "main").await.expect("a repository");
    repository.create_branch("x", "HEAD").await.expect_err("nothing to branch from");
    let author = git::Signature::new("a", "a@example.com", storage::entities::now());
    let request = git::CommitRequest {
        branch: "other".to_owned(),
        start: git::BranchStart::Head,
        force: false,
        allow_empty: true,
        message: "x".to_owned(),
        author: author.clone(),
        committer: author,
        actions: vec![],
    };
    repository.commit_actions(request).await.expect("a commit");
    let body = json!({"path": "next", "initialize_with_readme": true});
    let response = root.post("/projects", body).await;
    assert_eq!(response.status, 404, "{}", response.message());
    assert_eq!(root.get("/projects?search=next").await.expect(200).json(), json!([]));
    assert!(!store.exists(&next).await.expect("a look"));
    // A server that is killed after the deletion of the row leaves the repository.
    store.create(&next, "main").await.expect("a repository");
    server.finish_jobs().await;
    assert!(!store.exists(&next).await.expect("a look"));
}

/// Returns the branch that HEAD of a new project names.
async fn new_default_branch(client: &Client, server: &TestServer, body: Value) -> String {
    let created = client.post("/projects", body).await.expect(201).json();
    let id = RepositoryId::of_project(created["id"].as_i64().expect("an ID"));
    server.backend.repositories.repository(&id).default_branch().await.expect("a branch")
}

async fn default_branch_follows_request_then_group_then_instance(server: TestServer) {
    let root = server.root();
    let branch = async |body: Value| new_default_branch(&root, &server, body).await;
    let top = group(&root, "top", json!({})).await;
    let inner = group(&root, "inner", json!({ "parent_id": top })).await;
    let old = project(&root, "old", json!({ "namespace_id": top, "initialize_with_readme": true })).await;
    assert_eq!(branch(json!({ "path": "a" })).await, "main");
    assert_eq!(branch(json!({ "path": "a", "namespace_id": inner })).await, "main");
    root.put("/application/settings", json!({ "default_branch_name": "trunk" })).await.expect(200);
    assert_eq!(branch(json!({ "path": "b" })).await, "trunk");
    assert_eq!(branch(json!({ "path": "b", "namespace_id": inner })).await, "trunk");
    root.put(&format!("/groups/{top}"), json!({ "default_branch": "group/main" })).await.expect(200);
    assert_eq!(branch(json!({ "path": "c" })).await, "trunk");
    assert_eq!(branch(json!({ "path": "c", "namespace_id": top })).await, "group/main");
    assert_eq!(branch(json!({ "path": "c", "namespace_id": inner })).await, "group/main");
    root.put(&format!("/groups/{inner}"), json!({ "default_branch": "inner" })).await.expect(200);
    assert_eq!(branch(json!({ "path": "d", "namespace_id": inner })).await, "inner");
    let chosen = json!({ "path": "e", "namespace_id": inner, "default_branch": "own" });
    assert_eq!(branch(chosen).await, "own");
    root.put(&format!("/groups/{inner}"), json!({ "default_branch": null })).await.expect(200);
    let created = json!({ "path": "f", "namespace_id": inner, "initialize_with_readme": true });
    let created = root.post("/projects", created).await.expect(201).json();
    assert_eq!(created["default_branch"], "group/main");
    // Existing projects and their forks do not change.
    assert_eq!(root.get(&format!("/projects/{old}")).await.expect(200).json()["default_branch"], "main");
    let fork = root.post(&format!("/projects/{old}/fork"), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let fork = root.get(&format!("/projects/{}", fork["id"])).await.expect(200).json();
    assert_eq!(fork["default_branch"], "main");
}

async fn default_branch_of_group_must_be_a_branch_name(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let expected = json!({ "default_branch": ["is not a valid branch name"] });
    for name in ["a..b", "-x", "x.lock", "a b"] {
        let body = json!({ "default_branch": name });
        let rejected = root.put(&format!("/groups/{top}"), body.clone()).await.expect(400);
        assert_eq!(rejected.json()["message"], expected, "{name}");
        let settings = root.put("/application/settings", json!({ "default_branch_name": name })).await.expect(400);
        assert!(settings.message().contains("is not a valid branch name"), "{name}");
    }
}

on_every_database![
    default_branch_follows_request_then_group_then_instance,
    default_branch_of_group_must_be_a_branch_name,
    create_project_returns_defaults_and_empty_repository,
    initialize_with_readme_creates_first_commit_on_default_branch,
    create_project_rejects_invalid_attributes_by_field,
    project_and_group_cannot_share_a_path,
    project_creation_level_restricts_project_creation,
    create_project_rejects_visibility_above_its_group,
    create_project_returns_403_at_project_limit,
    missing_repository_is_created_by_the_job,
    failed_repository_creation_leaves_no_project,
];
