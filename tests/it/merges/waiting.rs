//! Merge requests that wait for a pipeline.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Scene;
use crate::support::{TestServer, on_every_database};

async fn where_a_pipeline_is_asked_for_it_can_be_waited_for(server: TestServer) {
    let scene = Scene::new(&server, "waits").await;
    let cancel = scene.url("/merge_requests/1/cancel_merge_when_pipeline_succeeds");
    let body = json!({"merge_when_pipeline_succeeds": true, "should_remove_source_branch": true});
    scene.root.post(&cancel, json!({})).await.expect(406);
    scene.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    let waiting = scene.merge(1, body.clone()).await.expect(200).json();
    assert_eq!((&waiting["state"], &waiting["merge_when_pipeline_succeeds"]), (&json!("opened"), &json!(true)));
    assert_eq!(waiting["should_remove_source_branch"], true);
    let developer = scene.project.member("dev", AccessLevel::Developer).await;
    developer.post(&cancel, json!({})).await.expect(401);
    let canceled = scene.root.post(&cancel, json!({})).await.expect(201).json();
    assert_eq!(canceled["merge_when_pipeline_succeeds"], false);
    // New commits take it back, too.
    scene.merge(1, body).await.expect(200);
    let body = json!({"branch": "feature/x", "content": "1", "commit_message": "More"});
    scene.root.post(&scene.project.url("/files/more"), body).await.expect(201);
    let grown = scene.read(1).await;
    assert_eq!((&grown["merge_when_pipeline_succeeds"], &grown["merge_commit_sha"]), (&json!(false), &Value::Null));
    let notes = scene.notes(1).await;
    assert!(notes[0].starts_with("enabled an automatic merge when the pipeline for "), "{notes:?}");
    assert_eq!((notes[1].as_str(), notes.len()), ("canceled the automatic merge", 5));
    assert_eq!(notes[4], "canceled the automatic merge because new commits were added");
}

async fn waiting_has_a_newer_name(server: TestServer) {
    let scene = Scene::new(&server, "named").await;
    scene.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    scene.merge(1, json!({"auto_merge": false})).await.expect(405);
    let both = scene.merge(1, json!({"auto_merge": true, "merge_when_pipeline_succeeds": false})).await.expect(400);
    assert_eq!(both.message(), "auto_merge, merge_when_pipeline_succeeds must have the same value");
    scene.merge(1, json!({"auto_merge": "soon"})).await.expect(400);
    let waiting = scene.merge(1, json!({"auto_merge": true})).await.expect(200).json();
    assert_eq!((&waiting["state"], &waiting["merge_when_pipeline_succeeds"]), (&json!("opened"), &json!(true)));
    scene.merge(1, json!({"auto_merge": true, "merge_when_pipeline_succeeds": true})).await.expect(200);
}

async fn where_none_is_asked_for_nothing_waits(server: TestServer) {
    let scene = Scene::new(&server, "atonce").await;
    let merged = scene.merge(1, json!({"merge_when_pipeline_succeeds": true})).await.expect(200).json();
    assert_eq!(merged["state"], "merged");
    scene.root.post(&scene.url("/merge_requests/1/cancel_merge_when_pipeline_succeeds"), json!({})).await.expect(405);
    scene.root.post(&scene.url("/merge_requests/2/cancel_merge_when_pipeline_succeeds"), json!({})).await.expect(404);
}

on_every_database![
    where_a_pipeline_is_asked_for_it_can_be_waited_for,
    waiting_has_a_newer_name,
    where_none_is_asked_for_nothing_waits,
];
