//! How many statements lists take: few, however many rows there are.

use holdfast::api::contract::OPERATIONS;
use holdfast::api::operation::{On, Operation, Paging};
use serde_json::json;

use crate::support::repository::Sample;
use crate::support::{Client, TestServer, places, scenario};
use crate::{badges, boards, issues, labels, milestones};

/// The most that a list may take, with finding out who asks.
const MOST: usize = 12;
/// How many there are of most things.
const MANY: usize = 13;

/// Things for the placeholders of paths, each with much in it.
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
}

impl Ids {
    async fn new(server: &TestServer, user: i64) -> Self {
        let root = server.root();
        let project = Sample::new(server).await;
        let group = places::group(&root, "many", json!({ "visibility": "public" })).await;
        let other = places::group(&root, "other", json!({})).await;
        let hooks = format!("/projects/{}/hooks", project.id);
        let (mut hook, mut note) = (0, 0);
        let (mut project_board, mut group_board) = (0, 0);
        for number in 0..MANY {
            let below = places::group(&root, &format!("below-{number}"), json!({ "parent_id": group })).await;
            let topics = json!({ "namespace_id": group, "tag_list": "a,b", "visibility": "public" });
            let made = places::project(&root, &format!("made-{number}"), topics).await;
            let own = json!({ "visibility": "public" });
            let own = places::project(&root, &format!("own-{number}"), own).await;
            if number == MANY - 1 {
                // Where a project comes from is told with it, and whose that is.
                let fork = json!({ "namespace_id": group });
                root.post(&format!("/projects/{own}/fork"), fork)
                    .await
                    .expect(201);
            }
            let share = json!({ "group_id": other, "group_access": 30 });
            root.post(&format!("/projects/{made}/share"), share)
                .await
                .expect(201);
            root.post(&format!("/projects/{made}/star"), json!({}))
                .await
                .expect(201);
            let person = server.person(&format!("person-{number}")).await;
            for place in [
                format!("/projects/{}", project.id),
                format!("/groups/{group}"),
                format!("/groups/{below}"),
            ] {
                places::join(&root, &place, person.id, 20).await;
            }
            person
                .client
                .post(&format!("/projects/{}/star", project.id), json!({}))
                .await
                .expect(201);
            let address = json!({ "url": format!("http://127.0.0.1:1/{number}") });
            let title = format!("title-{number}");
            for place in [format!("/projects/{}", project.id), format!("/groups/{group}")] {
                let label = labels::label(&root, &place, &title).await;
                let milestone = milestones::milestone(&root, &place, &title).await;
                badges::badge(&root, &place, &title).await;
                let board = boards::board(&root, &place, &title).await;
                boards::list(&root, &place, board, json!({ "label_id": label })).await;
                boards::list(&root, &place, board, json!({ "milestone_id": milestone })).await;
                boards::list(&root, &place, board, json!({ "assignee_id": 1 })).await;
                match place.starts_with("/projects") {
                    true => project_board = board,
                    false => group_board = board,
                }
            }
            let milestones = root.get(&format!("/groups/{group}/milestones")).await;
            let milestone = milestones.expect(200).json()[0]["id"].clone();
            for (project, milestone) in [(project.id, json!(null)), (made, milestone)] {
                let issue = json!({ "title": title, "labels": title, "assignee_ids": [person.id] });
                let iid = issues::open(&root, project, issue).await;
                let milestone = json!({ "milestone_id": milestone });
                root.put(&format!("/projects/{project}/issues/{iid}"), milestone)
                    .await
                    .expect(200);
                let close = json!({ "state_event": "close" });
                root.put(&format!("/projects/{project}/issues/{iid}"), close)
                    .await
                    .expect(200);
            }
            let issue = format!("/projects/{}/issues/1", project.id);
            let written = json!({ "body": title });
            let written = person.client.post(&format!("{issue}/notes"), written).await;
            let written = places::id(&written.expect(201).json());
            note = if number == 0 { written } else { note };
            for to in [issue.clone(), format!("{issue}/notes/{note}")] {
                let tada = json!({ "name": "tada" });
                let awarded = person.client.post(&format!("{to}/award_emoji"), tada).await;
                awarded.expect(201);
            }
            hook = places::id(&root.post(&hooks, address).await.expect(201).json());
        }
        places::join(&root, &format!("/groups/{group}"), user, 40).await;
        places::join(&root, &format!("/projects/{}", project.id), user, 40).await;
        Self {
            project: project.id,
            commit: project.id_of("main"),
            group,
            user,
            hook,
            project_board,
            group_board,
            note,
        }
    }

    /// A path of a list, in something that has much in it.
    fn path(&self, operation: &Operation) -> String {
        let segments = operation.path.split('/').map(|part| match part.split_once('{') {
            None => part.to_owned(),
            Some((_, name)) => match (name.trim_end_matches('}'), operation.access.on) {
                ("id", On::Project) => self.project.to_string(),
                ("id", On::Group) => self.group.to_string(),
                ("id" | "user_id", _) => self.user.to_string(),
                ("sha", _) => self.commit.clone(),
                ("issue_iid", _) => "1".to_owned(),
                ("note_id", _) => self.note.to_string(),
                ("hook_id", _) => self.hook.to_string(),
                ("board_id", On::Project) => self.project_board.to_string(),
                ("board_id", _) => self.group_board.to_string(),
                (other, _) => panic!("{}: give {other} a value here", operation.id),
            },
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// The lists that take too many statements.
async fn costly(server: &TestServer, client: &Client, ids: &Ids) -> Vec<String> {
    let mut costly = Vec::new();
    for operation in OPERATIONS
        .iter()
        .filter(|operation| operation.paging != Paging::None)
    {
        let path = format!("/{}?per_page=10", ids.path(operation));
        // What follows from a commit is remembered, and that is not what is looked at.
        client.get(&path).await;
        let before = server.statements();
        client.get(&path).await;
        let taken = server.statements() - before;
        if taken > MOST {
            costly.push(format!("{}: {taken}", operation.id));
        }
    }
    costly
}

scenario! {
    async fn no_list_takes_many_statements(server) {
        let ann = server.person("ann").await;
        let ids = Ids::new(&server, ann.id).await;
        let none: [String; 0] = [];
        for client in [server.root(), ann.client, server.anonymous()] {
            assert_eq!(costly(&server, &client, &ids).await, none);
        }
    }
}
