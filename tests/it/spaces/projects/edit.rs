//! Updating, archiving and unarchiving projects.

use serde_json::json;

use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn update_requires_maintainer_and_for_name_and_visibility_owner(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let one = format!("/projects/{work}");
    for (level, user) in server.create_member_per_role(&root, engines).await {
        let put = async |body| user.client.put(&one, body).await.status;
        let from = |least: i64| if level >= least { 200 } else { 403 };
        assert_eq!(put(json!({"description": "x"})).await, from(40), "{level}");
        assert_eq!(put(json!({"path": "work"})).await, from(40), "{level}");
        assert_eq!(put(json!({"name": "Work"})).await, from(50), "{level}");
        assert_eq!(put(json!({"visibility": "internal"})).await, from(50), "{level}");
        let posted = |least: i64| if level >= least { 201 } else { 403 };
        for action in ["archive", "unarchive"] {
            let response = user.client.post(&format!("{one}/{action}"), json!({})).await;
            assert_eq!(response.status, posted(50), "{level} {action}");
        }
        if level < 50 {
            user.client.delete(&one).await.expect(403);
        }
    }
    for action in ["archive", "unarchive"] {
        server.anonymous().post(&format!("{one}/{action}"), json!({})).await.expect(401);
    }
    server.anonymous().put(&one, json!({"path": "x"})).await.expect(401);
    server.anonymous().delete(&one).await.expect(401);
}

async fn update_project_stores_and_returns_all_settings(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let new = root.get(&format!("/projects/{work}")).await.expect(200).json();
    assert_eq!((&new["emails_enabled"], &new["build_timeout"]), (&json!(true), &json!(3600)));
    let sent = json!({
        "name": "New Name", "path": "new-path", "description": "d", "visibility": "public",
        "issues_access_level": "private", "merge_method": "ff",
        "request_access_enabled": false, "packages_enabled": false, "package_registry_access_level": "disabled",
        "releases_access_level": "private", "environments_access_level": "private",
        "feature_flags_access_level": "disabled", "infrastructure_access_level": "private", "monitor_access_level": "disabled",
        "security_and_compliance_access_level": "enabled",
        "service_desk_enabled": true, "resolve_outdated_diff_discussions": true, "shared_runners_enabled": false,
        "public_jobs": false, "ci_default_git_depth": 7, "ci_config_path": "ci.yml", "build_timeout": 600,
        "emails_enabled": false,
        "only_allow_merge_if_pipeline_succeeds": true, "only_allow_merge_if_all_status_checks_passed": true,
        "remove_source_branch_after_merge": false,
        "autoclose_referenced_issues": false, "suggestion_commit_message": "m", "auto_devops_enabled": false,
        "auto_devops_deploy_strategy": "manual", "approvals_before_merge": 2, "mirror": true, "mirror_user_id": 1,
        "external_authorization_classification_label": "l", "repository_storage": "default",
    });
    let changed = root.put(&format!("/projects/{work}"), sent.clone()).await.expect(200).json();
    for (field, value) in sent.as_object().expect("an object") {
        assert_eq!(&changed[field], value, "{field}");
    }
    assert_eq!(root.get("/projects/root%2Fwork").await.expect(200).json()["id"], work);
    assert_eq!(root.get("/projects/root%2Fnew-path").await.expect(200).json()["id"], work);
    let cleared = root
        .put(
            &format!("/projects/{work}"),
            json!({"description": null, "tag_list": "x", "ci_default_git_depth": 0, "ci_config_path": ""}),
        )
        .await;
    let cleared = cleared.expect(200).json();
    assert_eq!((&cleared["description"], &cleared["ci_default_git_depth"]), (&json!(null), &json!(null)));
    assert_eq!((&cleared["tag_list"], &cleared["name"]), (&json!(["x"]), &json!("New Name")));
    // Both are a list or a text, and `topics` overrides `tag_list`.
    for (sent, shown) in [
        (json!({"topics": ["b", "a", "b"], "tag_list": "c"}), json!(["a", "b"])),
        (json!({"topics": "d, e"}), json!(["d", "e"])),
        (json!({"topics": ""}), json!([])),
        (json!({"tag_list": "x"}), json!(["x"])),
        (json!({"tag_list": ["z", "y", "z"]}), json!(["y", "z"])),
        (json!({"tag_list": "", "topics": "x"}), json!(["x"])),
        (json!({"tag_list": []}), json!([])),
        (json!({"tag_list": "x, w"}), json!(["w", "x"])),
        (json!({"tag_list": ""}), json!([])),
    ] {
        let changed = root.put(&format!("/projects/{work}"), sent.clone()).await.expect(200).json();
        assert_eq!((&changed["topics"], &changed["tag_list"]), (&shown, &shown), "{sent}");
    }
}

async fn update_project_rejects_invalid_attributes_and_changes_nothing(server: TestServer) {
    let root = server.root();
    project(&root, "other", json!({})).await;
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let one = format!("/projects/{work}");
    let none = root.put(&one, json!({"unknown": 1})).await.expect(400).message();
    assert!(
        none.starts_with("name, path, ") && none.ends_with(" are missing, at least one parameter must be provided")
    );
    for (body, field) in [
        (json!({"name": "Other", "description": "changed"}), "name"),
        (json!({"path": "OTHER", "description": "changed"}), "path"),
        (json!({"path": "..", "description": "changed"}), "path"),
        (json!({"name": "<x>", "description": "changed"}), "name"),
        (json!({"default_branch": "gone", "description": "changed"}), "default_branch"),
        (json!({"default_branch": "a b", "description": "changed"}), "default_branch"),
        (json!({"mirror_user_id": 999_999, "description": "changed"}), "mirror_user_id"),
        (json!({"repository_storage": "moon", "description": "changed"}), "repository_storage"),
    ] {
        let response = root.put(&one, body.clone()).await.expect(400);
        assert!(response.json()["message"][field].is_array(), "{body}: {}", response.message());
    }
    for timeout in [json!(599), json!(2_629_746), json!("soon")] {
        root.put(&one, json!({"build_timeout": timeout, "description": "changed"})).await.expect(400);
    }
    let read = root.get(&one).await.expect(200).json();
    assert_eq!((&read["description"], &read["path"]), (&json!(null), &json!("work")));
}

async fn update_default_branch_changes_repository_head(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let store = &server.backend.repositories;
    let repository = store.repository(&git::RepositoryId::of_project(work));
    repository.create_branch("next", "main").await.expect("a branch");
    let changed = root.put(&format!("/projects/{work}"), json!({"default_branch": "next"})).await.expect(200);
    assert_eq!(changed.json()["default_branch"], "next");
    assert_eq!(repository.default_branch().await.expect("HEAD"), "next");
}

async fn head_follows_default_branch_after_kill(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let empty = project(&root, "empty", json!({})).await;
    let repository = |id| server.backend.repositories.repository(&git::RepositoryId::of_project(id));
    repository(work).create_branch("next", "main").await.expect("a branch");
    server.finish_jobs().await;
    for id in [work, empty] {
        root.put(&format!("/projects/{id}"), json!({"default_branch": "next"})).await.expect(200);
        // A server that is killed after the commit leaves HEAD as it was.
        repository(id).set_default_branch("main").await.expect("the former HEAD");
    }
    server.finish_jobs().await;
    for id in [work, empty] {
        assert_eq!(repository(id).default_branch().await.expect("HEAD"), "next", "{id}");
    }
}

async fn default_branch_deleted_before_its_commit_is_replaced(server: TestServer) {
    let root = server.root();
    let repository = |id| server.backend.repositories.repository(&git::RepositoryId::of_project(id));
    // HEAD names a branch that exists, or one that was deleted, too.
    for (name, deleted, expected) in [("head", &["next"][..], "main"), ("first", &["next", "main"][..], "other")] {
        let work = project(&root, name, json!({"initialize_with_readme": true})).await;
        let one = format!("/projects/{work}");
        let repository = repository(work);
        for branch in ["next", "other"] {
            repository.create_branch(branch, "main").await.expect("a branch");
        }
        root.put(&one, json!({"default_branch": "next"})).await.expect(200);
        // As if the branch had been deleted between the check of the request and its commit, by the former rules.
        repository.set_default_branch("main").await.expect("the former HEAD");
        for branch in deleted {
            repository.delete_branch(branch, None).await.expect("a deletion");
        }
        server.finish_jobs().await;
        assert_eq!(root.get(&one).await.expect(200).json()["default_branch"], expected, "{name}");
        assert_eq!(repository.default_branch().await.expect("HEAD"), expected, "{name}");
        let refused = root.delete(&format!("{one}/repository/branches/{expected}")).await;
        assert_ne!(refused.status, 204, "{name}");
    }
}

async fn concurrent_updates_of_default_branch_leave_head_of_last_one(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let one = format!("/projects/{work}");
    let repository = server.backend.repositories.repository(&git::RepositoryId::of_project(work));
    repository.create_branch("next", "main").await.expect("a branch");
    let put = |branch: &'static str| root.put(&one, json!({ "default_branch": branch }));
    for round in 0..10 {
        let (next, main) = tokio::join!(put("next"), put("main"));
        next.expect(200);
        main.expect(200);
        let stored = root.get(&one).await.expect(200).json();
        assert_eq!(stored["default_branch"], repository.default_branch().await.expect("HEAD"), "{round}");
    }
}

async fn archive_and_unarchive_are_idempotent(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let mut archived = Vec::new();
    for action in ["archive", "archive", "unarchive", "unarchive"] {
        let response = root.post(&format!("/projects/{work}/{action}"), json!({})).await.expect(201).json();
        assert_eq!(response["runners_token"], json!(null));
        archived.push(response["archived"].clone());
    }
    assert_eq!(archived, [true, true, false, false]);
}

on_every_database![
    update_requires_maintainer_and_for_name_and_visibility_owner,
    update_project_stores_and_returns_all_settings,
    update_project_rejects_invalid_attributes_and_changes_nothing,
    update_default_branch_changes_repository_head,
    head_follows_default_branch_after_kill,
    default_branch_deleted_before_its_commit_is_replaced,
    concurrent_updates_of_default_branch_leave_head_of_last_one,
    archive_and_unarchive_are_idempotent,
];
