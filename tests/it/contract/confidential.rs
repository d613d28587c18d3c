//! What is confidential is shown by no route to whoever may not see it, directly or beside something else: every reading
//! operation of the contract is asked, with every query that finds things, for everything that is there.

use std::collections::BTreeSet;

use holdfast::api::contract::OPERATIONS;
use holdfast::api::operation::Operation;
use holdfast::config::Options;
use holdfast::entities::{AccessLevel, Visibility};
use serde_json::{Value, json};

use crate::support::code::Project;
use crate::support::places::{self, group};
use crate::support::{Client, TestServer, scenario};
use crate::{boards, epics, issues, labels, merge_requests, milestones};

/// A word that stands in nothing but what is confidential.
const SECRET: &str = "hushhush";

/// Queries that find things, or show more of them.
const QUERIES: [&str; 5] = [
    "per_page=100",
    "per_page=100&scope=all&state=all&confidential=true",
    "per_page=100&scope=all&search=hushhush&in=title,description",
    "per_page=100&scope=all&state=all&order_by=updated_at&with_labels_details=true&non_archived=false",
    "per_page=100&scope=all&assignee_id=Any&milestone=v1&labels=Any&with_counts=true",
];

/// What stands for the placeholders of paths: each is tried with each.
struct Scene {
    project: i64,
    group: i64,
    author: i64,
    values: Vec<(&'static str, Vec<i64>)>,
}

impl Scene {
    /// A public project in a public group, with confidential things in every place that they can be in.
    async fn new(server: &TestServer) -> Self {
        let root = server.root();
        let in_group = group(&root, "open", json!({"visibility": "public"})).await;
        let project = Project::filled(server, "one", Visibility::Public).await;
        let id = project.id;
        root.put(
            &format!("/projects/{id}/transfer"),
            json!({"namespace": in_group}),
        )
        .await
        .expect(200);
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
        let (on_secret, on_open) = (
            format!("{of_project}/issues/{secret}"),
            format!("{of_project}/issues/{open}"),
        );
        let words = json!({"body": format!("{SECRET} note, see #{open} and @guest, @stranger, @reporter")});
        let on_note = Self::write(&root, &format!("{on_secret}/notes"), words).await;
        let words = json!({"body": format!("{SECRET} aside for @guest, #{secret}"), "confidential": true});
        let aside = Self::write(&root, &format!("{on_open}/notes"), words).await;
        let mut awards = Vec::new();
        for to in [
            on_secret.clone(),
            format!("{on_secret}/notes/{on_note}"),
            format!("{on_open}/notes/{aside}"),
        ] {
            awards.push(Self::write(&root, &format!("{to}/award_emoji"), json!({"name": "tada"})).await);
        }
        root.post(&format!("{on_secret}/add_spent_time"), json!({"duration": "1h"}))
            .await
            .expect(201);
        root.put(&on_secret, json!({"title": format!("{SECRET} new title")}))
            .await
            .expect(200);
        let closes = json!({"description": format!("Closes #{secret}")});
        let merge_request = merge_requests::propose(&root, id, "feature/x", "main", closes).await;
        let epic = epics::epic(
            &root,
            in_group,
            &format!("{SECRET} epic"),
            json!({"confidential": true}),
        )
        .await;
        let shown = epics::epic(&root, in_group, "shown", json!({})).await;
        let global = places::id(&root.get(&on_secret).await.expect(200).json());
        root.post(
            &format!("{of_group}/epics/{}/issues/{global}", shown.0),
            json!({}),
        )
        .await
        .expect(201);
        let words = json!({"body": format!("{SECRET} of the epic")});
        let on_epic = Self::write(&root, &format!("{of_group}/epics/{}/notes", epic.1), words).await;
        Self {
            project: id,
            group: in_group,
            author: 1,
            values: vec![
                ("issue_iid", vec![open, secret]),
                ("note_id", vec![on_note, aside, on_epic]),
                ("award_id", awards),
                ("merge_request_iid", vec![merge_request]),
                ("milestone_id", vec![milestone]),
                ("label_id", vec![label]),
                ("board_id", vec![board]),
                ("epic_iid", vec![epic.0, shown.0]),
                ("epic_id", vec![epic.1, shown.1]),
            ],
        }
    }

    /// Mentions everybody on the confidential issue now that they have their roles, and names it where all may look.
    async fn mention(&self, root: &Client, reporter: &Client) {
        let of_project = format!("/projects/{}", self.project);
        let iids = &self.values[0].1;
        let (open, secret) = (iids[0], iids[1]);
        let words = json!({"body": format!("{SECRET} for @guest, @stranger and @reporter; like #{open}")});
        Self::write(root, &format!("{of_project}/issues/{secret}/notes"), words).await;
        let there = format!("mentioned in issue #{secret}");
        let notes = format!("{of_project}/issues/{open}/notes?per_page=100");
        assert!(reporter.get(&notes).await.expect(200).text().contains(&there));
    }

    async fn write(client: &Client, path: &str, body: Value) -> i64 {
        places::id(&client.post(path, body).await.expect(201).json())
    }

    /// Every path of an operation, with every value for each placeholder.
    fn paths(&self, operation: &Operation) -> Vec<String> {
        let mut paths = vec![String::new()];
        for part in operation.path.trim_start_matches("/api/v4").split('/').skip(1) {
            let values = match part.split_once('{') {
                None => vec![part.to_owned()],
                Some((before, name)) => {
                    let (name, after) = name.split_once('}').expect("a placeholder");
                    let values = self.values_of(operation, name);
                    values
                        .into_iter()
                        .map(|value| format!("{before}{value}{after}"))
                        .collect()
                }
            };
            paths = paths
                .iter()
                .flat_map(|path| values.iter().map(move |value| format!("{path}/{value}")))
                .collect();
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
            _ => {
                let known = self.values.iter().find(|(known, _)| *known == name);
                let all = known.map_or(vec![1], |(_, values)| values.clone());
                return all.iter().map(ToString::to_string).collect();
            }
        };
        vec![one.to_string()]
    }

    /// The operations that say the word to somebody, with the paths that made them.
    async fn told(&self, client: &Client) -> Vec<(&'static str, String)> {
        let mut told = Vec::new();
        for operation in OPERATIONS.iter().filter(|operation| operation.method == "GET") {
            // Where nothing is looked for, one way to ask is as good as another.
            let asks = |name: &str| {
                operation
                    .parameters
                    .iter()
                    .any(|parameter| parameter.name == name)
            };
            let lists = asks("scope") || asks("search");
            let queries = if lists { QUERIES.as_slice() } else { &QUERIES[..1] };
            for path in self.paths(operation) {
                for query in queries {
                    let path = format!("{path}?{query}");
                    let answer = client.get(&path).await;
                    assert!(answer.status < 500, "{path}: {}", answer.status);
                    if String::from_utf8_lossy(&answer.body).contains(SECRET) {
                        told.push((operation.id, path));
                    }
                }
            }
        }
        told
    }
}

fn whole_plan() -> Options {
    Options {
        plan: Some("ultimate".to_owned()),
        ..Options::default()
    }
}

scenario! {
    async fn no_route_shows_what_is_confidential(server with whole_plan()) {
        let (guest, stranger) = (server.person("guest").await, server.person("stranger").await);
        let reporter = server.person("reporter").await;
        let scene = Scene::new(&server).await;
        server.enrol(scene.project, guest.id, AccessLevel::Guest).await;
        places::join(&server.root(), &format!("/groups/{}", scene.group), reporter.id, 20).await;
        scene.mention(&server.root(), &reporter.client).await;
        server.finish_jobs().await;
        for (who, client) in [("guest", &guest.client), ("stranger", &stranger.client), ("nobody", &server.anonymous())] {
            let told = scene.told(client).await;
            assert!(told.is_empty(), "{who} is told by {told:#?}");
            // That it is named tells as much as its number.
            let notes = format!("/projects/{}/issues/{}/notes?per_page=100", scene.project, scene.values[0].1[0]);
            assert!(!client.get(&notes).await.text().contains("mentioned in"), "{who}");
        }
        // Whoever may see it is told in many places, so that the walk goes where it should.
        let told: BTreeSet<&str> = scene.told(&reporter.client).await.into_iter().map(|(id, _)| id).collect();
        for expected in [
            "list_issues", "list_group_issues", "list_project_issues", "get_issue", "list_issue_notes", "get_issue_note",
            "list_project_milestone_issues", "list_merge_request_closes_issues", "list_epic_issues", "get_epic",
            "list_epics", "list_epic_notes", "list_project_events", "list_todos",
        ] {
            assert!(told.contains(expected), "{expected} tells nobody: {told:?}");
        }
    }
}
