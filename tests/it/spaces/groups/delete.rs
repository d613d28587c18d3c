//! Deleting groups.

use std::time::Duration;

use chrono::TimeDelta;
use domain::lifecycle::deletion::groups::delete_permanently;
use git::RepositoryId;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::{Visibility, jobs, namespaces, now, projects, settings};

use crate::support::server::DELETION_DELAY;
use crate::support::spaces::{group, join};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a tree of three groups with a project in each, without enqueued jobs.
async fn tree(server: &TestServer, root: &Client) -> ([i64; 3], [i64; 3]) {
    let top = group(root, "top", json!({})).await;
    let mid = group(root, "mid", json!({"parent_id": top})).await;
    let low = group(root, "low", json!({"parent_id": mid})).await;
    let mut project_ids = [0; 3];
    for (slot, namespace) in project_ids.iter_mut().zip([top, mid, low]) {
        *slot = server.insert_project(namespace, "work", Visibility::Private).await.id;
    }
    ([top, mid, low], project_ids)
}

async fn assert_nothing_left(server: &TestServer, project_ids: [i64; 3]) {
    let read = server.backend.database.read();
    let groups = namespaces::Entity::find().filter(namespaces::Column::OwnerId.is_null());
    assert_eq!(groups.count(read).await.expect("a count"), 0);
    assert_eq!(projects::Entity::find().count(read).await.expect("a count"), 0);
    for id in project_ids {
        let repository = RepositoryId::of_project(id);
        assert!(!server.backend.repositories.exists(&repository).await.expect("a look"));
    }
}

async fn deleted_group_is_hidden_at_once_with_content(server: TestServer) {
    let root = server.root();
    let (groups, project_ids) = tree(&server, &root).await;
    root.post(&format!("/groups/{}/epics", groups[2]), json!({"title": "e"})).await.expect(201);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{}", groups[0]), ada.id, 50).await;
    let response = ada.client.delete(&format!("/groups/{}", groups[0])).await.expect(202);
    assert_eq!(response.json(), json!({"message": "202 Accepted"}));
    for client in [&root, &ada.client] {
        for id in groups {
            client.get(&format!("/groups/{id}")).await.expect(404);
            client.get(&format!("/groups/{id}/members")).await.expect(404);
            client.get(&format!("/namespaces/{id}")).await.expect(404);
        }
        for id in project_ids {
            client.get(&format!("/projects/{id}")).await.expect(404);
        }
        assert_eq!(client.get("/groups?all_available=true").await.expect(200).json(), json!([]));
        assert_eq!(client.get("/projects").await.expect(200).json(), json!([]));
    }
    root.delete(&format!("/groups/{}", groups[0])).await.expect(404);
    let below = json!({"name": "new", "path": "new", "parent_id": groups[2]});
    root.post("/groups", below).await.expect(404);
    root.post("/groups", json!({"name": "again", "path": "top"})).await.expect(400);
    let before = server.statements();
    server.finish_jobs().await;
    let texts = server.statement_texts(before);
    let is_batch = |sql: &String| sql.starts_with("DELETE FROM \"epics\"");
    assert!(texts.iter().any(is_batch), "the deletion of the group deletes all epics: {texts:?}");
    assert_nothing_left(&server, project_ids).await;
    group(&root, "top", json!({})).await;
}

async fn repeatedly_killed_group_deletion_completes(server: TestServer) {
    let root = server.root();
    let (groups, project_ids) = tree(&server, &root).await;
    let other = group(&root, "other", json!({})).await;
    root.delete(&format!("/groups/{}", groups[0])).await.expect(202);
    // Each attempt gets further than the one before. The last one completes.
    let mut attempt = Duration::from_micros(50);
    while tokio::time::timeout(attempt, delete_permanently(&server.backend, groups[0], None)).await.is_err() {
        attempt = attempt * 3 / 2;
    }
    // Jobs run at least once: a second run finds nothing to do.
    server.finish_jobs().await;
    root.delete(&format!("/groups/{other}")).await.expect(202);
    server.finish_jobs().await;
    assert_nothing_left(&server, project_ids).await;
}

async fn delete_group_job_keeps_groups_not_marked(server: TestServer) {
    let root = server.root();
    let (groups, _) = tree(&server, &root).await;
    delete_permanently(&server.backend, groups[0], None).await.expect("a run");
    let day = chrono::Utc::now().date_naive();
    delete_permanently(&server.backend, groups[0], Some(day)).await.expect("a run");
    root.get(&format!("/groups/{}", groups[2])).await.expect(200);
}

async fn delayed_deletion_marks_group_and_can_be_reverted(server: TestServer) {
    let root = server.root();
    let (groups, project_ids) = tree(&server, &root).await;
    let one = format!("/groups/{}", groups[0]);
    let db = server.backend.database.write();
    settings::put(db, "deletion_adjourned_period", "7").await.expect("a setting");
    root.delete(&one).await.expect(202);
    root.delete(&one).await.expect(202);
    let today = chrono::Utc::now().date_naive();
    assert_eq!(root.get(&one).await.expect(200).json()["marked_for_deletion_on"], json!(today));
    let restored = root.post(&format!("{one}/restore"), json!({})).await.expect(201).json();
    assert_eq!(restored["marked_for_deletion_on"], json!(null));
    let row = async || namespaces::Entity::find_by_id(groups[0]).one(db).await.expect("a row").expect("the group");
    let before = row().await;
    root.post(&format!("{one}/restore"), json!({})).await.expect(201);
    assert_eq!(row().await, before);
    delete_permanently(&server.backend, groups[0], Some(today)).await.expect("a run");
    root.get(&one).await.expect(200);
    root.delete(&one).await.expect(202);
    delete_permanently(&server.backend, groups[0], Some(today)).await.expect("a run");
    root.get(&one).await.expect(404);
    assert_nothing_left(&server, project_ids).await;
}

/// The job of a canceled deletion must not delete the group before the date of a later deletion.
async fn restored_group_is_deleted_on_the_date_of_its_next_deletion(server: TestServer) {
    let root = server.root();
    let one = format!("/groups/{}", group(&root, "top", json!({})).await);
    let delete_after = async |days: i64| {
        root.put("/application/settings", json!({ DELETION_DELAY: days })).await.expect(200);
        root.delete(&one).await.expect(202);
    };
    delete_after(1).await;
    root.post(&format!("{one}/restore"), json!({})).await.expect(201);
    delete_after(80).await;
    let waiting = jobs::Entity::find().filter(jobs::Column::Kind.eq("delete_group"));
    let waiting = waiting.all(server.backend.database.read()).await.expect("the jobs");
    let [job] = &waiting[..] else { panic!("{waiting:?}") };
    assert!(job.run_at > now() + TimeDelta::days(79), "{job:?}");
}

async fn files_stored_during_deletion_of_group_are_deleted_after_kill(server: TestServer) {
    let root = server.root();
    let (groups, project_ids) = tree(&server, &root).await;
    root.delete(&format!("/groups/{}", groups[0])).await.expect(202);
    delete_permanently(&server.backend, groups[0], None).await.expect("a deletion");
    // A fork stores its repository before the files are deleted again, and the server is killed.
    for id in project_ids {
        server.backend.repositories.create(&RepositoryId::of_project(id), "main").await.expect("a repository");
    }
    server.finish_jobs().await;
    assert_nothing_left(&server, project_ids).await;
}

async fn delete_group_requires_owner_and_honors_if_unmodified_since(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let one = format!("/groups/{engines}");
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&one).await.expect(412);
    for (level, user) in server.create_member_per_role(&root, engines).await {
        let response = user.client.delete(&one).await;
        assert_eq!(response.status, if level == 50 { 202 } else { 403 }, "{level}");
    }
}

on_every_database![
    deleted_group_is_hidden_at_once_with_content,
    repeatedly_killed_group_deletion_completes,
    delete_group_job_keeps_groups_not_marked,
    delayed_deletion_marks_group_and_can_be_reverted,
    restored_group_is_deleted_on_the_date_of_its_next_deletion,
    files_stored_during_deletion_of_group_are_deleted_after_kill,
    delete_group_requires_owner_and_honors_if_unmodified_since,
];
