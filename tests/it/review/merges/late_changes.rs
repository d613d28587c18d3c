//! Requirements that change while a merge or a rebase waits for the lock of the repository.

use domain::review::merge_requests::run_auto_merge;
use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::merge_requests;
use storage::entities::notes::{self, NoteKind};

use crate::code::update_authority::Sample;
use crate::delivery::commit_statuses::report;
use crate::review::merge_requests::propose;
use crate::support::code::{NewCommit, file};
use crate::support::{TestServer, on_every_database};

async fn merge_is_refused_if_a_requirement_changes_while_it_waits(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (root, project) = (server.root(), format!("/projects/{}", sample.project.id));
    let merge = format!("{project}/merge_requests/{}/merge", sample.merge_request);
    let (head, target) = (sample.project.id("feature/x"), sample.project.id("target"));
    let set = async |change: Value| drop(root.put(&project, change).await.expect(200));
    let state = async |state: &str| {
        let body = json!({"state": state, "ref": "feature/x"});
        report(&root, sample.project.id, &head, body).await
    };
    let waiting = sample.begin(&root, Method::PUT, &merge, json!({})).await;
    set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    waiting.finish().await.expect(405);
    state("success").await;
    let waiting = sample.begin(&root, Method::PUT, &merge, json!({})).await;
    state("failed").await;
    waiting.finish().await.expect(405);
    let discussions = |required: bool| {
        json!({
            "only_allow_merge_if_pipeline_succeeds": false,
            "only_allow_merge_if_all_discussions_are_resolved": required,
        })
    };
    set(discussions(true)).await;
    let note = format!("{project}/merge_requests/{}/notes", sample.merge_request);
    root.post(&note, json!({"body": "Why?"})).await.expect(201);
    let waiting = sample.begin(&root, Method::PUT, &merge, json!({})).await;
    let discussion = notes::Entity::update_many()
        .col_expr(notes::Column::Kind, Expr::value(NoteKind::Discussion))
        .filter(notes::Column::System.eq(false));
    discussion.exec(server.backend.database.write()).await.expect("a discussion");
    waiting.finish().await.expect(405);
    assert_eq!(sample.project.id("target"), target);
    set(discussions(false)).await;
    root.put(&merge, json!({})).await.expect(200);
}

async fn automatic_merge_waits_if_its_pipeline_runs_again_meanwhile(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let path = format!("/projects/{}/merge_requests/{}", sample.project.id, sample.merge_request);
    let (head, target) = (sample.project.id("feature/x"), sample.project.id("target"));
    let state = async |state: &str| {
        let body = json!({"state": state, "ref": "feature/x"});
        report(&root, sample.project.id, &head, body).await
    };
    state("running").await;
    root.put(&format!("{path}/merge"), json!({"merge_when_pipeline_succeeds": true})).await.expect(200);
    state("success").await;
    let stored = merge_requests::Entity::find().one(server.backend.database.read()).await;
    let id = stored.expect("a query").expect("a merge request").id;
    let lock = sample.lock().await;
    let backend = server.backend.clone();
    let job = tokio::spawn(async move { run_auto_merge(&backend, id).await });
    sample.wait_for_intent().await;
    state("running").await;
    drop(lock);
    let error = job.await.expect("a task").expect_err("a running pipeline");
    assert!(error.can_succeed_later(), "{error:?}");
    server.finish_jobs().await;
    let read = root.get(&path).await.expect(200).json();
    assert_eq!(
        (&read["state"], &read["merge_when_pipeline_succeeds"], &read["merge_error"]),
        (&json!("opened"), &json!(true), &Value::Null)
    );
    assert_eq!(sample.project.id("target"), target);
    state("success").await;
    server.finish_jobs().await;
    assert_eq!(root.get(&path).await.expect(200).json()["state"], "merged");
}

async fn rebase_of_merge_request_that_is_deleted_or_closed_while_it_waits_changes_no_row(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let rebase = |path: &str| format!("{path}/rebase");
    let all = format!("/projects/{}/merge_requests", sample.project.id);
    sample.project.import(&NewCommit {
        branch: "clash",
        from: Some("main~1"),
        changes: file("README.md", "Goodbye\n"),
        ..NewCommit::default()
    });
    let closed = format!("{all}/{}", propose(&root, sample.project.id, "clash", "target", json!({})).await);
    server.finish_jobs().await;
    let waiting = sample.begin(&root, Method::PUT, &rebase(&closed), json!({})).await;
    root.put(&closed, json!({"state_event": "close"})).await.expect(200);
    let failed = waiting.finish().await.expect(202).json();
    assert!(failed["merge_error"].is_string(), "{failed}");
    assert_eq!(root.get(&closed).await.expect(200).json()["merge_error"], Value::Null);
    let deleted = format!("{all}/{}", sample.merge_request);
    let waiting = sample.begin(&root, Method::PUT, &rebase(&deleted), json!({})).await;
    let iid = merge_requests::Column::Iid.eq(sample.merge_request);
    let rows = merge_requests::Entity::delete_many().filter(iid);
    rows.exec(server.backend.database.write()).await.expect("a deletion");
    waiting.finish().await.expect(404);
}

on_every_database![
    merge_is_refused_if_a_requirement_changes_while_it_waits,
    automatic_merge_waits_if_its_pipeline_runs_again_meanwhile,
    rebase_of_merge_request_that_is_deleted_or_closed_while_it_waits_changes_no_row,
];
