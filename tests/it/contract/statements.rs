//! Statement counts of lists, which must not grow with the number of rows.

use contract::operation::{Operation, Paging, ResourceKind};
use contract::table::operations;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use storage::entities::{now, releases as rows};

use crate::code::{deploy_keys, protected_branches, protected_tags, pull_mirrors, snippets};
use crate::delivery::{
    clusters, commit_statuses, deployments, environments, feature_flag_user_lists, feature_flags, freeze_periods,
    pipeline_schedules, pipeline_triggers, pipelines, variables,
};
use crate::identity::deploy_tokens::deploy_token;
use crate::instance::feature_gates;
use crate::packages;
use crate::planning::{boards, epics, issues, labels, milestones};
use crate::registry::container_registry;
use crate::releases;
use crate::review::{approvals, merge_requests};
use crate::security::vulnerabilities;
use crate::spaces::badges;
use crate::support::repository::Sample;
use crate::support::{Client, TestServer, on_every_database, spaces};

/// Maximum number of statements of a list, including authentication.
const MAX_STATEMENTS: usize = 15;
/// Number of rows of most kinds.
const MANY: usize = 13;

/// IDs for path placeholders. Each resource has many related rows.
struct Ids {
    project: i64,
    commit: String,
    group: i64,
    user: i64,
    hook: i64,
    project_board: i64,
    group_board: i64,
    /// On the first issue of the project.
    note: i64,
    /// ID of a project snippet and ID of a note on it.
    snippet: (i64, i64),
    /// IID and ID of an epic of the group with many notes and issues.
    epic: (i64, i64),
    /// On the first merge request of the project.
    merge_request_note: i64,
    /// On that epic.
    epic_note: i64,
    project_milestone: i64,
    group_milestone: i64,
    pipeline: i64,
    deployment: i64,
    /// A generic package with many files.
    package: i64,
    /// A repository of images with many tags.
    registry_repository: i64,
}

impl Ids {
    async fn new(server: &TestServer, user: i64) -> Self {
        let root = server.root();
        let project = Sample::new(server).await;
        let group = spaces::group(&root, "many", json!({ "visibility": "public" })).await;
        let other = spaces::group(&root, "other", json!({})).await;
        let hooks = format!("/projects/{}/hooks", project.id);
        let (mut hook, mut note, mut merge_request_note, mut epic_note) = (0, 0, 0, 0);
        let (mut project_milestone, mut group_milestone) = (0, 0);
        let (mut project_board, mut group_board) = (0, 0);
        let mut snippet = (0, 0);
        let mut pipeline = 0;
        let mut deployment = json!(null);
        let (mut registry_repository, mut package) = (0, 0);
        let epic = epics::epic(&root, group, "much", json!({})).await;
        for number in 0..MANY {
            let below = spaces::group(&root, &format!("below-{number}"), json!({ "parent_id": group })).await;
            let topics = json!({ "namespace_id": group, "tag_list": "a,b", "visibility": "public" });
            let created = spaces::project(&root, &format!("made-{number}"), topics).await;
            let own = json!({ "visibility": "public" });
            let own = spaces::project(&root, &format!("own-{number}"), own).await;
            if number == MANY - 1 {
                // A forked project is shown with its parent and the parent's owner.
                let fork = json!({ "namespace_id": group });
                root.post(&format!("/projects/{own}/fork"), fork).await.expect(201);
            }
            let share = json!({ "group_id": other, "group_access": 30 });
            root.post(&format!("/projects/{created}/share"), share).await.expect(201);
            root.post(&format!("/projects/{created}/star"), json!({})).await.expect(201);
            let member = server.create_user(&format!("person-{number}")).await;
            for base_path in
                [format!("/projects/{}", project.id), format!("/groups/{group}"), format!("/groups/{below}")]
            {
                spaces::join(&root, &base_path, member.id, 20).await;
            }
            member.client.post(&format!("/projects/{}/star", project.id), json!({})).await.expect(201);
            let address = json!({ "url": format!("http://127.0.0.1:1/{number}") });
            let title = format!("title-{number}");
            for base_path in [format!("/projects/{}", project.id), format!("/groups/{group}")] {
                let label = labels::label(&root, &base_path, &title).await;
                let milestone = milestones::milestone(&root, &base_path, &title).await;
                badges::badge(&root, &base_path, &title).await;
                let board = boards::board(&root, &base_path, &title).await;
                boards::list(&root, &base_path, board, json!({ "label_id": label })).await;
                boards::list(&root, &base_path, board, json!({ "milestone_id": milestone })).await;
                boards::list(&root, &base_path, board, json!({ "assignee_id": 1 })).await;
                match base_path.starts_with("/projects") {
                    true => (project_board, project_milestone) = (board, milestone),
                    false => (group_board, group_milestone) = (board, milestone),
                }
            }
            let milestones = root.get(&format!("/groups/{group}/milestones")).await;
            let milestone = milestones.expect(200).json()[0]["id"].clone();
            for (project, milestone) in [(project.id, json!(null)), (created, milestone)] {
                let issue = json!({ "title": title, "labels": title, "assignee_ids": [member.id] });
                let iid = issues::open(&root, project, issue).await;
                let milestone = json!({ "milestone_id": milestone });
                root.put(&format!("/projects/{project}/issues/{iid}"), milestone).await.expect(200);
                let close = json!({ "state_event": "close" });
                root.put(&format!("/projects/{project}/issues/{iid}"), close).await.expect(200);
            }
            let mine = json!({ "labels": title });
            epics::epic(&member.client, below, &title, mine).await;
            let of_group = root.get(&format!("/projects/{created}/issues")).await;
            let gathered = spaces::id(&of_group.expect(200).json()[0]);
            let gather = format!("/groups/{group}/epics/{}/issues/{gathered}", epic.0);
            root.post(&gather, json!({})).await.expect(201);
            let on_epic = comment(&member.client, &format!("/groups/{group}/epics/{}", epic.1)).await;
            // Each reader gets to-do items for every kind, in several projects and groups.
            for (reader, client) in [("root", &member.client), ("ann", &root)] {
                let text = json!({ "title": title, "description": format!("for @{reader}") });
                issues::open(client, created, text).await;
                let text = json!({ "description": format!("for @{reader}") });
                epics::epic(client, below, &format!("for-{reader}"), text).await;
            }
            let in_project = format!("/projects/{}", project.id);
            let public = json!({ "visibility": "public" });
            snippets::snippet(&member.client, "", &title, public.clone()).await;
            snippets::snippet(&root, "", &title, public.clone()).await;
            let written = snippets::snippet(&member.client, &in_project, &title, public).await;
            let one = if number == 0 { written } else { snippet.0 };
            let on_snippet = format!("{in_project}/snippets/{one}");
            let issue = format!("{in_project}/issues/1");
            // Each merge request closes the first issue. The first merge request closes each issue.
            let branch = format!("proposed-{number}");
            project.git(&["branch", &branch, "topic"]);
            let body = json!({ "labels": title, "assignee_ids": [member.id], "description": "Closes #1" });
            merge_requests::propose(&root, project.id, &branch, "main", body).await;
            server.insert_merge_request(created, 1, &[], None).await;
            let first = format!("{in_project}/merge_requests/1");
            let all: Vec<String> = (1..=number + 1).map(|iid| format!("#{iid}")).collect();
            let closes = json!({ "description": format!("Closes {}", all.join(", ")) });
            root.put(&first, closes).await.expect(200);
            let (written, snippet_note, upon) = (
                comment(&member.client, &issue).await,
                comment(&member.client, &on_snippet).await,
                comment(&member.client, &first).await,
            );
            if number == 0 {
                (note, snippet, merge_request_note, epic_note) = (written, (one, snippet_note), upon, on_epic);
            }
            let epic = format!("/groups/{group}/epics/{}", epic.0);
            let notes = [
                format!("{epic}/notes/{epic_note}"),
                format!("{issue}/notes/{note}"),
                format!("{on_snippet}/notes/{}", snippet.1),
                format!("{first}/notes/{merge_request_note}"),
            ];
            for client in [&root, &member.client] {
                let both = json!({ "body": "for @ann and @root" });
                let written = client.post(&format!("{first}/notes"), both).await;
                written.expect(201);
            }
            for to in [issue, on_snippet, first, epic].into_iter().chain(notes) {
                let tada = json!({ "name": "tada" });
                let awarded = member.client.post(&format!("{to}/award_emoji"), tada).await;
                awarded.expect(201);
            }
            hook = spaces::id(&root.post(&hooks, address).await.expect(201).json());
            let rule = json!({
                "package_name_pattern": title, "package_type": "npm", "minimum_access_level_for_push": "owner",
            });
            root.post(&format!("{in_project}/packages/protection/rules"), rule).await.expect(201);
            // Only the first ten are created.
            root.post(&format!("{in_project}/remote_mirrors"), json!({ "url": "https://h.example.com/" })).await;
            pull_mirrors::mirror(&root, &in_project).await;
            // Only the first twenty are created.
            let check = json!({ "name": title, "external_url": format!("https://checks.example.com/{number}") });
            root.post(&format!("{in_project}/external_status_checks"), check).await;
            freeze_periods::freeze_period(&root, &in_project).await;
            let grant = json!([{ "user_id": member.id }]);
            let body = json!({ "name": format!("b{number}"), "allowed_to_push": grant, "allowed_to_merge": grant });
            protected_branches::protection(&root, &in_project, body).await;
            let body = json!({ "name": format!("t{number}"), "allowed_to_create": grant });
            protected_tags::protection(&root, &in_project, body).await;
            let body = json!({ "name": format!("g{number}") });
            protected_branches::protection(&root, &format!("/groups/{group}"), body).await;
            // Only the first one is created.
            root.post(&format!("/groups/{group}/push_rule"), json!({ "max_file_size": 1 })).await;
            let rule = json!({
                "name": title, "approvals_required": 1, "user_ids": [member.id], "group_ids": [group],
                "applies_to_all_protected_branches": true,
            });
            approvals::rule(&root, project.id, rule).await;
            let rule = json!({
                "name": title, "approvals_required": 1, "user_ids": [member.id], "group_ids": [group],
            });
            approvals::own_rule(&root, project.id, 1, rule).await;
            let asset = json!({ "name": title, "url": "https://h.example.com/" });
            let assets = json!({ "milestones": [title], "assets": { "links": [asset] } });
            releases::release(&root, &in_project, &title, assets).await;
            let more = json!({ "name": title, "url": format!("https://h.example.com/{number}") });
            root.post(&format!("{in_project}/releases/title-0/assets/links"), more).await;
            insert_release(server, created, &title).await;
            vulnerabilities::vulnerability(&root, &in_project, &title).await;
            let (_, list) = feature_flag_user_lists::user_list(&root, &in_project, &title).await;
            feature_flags::flag(&root, &in_project, &title, list).await;
            let gate = json!({ "value": true, "user": "ann", "group": "many", "feature_group": "bots" });
            feature_gates::gate(&root, &title, gate).await;
            deploy_keys::deploy_key(&root, &in_project, number as u64).await;
            let scope = format!("{in_project}/job_token_scope");
            let allowed = spaces::project(&root, &format!("jobs-{number}"), json!({})).await;
            let body = json!({ "target_project_id": allowed });
            root.post(&format!("{scope}/allowlist"), body).await.expect(201);
            let allowed = spaces::group(&root, &format!("jobs-{number}"), json!({})).await;
            let body = json!({ "target_group_id": allowed });
            root.post(&format!("{scope}/groups_allowlist"), body).await.expect(201);
            for base_path in [&in_project, &format!("/groups/{group}")] {
                deploy_token(&root, base_path, &["read_registry"]).await;
            }
            pipeline_triggers::trigger(&root, &in_project).await;
            pipeline = pipelines::pipeline(&root, project.id, "main").await;
            if number < 10 {
                pipeline_schedules::schedule(&root, &in_project).await;
            }
            let status = json!({ "state": "success", "name": title });
            let main = project.id_of("main");
            let job = commit_statuses::report(&root, project.id, &main, status).await;
            environments::environment(&root, &in_project, &title).await;
            clusters::cluster(&root, &in_project, &title).await;
            for (base_path, name, tag) in
                [(project.id, title.as_str(), "v1"), (created, "", "v1"), (project.id, "many", title.as_str())]
            {
                registry_repository = container_registry::image(server, base_path, name, tag, None).await;
            }
            package = packages::package(&root, &in_project, "many", "v1").await.0;
            packages::package(&root, &in_project, "many", &title).await;
            packages::package(&root, &format!("/projects/{created}"), &title, "v1").await;
            let deploys = json!({
                "environment": title, "sha": main, "ref": "main", "tag": false, "status": "success", "job_id": job["id"],
            });
            deployment = deployments::deploy(&root, project.id, deploys).await;
            for base_path in ["/admin/ci", &in_project, &format!("/groups/{group}")] {
                variables::variable(&root, &format!("{base_path}/variables"), &format!("K{number}")).await;
            }
        }
        for iid in 1..=MANY {
            for kind in ["issues", "merge_requests"] {
                let path = format!("/projects/{}/{kind}/{iid}", project.id);
                let change = json!({ "milestone_id": project_milestone });
                let changed = root.put(&path, change).await.expect(200).json();
                if kind == "merge_requests" {
                    deployments::shipped(server, &deployment, spaces::id(&changed)).await;
                }
            }
        }
        spaces::join(&root, &format!("/groups/{group}"), user, 40).await;
        spaces::join(&root, &format!("/projects/{}", project.id), user, 40).await;
        Self {
            project: project.id,
            commit: project.id_of("main"),
            group,
            user,
            hook,
            project_board,
            group_board,
            note,
            snippet,
            epic,
            merge_request_note,
            epic_note,
            project_milestone,
            group_milestone,
            pipeline,
            deployment: spaces::id(&deployment),
            registry_repository,
            package,
        }
    }

    /// Returns the path of a list on a resource with many rows.
    fn path(&self, operation: &Operation) -> String {
        let segments = operation.path.split('/').map(|part| match part.split_once('{') {
            None => part.to_owned(),
            Some((_, name)) => match (name.trim_end_matches('}'), operation.access.on) {
                ("id", ResourceKind::Project) => self.project.to_string(),
                ("id", ResourceKind::Group) => self.group.to_string(),
                ("id" | "user_id", _) => self.user.to_string(),
                ("sha", _) => self.commit.clone(),
                ("issue_iid" | "merge_request_iid", _) => "1".to_owned(),
                ("epic_iid", _) => self.epic.0.to_string(),
                ("epic_id", _) => self.epic.1.to_string(),
                ("snippet_id", _) => self.snippet.0.to_string(),
                ("milestone_id", ResourceKind::Project) => self.project_milestone.to_string(),
                ("milestone_id", _) => self.group_milestone.to_string(),
                ("note_id", _) if operation.id.contains("snippet") => self.snippet.1.to_string(),
                ("note_id", _) if operation.id.contains("merge_request") => self.merge_request_note.to_string(),
                ("note_id", ResourceKind::Group) => self.epic_note.to_string(),
                ("note_id", _) => self.note.to_string(),
                ("hook_id", _) => self.hook.to_string(),
                ("pipeline_id", _) => self.pipeline.to_string(),
                ("deployment_id", _) => self.deployment.to_string(),
                ("repository_id", _) => self.registry_repository.to_string(),
                ("package_id", _) => self.package.to_string(),
                ("type", _) => "dockerfiles".to_owned(),
                ("tag_name", _) => "title-0".to_owned(),
                ("board_id", ResourceKind::Project) => self.project_board.to_string(),
                ("board_id", _) => self.group_board.to_string(),
                (other, _) => panic!("{}: missing value of {other}", operation.id),
            },
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// Inserts a release of a project without a repository.
async fn insert_release(server: &TestServer, project_id: i64, tag: &str) {
    let at = now();
    let row = rows::ActiveModel {
        project_id: Set(project_id),
        tag: Set(tag.to_owned()),
        name: Set(tag.to_owned()),
        released_at: Set(at),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("a release");
}

/// Creates a note and returns its ID.
async fn comment(client: &Client, on: &str) -> i64 {
    let created = client.post(&format!("{on}/notes"), json!({ "body": "A note" })).await;
    spaces::id(&created.expect(201).json())
}

/// Returns the lists that run too many statements.
async fn costly(server: &TestServer, client: &Client, ids: &Ids) -> Vec<String> {
    let mut costly = Vec::new();
    for operation in operations().iter().filter(|operation| operation.paging != Paging::None) {
        let path = format!("/{}?per_page=10", ids.path(operation));
        // The first request fills the cache of commit data, which is not measured.
        client.get(&path).await;
        let before = server.statements();
        client.get(&path).await;
        let taken = server.statements() - before;
        if taken > MAX_STATEMENTS {
            costly.push(format!("{}: {taken}", operation.id));
        }
    }
    costly
}

async fn list_statement_counts_stay_below_limit(server: TestServer) {
    let ann = server.create_user("ann").await;
    let ids = Ids::new(&server, ann.id).await;
    let none: [String; 0] = [];
    for client in [server.root(), ann.client, server.anonymous()] {
        assert_eq!(costly(&server, &client, &ids).await, none);
    }
}

on_every_database![list_statement_counts_stay_below_limit,];
