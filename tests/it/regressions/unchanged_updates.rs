//! Updates to the current values, which change nothing, not even the time of the last change.

use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::planning::boards::board;
use crate::planning::epics::epic;
use crate::planning::labels::label;
use crate::planning::milestones::milestone;
use crate::support::code::Project;
use crate::support::spaces::{group, id, join};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

/// An update with all values that a resource has afterwards.
struct Update {
    /// Tables whose rows it changes.
    tables: &'static [&'static str],
    /// Path of the update.
    path: String,
    /// Path of a resource with the updated values.
    shown: String,
    body: Value,
}

impl Update {
    fn new(tables: &'static [&'static str], path: impl Into<String>, body: Value) -> Self {
        let path = path.into();
        Self { tables, shown: path.clone(), path, body }
    }

    fn shown_at(self, shown: impl Into<String>) -> Self {
        Self { shown: shown.into(), ..self }
    }

    async fn send(&self, client: &Client) -> ApiResponse {
        let is_post = self.path.starts_with("/features/") || self.path.ends_with("_estimate");
        let is_patch = self.path.contains("/packages/protection/");
        let response = match (is_post, is_patch) {
            (true, _) => client.post(&self.path, self.body.clone()).await,
            (_, true) => client.patch(&self.path, self.body.clone()).await,
            _ => client.put(&self.path, self.body.clone()).await,
        };
        assert!(response.status < 300, "{}: {} {}", self.path, response.status, response.text());
        response
    }
}

/// Returns the time of the last change of a table.
async fn last_change(server: &TestServer, table: &str) -> Option<String> {
    let db = server.backend.database.read();
    let sql = format!("SELECT CAST(MAX(updated_at) AS TEXT) AS last_change FROM {table}");
    let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql)).await.expect("a row");
    rows[0].try_get("", "last_change").expect("a time")
}

/// Creates a resource and returns its path.
async fn create(client: &Client, all: &str, body: Value) -> String {
    format!("{all}/{}", id(&client.post(all, body).await.expect(201).json()))
}

async fn check(server: &TestServer, updates: Vec<Update>) {
    let root = server.root();
    for update in updates {
        update.send(&root).await;
        let shown = root.get(&update.shown).await.expect(200).json();
        let mut times = Vec::new();
        for table in update.tables {
            times.push(last_change(server, table).await);
        }
        update.send(&root).await;
        assert_eq!(root.get(&update.shown).await.expect(200).json(), shown, "{}", update.path);
        for (table, time) in update.tables.iter().zip(times) {
            assert_eq!(last_change(server, table).await, time, "{}: {table}", update.path);
        }
    }
}

async fn planning_updates_to_current_values_change_nothing(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", Project::with_commits(&server, "work", Visibility::Private).await.id);
    let team = group(&root, "team", json!({})).await;
    let (iid, _) = epic(&root, team, "Epic", json!({})).await;
    label(&root, &format!("/groups/{team}"), "bug").await;
    let (bug, v1) = (label(&root, &work, "bug").await, milestone(&root, &work, "v1").await);
    let plan = board(&root, &work, "Plan").await;
    root.post(&format!("{work}/issues"), json!({ "title": "Issue" })).await.expect(201);
    let issue = format!("{work}/issues/1");
    let note = create(&root, &format!("{issue}/notes"), json!({ "body": "Text" })).await;
    let body = json!({ "title": "Snippet", "file_name": "a.txt", "content": "Text", "visibility": "internal" });
    let snippet = create(&root, "/snippets", body).await;
    let epic_body = json!({
        "title": "Epic", "description": "More", "labels": "bug", "start_date": "2030-01-01", "due_date": "2030-02-01",
        "confidential": true, "state_event": "close", "updated_at": "2021-03-01T00:00:00Z",
    });
    let dates = json!({
        "title": "v1", "description": "First", "start_date": "2030-01-01", "due_date": "2030-02-01",
        "state_event": "close",
    });
    check(
        &server,
        vec![
            Update::new(&["epics"], format!("/groups/{team}/epics/{iid}"), epic_body),
            Update::new(
                &["boards"],
                format!("{work}/boards/{plan}"),
                json!({
                    "name": "Plan", "hide_backlog_list": true, "hide_closed_list": true, "labels": "bug",
                    "milestone_id": v1, "weight": 3,
                }),
            ),
            Update::new(
                &["labels"],
                format!("{work}/labels/{bug}"),
                json!({ "new_name": "bug", "color": "#ff0000", "description": "Fault", "priority": 2 }),
            ),
            Update::new(&["milestones"], format!("{work}/milestones/{v1}"), dates),
            Update::new(
                &["issues"],
                issue.clone(),
                json!({
                    "title": "Issue", "description": "- [ ] one", "labels": "bug", "weight": 2, "due_date": "2030-01-01",
                    "milestone_id": v1, "confidential": true, "discussion_locked": false, "state_event": "close",
                    "updated_at": "2021-03-01T00:00:00Z",
                }),
            ),
            Update::new(&["issues"], format!("{issue}/time_estimate"), json!({ "duration": "1h" }))
                .shown_at(issue.clone()),
            Update::new(&["issues"], format!("{issue}/reset_time_estimate"), json!({})).shown_at(issue.clone()),
            Update::new(&["notes", "issues"], note, json!({ "body": "Changed" })),
            Update::new(
                &["snippets"],
                snippet,
                json!({
                    "title": "Snippet", "description": "More", "file_name": "b.txt", "content": "Changed",
                    "visibility": "public",
                }),
            ),
        ],
    )
    .await;
}

async fn delivery_updates_to_current_values_change_nothing(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", Project::with_commits(&server, "work", Visibility::Private).await.id);
    let environment = create(&root, &format!("{work}/environments"), json!({ "name": "staging" })).await;
    let freeze = json!({ "freeze_start": "0 23 * * 5", "freeze_end": "0 7 * * 1" });
    let freeze = create(&root, &format!("{work}/freeze_periods"), freeze).await;
    let schedule = json!({ "description": "nightly", "ref": "main", "cron": "0 0 1 1 *" });
    let schedule = create(&root, &format!("{work}/pipeline_schedules"), schedule).await;
    let secret = json!({ "key": "K", "value": "one" });
    root.post(&format!("{schedule}/variables"), secret.clone()).await.expect(201);
    root.post(&format!("{work}/variables"), secret).await.expect(201);
    let trigger = create(&root, &format!("{work}/triggers"), json!({ "description": "nightly" })).await;
    let flag = json!({ "name": "flag", "strategies": [{ "name": "default" }] });
    let flag = root.post(&format!("{work}/feature_flags"), flag).await.expect(201).json();
    let strategies = json!([{ "id": flag["strategies"][0]["id"], "name": "default", "parameters": {} }]);
    let list = json!({ "name": "testers", "user_xids": "1,2" });
    root.post(&format!("{work}/feature_flags_user_lists"), list).await.expect(201);
    check(
        &server,
        vec![
            Update::new(
                &["environments"],
                environment,
                json!({ "name": "staging", "external_url": "https://staging.example.com" }),
            ),
            Update::new(
                &["freeze_periods"],
                freeze,
                json!({ "freeze_start": "0 22 * * 5", "freeze_end": "0 7 * * 1", "cron_timezone": "Asia/Tokyo" }),
            ),
            Update::new(
                &["pipeline_schedules"],
                schedule.clone(),
                json!({
                    "description": "yearly", "ref": "main", "cron": "0 0 2 1 *", "cron_timezone": "Asia/Tokyo",
                    "active": true,
                }),
            ),
            Update::new(
                &["pipeline_schedule_variables", "pipeline_schedules"],
                format!("{schedule}/variables/K"),
                json!({ "value": "two", "variable_type": "file" }),
            )
            .shown_at(schedule.clone()),
            Update::new(
                &["ci_variables"],
                format!("{work}/variables/K"),
                json!({ "value": "two", "variable_type": "file", "protected": true }),
            ),
            Update::new(&["pipeline_triggers"], trigger, json!({ "description": "weekly" })),
            Update::new(
                &["feature_flags"],
                format!("{work}/feature_flags/flag"),
                json!({ "name": "flag", "description": "More", "active": false, "strategies": strategies }),
            ),
            Update::new(
                &["feature_flag_user_lists"],
                format!("{work}/feature_flags_user_lists/1"),
                json!({ "name": "testers", "user_xids": "1,2,3" }),
            ),
        ],
    )
    .await;
}

async fn settings_updates_to_current_values_change_nothing(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Private).await;
    let work = format!("/projects/{}", project.id);
    let team = format!("/groups/{}", group(&root, "team", json!({})).await);
    let ada = server.create_user("ada").await.id;
    join(&root, &work, ada, 20).await;
    let key = create(&root, &format!("{work}/deploy_keys"), json!({ "title": "laptop", "key": KEY })).await;
    let badge = json!({ "link_url": "https://a.example.com", "image_url": "https://a.example.com/a.png" });
    let badge = create(&root, &format!("{work}/badges"), badge).await;
    let hook = create(&root, &format!("{work}/hooks"), json!({ "url": "https://hooks.example.com/" })).await;
    let mirror = json!({ "url": "https://git.example.com/a.git" });
    let mirror = create(&root, &format!("{work}/remote_mirrors"), mirror).await;
    let protected = root.get(&format!("{work}/protected_branches")).await.expect(200).json()[0]["id"].clone();
    let status_check =
        json!({ "name": "a", "external_url": "https://checks.example.com/a", "shared_secret": "secret" });
    let status_check = create(&root, &format!("{work}/external_status_checks"), status_check).await;
    let rules = format!("{work}/packages/protection/rules");
    let rule =
        json!({ "package_name_pattern": "b", "package_type": "pypi", "minimum_access_level_for_delete": "owner" });
    let rule = root.post(&rules, rule).await.expect(201).json();
    let release = json!({
        "tag_name": "v1", "ref": "main", "assets": { "links": [{ "name": "a", "url": "https://a.example.com/" }] },
    });
    let release = root.post(&format!("{work}/releases"), release).await.expect(201).json();
    let link = format!("{work}/releases/v1/assets/links/{}", release["assets"]["links"][0]["id"]);
    check(
        &server,
        vec![
            Update::new(
                &["releases"],
                format!("{work}/releases/v1"),
                json!({ "name": "First", "description": "Notes", "released_at": "2020-01-01T00:00:00Z" }),
            ),
            Update::new(
                &["release_links"],
                link,
                json!({ "name": "b", "url": "https://b.example.com/", "filepath": "/b", "link_type": "image" }),
            ),
            Update::new(&["deploy_keys", "project_deploy_keys"], key, json!({ "title": "robot", "can_push": true })),
            Update::new(
                &["badges"],
                badge,
                json!({
                    "name": "build", "link_url": "https://b.example.com", "image_url": "https://b.example.com/b.png",
                }),
            ),
            Update::new(
                &["members"],
                format!("{work}/members/{ada}"),
                json!({ "access_level": 30, "expires_at": "2099-01-31" }),
            ),
            Update::new(
                &["project_hooks"],
                hook,
                json!({
                    "url": "https://hooks.example.com/", "issues_events": true, "token": "secret",
                    "signing_token": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
                    "custom_headers": [{ "key": "X-Key", "value": "secret" }],
                    "url_variables": [{ "key": "key", "value": "secret" }],
                }),
            ),
            Update::new(
                &["remote_mirrors"],
                mirror,
                json!({ "enabled": true, "only_protected_branches": true, "keep_divergent_refs": true }),
            ),
            Update::new(
                &["status_checks"],
                status_check,
                json!({
                    "name": "b", "external_url": "https://checks.example.com/b", "shared_secret": "other",
                    "protected_branch_ids": [protected],
                }),
            )
            .shown_at(format!("{work}/external_status_checks")),
            Update::new(
                &["package_protection_rules"],
                format!("{rules}/{}", rule["id"]),
                json!({
                    "package_name_pattern": "a", "package_type": "npm", "minimum_access_level_for_push": "owner",
                    "minimum_access_level_for_delete": null,
                }),
            )
            .shown_at(rules),
            Update::new(
                &["package_cleanup_policies"],
                format!("{work}/packages/cleanup_policy"),
                json!({ "keep_n_duplicated_package_files": "20" }),
            ),
            Update::new(
                &["container_expiration_policies"],
                work.clone(),
                json!({ "container_expiration_policy_attributes": {
                    "cadence": "7d", "enabled": true, "keep_n": 5, "older_than": null, "name_regex_delete": "v.*",
                    "name_regex_keep": "v1",
                } }),
            ),
            Update::new(
                &["protected_branches"],
                format!("{work}/repository/branches/main/protect"),
                json!({ "developers_can_push": true, "developers_can_merge": false }),
            )
            .shown_at(format!("{work}/repository/branches/main")),
            Update::new(&["custom_attributes"], format!("{work}/custom_attributes/team"), json!({ "value": "one" })),
            Update::new(&["saml_providers"], format!("{team}/saml"), json!({ "enabled": true })),
            Update::new(
                &["projects"],
                work.clone(),
                json!({
                    "name": "Work", "path": "work", "description": "More", "tag_list": "b, a", "visibility": "internal",
                    "default_branch": "main", "issues_enabled": false, "merge_method": "ff",
                }),
            ),
            Update::new(
                &["namespaces"],
                team,
                json!({ "name": "Team", "path": "team", "description": "More", "visibility": "internal" }),
            ),
            Update::new(
                &["users", "namespaces"],
                format!("/users/{ada}"),
                json!({
                    "name": "Ada", "username": "ada", "email": "ada@example.com", "bio": "More", "admin": false,
                    "provider": "saml", "extern_uid": "ada-1",
                }),
            ),
            Update::new(&["feature_gates"], "/features/gate", json!({ "value": 30 })).shown_at("/features"),
            Update::new(&["feature_gates"], "/features/gate", json!({ "value": true, "user": "ada" }))
                .shown_at("/features"),
        ],
    )
    .await;
}

on_every_database![
    planning_updates_to_current_values_change_nothing,
    delivery_updates_to_current_values_change_nothing,
    settings_updates_to_current_values_change_nothing,
];
