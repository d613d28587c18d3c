//! Content and settings that a fork copies from its source.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::support::code::{NewCommit, Project, file};
use crate::support::git::{Work, address};
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n, as far as anybody looks";

async fn fork_copies_settings_of_its_source(server: TestServer) {
    let root = server.root();
    let copied = json!({
        "description": "Brass", "tag_list": "steam,brass", "merge_method": "ff", "squash_option": "always",
        "issues_access_level": "private", "snippets_access_level": "disabled",
        "merge_requests_access_level": "private", "builds_access_level": "private", "repository_access_level": "private",
        "forking_access_level": "private", "container_registry_enabled": false, "packages_enabled": true,
        "package_registry_access_level": "private", "releases_access_level": "private",
        "environments_access_level": "private", "feature_flags_access_level": "disabled",
        "infrastructure_access_level": "private", "monitor_access_level": "disabled",
        "security_and_compliance_access_level": "disabled",
        "public_jobs": false, "shared_runners_enabled": false, "ci_default_git_depth": 7,
        "ci_config_path": "ci/all.yml", "only_allow_merge_if_pipeline_succeeds": true,
        "only_allow_merge_if_all_discussions_are_resolved": true, "remove_source_branch_after_merge": false,
        "only_allow_merge_if_all_status_checks_passed": true,
        "resolve_outdated_diff_discussions": true, "autoclose_referenced_issues": false,
        "suggestion_commit_message": "Apply", "auto_devops_enabled": false, "auto_devops_deploy_strategy": "manual",
        "external_authorization_classification_label": "secret",
    });
    let own = json!({
        "approvals_before_merge": 3, "mirror": true, "mirror_trigger_builds": true, "service_desk_enabled": true,
        "request_access_enabled": false,
    });
    let source = project(&root, "source", json!({"visibility": "public"})).await;
    let plain = root.get(&format!("/projects/{}", project(&root, "plain", json!({})).await)).await.expect(200).json();
    root.put(&format!("/projects/{source}"), copied.clone()).await.expect(200);
    root.put(&format!("/projects/{source}"), own.clone()).await.expect(200);
    let ada = server.create_user("ada").await;
    server.insert_member(source, ada.id, storage::entities::AccessLevel::Reporter).await;
    let fork = ada.client.post(&format!("/projects/{source}/fork"), json!({})).await.expect(201).json();
    for (name, value) in copied.as_object().expect("an object") {
        let expected = if name == "tag_list" { &json!(["brass", "steam"]) } else { value };
        assert_eq!(&fork[name], expected, "{name}");
    }
    for name in own.as_object().expect("an object").keys() {
        assert_eq!(fork[name], plain[name], "{name}");
    }
    assert_eq!((&fork["star_count"], &fork["forks_count"]), (&json!(0), &json!(0)));
    assert_ne!(
        fork["runners_token"],
        root.get(&format!("/projects/{source}")).await.expect(200).json()["runners_token"]
    );
    // Later changes of the source do not affect the fork.
    root.put(&format!("/projects/{source}"), json!({"merge_method": "merge"})).await.expect(200);
    let read = ada.client.get(&format!("/projects/{}", fork["id"])).await.expect(200).json();
    assert_eq!(read["merge_method"], "ff");
}

async fn fork_copies_avatar_independently_of_its_source(server: TestServer) {
    let root = server.root();
    let source = project(&root, "source", json!({})).await;
    let one = format!("/projects/{source}");
    let form = Form::new().part("avatar", Part::bytes(PNG.to_vec()).file_name("a.png"));
    root.send(root.request(Method::PUT, &one).multipart(form)).await.expect(200);
    let fork = root.post(&format!("{one}/fork"), json!({"path": "copy", "name": "copy"})).await.expect(201).json();
    let address = format!("/uploads/-/system/project/avatar/{}/a.png", fork["id"]);
    assert_eq!(fork["avatar_url"], format!("{}{address}", server.base));
    assert_eq!(root.get(&format!("/{address}")).await.expect(200).body, PNG);
    root.put(&one, json!({"avatar": ""})).await.expect(200);
    assert_eq!(root.get(&format!("/{address}")).await.expect(200).body, PNG);
    let bare = root.post(&format!("{one}/fork"), json!({"path": "bare", "name": "bare"})).await.expect(201).json();
    assert_eq!(bare["avatar_url"], Value::Null);
    // A missing avatar file does not prevent the fork.
    let form = Form::new().part("avatar", Part::bytes(PNG.to_vec()).file_name("b.png"));
    root.send(root.request(Method::PUT, &one).multipart(form)).await.expect(200);
    server.backend.objects.delete_below(&format!("projects/{source}")).await.expect("a removal");
    let bare = root.post(&format!("{one}/fork"), json!({"path": "lost", "name": "lost"})).await.expect(201).json();
    assert_eq!(bare["avatar_url"], Value::Null);
}

async fn fork_of_archived_project_is_writable(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    source.archive().await;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    assert_eq!(fork["archived"], false);
    server.finish_jobs().await;
    let change = json!({"branch": "main", "content": "x", "commit_message": "Add"});
    ada.client.post(&format!("/projects/{}/repository/files/new", fork["id"]), change).await.expect(201);
    assert_eq!(root.get(&format!("/projects/{}", source.id)).await.expect(200).json()["archived"], true);
}

async fn fork_has_default_branch_of_its_source(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    root.put(&format!("/projects/{}", source.id), json!({"default_branch": "feature/x"})).await.expect(200);
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let read = ada.client.get(&format!("/projects/{}", fork["id"])).await.expect(200).json();
    assert_eq!(read["default_branch"], "feature/x");
    let work = Work::empty();
    work.git(&["clone", "--quiet", &address(&server.base, "ada", &ada.token, "ada/source"), "c"]).await;
    assert_eq!(work.below("c").git(&["branch", "--show-current"]).await, "feature/x");
}

async fn fork_of_empty_project_accepts_push_to_default_branch(server: TestServer) {
    let root = server.root();
    let source = project(&root, "source", json!({"visibility": "public", "default_branch": "trunk"})).await;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{source}/fork"), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let one = format!("/projects/{}", fork["id"]);
    let read = ada.client.get(&one).await.expect(200).json();
    assert_eq!((&read["empty_repo"], &read["import_status"]), (&json!(true), &json!("finished")));
    let id = fork["id"].as_i64().expect("an id");
    assert_eq!(server.repository(id).default_branch().await.expect("HEAD"), "trunk");
    let work = Work::new().await;
    let url = address(&server.base, "ada", &ada.token, "ada/source");
    work.git(&["push", "--quiet", &url, "main:trunk"]).await;
    assert_eq!(ada.client.get(&one).await.expect(200).json()["default_branch"], "trunk");
    assert_eq!(root.get(&format!("/projects/{source}")).await.expect(200).json()["empty_repo"], true);
}

async fn fork_of_large_project_shares_pack_files(server: TestServer) {
    let source = Project::empty(&server, "large", Visibility::Public).await;
    let noise: String = (0..40_000_u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    source.import(&NewCommit { changes: file("noise", &noise), ..NewCommit::default() });
    source.set_default_branch("main").await;
    let tip = source.id("main");
    let references: String =
        (0..3_000).map(|n| format!("create refs/heads/topic/{n} {tip}\ncreate refs/tags/v{n} {tip}\n")).collect();
    source.git_with(&["update-ref", "--stdin"], &references);
    source.git(&["repack", "-adq"]);
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let branches = format!("/projects/{}/repository/branches?per_page=1", fork["id"]);
    assert_eq!(ada.client.get(&branches).await.expect(200).header("x-total"), "3001");
    let tags = format!("/projects/{}/repository/tags?per_page=1", fork["id"]);
    assert_eq!(ada.client.get(&tags).await.expect(200).header("x-total"), "3000");
    let id = git::RepositoryId::of_project(fork["id"].as_i64().expect("an id"));
    let name = format!("{id:?}");
    let directory = server.data().join("repositories").join(&name[..2]).join(&name[2..4]).join(format!("{name}.git"));
    let pack = |directory: &std::path::Path| {
        use std::os::unix::fs::MetadataExt;
        let entries = std::fs::read_dir(directory.join("objects/pack")).expect("a directory").flatten();
        let packs = entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "pack"));
        packs.map(|entry| entry.metadata().expect("a file").ino()).collect::<Vec<_>>()
    };
    assert_eq!(pack(&directory), pack(&source.directory));
}

async fn fork_to_taken_path_or_name_returns_409(server: TestServer) {
    let root = server.root();
    let source = project(&root, "source", json!({"visibility": "public"})).await;
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    group(&root, "inner", json!({"parent_id": team})).await;
    project(&root, "Source", json!({"namespace_id": team, "name": "Other"})).await;
    let fork = format!("/projects/{source}/fork");
    for (body, message) in [
        (json!({"namespace_id": team}), "path has already been taken"),
        (json!({"namespace_path": "Team"}), "path has already been taken"),
        (json!({"namespace": "team", "path": "fresh", "name": "OTHER"}), "name has already been taken"),
        (json!({"namespace": "team", "path": "Inner", "name": "New"}), "path has already been taken"),
        (json!({}), "name has already been taken, path has already been taken"),
    ] {
        assert_eq!(root.post(&fork, body.clone()).await.expect(409).message(), message, "{body}");
    }
    assert_eq!(root.get(&format!("/projects/{source}")).await.expect(200).json()["forks_count"], 0);
    // Two concurrent requests for the same path.
    let body = json!({"namespace_id": team, "path": "fresh", "name": "New"});
    let (first, second) = tokio::join!(root.post(&fork, body.clone()), root.post(&fork, body));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    assert_eq!(root.get(&format!("/projects/{source}")).await.expect(200).json()["forks_count"], 1);
}

async fn fork_of_fork_remains_after_deletion_of_its_source(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    let fork = async |of: i64, path: &str| {
        let body = json!({"path": path, "name": path});
        let created = root.post(&format!("/projects/{of}/fork"), body).await.expect(201).json();
        server.finish_jobs().await;
        created["id"].as_i64().expect("an id")
    };
    let middle = fork(source.id, "middle").await;
    let last = fork(middle, "last").await;
    root.delete(&format!("/projects/{middle}")).await.expect(202);
    // A project that is pending deletion or deleted is not shown as the source.
    for _ in 0..2 {
        let read = root.get(&format!("/projects/{last}")).await.expect(200).json();
        assert!(read.get("forked_from_project").is_none());
        server.finish_jobs().await;
    }
    assert_eq!(server.repository(last).fsck().await.expect("a check"), [""; 0]);
    assert_eq!(root.get(&format!("/projects/{}", source.id)).await.expect(200).json()["forks_count"], 0);
    root.get(&format!("/projects/{last}/repository/files/README.md?ref=main")).await.expect(200);
    root.delete(&format!("/projects/{last}/fork")).await.expect(304);
}

on_every_database![
    fork_copies_settings_of_its_source,
    fork_copies_avatar_independently_of_its_source,
    fork_of_archived_project_is_writable,
    fork_has_default_branch_of_its_source,
    fork_of_empty_project_accepts_push_to_default_branch,
    fork_of_large_project_shares_pack_files,
    fork_to_taken_path_or_name_returns_409,
    fork_of_fork_remains_after_deletion_of_its_source,
];
