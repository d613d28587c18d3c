//! Automatic merges after a pipeline.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::delivery::commit_statuses::report;
use crate::delivery::pipelines::pipeline;
use crate::support::{TestServer, on_every_database};

async fn merge_when_pipeline_succeeds_is_set_and_canceled(server: TestServer) {
    let fixture = Fixture::new(&server, "waits").await;
    let cancel = fixture.url("/merge_requests/1/cancel_merge_when_pipeline_succeeds");
    let body = json!({"merge_when_pipeline_succeeds": true, "should_remove_source_branch": true});
    fixture.root.post(&cancel, json!({})).await.expect(406);
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    let waiting = fixture.merge(1, body.clone()).await.expect(200).json();
    assert_eq!((&waiting["state"], &waiting["merge_when_pipeline_succeeds"]), (&json!("opened"), &json!(true)));
    assert_eq!(waiting["should_remove_source_branch"], true);
    let developer = fixture.project.member("dev", AccessLevel::Developer).await;
    developer.post(&cancel, json!({})).await.expect(401);
    let canceled = fixture.root.post(&cancel, json!({})).await.expect(201).json();
    assert_eq!(
        (&canceled["merge_when_pipeline_succeeds"], &canceled["should_remove_source_branch"]),
        (&json!(false), &Value::Null)
    );
    // New commits cancel it as well.
    fixture.merge(1, body).await.expect(200);
    let body = json!({"branch": "feature/x", "content": "1", "commit_message": "More"});
    fixture.root.post(&fixture.project.url("/files/more"), body).await.expect(201);
    let updated = fixture.read(1).await;
    assert_eq!((&updated["merge_when_pipeline_succeeds"], &updated["merge_commit_sha"]), (&json!(false), &Value::Null));
    assert_eq!(updated["should_remove_source_branch"], Value::Null);
    let notes = fixture.notes(1).await;
    assert!(notes[0].starts_with("enabled an automatic merge when the pipeline for "), "{notes:?}");
    assert_eq!((notes[1].as_str(), notes.len()), ("canceled the automatic merge", 5));
    assert_eq!(notes[4], "canceled the automatic merge because new commits were added");
}

async fn auto_merge_is_alias_of_merge_when_pipeline_succeeds(server: TestServer) {
    let fixture = Fixture::new(&server, "named").await;
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    fixture.merge(1, json!({"auto_merge": false})).await.expect(405);
    let both = fixture.merge(1, json!({"auto_merge": true, "merge_when_pipeline_succeeds": false})).await.expect(400);
    assert_eq!(both.message(), "auto_merge, merge_when_pipeline_succeeds must have the same value");
    fixture.merge(1, json!({"auto_merge": "soon"})).await.expect(400);
    let waiting = fixture.merge(1, json!({"auto_merge": true})).await.expect(200).json();
    assert_eq!((&waiting["state"], &waiting["merge_when_pipeline_succeeds"]), (&json!("opened"), &json!(true)));
    fixture.merge(1, json!({"auto_merge": true, "merge_when_pipeline_succeeds": true})).await.expect(200);
}

async fn merge_when_pipeline_succeeds_merges_at_once_without_requirement(server: TestServer) {
    let fixture = Fixture::new(&server, "atonce").await;
    let merged = fixture.merge(1, json!({"merge_when_pipeline_succeeds": true})).await.expect(200).json();
    assert_eq!(merged["state"], "merged");
    fixture
        .root
        .post(&fixture.url("/merge_requests/1/cancel_merge_when_pipeline_succeeds"), json!({}))
        .await
        .expect(405);
    fixture
        .root
        .post(&fixture.url("/merge_requests/2/cancel_merge_when_pipeline_succeeds"), json!({}))
        .await
        .expect(404);
}

async fn automatic_merge_continues_after_its_newest_pipeline_is_deleted(server: TestServer) {
    let fixture = Fixture::new(&server, "deleted").await;
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    let head = fixture.project.id("feature/x");
    let success = json!({"state": "success", "ref": "feature/x"});
    report(&fixture.root, fixture.project.id, &head, success).await;
    let newest = pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    fixture.merge(1, json!({"merge_when_pipeline_succeeds": true})).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(fixture.read(1).await["state"], "opened");
    fixture.root.delete(&fixture.url(&format!("/pipelines/{newest}"))).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(fixture.read(1).await["state"], "merged");
}

async fn automatic_merge_continues_after_a_requirement_is_removed(server: TestServer) {
    let fixture = Fixture::new(&server, "optional").await;
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    fixture.merge(1, json!({"merge_when_pipeline_succeeds": true})).await.expect(200);
    fixture.set(json!({"description": "Other settings change nothing."})).await;
    server.finish_jobs().await;
    assert_eq!(fixture.read(1).await["state"], "opened");
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": false})).await;
    server.finish_jobs().await;
    assert_eq!(fixture.read(1).await["state"], "merged");
}

on_every_database![
    merge_when_pipeline_succeeds_is_set_and_canceled,
    auto_merge_is_alias_of_merge_when_pipeline_succeeds,
    merge_when_pipeline_succeeds_merges_at_once_without_requirement,
    automatic_merge_continues_after_its_newest_pipeline_is_deleted,
    automatic_merge_continues_after_a_requirement_is_removed,
];
