//! Restoring projects with a delayed deletion.

use chrono::TimeDelta;
use holdfast::config::ConfigOptions;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{jobs, now};

use crate::support::server::DELETION_DELAY;
use crate::support::spaces::{join, project};
use crate::support::{DatabaseKind, TestServer, on_every_database};

async fn restore_project_cancels_delayed_deletion(server: TestServer) {
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
    domain::lifecycle::deletion::projects::delete_permanently(&server.backend, work, Some(today), None)
        .await
        .expect("a run");
    root.get(&one).await.expect(200);
    // Restoring a project without a delayed deletion changes nothing.
    root.post(&format!("{one}/restore"), json!({})).await.expect(201);
}

/// The job of a canceled deletion must not delete the project before the date of a later deletion.
async fn restored_project_is_deleted_on_the_date_of_its_next_deletion(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let one = format!("/projects/{work}");
    let delete_after = async |days: i64| {
        root.put("/application/settings", json!({ DELETION_DELAY: days })).await.expect(200);
        root.delete(&one).await.expect(202);
    };
    delete_after(1).await;
    root.post(&format!("{one}/restore"), json!({})).await.expect(201);
    delete_after(80).await;
    let waiting = jobs::Entity::find().filter(jobs::Column::Kind.eq("delete_project"));
    let waiting = waiting.all(server.backend.database.read()).await.expect("the jobs");
    let [job] = &waiting[..] else { panic!("{waiting:?}") };
    assert!(job.run_at > now() + TimeDelta::days(79), "{job:?}");
}

async fn restore_project_requires_owner(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let restore = format!("/projects/{work}/restore");
    let maintainer = server.create_user("maintainer").await;
    join(&root, &format!("/projects/{work}"), maintainer.id, 40).await;
    maintainer.client.post(&restore, json!({})).await.expect(403);
    server.create_user("stranger").await.client.post(&restore, json!({})).await.expect(404);
    server.anonymous().post(&restore, json!({})).await.expect(401);
    root.post("/projects/a%00b%2Fc/restore", json!({})).await.expect(400);
}

on_every_database![
    restore_project_cancels_delayed_deletion,
    restored_project_is_deleted_on_the_date_of_its_next_deletion,
    restore_project_requires_owner,
];

async fn plan_without_delayed_deletion_deletes_at_once() {
    let options = ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() };
    let server = TestServer::start_with(DatabaseKind::Sqlite, options).await;
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let db = server.backend.database.write();
    storage::entities::settings::put(db, "deletion_adjourned_period", "7").await.expect("a setting");
    root.post(&format!("/projects/{work}/restore"), json!({})).await.expect(403);
    root.delete(&format!("/projects/{work}")).await.expect(202);
    root.get(&format!("/projects/{work}")).await.expect(404);
    server.stop().await;
}

harness::tests![plan_without_delayed_deletion_deletes_at_once];
