//! Interrupted imports and conflicts with concurrent changes.

use std::time::Duration;

use domain::transfers::{imports as service, sweep};
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{group_imports, imported_groups, jobs, now};

use super::{Draft, export, files, import, send, stored_archives};
use crate::support::spaces::group;
use crate::support::{TestServer, on_every_database};

/// Returns an archive with records of each kind in several groups.
fn archive() -> Draft {
    let mut draft = Draft::new();
    for id in 8..13 {
        draft = draft.with_subgroup(id, id - 1, &format!("g{id}"));
    }
    for id in 7..13 {
        let many = |make: fn(i64, i64) -> Value| (1..=30).map(move |iid| make(id, iid));
        draft = draft
            .with_records(id, "labels", many(|_, n| json!({"title": format!("l{n}"), "color": "#112233"})))
            .with_records(id, "milestones", many(|_, n| json!({"iid": n, "title": format!("m{n}"), "state": "active"})))
            .with_records(id, "badges", many(|_, n| json!({"link_url": format!("https://h/{n}"), "image_url": "https://h/"})))
            .with_records(id, "boards", many(|_, n| {
                json!({"name": format!("b{n}"), "lists": [{"list_type": "label", "label": {"title": format!("l{n}")}}]})
            }))
            .with_records(id, "epics", many(|id, n| {
                let parent = if id > 7 && n == 1 { json!((id - 1) * 100 + 1) } else { json!(null) };
                json!({"id": id * 100 + n, "iid": n, "title": "E", "state": "opened", "parent_id": parent, "labels": [{"title": "l1"}]})
            }));
    }
    draft
}

async fn import_id(server: &TestServer) -> i64 {
    let all = group_imports::Entity::find().all(server.backend.database.read()).await;
    all.expect("rows").pop().expect("an import").id
}

/// Returns the number of records of each file of an archive.
fn record_counts(archive: &[u8]) -> Vec<(String, usize)> {
    let lines = files(archive).into_iter().filter(|(name, _)| name.ends_with(".ndjson"));
    let mut record_counts: Vec<_> =
        lines.map(|(name, text)| (name.rsplit('/').next().expect("a name").to_owned(), text.lines().count())).collect();
    record_counts.sort();
    record_counts
}

async fn repeatedly_killed_import_creates_each_record_once(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, archive().packed()).await.expect(202);
    let import = import_id(&server).await;
    let mut attempt = Duration::from_micros(200);
    while tokio::time::timeout(attempt, service::run(&server.backend, import)).await.is_err() {
        attempt = attempt * 5 / 4;
    }
    // Jobs run at least once: another run and the job find nothing to do.
    service::run(&server.backend, import).await.expect("a run");
    server.finish_jobs().await;
    let status = root.get("/groups/fresh/import").await.expect(200).json();
    assert_eq!((&status["import_status"], &status["imported_groups_count"]), (&json!("finished"), &json!(6)));
    assert_eq!(stored_archives(&server).await.len(), 0);
    let groups = imported_groups::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(groups.expect("a count"), 6);
    let id = status["id"].as_i64().expect("a number");
    let again = export(&server, &root, id).await;
    let mut expected: Vec<(String, usize)> = ["badges", "boards", "epics", "labels", "milestones"]
        .iter()
        .flat_map(|word| std::iter::repeat_n((format!("{word}.ndjson"), 30), 6))
        .collect();
    expected.push(("_all.ndjson".to_owned(), 6));
    expected.push(("members.ndjson".to_owned(), 1));
    expected.sort();
    assert_eq!(record_counts(&again), expected);
    let parts = root.get("/groups/fresh%2Fg8/epics/1").await.expect(200).json();
    let above = root.get("/groups/fresh/epics/1").await.expect(200).json();
    assert_eq!(parts["parent_id"], above["id"]);
}

async fn import_fails_entirely_if_subgroup_was_created_meanwhile(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, archive().packed()).await.expect(202);
    let created = root.get("/groups/fresh").await.expect(200).json()["id"].as_i64().expect("a number");
    group(&root, "g8", json!({"parent_id": created})).await;
    server.finish_jobs().await;
    let status = root.get("/groups/fresh/import").await.expect(200).json();
    assert_eq!(status["import_status"], "failed");
    let error = status["import_error"].as_str().expect("a text");
    assert!(error.contains("\"top/g8\"") && error.contains("has already been taken"), "{error}");
    assert_eq!((&status["imported_groups_count"], stored_archives(&server).await.len()), (&json!(0), 0));
    for noteables in ["labels", "milestones", "boards", "badges", "epics"] {
        assert_eq!(
            root.get(&format!("/groups/{created}/{noteables}")).await.expect(200).json(),
            json!([]),
            "{noteables}"
        );
    }
    assert_eq!(root.get(&format!("/groups/{created}/descendant_groups")).await.expect(200).pluck("path"), ["g8"]);
}

async fn import_fails_entirely_if_label_was_created_meanwhile(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, archive().packed()).await.expect(202);
    root.post("/groups/fresh/labels", json!({"name": "l7", "color": "#445566"})).await.expect(201);
    server.finish_jobs().await;
    let status = root.get("/groups/fresh/import").await.expect(200).json();
    assert_eq!((&status["import_status"], &status["imported_groups_count"]), (&json!("failed"), &json!(0)));
    assert_eq!(root.get("/groups/fresh/labels").await.expect(200).pluck("name"), ["l7"]);
    for noteables in ["milestones", "subgroups"] {
        assert_eq!(root.get(&format!("/groups/fresh/{noteables}")).await.expect(200).json(), json!([]), "{noteables}");
    }
}

async fn import_rejects_too_deep_nesting(server: TestServer) {
    let root = server.root();
    let mut parent = None;
    for number in 0..17 {
        let below = parent.map_or(json!({}), |parent| json!({"parent_id": parent}));
        parent = Some(group(&root, &format!("n{number}"), below).await);
    }
    let (_, status) = import(&server, &root, "fresh", parent, archive().packed()).await;
    assert_eq!(status["import_status"], "failed");
    assert!(status["import_error"].as_str().expect("a text").contains("nested too deeply"), "{status}");
}

async fn failed_import_reports_error_and_deletes_archive(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, archive().packed()).await.expect(202);
    let import = import_id(&server).await;
    service::mark_failed(&server.backend, import).await.expect("an end");
    server.finish_jobs().await;
    let status = root.get("/groups/fresh/import").await.expect(200).json();
    assert_eq!(status["import_status"], "failed");
    assert!(
        status["import_error"].as_str().expect("a text").starts_with("The import failed because of an internal error"),
        "{status}"
    );
    assert_eq!(stored_archives(&server).await.len(), 0);
}

async fn sweep_fails_import_with_lost_last_attempt(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, archive().packed()).await.expect(202);
    let all = async |job: jobs::ActiveModel| {
        let kind = jobs::Column::Kind.eq("import_group");
        let done = jobs::Entity::update_many().set(job).filter(kind).exec(server.backend.database.write()).await;
        assert_eq!(done.expect("a change").rows_affected, 1);
    };
    let status = async || {
        let import_status = root.get("/groups/fresh/import").await.expect(200).json();
        (import_status["import_status"].clone(), import_status["import_error"].clone())
    };
    // A waiting or running import is not changed, regardless of its attempts.
    let started = jobs::ActiveModel {
        attempts: Set(10),
        locked_by: Set(Some("lost".to_owned())),
        locked_until: Set(Some(now())),
        ..Default::default()
    };
    for (step, state) in
        [(jobs::ActiveModel { attempts: Set(3), ..Default::default() }, "scheduled"), (started, "scheduled")]
    {
        all(step).await;
        assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
        assert_eq!(status().await, (json!(state), json!(null)));
    }
    // A runner finds the lost job and fails it permanently.
    server.finish_jobs().await;
    let dead =
        jobs::Entity::find().filter(jobs::Column::DeadAt.is_not_null()).count(server.backend.database.read()).await;
    assert_eq!(dead.expect("a count"), 1);
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 1);
    let (state, error) = status().await;
    assert_eq!(state, "failed");
    assert!(error.as_str().expect("a text").starts_with("The import failed because of an internal error"), "{error}");
    assert_eq!(stored_archives(&server).await.len(), 0);
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    send(&root, "again", None, archive().packed()).await.expect(202);
}

async fn deleting_group_ends_running_import(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, archive().packed()).await.expect(202);
    let import = import_id(&server).await;
    root.delete("/groups/fresh").await.expect(202);
    service::run(&server.backend, import).await.expect("an end");
    server.finish_jobs().await;
    assert_eq!(root.get("/groups").await.expect(200).json(), json!([]));
    assert_eq!(stored_archives(&server).await.len(), 0);
}

on_every_database![
    repeatedly_killed_import_creates_each_record_once,
    import_fails_entirely_if_subgroup_was_created_meanwhile,
    import_fails_entirely_if_label_was_created_meanwhile,
    import_rejects_too_deep_nesting,
    failed_import_reports_error_and_deletes_archive,
    sweep_fails_import_with_lost_last_attempt,
    deleting_group_ends_running_import,
];
