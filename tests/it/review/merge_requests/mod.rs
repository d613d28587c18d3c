mod changes;
mod closing_issues;
mod forks;
mod lifecycle;
mod lists;
mod notes;
mod query_plans;
mod races;
mod review_filters;
mod webhooks;

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use serde_json::{Value, json};
use storage::entities::{Visibility, merge_requests, notes as note_rows};

use crate::support::code::Project;
use crate::support::{Client, TestServer};

/// Creates a merge request from one branch of a project into another and returns its IID.
pub async fn propose(client: &Client, project: i64, source: &str, target: &str, more: Value) -> i64 {
    let mut body = json!({"source_branch": source, "target_branch": target, "title": source});
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().expect("an object").extend(more);
    let answer = client.post(&format!("/projects/{project}/merge_requests"), body).await;
    answer.expect(201).json()["iid"].as_i64().expect("a number")
}

/// Creates a public project of the administrator with the branches `main`, `feature/x` and `merged`.
async fn public_project<'a>(server: &'a TestServer, name: &str) -> Project<'a> {
    Project::with_commits(server, name, Visibility::Public).await
}

/// Returns the titles of a list, in its order.
async fn titles(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.expect(200).pluck("title");
    list.iter().map(|title| title.as_str().expect("a title").to_owned()).collect()
}

/// Returns the row of a merge request.
async fn row(server: &TestServer, project: i64, iid: i64) -> merge_requests::Model {
    let found = merge_requests::by_iid(project, iid).one(server.backend.database.read()).await;
    found.expect("a lookup").expect("a merge request")
}

/// Returns the bodies of the system notes of a merge request, oldest first.
async fn system_notes(server: &TestServer, project: i64, iid: i64) -> Vec<String> {
    let merge_request = row(server, project, iid).await;
    let found = note_rows::Entity::find()
        .filter(note_rows::Column::MergeRequestId.eq(merge_request.id))
        .filter(note_rows::Column::System.eq(true))
        .order_by_asc(note_rows::Column::Id)
        .all(server.backend.database.read())
        .await;
    found.expect("notes").into_iter().map(|note| note.body).collect()
}
