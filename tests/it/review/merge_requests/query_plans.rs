//! Query plans of merge request lists: no list scans the whole table for its first page.

use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::json;

use super::{propose, public_project};
use crate::support::code::{NewCommit, Project, file};
use crate::support::query_plans::{full_scans, list_statements, plan, statements};
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

/// Number of merge requests in addition to the few that match the queries: more than the server reads in the
/// order of a list.
const CROWD_SIZE: usize = 6_000;

/// Each list parameter alone, and some combinations.
const QUERIES: &[&str] = &[
    "",
    "state=opened",
    "state=closed",
    "state=merged",
    "state=locked",
    "labels=bug",
    "labels=bug,ui",
    "labels=None",
    "labels=Any",
    "with_labels_details=true",
    "milestone=v1",
    "milestone=None",
    "milestone=Any",
    "scope=created_by_me",
    "scope=assigned_to_me",
    "author_id=1",
    "author_username=ada",
    "assignee_id=1",
    "assignee_id=None",
    "assignee_id=Any",
    "assignee_username[]=ada",
    "my_reaction_emoji=tada",
    "my_reaction_emoji=None",
    "my_reaction_emoji=Any",
    "iids[]=1&iids[]=2",
    "source_branch=needle",
    "target_branch=release",
    "target_branch=main",
    "source_project_id=1",
    "wip=yes",
    "wip=no",
    "reviewer_id=1",
    "reviewer_id=None",
    "reviewer_id=Any",
    "reviewer_username=ada",
    "approved_by_ids[]=1&approved_by_ids[]=2",
    "approved_by_ids=None",
    "approved_by_ids=Any",
    "approved_by_usernames[]=ada",
    "environment=production",
    "deployed_after=2026-01-01T00:00:00Z",
    "deployed_before=2026-01-01T00:00:00Z&environment=production",
    "not[reviewer_id]=1",
    "not[reviewer_username]=ada",
    "view=simple",
    "order_by=created_at&sort=asc",
    "order_by=updated_at",
    "order_by=priority",
    "order_by=priority&sort=asc",
    "order_by=label_priority",
    "order_by=milestone_due",
    "order_by=popularity",
    "search=needle",
    "search=needle&in=title",
    "created_after=2026-01-01T00:00:00Z",
    "created_before=2026-01-01T00:00:00Z",
    "updated_after=2026-01-01T00:00:00Z",
    "updated_before=2026-01-01T00:00:00Z",
    "not[labels]=bug",
    "not[milestone]=v1",
    "not[author_id]=1",
    "not[author_username]=ada",
    "not[assignee_id]=1",
    "not[assignee_username]=ada",
    "not[my_reaction_emoji]=tada",
    "not[search]=needle",
    "state=opened&labels=bug&not[labels]=ui",
    "state=opened&milestone=v1&assignee_id=Any",
    "state=opened&search=needle&not[author_username]=ada&order_by=updated_at",
    "state=opened&target_branch=main&wip=no&order_by=updated_at",
    "source_branch=needle&target_branch=main",
    "state=merged&updated_after=2026-01-01T00:00:00Z&order_by=updated_at",
    "assignee_username[]=ada&not[milestone]=v1&not[labels]=ui",
];

/// Inserts many merge requests of a project directly into the database, with labels and assignees.
async fn insert_many_merge_requests(server: &TestServer, project_id: i64, label_id: i64) {
    let db = server.backend.database.write();
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < {})", CROWD_SIZE + 99);
    let time = "'2025-01-01T00:00:00+00:00'";
    let merge_requests = format!(
        "{numbers} INSERT INTO merge_requests (target_project_id, source_project_id, iid, author_id, title, \
         source_branch, target_branch, state, head_sha, base_sha, start_sha, merge_status, created_at, updated_at) \
         SELECT {project_id}, {project_id}, i, 1, 'Much to do', 'topic-' || i, 'main', 'opened', '', '', '', \
         'unchecked', {time}, {time} FROM n"
    );
    let labels = format!(
        "INSERT INTO merge_request_labels (merge_request_id, label_id) \
         SELECT id, {label_id} FROM merge_requests WHERE iid % 2 = 0"
    );
    let assignees = "INSERT INTO merge_request_assignees (merge_request_id, user_id) \
                     SELECT id, 1 FROM merge_requests WHERE iid % 3 = 0";
    for statement in [merge_requests.as_str(), labels.as_str(), assignees, "ANALYZE"] {
        db.execute_unprepared(statement).await.expect(statement);
    }
    server.backend.database.invalidate();
}

/// Creates a public project of a group with one merge request that matches the queries. Returns the ID of the group, the
/// project and the ID of a label.
async fn project_with_merge_request(server: &TestServer) -> (i64, Project<'_>, i64) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let one = public_project(server, "one").await;
    let transfer = format!("/projects/{}/transfer", one.id);
    root.put(&transfer, json!({"namespace": engines})).await.expect(200);
    one.import(&NewCommit {
        branch: "needle",
        from: Some("refs/heads/main"),
        changes: file("needle.txt", "x\n"),
        ..NewCommit::default()
    });
    let label = crate::planning::labels::label(&root, &format!("/projects/{}", one.id), "ui").await;
    propose(&root, one.id, "needle", "main", json!({"labels": "bug"})).await;
    (engines, one, label)
}

async fn first_page_of_each_list_avoids_full_table_scans(server: TestServer) {
    let root = server.root();
    let (engines, one, label) = project_with_merge_request(&server).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
    let path = format!("/projects/{}/merge_requests/1", one.id);
    root.put(&path, json!({"assignee_ids": [ada.id]})).await.expect(200);
    let lists = [
        "/merge_requests?scope=all".to_owned(),
        format!("/groups/{engines}/merge_requests?per_page=20"),
        format!("/projects/{}/merge_requests?per_page=20", one.id),
    ];
    insert_many_merge_requests(&server, one.id, label).await;
    let statements = list_statements(&server, &[&root, &ada.client], &lists, QUERIES, "merge_requests").await;
    let full_scans = full_scans(&server, &statements, "merge_requests").await;
    assert!(full_scans.is_empty(), "{} statements scan the whole table: {}", full_scans.len(), full_scans.join("\n\n"));
}

async fn search_for_rare_word_uses_the_text_index(server: TestServer) {
    let root = server.root();
    let (_, one, label) = project_with_merge_request(&server).await;
    insert_many_merge_requests(&server, one.id, label).await;
    let index = match server.backend.database.read().get_database_backend() {
        DbBackend::Postgres => "ix_merge_requests_",
        _ => "VIRTUAL TABLE INDEX",
    };
    let all = statements(&server, &root, "/merge_requests?scope=all&search=needle").await;
    let mut found = false;
    for sql in all.iter().filter(|sql| sql.contains("\"few\"")) {
        let plan = plan(&server, sql, None).await;
        found |= plan.iter().any(|line| line.contains(index));
    }
    assert!(found, "{all:#?}");
    let found = root.get("/merge_requests?scope=all&search=needle").await.expect(200);
    assert_eq!(found.pluck("title"), ["needle"]);
}

on_every_database![first_page_of_each_list_avoids_full_table_scans, search_for_rare_word_uses_the_text_index,];
