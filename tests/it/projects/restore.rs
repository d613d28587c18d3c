//! Taking back a removal that is delayed.

use holdfast::config::Options;
use serde_json::{Value, json};

use crate::support::places::{join, project};
use crate::support::{Kind, TestServer, on_every_database};

async fn a_marked_project_is_restored_and_the_job_leaves_it_alone(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let one = format!("/projects/{work}");
    let db = server.backend.database.write();
    storage::entities::settings::put(db, "deletion_adjourned_period", "7").await.expect("a setting");
    root.delete(&one).await.expect(202);
    let today = chrono::Utc::now().date_naive();
    let restored = root.post(&format!("{one}/restore"), json!({})).await.expect(201).json();
    assert_eq!(
        (&restored["marked_for_deletion_on"], &restored["marked_for_deletion_at"]),
        (&Value::Null, &Value::Null)
    );
    domain::spaces::projects::erase(&server.backend, work, Some(today), None).await.expect("a run");
    root.get(&one).await.expect(200);
    // What is not marked does not change.
    root.post(&format!("{one}/restore"), json!({})).await.expect(201);
}

async fn only_owners_restore(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let restore = format!("/projects/{work}/restore");
    let maintainer = server.person("maintainer").await;
    join(&root, &format!("/projects/{work}"), maintainer.id, 40).await;
    maintainer.client.post(&restore, json!({})).await.expect(403);
    server.person("stranger").await.client.post(&restore, json!({})).await.expect(404);
    server.anonymous().post(&restore, json!({})).await.expect(401);
    root.post("/projects/a%00b%2Fc/restore", json!({})).await.expect(400);
}

on_every_database![a_marked_project_is_restored_and_the_job_leaves_it_alone, only_owners_restore,];

#[tokio::test]
async fn a_plan_without_delays_removes_at_once_and_restores_nothing() {
    let options = Options { plan: Some("starter".to_owned()), ..Options::default() };
    let server = TestServer::start_with(Kind::Sqlite, options).await;
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let db = server.backend.database.write();
    storage::entities::settings::put(db, "deletion_adjourned_period", "7").await.expect("a setting");
    root.post(&format!("/projects/{work}/restore"), json!({})).await.expect(403);
    root.delete(&format!("/projects/{work}")).await.expect(202);
    root.get(&format!("/projects/{work}")).await.expect(404);
    server.stop().await;
}
