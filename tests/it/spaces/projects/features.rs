//! Features of a project that are disabled or restricted to members.

use contract::operation::Operation;
use contract::table::operations;
use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Returns whether an operation reads or writes the repository of a project.
fn is_code_operation(operation: &&Operation) -> bool {
    operation.path.contains("/projects/{id}/repository/") || operation.id == "get_project_languages"
}

/// Calls an operation with an existing value for each of its parameters.
async fn call(client: &Client, operation: &Operation, project: &Project<'_>) -> ApiResponse {
    let path = operation.path.trim_start_matches("/api/v4").split('/').map(|part| match part.split_once('{') {
        None => part.to_owned(),
        Some((before, name)) => {
            let value = match name.trim_end_matches('}') {
                "id" => project.id.to_string(),
                "sha" if operation.id.contains("blob") => project.id("main:README.md"),
                "sha" => project.id("main"),
                "branch" => "main".to_owned(),
                "tag_name" => "v1".to_owned(),
                "file_path" => segment("README.md"),
                "format" => "zip".to_owned(),
                other => panic!("{}: add a value for {other} here", operation.id),
            };
            format!("{before}{value}")
        }
    });
    let path = path.collect::<Vec<_>>().join("/");
    let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
    let mut request = client.request(method, &path);
    if operation.is_read() {
        request =
            request.query(&[("ref", "main"), ("from", "v1"), ("to", "main"), ("refs[]", "v1"), ("refs[]", "main")]);
    } else {
        request = request.json(&json!({
            "branch": "main", "ref": "main", "tag_name": "v2", "note": "x", "content": "x", "commit_message": "x",
            "actions": [{"action": "create", "file_path": "x", "content": "x"}],
        }));
    }
    client.send(request).await
}

/// Returns the repository operations with an unexpected status.
async fn unexpected_responses(
    client: &Client,
    project: &Project<'_>,
    reads: bool,
    expected_status: impl Fn(&Operation) -> u16,
) -> Vec<String> {
    let mut unexpected_responses = Vec::new();
    let mut called = 0;
    for operation in operations().iter().filter(is_code_operation).filter(|operation| operation.is_read() || !reads) {
        called += 1;
        let response = call(client, operation, project).await;
        if response.status != expected_status(operation) {
            unexpected_responses.push(format!("{}: {} {}", operation.id, response.status, response.text()));
        }
    }
    assert!(called > 20, "only {called} operations were called");
    unexpected_responses
}

/// Returns the expected status with a repository. No commit is signed.
fn status_with_repository(operation: &Operation) -> u16 {
    if operation.id == "get_commit_signature" { 404 } else { operation.success }
}

/// Returns the expected status without a repository: 403 for files and 404 otherwise.
fn status_without_repository(operation: &Operation) -> u16 {
    if operation.path.contains("/repository/files/") { 403 } else { 404 }
}

async fn set(client: &Client, project: &Project<'_>, settings: Value) {
    client.put(&format!("/projects/{}", project.id), settings).await.expect(200);
}

async fn disabled_repository_is_unavailable_to_all_callers(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Public).await;
    project.git(&["tag", "v1", "main~1"]);
    let none: Vec<String> = Vec::new();
    // With an enabled repository all requests succeed.
    assert_eq!(unexpected_responses(&server.anonymous(), &project, true, status_with_repository).await, none);
    let one = format!("/projects/{}", project.id);
    set(&root, &project, json!({"repository_access_level": "disabled"})).await;
    assert_eq!(unexpected_responses(&root, &project, false, status_without_repository).await, none);
    assert_eq!(unexpected_responses(&server.anonymous(), &project, true, status_without_repository).await, none);
    for client in [&root, &server.anonymous()] {
        let read = client.get(&one).await.expect(200).json();
        assert_eq!((&read["default_branch"], &read["readme_url"]), (&Value::Null, &Value::Null));
    }
    let read = root.get(&format!("{one}?license=true")).await.expect(200).json();
    assert_eq!((&read["license"], &read["can_create_merge_request_in"]), (&Value::Null, &json!(false)));
    root.post(&format!("{one}/fork"), json!({"path": "copy", "name": "copy"})).await.expect(404);
    let other = Project::with_commits(&server, "other", Visibility::Public).await;
    let start = json!({"branch": "new", "start_project": project.id, "start_branch": "main", "commit_message": "x",
        "actions": [{"action": "create", "file_path": "x", "content": "x"}]});
    root.post(&other.url("/commits"), start).await.expect(404);
    let work = Work::new().await;
    let url = address(&server.base, "root", crate::support::server::ROOT_TOKEN, &project.path);
    work.fails(&["clone", "--quiet", &url, "c"]).await;
    work.fails(&["push", "--quiet", &url, "main:new"]).await;
    // The repository is unchanged after it is enabled again.
    set(&root, &project, json!({"repository_access_level": "enabled"})).await;
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged"]);
    assert_eq!(unexpected_responses(&server.anonymous(), &project, true, status_with_repository).await, none);
}

async fn private_repository_is_available_to_members_only(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Public).await;
    project.git(&["tag", "v1", "main~1"]);
    set(&root, &project, json!({"repository_access_level": "private"})).await;
    let (guest, non_member) = (server.create_user("guest").await, server.create_user("stranger").await);
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    let none: Vec<String> = Vec::new();
    assert_eq!(unexpected_responses(&server.anonymous(), &project, true, status_without_repository).await, none);
    assert_eq!(unexpected_responses(&non_member.client, &project, true, status_without_repository).await, none);
    assert_eq!(unexpected_responses(&guest.client, &project, true, status_with_repository).await, none);
    let one = format!("/projects/{}", project.id);
    let shown = |client: &Client| {
        let (client, one) = (client.clone(), one.clone());
        async move { client.get(&one).await.expect(200).json()["default_branch"].clone() }
    };
    assert_eq!((shown(&guest.client).await, shown(&non_member.client).await), (json!("main"), Value::Null));
    assert_eq!(shown(&server.anonymous()).await, Value::Null);
    non_member.client.post(&format!("{one}/fork"), json!({})).await.expect(404);
    guest.client.post(&format!("{one}/fork"), json!({})).await.expect(201);
    let work = Work::empty();
    let url = |name: &str, token: &str| address(&server.base, name, token, &project.path);
    work.fails(&["clone", "--quiet", &url("stranger", &non_member.token), "c"]).await;
    work.git(&["clone", "--quiet", &url("guest", &guest.token), "c"]).await;
    // In a private project guests cannot read the code.
    set(&root, &project, json!({"visibility": "private"})).await;
    assert_eq!(unexpected_responses(&guest.client, &project, true, |_| 403).await, none);
    work.fails(&["clone", "--quiet", &url("guest", &guest.token), "d"]).await;
    assert_eq!(shown(&guest.client).await, Value::Null);
}

async fn forking_access_level_restricts_forks(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Public).await;
    let fork = format!("/projects/{}/fork", project.id);
    let (guest, non_member) = (server.create_user("guest").await, server.create_user("stranger").await);
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    let own = crate::support::spaces::project(&non_member.client, "own", json!({})).await;
    set(&root, &project, json!({"forking_access_level": "private"})).await;
    non_member.client.post(&fork, json!({})).await.expect(404);
    non_member.client.post(&format!("/projects/{own}/fork/{}", project.id), json!({})).await.expect(404);
    guest.client.post(&fork, json!({})).await.expect(201);
    set(&root, &project, json!({"forking_access_level": "disabled"})).await;
    guest.client.post(&fork, json!({"path": "b", "name": "b"})).await.expect(404);
    root.post(&fork, json!({"path": "b", "name": "b"})).await.expect(404);
    assert_eq!(root.get(&format!("/projects/{}", project.id)).await.expect(200).json()["forks_count"], 1);
}

async fn feature_flags_reflect_access_of_the_caller(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Public).await;
    let all = ["issues", "merge_requests", "snippets"];
    let mut settings = json!({"builds_access_level": "private"});
    for name in all {
        settings[format!("{name}_access_level")] = json!("private");
    }
    set(&root, &project, settings).await;
    let (guest, non_member) = (server.create_user("guest").await, server.create_user("stranger").await);
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    for (client, on) in [(&guest.client, true), (&non_member.client, false)] {
        let read = client.get(&format!("/projects/{}", project.id)).await.expect(200).json();
        for name in all {
            assert_eq!(
                (&read[format!("{name}_enabled")], &read[format!("{name}_access_level")]),
                (&json!(on), &json!("private")),
                "{name}"
            );
        }
        assert_eq!((&read["jobs_enabled"], read["_links"]["issues"].is_string()), (&json!(on), on));
    }
    let listed = non_member.client.get("/projects?with_issues_enabled=true").await.expect(200).json();
    assert_eq!(listed, json!([]));
}

async fn package_flag_and_level_always_agree(server: TestServer) {
    let root = server.root();
    let settings = json!({"packages_enabled": false, "visibility": "public"});
    let id = crate::support::spaces::project(&root, "work", settings).await;
    let one = format!("/projects/{id}");
    let read = async |client: &Client| {
        let read = client.get(&one).await.expect(200).json();
        json!([read["package_registry_access_level"], read["packages_enabled"]])
    };
    assert_eq!(read(&root).await, json!(["disabled", false]));
    for (sent, expected) in [
        (json!({"packages_enabled": true}), json!(["enabled", true])),
        (json!({"package_registry_access_level": "private"}), json!(["private", true])),
        (json!({"packages_enabled": false}), json!(["disabled", false])),
        (json!({"package_registry_access_level": "enabled"}), json!(["enabled", true])),
        // The level overrides the flag.
        (json!({"packages_enabled": true, "package_registry_access_level": "disabled"}), json!(["disabled", false])),
        (json!({"packages_enabled": false, "package_registry_access_level": "private"}), json!(["private", true])),
        (json!({"description": "x"}), json!(["private", true])),
    ] {
        root.put(&one, sent.clone()).await.expect(200);
        assert_eq!(read(&root).await, expected, "{sent}");
    }
    let stranger = server.create_user("stranger").await.client;
    assert_eq!(read(&stranger).await, json!(["private", false]));
    for level in [json!("public"), json!(""), json!(true), json!("Private")] {
        for name in ["package_registry_access_level", "releases_access_level"] {
            root.put(&one, json!({ name: level, "description": "changed" })).await.expect(400);
        }
    }
    let created = crate::support::spaces::project(&root, "plain", json!({})).await;
    let created = root.get(&format!("/projects/{created}")).await.expect(200).json();
    assert_eq!(created["releases_access_level"], "enabled");
    assert_eq!(
        (&created["packages_enabled"], &created["package_registry_access_level"]),
        (&json!(true), &json!("enabled"))
    );
    // Anonymous callers receive the basic attributes.
    let basic = server.anonymous().get(&one).await.expect(200).json();
    assert_eq!((basic.get("releases_access_level"), basic.get("package_registry_access_level")), (None, None));
}

async fn levels_of_areas_have_defaults_and_refuse_unknown_values(server: TestServer) {
    let root = server.root();
    let levels = [
        ("environments_access_level", "enabled"),
        ("feature_flags_access_level", "enabled"),
        ("infrastructure_access_level", "enabled"),
        ("monitor_access_level", "enabled"),
        ("security_and_compliance_access_level", "private"),
    ];
    let plain = crate::support::spaces::project(&root, "plain", json!({"visibility": "public"})).await;
    let one = format!("/projects/{plain}");
    let read = root.get(&one).await.expect(200).json();
    let basic = server.anonymous().get(&one).await.expect(200).json();
    for (name, default) in levels {
        assert_eq!(read[name], default, "{name}");
        assert_eq!(basic.get(name), None, "{name}");
        root.put(&one, json!({ name: "public" })).await.expect(400);
        root.put(&one, json!({ name: "disabled" })).await.expect(200);
        assert_eq!(root.get(&one).await.expect(200).json()[name], "disabled", "{name}");
        // New projects accept the levels, too.
        let new = crate::support::spaces::project(&root, &name.replace('_', "-"), json!({ name: "disabled" })).await;
        assert_eq!(root.get(&format!("/projects/{new}")).await.expect(200).json()[name], "disabled", "{name}");
    }
}

async fn responses_do_not_contain_features_without_effect(server: TestServer) {
    let root = server.root();
    let group = crate::support::spaces::group(&root, "engines", json!({"lfs_enabled": true})).await;
    let settings =
        json!({"namespace_id": group, "wiki_enabled": true, "wiki_access_level": "enabled", "lfs_enabled": true});
    let project = crate::support::spaces::project(&root, "work", settings).await;
    let read = root.get(&format!("/projects/{project}")).await.expect(200).json();
    for (name, value) in [
        ("wiki_enabled", json!(false)),
        ("wiki_access_level", json!("disabled")),
        ("lfs_enabled", json!(false)),
        ("ssh_url_to_repo", json!("")),
    ] {
        assert_eq!(read[name], value, "{name}");
    }
    assert_eq!(root.get(&format!("/groups/{group}")).await.expect(200).json()["lfs_enabled"], false);
}

on_every_database![
    responses_do_not_contain_features_without_effect,
    disabled_repository_is_unavailable_to_all_callers,
    private_repository_is_available_to_members_only,
    forking_access_level_restricts_forks,
    feature_flags_reflect_access_of_the_caller,
    package_flag_and_level_always_agree,
    levels_of_areas_have_defaults_and_refuse_unknown_values,
];
