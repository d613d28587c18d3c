//! Confidential texts are not returned to callers without access. The test calls every read operation of the contract
//! with every filter query and for every resource of the fixture.

use std::collections::BTreeSet;

use contract::operation::Operation;
use contract::table::operations;
use holdfast::config::ConfigOptions;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::delivery::{feature_flag_user_lists, pipeline_schedules};
use crate::planning::{boards, epics, issues, labels, milestones};
use crate::review::merge_requests;
use crate::support::code::Project;
use crate::support::spaces::{self, group};
use crate::support::{Client, TestServer, on_every_database};

/// A word that occurs only in confidential texts.
const SECRET: &str = "hushhush";

/// A deploy key.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

/// Operations about pipelines and deployments, and the lowest access level that can read them; 60 is an administrator.
const OF_PIPELINES: [(&str, u8); 17] = [
    ("list_pipeline_variables", 30),
    ("list_feature_flags", 30),
    ("get_feature_flag", 30),
    ("list_feature_flag_user_lists", 30),
    ("get_feature_flag_user_list", 30),
    ("get_pipeline_schedule", 30),
    ("list_pipeline_triggers", 40),
    ("get_pipeline_trigger", 40),
    ("list_project_deploy_keys", 40),
    ("get_deploy_key", 40),
    ("list_project_variables", 40),
    ("get_project_variable", 40),
    ("list_group_variables", 60),
    ("get_group_variable", 60),
    ("list_instance_variables", 60),
    ("get_instance_variable", 60),
    ("list_deploy_keys", 60),
];

/// Queries that filter a list or return more details.
const QUERIES: [&str; 5] = [
    "per_page=100",
    "per_page=100&scope=all&state=all&confidential=true",
    "per_page=100&scope=all&search=hushhush&in=title,description",
    "per_page=100&scope=all&state=all&order_by=updated_at&with_labels_details=true&non_archived=false",
    "per_page=100&scope=all&assignee_id=Any&milestone=v1&labels=Any&with_counts=true",
];

/// Values of path placeholders. Each combination is tried.
struct Fixture {
    project: i64,
    group: i64,
    author: i64,
    values: Vec<(&'static str, Vec<i64>)>,
}

impl Fixture {
    /// Creates a public project in a public group, with confidential resources of every kind.
    async fn new(server: &TestServer) -> Self {
        let root = server.root();
        let in_group = group(&root, "open", json!({"visibility": "public"})).await;
        let project = Project::with_commits(server, "one", Visibility::Public).await;
        let id = project.id;
        root.put(&format!("/projects/{id}/transfer"), json!({"namespace": in_group})).await.expect(200);
        let (of_project, of_group) = (format!("/projects/{id}"), format!("/groups/{in_group}"));
        let label = labels::label(&root, &of_project, "bug").await;
        let milestone = milestones::milestone(&root, &of_project, "v1").await;
        let board = boards::board(&root, &of_project, "plan").await;
        boards::list(&root, &of_project, board, json!({"label_id": label})).await;
        let open = issues::open(&root, id, json!({"title": "open", "labels": "bug"})).await;
        let secret = json!({
            "title": format!("{SECRET} title"), "description": format!("{SECRET} text @guest"), "confidential": true,
            "labels": "bug", "milestone_id": milestone, "assignee_ids": [1], "due_date": "2026-12-24",
        });
        let secret = issues::open(&root, id, secret).await;
        let (on_secret, on_open) = (format!("{of_project}/issues/{secret}"), format!("{of_project}/issues/{open}"));
        let words = json!({"body": format!("{SECRET} note, see #{open} and @guest, @stranger, @reporter")});
        let on_note = Self::write(&root, &format!("{on_secret}/notes"), words).await;
        let words = json!({"body": format!("{SECRET} aside for @guest, #{secret}"), "confidential": true});
        let confidential_note = Self::write(&root, &format!("{on_open}/notes"), words).await;
        let mut awards = Vec::new();
        for to in
            [on_secret.clone(), format!("{on_secret}/notes/{on_note}"), format!("{on_open}/notes/{confidential_note}")]
        {
            awards.push(Self::write(&root, &format!("{to}/award_emoji"), json!({"name": "tada"})).await);
        }
        root.post(&format!("{on_secret}/add_spent_time"), json!({"duration": "1h"})).await.expect(201);
        root.put(&on_secret, json!({"title": format!("{SECRET} new title")})).await.expect(200);
        let closes = json!({"description": format!("Closes #{secret}")});
        let merge_request = merge_requests::propose(&root, id, "feature/x", "main", closes).await;
        let epic = epics::epic(&root, in_group, &format!("{SECRET} epic"), json!({"confidential": true})).await;
        let shown = epics::epic(&root, in_group, "shown", json!({})).await;
        let global = spaces::id(&root.get(&on_secret).await.expect(200).json());
        root.post(&format!("{of_group}/epics/{}/issues/{global}", shown.0), json!({})).await.expect(201);
        let link = json!({"target_project_id": id, "target_issue_iid": secret});
        let link = Self::write(&root, &format!("{on_open}/links"), link).await;
        let words = json!({"body": format!("{SECRET} of the epic")});
        let on_epic = Self::write(&root, &format!("{of_group}/epics/{}/notes", epic.1), words).await;
        let variable = json!({"key": "K", "value": format!("{SECRET}-value")});
        for base_path in ["/admin/ci", &of_project, &of_group] {
            root.post(&format!("{base_path}/variables"), variable.clone()).await.expect(201);
        }
        let words = json!({"ref": "main", "variables": [variable]});
        let pipeline = Self::write(&root, &format!("{of_project}/pipeline"), words).await;
        let schedule = pipeline_schedules::schedule(&root, &of_project).await;
        root.post(&format!("{of_project}/pipeline_schedules/{schedule}/variables"), variable).await.expect(201);
        let words = json!({"description": format!("{SECRET} trigger")});
        let trigger = Self::write(&root, &format!("{of_project}/triggers"), words).await;
        let words = json!({"title": format!("{SECRET} key"), "key": KEY});
        let key = Self::write(&root, &format!("{of_project}/deploy_keys"), words).await;
        let (list, _) = feature_flag_user_lists::user_list(&root, &of_project, SECRET).await;
        let words = json!({"name": "flag", "description": SECRET});
        root.post(&format!("{of_project}/feature_flags"), words).await.expect(201);
        Self {
            project: id,
            group: in_group,
            author: 1,
            values: vec![
                ("issue_iid", vec![open, secret]),
                ("issue_link_id", vec![link]),
                ("note_id", vec![on_note, confidential_note, on_epic]),
                ("award_id", awards),
                ("merge_request_iid", vec![merge_request]),
                ("milestone_id", vec![milestone]),
                ("label_id", vec![label]),
                ("board_id", vec![board]),
                ("epic_iid", vec![epic.0, shown.0]),
                ("epic_id", vec![epic.1, shown.1]),
                ("pipeline_id", vec![pipeline]),
                ("pipeline_schedule_id", vec![schedule]),
                ("trigger_id", vec![trigger]),
                ("key_id", vec![key]),
                ("iid", vec![list]),
            ],
        }
    }

    /// Mentions all users on the confidential issue after they have their roles, and references the public issue.
    async fn mention(&self, root: &Client, reporter: &Client) {
        let of_project = format!("/projects/{}", self.project);
        let iids = &self.values[0].1;
        let (open, secret) = (iids[0], iids[1]);
        let words = json!({"body": format!("{SECRET} for @guest, @stranger and @reporter; like #{open}")});
        Self::write(root, &format!("{of_project}/issues/{secret}/notes"), words).await;
        let existing = format!("mentioned in issue #{secret}");
        let notes = format!("{of_project}/issues/{open}/notes?per_page=100");
        assert!(reporter.get(&notes).await.expect(200).text().contains(&existing));
    }

    async fn write(client: &Client, path: &str, body: Value) -> i64 {
        spaces::id(&client.post(path, body).await.expect(201).json())
    }

    /// Returns every path of an operation, with every value of each placeholder.
    fn paths(&self, operation: &Operation) -> Vec<String> {
        let mut paths = vec![String::new()];
        for part in operation.path.trim_start_matches("/api/v4").split('/').skip(1) {
            let values = match part.split_once('{') {
                None => vec![part.to_owned()],
                Some((before, name)) => {
                    let (name, after) = name.split_once('}').expect("a placeholder");
                    let values = self.values_of(operation, name);
                    values.into_iter().map(|value| format!("{before}{value}{after}")).collect()
                }
            };
            paths = paths.iter().flat_map(|path| values.iter().map(move |value| format!("{path}/{value}"))).collect();
        }
        paths
    }

    fn values_of(&self, operation: &Operation, name: &str) -> Vec<String> {
        let one = match name {
            "id" if operation.path.contains("/projects/") => self.project,
            "id" if operation.path.contains("/groups/") => self.group,
            "id" | "user_id" => self.author,
            "sha" | "branch" => return vec!["main".to_owned()],
            "file_path" => return vec!["README.md".to_owned()],
            "key" => return vec!["K".to_owned()],
            "feature_flag_name" => return vec!["flag".to_owned()],
            _ => {
                let known = self.values.iter().find(|(known, _)| *known == name);
                let all = known.map_or(vec![1], |(_, values)| values.clone());
                return all.iter().map(ToString::to_string).collect();
            }
        };
        vec![one.to_string()]
    }

    /// Returns the operations, with their paths, that return the secret word to a client.
    async fn leaks(&self, client: &Client) -> Vec<(&'static str, String)> {
        self.leaks_of(client, |_| true).await
    }

    /// As [`Fixture::leaks`], only for some operations.
    async fn leaks_of(&self, client: &Client, is_selected: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
        let mut leaks = Vec::new();
        for operation in operations().iter().filter(|operation| operation.method == "GET" && is_selected(operation.id))
        {
            // An operation without filters needs only one query.
            let has_parameter = |name: &str| operation.parameters.iter().any(|parameter| parameter.name == name);
            let lists = has_parameter("scope") || has_parameter("search");
            let queries = if lists { QUERIES.as_slice() } else { &QUERIES[..1] };
            for path in self.paths(operation) {
                for query in queries {
                    let path = format!("{path}?{query}");
                    let response = client.get(&path).await;
                    assert!(response.status < 500, "{path}: {}", response.status);
                    if String::from_utf8_lossy(&response.body).contains(SECRET) {
                        leaks.push((operation.id, path));
                    }
                }
            }
        }
        leaks
    }
}

fn ultimate_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("ultimate".to_owned()), ..ConfigOptions::default() }
}

async fn no_route_leaks_confidential_text(server: TestServer) {
    let (guest, non_member) = (server.create_user("guest").await, server.create_user("stranger").await);
    let reporter = server.create_user("reporter").await;
    let fixture = Fixture::new(&server).await;
    server.insert_member(fixture.project, guest.id, AccessLevel::Guest).await;
    spaces::join(&server.root(), &format!("/groups/{}", fixture.group), reporter.id, 20).await;
    fixture.mention(&server.root(), &reporter.client).await;
    server.finish_jobs().await;
    for (who, client) in
        [("guest", &guest.client), ("non-member", &non_member.client), ("anonymous", &server.anonymous())]
    {
        let leaks = fixture.leaks(client).await;
        assert!(leaks.is_empty(), "{who} can read {leaks:#?}");
        // A cross-reference would reveal the IID of the confidential issue.
        let notes = format!("/projects/{}/issues/{}/notes?per_page=100", fixture.project, fixture.values[0].1[0]);
        assert!(!client.get(&notes).await.text().contains("mentioned in"), "{who}");
    }
    // A reporter can read the word in many places. This proves that the requests reach them.
    let leaks: BTreeSet<&str> = fixture.leaks(&reporter.client).await.into_iter().map(|(id, _)| id).collect();
    for expected in [
        "list_issues",
        "list_group_issues",
        "list_project_issues",
        "get_issue",
        "list_issue_links",
        "get_issue_link",
        "list_issue_notes",
        "get_issue_note",
        "list_project_milestone_issues",
        "list_merge_request_closes_issues",
        "list_epic_issues",
        "get_epic",
        "list_epics",
        "list_epic_notes",
        "list_project_events",
        "list_todos",
    ] {
        assert!(leaks.contains(expected), "{expected} does not return the word: {leaks:?}");
    }
    // Operations about pipelines require other roles.
    let developer = server.create_user("developer").await;
    server.insert_member(fixture.project, developer.id, AccessLevel::Developer).await;
    let maintainer = server.create_user("maintainer").await;
    server.insert_member(fixture.project, maintainer.id, AccessLevel::Maintainer).await;
    let is_selected = |id: &str| OF_PIPELINES.iter().any(|(operation, _)| *operation == id);
    for (role, client) in
        [(20, &reporter.client), (30, &developer.client), (40, &maintainer.client), (60, &server.root())]
    {
        let leaks: BTreeSet<&str> = fixture.leaks_of(client, is_selected).await.into_iter().map(|(id, _)| id).collect();
        for (operation, least) in OF_PIPELINES {
            assert_eq!(leaks.contains(operation), role >= least, "{operation} to {role}: {leaks:?}");
        }
    }
}

on_every_database![
    no_route_leaks_confidential_text with ultimate_plan(),
];
