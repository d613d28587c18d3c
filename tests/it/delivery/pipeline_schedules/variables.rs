//! Variables of pipeline schedules.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{Visibility, pipeline_schedule_variables};

use super::schedule;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn schedule_variables_can_be_created_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "vars", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let one = format!("{project_path}/pipeline_schedules/{}", schedule(&root, &project_path).await);
    let all = format!("{one}/variables");
    let created = root.post(&all, json!({ "key": "TOKEN", "value": "rather-secret" })).await.expect(201).json();
    assert_eq!(created, json!({ "variable_type": "env_var", "key": "TOKEN", "value": "rather-secret" }));
    let file = json!({ "key": "token", "value": "", "variable_type": "file" });
    assert_eq!(root.post(&all, file.clone()).await.expect(201).json(), file);
    assert_eq!(root.get(&one).await.expect(200).json()["variables"], json!([created, file]));
    let rows = pipeline_schedule_variables::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert!(rows.iter().all(|row| !row.value_encrypted.contains("rather-secret")));
    let changed = root.put(&format!("{all}/TOKEN"), json!({ "key": "X", "value": "new" })).await.expect(200).json();
    assert_eq!(changed, json!({ "variable_type": "env_var", "key": "TOKEN", "value": "new" }));
    let changed = root
        .put(&format!("{all}/TOKEN"), json!({ "value": "newer", "variable_type": "file" }))
        .await
        .expect(200)
        .json();
    assert_eq!(changed, json!({ "variable_type": "file", "key": "TOKEN", "value": "newer" }));
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&format!("{all}/TOKEN")).await.expect(412);
    assert_eq!(root.delete(&format!("{all}/TOKEN")).await.expect(202).json(), changed);
    for response in [
        root.delete(&format!("{all}/TOKEN")).await,
        root.put(&format!("{all}/TOKEN"), json!({ "value": "x" })).await,
        root.delete(&format!("{all}/Token")).await,
    ] {
        assert_eq!((response.status, response.message()), (404, "404 Pipeline Schedule Variable Not Found".to_owned()));
    }
    assert_eq!(root.get(&one).await.expect(200).json()["variables"], json!([file]));
    root.delete(&one).await.expect(200);
    let remaining =
        pipeline_schedule_variables::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert_eq!(remaining, []);
}

async fn create_and_update_variable_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "rules", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let one = format!("{project_path}/pipeline_schedules/{}", schedule(&root, &project_path).await);
    let all = format!("{one}/variables");
    let error_message = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    let characters = "can contain only letters, digits and '_'.";
    for key in ["a-b", "a b", "ä", "a\n", "$(x)"] {
        assert_eq!(error_message(json!({ "key": key, "value": "v" })).await, json!({ "key": [characters] }), "{key}");
    }
    assert_eq!(
        error_message(json!({ "key": "", "value": "v" })).await,
        json!({ "key": ["can't be blank", characters] })
    );
    let long = json!({ "key": ["is too long (maximum is 255 characters)"] });
    assert_eq!(error_message(json!({ "key": "k".repeat(256), "value": "v" })).await, long);
    root.post(&all, json!({ "key": "k".repeat(255), "value": "v" })).await.expect(201);
    assert_eq!(
        error_message(json!({ "key": "k".repeat(255), "value": "w" })).await,
        json!({ "key": ["has already been taken"] })
    );
    assert_eq!(error_message(json!({})).await, "key is missing, value is missing");
    let kind = error_message(json!({ "key": "K", "value": "v", "variable_type": "x" })).await;
    assert_eq!(kind, "variable_type does not have a valid value");
    assert!(error_message(json!({ "key": "K", "value": "v".repeat(10_001) })).await["value"].is_array());
    root.post(&all, json!({ "key": "K", "value": "v".repeat(10_000) })).await.expect(201);
    assert_eq!(root.put(&format!("{all}/K"), json!({})).await.expect(400).message(), "value is missing");
    root.put(&format!("{all}/K"), json!({ "value": "v".repeat(10_001) })).await.expect(400);
    let responses = (0..8).map(|_| root.post(&all, json!({ "key": "ONCE", "value": "v" })));
    let responses = futures_util::future::join_all(responses).await;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 1);
    assert!(responses.iter().all(|response| [201, 400].contains(&response.status)));
}

on_every_database![
    schedule_variables_can_be_created_updated_and_deleted,
    create_and_update_variable_reject_invalid_attributes,
];
