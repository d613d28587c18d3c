mod access;
mod lifecycle;
mod links;
mod list_filters;
mod lists;
mod move_issue;
mod query_plans;
mod races;
mod time_tracking;
mod webhooks;

use serde_json::{Value, json};

use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer};

/// Creates an issue and returns its IID.
pub async fn open(client: &Client, project: i64, body: Value) -> i64 {
    let answer = client.post(&format!("/projects/{project}/issues"), body).await;
    answer.expect(201).json()["iid"].as_i64().expect("a number")
}

/// Creates a public project in a public group of the administrator.
async fn public_project(server: &TestServer, name: &str) -> i64 {
    let root = server.root();
    let group = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    project(&root, name, json!({"visibility": "public", "namespace_id": group})).await
}

/// Returns the titles of a list, in its order.
async fn titles(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.expect(200).pluck("title");
    list.iter().map(|title| title.as_str().expect("a title").to_owned()).collect()
}

/// Returns the bodies of the system notes of an issue, oldest first.
async fn system_notes(server: &TestServer, project: i64, iid: i64) -> Vec<String> {
    use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
    use storage::entities::{issues, notes};

    let db = server.backend.database.read();
    let issue = issues::by_iid(project, iid).one(db).await.expect("a lookup").expect("an issue");
    let found = notes::Entity::find()
        .filter(notes::Column::IssueId.eq(issue.id))
        .filter(notes::Column::System.eq(true))
        .order_by_asc(notes::Column::Id)
        .all(db)
        .await;
    found.expect("notes").into_iter().map(|note| note.body).collect()
}
