//! Resources that the operations are called on: groups and projects of each visibility, with all their content.

use chrono::Days;
use domain::audit::AuditEntityType;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, hook_deliveries, members, now, project_hooks, projects};

use super::ROLES;
use crate::audit;
use crate::code::{
    deploy_keys, protected_branches, protected_tags, pull_mirrors, push_rules, remote_mirrors, snippets,
};
use crate::delivery::{
    clusters, deployments, environments, feature_flag_user_lists, feature_flags, freeze_periods, pipeline_schedules,
    pipeline_triggers, pipelines, variables,
};
use crate::identity::deploy_tokens::deploy_token;
use crate::packages::{self, cargo_packages, maven_packages, npm_packages, python_packages};
use crate::planning::{boards, epics, issues, labels, milestones};
use crate::registry::container_registry;
use crate::releases;
use crate::review::{approvals, merge_requests, status_checks};
use crate::spaces::badges;
use crate::support::code::Project;
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, spaces};
use crate::transfers::group_transfers;

/// A group and projects of one visibility.
pub struct Space<'a> {
    pub visibility: Visibility,
    /// `top/mid/low`.
    pub group: i64,
    /// A project in `top/mid` with commits.
    pub project: Project<'a>,
    /// A project in `top/mid` for operations that change the project itself.
    pub spare: i64,
    pub access_token: i64,
    pub audit_event: i64,
    pub group_audit_event: i64,
    pub commit: String,
    pub blob: String,
    pub hook: i64,
    pub remote_mirror: i64,
    pub delivery: i64,
    pub label: i64,
    pub group_label: i64,
    pub milestone: i64,
    /// IID within the project.
    pub issue: i64,
    /// A link from the issue to another issue of the project.
    pub issue_link: i64,
    /// IID within the project.
    pub merge_request: i64,
    pub merge_request_version: i64,
    /// A note on the issue.
    pub note: i64,
    pub issue_award: i64,
    pub note_award: i64,
    /// A public snippet of the project.
    pub snippet: i64,
    /// A note on the snippet.
    pub snippet_note: i64,
    pub snippet_award: i64,
    pub snippet_note_award: i64,
    /// IID and ID of an epic of the group.
    pub epic: (i64, i64),
    pub epic_note: i64,
    pub epic_award: i64,
    pub epic_note_award: i64,
    /// A note on the merge request.
    pub merge_request_note: i64,
    pub merge_request_award: i64,
    pub merge_request_note_award: i64,
    pub group_milestone: i64,
    pub badge: i64,
    pub group_badge: i64,
    /// A board and one of its lists.
    pub board: (i64, i64),
    pub group_board: (i64, i64),
    pub freeze_period: i64,
    pub deploy_key: i64,
    pub deploy_token: i64,
    pub group_deploy_token: i64,
    pub pipeline: i64,
    pub pipeline_schedule: i64,
    pub trigger: i64,
    pub environment: i64,
    pub deployment: i64,
    pub cluster: i64,
    pub approval_rule: i64,
    pub status_check: i64,
    /// A generic package `there` and its file.
    pub package: (i64, i64),
    /// Path of a Maven file of the project, whose name is the full path of the project.
    pub maven_file: String,
    /// Path of the group two levels above the group, which is the scope of the npm packages.
    pub top: String,
    pub own_approval_rule: i64,
    /// A link of the release `v1`.
    pub release_link: i64,
    /// A repository of images with the tag `v1`.
    pub registry_repository: i64,
}

/// Creates a project and a group with their members.
pub async fn create_space<'a>(
    server: &'a TestServer,
    visibility: Visibility,
    name: &str,
    direct: &[TestUser],
    inherited: &[TestUser],
    guests: &[(i64, AccessLevel)],
    expired: &TestUser,
) -> Space<'a> {
    let root = server.root();
    let shown = json!({ "visibility": name });
    let top = spaces::group(&root, &format!("space-{name}"), shown).await;
    let below = |parent: i64| json!({ "visibility": name, "parent_id": parent });
    let mid = spaces::group(&root, "mid", below(top)).await;
    let group = spaces::group(&root, "low", below(mid)).await;
    let inside = json!({ "visibility": name, "namespace_id": mid });
    let spare = spaces::project(&root, "spare", inside).await;
    let packed = spaces::project(&root, "packed", json!({ "visibility": name, "namespace_id": group })).await;
    let project = Project::with_commits(server, &format!("{name}-filled"), visibility).await;
    project.git(&["tag", "v1", "main~1"]);
    let moved = projects::ActiveModel { id: Set(project.id), namespace_id: Set(mid), ..Default::default() };
    moved.update(server.backend.database.write()).await.expect("an update");
    let spaces_of_members = [(None, Some(project.id)), (None, Some(spare)), (Some(group), None)];
    for (namespace_id, project_id) in spaces_of_members {
        for (user, role) in direct.iter().zip(ROLES) {
            insert_member(server, user, (namespace_id, project_id), role, None).await;
        }
        insert_member(server, expired, (namespace_id, project_id), AccessLevel::Owner, Some(1)).await;
    }
    for (user, role) in inherited.iter().zip(ROLES) {
        insert_member(server, user, (Some(top), None), role, None).await;
    }
    insert_member(server, expired, (Some(top), None), AccessLevel::Owner, Some(1)).await;
    for (guest, role) in guests {
        invite(server, top, *guest, *role).await;
    }
    let token = json!({ "name": "token", "scopes": ["api"] });
    let token = root.post(&format!("/projects/{}/access_tokens", project.id), token).await.expect(201);
    let (hook, delivery) = webhook(server, project.id).await;
    for path in [format!("/projects/{}", project.id), format!("/groups/{group}")] {
        attach(server, &path).await;
        variables::variable(&root, &format!("{path}/variables"), "there").await;
    }
    let issue = issues::open(&root, project.id, json!({"title": "there"})).await;
    let other_issue = issues::open(&root, project.id, json!({"title": "other"})).await;
    let link = json!({ "target_project_id": project.id, "target_issue_iid": other_issue });
    let link = root.post(&format!("/projects/{}/issues/{issue}/links", project.id), link).await.expect(201);
    let issue_link = spaces::id(&link.json());
    let merge_request = merge_requests::propose(&root, project.id, "feature/x", "main", json!({})).await;
    let on_issue = format!("/projects/{}/issues/{issue}", project.id);
    let note = comment(server, &on_issue).await;
    let on_note = format!("{on_issue}/notes/{note}");
    let on_merge_request = format!("/projects/{}/merge_requests/{merge_request}", project.id);
    let merge_request_note = comment(server, &on_merge_request).await;
    let versions = root.get(&format!("{on_merge_request}/versions")).await.expect(200).json();
    let on_its_note = format!("{on_merge_request}/notes/{merge_request_note}");
    let top_path = format!("space-{name}");
    let full_path = root.get(&format!("/projects/{}", project.id)).await.expect(200).json();
    let full_path = full_path["path_with_namespace"].as_str().expect("a path").to_owned();
    let maven_file = format!("{full_path}/1.0/there.jar");
    for project in [project.id, packed] {
        maven_packages::put(&root, project, &maven_file, "there").await.expect(200);
        npm_packages::publish(&root, project, &format!("@{top_path}/there"), "1.0.0").await.expect(200);
        python_packages::upload(&root, project, "there", "1.0").await.expect(201);
        cargo_packages::publish(&root, project, "there", "1.0.0").await.expect(200);
    }
    let (in_project, in_group) = (format!("/projects/{}", project.id), format!("/groups/{group}"));
    let (_, list) = feature_flag_user_lists::user_list(&root, &in_project, "there").await;
    feature_flags::flag(&root, &in_project, "there", list).await;
    let public = json!({"visibility": "public"});
    let snippet = snippets::snippet(&root, &in_project, "there", public).await;
    let on_snippet = format!("{in_project}/snippets/{snippet}");
    let snippet_note = comment(server, &on_snippet).await;
    let on_snippet_note = format!("{on_snippet}/notes/{snippet_note}");
    group_transfers::run_export(server, group).await;
    protected_tags::protection(&root, &in_project, json!({"name": "main"})).await;
    protected_branches::protection(&root, &in_group, json!({"name": "main"})).await;
    for path in [&in_project, &in_group] {
        push_rules::push_rule(&root, path, json!({"member_check": false})).await;
    }
    // The rule requires nothing, so that merges reach the check of the role.
    let rule = json!({"name": "there", "approvals_required": 0, "rule_type": "regular"});
    let own_rule = json!({"name": "there", "approvals_required": 0});
    let own_rule = approvals::own_rule(&root, project.id, merge_request, own_rule).await;
    let rule = approvals::rule(&root, project.id, rule).await;
    let epic = epics::epic(&root, group, "there", json!({})).await;
    let epic_note = comment(server, &format!("{in_group}/epics/{}", epic.1)).await;
    let on_epic = format!("{in_group}/epics/{}", epic.0);
    let asset = json!({ "name": "there", "url": "https://h.example.com/there", "filepath": "/there" });
    let release = releases::release(&root, &in_project, "v1", json!({ "assets": { "links": [asset] } })).await;
    pull_mirrors::mirror(&root, &in_project).await;
    let (label, group_label) =
        (labels::label(&root, &in_project, "there").await, labels::label(&root, &in_group, "there").await);
    Space {
        audit_event: audit::insert(server, AuditEntityType::Project, project.id).await,
        group_audit_event: audit::insert(server, AuditEntityType::Group, group).await,
        badge: badges::badge(&root, &in_project, "there").await,
        group_badge: badges::badge(&root, &in_group, "there").await,
        board: board_with(&root, &in_project, label).await,
        group_board: board_with(&root, &in_group, group_label).await,
        freeze_period: freeze_periods::freeze_period(&root, &in_project).await,
        deploy_key: deploy_keys::deploy_key(&root, &in_project, project.id as u64).await,
        deploy_token: spaces::id(&deploy_token(&root, &in_project, &["read_registry"]).await),
        group_deploy_token: spaces::id(&deploy_token(&root, &in_group, &["read_registry"]).await),
        pipeline: pipelines::pipeline(&root, project.id, "main").await,
        pipeline_schedule: pipeline_schedules::schedule(&root, &in_project).await,
        trigger: pipeline_triggers::trigger(&root, &in_project).await.0,
        environment: environments::environment(&root, &in_project, "there").await,
        deployment: spaces::id(&deployments::deployment(&root, &project, "production", "success").await),
        cluster: clusters::cluster(&root, &in_project, "*").await,
        registry_repository: container_registry::image(server, project.id, "there", "v1", None).await,
        top: top_path,
        maven_file,
        package: packages::package(&root, &in_project, "there", "v1").await,
        release_link: spaces::id(&release["assets"]["links"][0]),
        approval_rule: spaces::id(&rule),
        status_check: status_checks::status_check(&root, &in_project, "there").await,
        own_approval_rule: spaces::id(&own_rule),
        label,
        group_label,
        issue,
        issue_link,
        merge_request,
        merge_request_version: spaces::id(&versions[0]),
        note,
        issue_award: award(server, &on_issue).await,
        note_award: award(server, &on_note).await,
        snippet,
        snippet_note,
        snippet_award: award(server, &on_snippet).await,
        snippet_note_award: award(server, &on_snippet_note).await,
        epic,
        epic_note,
        epic_award: award(server, &on_epic).await,
        epic_note_award: award(server, &format!("{on_epic}/notes/{epic_note}")).await,
        merge_request_note,
        merge_request_award: award(server, &on_merge_request).await,
        merge_request_note_award: award(server, &on_its_note).await,
        milestone: milestones::milestone(&root, &in_project, "there").await,
        group_milestone: milestones::milestone(&root, &in_group, "there").await,
        hook,
        remote_mirror: remote_mirrors::mirror(&root, &in_project, json!({})).await,
        delivery,
        visibility,
        group,
        access_token: spaces::id(&token.json()),
        commit: project.id("main"),
        blob: project.id("main:README.md"),
        project,
        spare,
    }
}

/// Creates a board with a list of a label.
async fn board_with(client: &Client, parent: &str, label: i64) -> (i64, i64) {
    let board = boards::board(client, parent, "there").await;
    let list = boards::list(client, parent, board, json!({ "label_id": label })).await;
    (board, list)
}

/// Shares a group with another one.
async fn invite(server: &TestServer, group: i64, guest: i64, role: AccessLevel) {
    let row = spaces::group_share(group, guest, role);
    row.insert(server.backend.database.write()).await.expect("a share");
}

/// Creates a note and returns its ID.
async fn comment(server: &TestServer, on: &str) -> i64 {
    let body = json!({ "body": "there" });
    let created = server.root().post(&format!("{on}/notes"), body).await;
    spaces::id(&created.expect(201).json())
}

/// Awards an emoji and returns the ID of the award.
async fn award(server: &TestServer, to: &str) -> i64 {
    let tada = json!({ "name": "tada" });
    let created = server.root().post(&format!("{to}/award_emoji"), tada).await;
    spaces::id(&created.expect(201).json())
}

/// Creates a webhook with a delivery in its log.
async fn webhook(server: &TestServer, project_id: i64) -> (i64, i64) {
    let body = json!({ "url": "http://127.0.0.1:1/" });
    let url = format!("/projects/{project_id}/hooks");
    let hook = spaces::id(&server.root().post(&url, body).await.expect(201).json());
    let row = hook_deliveries::ActiveModel {
        hook_id: Set(hook),
        uuid: Set("of a test".to_owned()),
        kind: Set(project_hooks::HookEvent::Push),
        url: Set("http://127.0.0.1:1/".to_owned()),
        state: Set(hook_deliveries::DeliveryState::Failed),
        next_attempt_at: Set(now()),
        request_body: Set(Some("{}".to_owned())),
        created_at: Set(now()),
        ..Default::default()
    };
    let row = row.insert(server.backend.database.write()).await.expect("a delivery");
    (hook, row.id)
}

/// Sets the custom attribute that reads request.
pub async fn attach(server: &TestServer, parent: &str) {
    let path = format!("{parent}/custom_attributes/there");
    server.root().put(&path, json!({ "value": "x" })).await.expect(200);
}

/// Adds a member to a group or project. The membership can have expired some days ago.
async fn insert_member(
    server: &TestServer,
    user: &TestUser,
    (namespace_id, project_id): (Option<i64>, Option<i64>),
    role: AccessLevel,
    ended: Option<u64>,
) {
    let row = members::ActiveModel {
        namespace_id: Set(namespace_id),
        project_id: Set(project_id),
        expires_at: Set(ended.map(|days| now().date_naive() - Days::new(days))),
        ..spaces::membership(user.id, role)
    };
    row.insert(server.backend.database.write()).await.expect("a membership");
}
