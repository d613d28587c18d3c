//! Fields of a project by role and plan.

use std::collections::BTreeSet;

use holdfast::config::ConfigOptions;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, projects};

use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Fields of the short form.
const SIMPLE: [&str; 18] = [
    "id",
    "description",
    "default_branch",
    "ssh_url_to_repo",
    "http_url_to_repo",
    "web_url",
    "readme_url",
    "tag_list",
    "topics",
    "name",
    "name_with_namespace",
    "path",
    "path_with_namespace",
    "created_at",
    "last_activity_at",
    "forks_count",
    "avatar_url",
    "star_count",
];

/// Additional fields of the full form. Omitted are `approvals_before_merge`, which depends on the plan, and the fields
/// that are returned on request: `license`, `license_url` and `statistics`.
const FULL: [&str; 60] = [
    "visibility",
    "owner",
    "issues_enabled",
    "open_issues_count",
    "merge_requests_enabled",
    "jobs_enabled",
    "wiki_enabled",
    "snippets_enabled",
    "can_create_merge_request_in",
    "resolve_outdated_diff_discussions",
    "container_registry_enabled",
    "container_expiration_policy",
    "creator_id",
    "namespace",
    "import_status",
    "import_type",
    "import_error",
    "permissions",
    "archived",
    "shared_runners_enabled",
    "runners_token",
    "ci_default_git_depth",
    "build_timeout",
    "public_jobs",
    "shared_with_groups",
    "only_allow_merge_if_pipeline_succeeds",
    "only_allow_merge_if_all_discussions_are_resolved",
    "remove_source_branch_after_merge",
    "request_access_enabled",
    "merge_method",
    "squash_option",
    "auto_devops_enabled",
    "auto_devops_deploy_strategy",
    "repository_storage",
    "mirror",
    "mirror_user_id",
    "mirror_trigger_builds",
    "only_mirror_protected_branches",
    "mirror_overwrites_diverged_branches",
    "external_authorization_classification_label",
    "packages_enabled",
    "service_desk_enabled",
    "service_desk_address",
    "emails_enabled",
    "autoclose_referenced_issues",
    "suggestion_commit_message",
    "marked_for_deletion_at",
    "marked_for_deletion_on",
    "_links",
    // Additions of this server, always returned as well.
    "empty_repo",
    "lfs_enabled",
    "ci_config_path",
    "issues_access_level",
    "repository_access_level",
    "package_registry_access_level",
    "releases_access_level",
    "environments_access_level",
    "feature_flags_access_level",
    "infrastructure_access_level",
    "monitor_access_level",
];

/// Returns the expected fields that a project lacks.
fn missing_fields(shown: &Value, expected: &[&'static str]) -> Vec<&'static str> {
    let is_missing = |field: &&&str| shown.get(**field).is_none();
    expected.iter().filter(is_missing).copied().collect()
}

fn keys(shown: &Value) -> BTreeSet<&str> {
    shown.as_object().expect("a project").keys().map(String::as_str).collect()
}

/// Returns the project from the response of each kind of request, for a caller with all permissions.
async fn all_responses(client: &Client, id: i64) -> Vec<(String, Value)> {
    let one = format!("/projects/{id}");
    let mut shown = Vec::new();
    for path in [one.clone(), format!("/projects?id_after={}&id_before={}", id - 1, id + 1)] {
        let read = client.get(&path).await.expect(200).json();
        shown.push((path, read.get(0).cloned().unwrap_or(read)));
    }
    for action in ["star", "unstar", "archive", "unarchive", "restore"] {
        let path = format!("{one}/{action}");
        let response = client.post(&path, json!({})).await.expect(201).json();
        shown.push((path, response));
    }
    let edited = client.put(&one, json!({"description": "d"})).await.expect(200);
    shown.push((format!("PUT {one}"), edited.json()));
    shown
}

fn free() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

async fn check_fields_for_each_role(server: &TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let extra = json!({"namespace_id": engines, "visibility": "public", "initialize_with_readme": true});
    let work = project(&root, "work", extra).await;
    let members = server.create_member_per_role(&root, engines).await;
    let non_member = server.create_user("stranger").await;
    let admin = (60, root);
    let users = members.into_iter().map(|(level, user)| (level, user.client));
    for (level, client) in users.chain([(0, non_member.client), admin]) {
        let one = format!("/projects/{work}");
        let list = client.get("/projects").await.expect(200).json();
        let full = client.get(&one).await.expect(200).json();
        for shown in [&list[0], &full] {
            assert_eq!(missing_fields(shown, &SIMPLE), [""; 0], "{level}");
            assert_eq!(missing_fields(shown, &FULL), [""; 0], "{level}");
            for field in ["license", "license_url", "statistics", "custom_attributes"] {
                assert_eq!(shown.get(field), None, "{level} {field}");
            }
            assert_eq!(shown["owner"], Value::Null);
            assert_eq!(shown["repository_storage"].is_string(), level == 60, "{level}");
        }
        assert_eq!(full["runners_token"].is_string(), level >= 40, "{level}");
        assert_eq!(list[0]["runners_token"], Value::Null, "{level}");
        let detailed = client.get(&format!("{one}?statistics=true&license=true")).await.expect(200).json();
        assert_eq!(detailed["statistics"].is_object(), level >= 20, "{level}");
        assert_eq!(missing_fields(&detailed, &["statistics", "license", "license_url"]), [""; 0]);
    }
    let short: BTreeSet<&str> = SIMPLE.iter().copied().chain(["namespace"]).collect();
    let anonymous = server.anonymous();
    for (client, path) in [
        (&anonymous, format!("/projects/{work}?statistics=true&license=true")),
        (&anonymous, "/projects?simple=false".to_owned()),
        (&server.root(), "/projects?simple=true&statistics=true".to_owned()),
    ] {
        let shown = client.get(&path).await.expect(200).json();
        assert_eq!(keys(shown.get(0).unwrap_or(&shown)), short, "{path}");
    }
}

async fn each_role_receives_all_fields(server: TestServer) {
    check_fields_for_each_role(&server).await;
}

async fn free_plan_omits_approvals_and_ignores_premium_settings(server: TestServer) {
    check_fields_for_each_role(&server).await;
    let root = server.root();
    let id = project(&root, "other", json!({})).await;
    // A filter that the plan does not include is ignored.
    for check in ["wiki_checksum_failed", "repository_checksum_failed"] {
        let list = root.get(&format!("/projects?{check}=true")).await.expect(200);
        assert_eq!(list.pluck("path"), ["other", "work"], "{check}");
    }
    // Settings of a higher plan no longer apply.
    let row = projects::ActiveModel {
        id: Set(id),
        mirror: Set(true),
        mirror_trigger_builds: Set(true),
        mirror_user_id: Set(Some(1)),
        external_authorization_classification_label: Set(Some("l".to_owned())),
        ..Default::default()
    };
    row.update(server.backend.database.write()).await.expect("a row");
    let read = root.get(&format!("/projects/{id}")).await.expect(200).json();
    for field in [
        "approvals_before_merge",
        "only_allow_merge_if_all_status_checks_passed",
        "security_and_compliance_access_level",
    ] {
        assert_eq!(read.get(field), None, "{field}");
    }
    assert_eq!((&read["mirror"], &read["mirror_trigger_builds"]), (&json!(false), &json!(false)));
    assert_eq!(
        (&read["mirror_user_id"], &read["external_authorization_classification_label"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!((&read["marked_for_deletion_on"], &read["marked_for_deletion_at"]), (&Value::Null, &Value::Null));
}

async fn project_responses_have_same_fields_and_only_some_runners_token(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let mut row = projects::ActiveModel { id: Set(id), ..Default::default() };
    row.import_error = Set(Some("the source was not there".to_owned()));
    row.update(server.backend.database.write()).await.expect("a row");
    let ada = server.create_user("ada").await;
    let one = format!("/projects/{id}");
    join(&root, &one, ada.id, 30).await;
    let as_developer = ada.client.get(&one).await.expect(200).json();
    assert_eq!((&as_developer["runners_token"], &as_developer["import_error"]), (&Value::Null, &Value::Null));
    for (path, shown) in all_responses(&root, id).await {
        assert_eq!(missing_fields(&shown, &FULL), [""; 0], "{path}");
        assert_eq!(shown["owner"]["username"], "root", "{path}");
        assert_eq!(shown["approvals_before_merge"], 0, "{path}");
        assert_eq!(shown["permissions"]["project_access"]["access_level"], 40, "{path}");
        assert_eq!(shown["import_error"], "the source was not there", "{path}");
        let secret = path == one || path.starts_with("PUT");
        assert_eq!(shown["runners_token"].is_string(), secret, "{path}");
    }
}

async fn default_branch_is_null_without_permission_to_read_code(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "work", Visibility::Private).await;
    let one = format!("/projects/{}", source.id);
    let guest = server.create_user("guest").await;
    server.insert_member(source.id, guest.id, AccessLevel::Guest).await;
    for path in [one.clone(), "/projects".to_owned(), "/projects?simple=true".to_owned()] {
        let read = guest.client.get(&path).await.expect(200).json();
        let shown = read.get(0).unwrap_or(&read);
        assert_eq!(shown.get("default_branch"), Some(&Value::Null), "{path}");
        assert_eq!(shown["readme_url"], Value::Null, "{path}");
    }
    // This also applies to the source of a fork, and to anonymous requests.
    root.put(&one, json!({"visibility": "public"})).await.expect(200);
    let fork = root.post(&format!("{one}/fork"), json!({"path": "copy", "name": "copy"})).await.expect(201).json();
    root.put(&one, json!({"repository_access_level": "private"})).await.expect(200);
    root.put(&format!("/projects/{}", fork["id"]), json!({"visibility": "public"})).await.expect(200);
    let open = server.anonymous().get(&one).await.expect(200).json();
    assert_eq!(open.get("default_branch"), Some(&Value::Null));
    let non_member = server.create_user("stranger").await;
    let copy = non_member.client.get(&format!("/projects/{}", fork["id"])).await.expect(200).json();
    assert_eq!(copy["forked_from_project"].get("default_branch"), Some(&Value::Null));
}

async fn commit_count_is_current_before_the_maintenance_job(server: TestServer) {
    let root = server.root();
    let extra = json!({"initialize_with_readme": true, "default_branch": "main"});
    let id = project(&root, "work", extra).await;
    let one = format!("/projects/{id}?statistics=true");
    let count = async || root.get(&one).await.expect(200).json()["statistics"]["commit_count"].clone();
    assert_eq!(count().await, 1);
    let file = json!({"branch": "main", "commit_message": "m", "content": "x"});
    root.post(&format!("/projects/{id}/repository/files/a"), file.clone()).await.expect(201);
    assert_eq!(count().await, 2);
    let work = Work::empty();
    work.git(&["clone", "--quiet", &address(&server.base, "root", ROOT_TOKEN, "root/work"), "c"]).await;
    let clone = work.below("c");
    clone.commit("b", "by a push").await;
    clone.git(&["push", "--quiet", "origin", "HEAD:main"]).await;
    assert_eq!(count().await, 3);
    // Commits on other branches do not count.
    let other = json!({"branch": "other", "start_branch": "main", "commit_message": "m", "content": "x"});
    root.post(&format!("/projects/{id}/repository/files/c"), other).await.expect(201);
    assert_eq!(count().await, 3);
    root.put(&format!("/projects/{id}"), json!({"default_branch": "other"})).await.expect(200);
    assert_eq!(count().await, 4);
    server.finish_jobs().await;
    assert_eq!(count().await, 4);
    let list = root.get("/projects?statistics=true").await.expect(200).json();
    assert_eq!(list[0]["statistics"]["commit_count"], 4);
    let empty = project(&root, "empty", json!({})).await;
    let read = root.get(&format!("/projects/{empty}?statistics=true")).await.expect(200).json();
    assert_eq!(read["statistics"]["commit_count"], 0);
}

async fn links_lead_to_existing_resources(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({"visibility": "public", "initialize_with_readme": true})).await;
    let non_member = server.create_user("stranger").await;
    for client in [&root, &non_member.client] {
        let read = client.get(&format!("/projects/{id}")).await.expect(200).json();
        let links = read["_links"].as_object().expect("links").clone();
        assert_eq!(links.len(), 7);
        for (name, link) in links {
            let link = link.as_str().expect("an address").to_owned();
            let path = link.strip_prefix(&format!("{}/api/v4", server.base)).expect("an address of this server");
            // The project has no issues, merge requests and labels yet.
            if !["issues", "merge_requests", "labels"].contains(&name.as_str()) {
                client.get(path).await.expect(200);
            }
        }
    }
    let off = json!({"issues_enabled": false, "merge_requests_access_level": "disabled"});
    let read = root.put(&format!("/projects/{id}"), off).await.expect(200).json();
    let links = &read["_links"];
    assert_eq!((links.get("issues"), links.get("merge_requests")), (Some(&Value::Null), Some(&Value::Null)));
    assert_eq!(read.get("open_issues_count"), Some(&Value::Null));
}

on_every_database![
    each_role_receives_all_fields,
    free_plan_omits_approvals_and_ignores_premium_settings with free(),
    project_responses_have_same_fields_and_only_some_runners_token,
    default_branch_is_null_without_permission_to_read_code,
    commit_count_is_current_before_the_maintenance_job,
    links_lead_to_existing_resources,
];
