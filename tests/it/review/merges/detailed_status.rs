//! `detailed_merge_status`, `merge_user`, `prepared_at` and `imported`.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::notes::{self, NoteKind};

use super::Fixture;
use crate::delivery::commit_statuses::report;
use crate::delivery::pipelines::pipeline;
use crate::support::{TestServer, on_every_database};

/// Returns the detailed status of a merge request.
async fn status(fixture: &Fixture<'_>, iid: i64) -> Value {
    fixture.read(iid).await["detailed_merge_status"].clone()
}

async fn detailed_status_names_first_reason(server: TestServer) {
    let fixture = Fixture::new(&server, "reasons").await;
    let (root, project) = (&fixture.root, &fixture.project);
    let one = fixture.url("/merge_requests/1");
    assert_eq!(status(&fixture, 1).await, "mergeable");
    // A required pipeline.
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    assert_eq!(status(&fixture, 1).await, "ci_must_pass");
    pipeline(root, project.id, "feature/x").await;
    assert_eq!(status(&fixture, 1).await, "ci_still_running");
    let sha = project.id("feature/x");
    report(root, project.id, &sha, json!({"state": "failed", "ref": "feature/x"})).await;
    assert_eq!(status(&fixture, 1).await, "ci_must_pass");
    report(root, project.id, &sha, json!({"state": "success", "ref": "feature/x"})).await;
    assert_eq!(status(&fixture, 1).await, "mergeable");
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": false})).await;
    // A merge method that requires a rebase, because the branch was created from the first commit.
    for method in ["ff", "rebase_merge"] {
        fixture.set(json!({"merge_method": method})).await;
        assert_eq!(status(&fixture, 1).await, "need_rebase", "{method}");
        fixture.merge(1, json!({})).await.expect(406);
    }
    fixture.set(json!({"merge_method": "merge"})).await;
    // Drafts come before all other reasons of an open merge request.
    root.put(&one, json!({"title": "Draft: x"})).await.expect(200);
    assert_eq!(status(&fixture, 1).await, "draft_status");
    root.put(&one, json!({"title": "x", "state_event": "close"})).await.expect(200);
    assert_eq!(status(&fixture, 1).await, "not_open");
    root.put(&one, json!({"state_event": "reopen"})).await.expect(200);
    // Conflicts.
    fixture.branch("clash", "main~1", "README.md", "Goodbye\n");
    let conflict = fixture.propose("clash", json!({})).await;
    assert_eq!(status(&fixture, conflict).await, "conflict");
    // A list has no detailed status, because it does not check the merge requests.
    let listed = root.get(&fixture.url("/merge_requests")).await.expect(200).json();
    assert_eq!(listed[0].get("detailed_merge_status"), None);
    fixture.merge(1, json!({})).await.expect(200);
    assert_eq!(status(&fixture, 1).await, "not_open");
}

async fn unresolved_discussions_block_only_if_required(server: TestServer) {
    let fixture = Fixture::new(&server, "discussed").await;
    fixture.set(json!({"only_allow_merge_if_all_discussions_are_resolved": true})).await;
    assert_eq!(status(&fixture, 1).await, "mergeable");
    let notes = fixture.url("/merge_requests/1/notes");
    fixture.root.post(&notes, json!({"body": "Why?"})).await.expect(201);
    let discussion = notes::Entity::update_many()
        .col_expr(notes::Column::Kind, Expr::value(NoteKind::Discussion))
        .filter(notes::Column::System.eq(false));
    discussion.exec(server.backend.database.write()).await.expect("a discussion");
    assert_eq!(status(&fixture, 1).await, "discussions_not_resolved");
    fixture.set(json!({"only_allow_merge_if_all_discussions_are_resolved": false})).await;
    assert_eq!(status(&fixture, 1).await, "mergeable");
}

async fn merge_user_is_the_user_of_the_automatic_or_completed_merge(server: TestServer) {
    let fixture = Fixture::new(&server, "users").await;
    let before = fixture.read(1).await;
    assert_eq!((&before["merge_user"], &before["imported"]), (&Value::Null, &json!(false)));
    assert_eq!(before["prepared_at"], before["created_at"]);
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    fixture.merge(1, json!({"merge_when_pipeline_succeeds": true})).await.expect(200);
    let waiting = fixture.read(1).await;
    assert_eq!((&waiting["merge_user"]["username"], &waiting["merged_by"]), (&json!("root"), &Value::Null));
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": false})).await;
    fixture.merge(1, json!({})).await.expect(200);
    let merged = fixture.read(1).await;
    assert_eq!((&merged["merge_user"], &merged["merge_user"]["username"]), (&merged["merged_by"], &json!("root")));
}

async fn squash_option_is_default_or_overrides_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server, "squashed").await;
    let two_commits = |name: &str| {
        fixture.branch(name, "main", &format!("{name}-1.txt"), "1\n");
        fixture.branch(name, name, &format!("{name}-2.txt"), "2\n");
    };
    for (option, squash, is_squashed) in [
        ("default_off", None, false),
        ("default_off", Some(true), true),
        ("default_on", None, true),
        ("default_on", Some(false), false),
        ("always", None, true),
        ("always", Some(false), true),
        ("never", None, false),
        ("never", Some(true), false),
    ] {
        let name = format!("{option}-{}", squash.map_or("none", |squash| if squash { "yes" } else { "no" }));
        fixture.set(json!({"squash_option": option})).await;
        two_commits(&name);
        let body = squash.map_or(json!({}), |squash| json!({"squash": squash}));
        let iid = fixture.propose(&name, body).await;
        let merged = fixture.merge(iid, json!({})).await.expect(200).json();
        assert_eq!(merged["squash_commit_sha"].is_string(), is_squashed, "{name}");
    }
    let path = fixture.url("");
    fixture.root.put(&path, json!({"squash_option": "sometimes"})).await.expect(400);
}

on_every_database![
    detailed_status_names_first_reason,
    unresolved_discussions_block_only_if_required,
    merge_user_is_the_user_of_the_automatic_or_completed_merge,
    squash_option_is_default_or_overrides_merge_requests,
];
