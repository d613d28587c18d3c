//! Query plans of issue lists: no list scans the whole table for its first page.

use holdfast::config::ConfigOptions;
use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::json;

use crate::support::query_plans::{full_scans, list_statements, plan, statements};
use crate::support::spaces::{group, join, project};
use crate::support::{DatabaseKind, TestServer, on_every_database};

/// Number of issues in addition to the few that match the queries: more than the server reads in the
/// order of a list.
const CROWD_SIZE: usize = 6_000;
/// Number of issues of the test with many matching issues.
const LARGE_CROWD_SIZE: usize = 8_000;
/// Number of matching issues at the end of the order.
const OLD_ISSUES: usize = 3_000;

/// Returns whether the issue with an IID matches a query.
type Predicate = fn(usize) -> bool;

/// Each list parameter alone, and some combinations.
const QUERIES: &[&str] = &[
    "",
    "state=opened",
    "state=closed",
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
    "assignee_username=ada",
    "my_reaction_emoji=tada",
    "my_reaction_emoji=None",
    "my_reaction_emoji=Any",
    "iids[]=1&iids[]=2",
    "order_by=updated_at",
    "order_by=priority",
    "order_by=due_date&sort=asc",
    "order_by=relative_position&sort=asc",
    "order_by=label_priority",
    "order_by=milestone_due",
    "order_by=popularity",
    "order_by=weight",
    "weight=3",
    "weight=None",
    "non_archived=false",
    "search=needle",
    "search=needle&in=title",
    "created_after=2026-01-01T00:00:00Z",
    "created_before=2026-01-01T00:00:00Z",
    "updated_after=2026-01-01T00:00:00Z",
    "updated_before=2026-01-01T00:00:00Z",
    "confidential=true",
    "confidential=false",
    "not[labels]=bug",
    "not[milestone]=v1",
    "not[author_id]=1",
    "not[author_username]=ada",
    "not[assignee_id]=1",
    "not[assignee_username]=ada",
    "not[my_reaction_emoji]=tada",
    "not[search]=needle",
    "not[iids][]=1",
    "state=opened&labels=bug&not[labels]=ui",
    "state=opened&milestone=v1&assignee_id=Any",
    "state=opened&search=needle&not[author_username]=ada&order_by=updated_at",
    "labels=bug&order_by=due_date&sort=asc",
    "state=closed&updated_after=2026-01-01T00:00:00Z&order_by=updated_at",
    "assignee_username=ada&not[milestone]=v1&not[labels]=ui",
];

/// Inserts many issues of a project directly into the database, with labels and assignees.
async fn insert_many_issues(server: &TestServer, project_id: i64, label_id: i64, count: usize) {
    let db = server.backend.database.write();
    let numbers = format!("WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < {})", count + 99);
    let time = "'2025-01-01T00:00:00+00:00'";
    let issues = format!(
        "{numbers} INSERT INTO issues (project_id, iid, author_id, title, state, tasks, completed_tasks, created_at, \
         updated_at) SELECT {project_id}, i, 1, 'Much to do', 'opened', 0, 0, {time}, {time} FROM n"
    );
    let labels =
        format!("INSERT INTO issue_labels (issue_id, label_id) SELECT id, {label_id} FROM issues WHERE iid % 2 = 0");
    let assignees = "INSERT INTO issue_assignees (issue_id, user_id) SELECT id, 1 FROM issues WHERE iid % 3 = 0";
    for statement in [issues.as_str(), labels.as_str(), assignees, "ANALYZE"] {
        db.execute_unprepared(statement).await.expect(statement);
    }
    server.backend.database.invalidate();
}

async fn first_page_of_each_list_avoids_full_table_scans(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
    let one = project(&root, "one", json!({"namespace_id": engines, "visibility": "public"})).await;
    let label = crate::planning::labels::label(&root, &format!("/projects/{one}"), "ui").await;
    let matching_issue = json!({"title": "needle", "labels": "bug", "assignee_ids": [ada.id]});
    crate::planning::issues::open(&root, one, matching_issue).await;
    let lists = [
        "/issues?scope=all".to_owned(),
        format!("/groups/{engines}/issues?per_page=20"),
        format!("/projects/{one}/issues?per_page=20"),
    ];
    insert_many_issues(&server, one, label, CROWD_SIZE).await;
    let statements = list_statements(&server, &[&root, &ada.client], &lists, QUERIES, "issues").await;
    let full_scans = full_scans(&server, &statements, "issues").await;
    assert!(full_scans.is_empty(), "{} statements scan the whole table: {}", full_scans.len(), full_scans.join("\n\n"));
}

async fn search_for_rare_word_uses_the_text_index(server: TestServer) {
    let root = server.root();
    let one = project(&root, "one", json!({"visibility": "public"})).await;
    let label = crate::planning::labels::label(&root, &format!("/projects/{one}"), "ui").await;
    crate::planning::issues::open(&root, one, json!({"title": "needle"})).await;
    insert_many_issues(&server, one, label, CROWD_SIZE).await;
    let index = match server.backend.database.read().get_database_backend() {
        DbBackend::Postgres => "ix_issues_",
        _ => "VIRTUAL TABLE INDEX",
    };
    let all = statements(&server, &root, "/issues?scope=all&search=needle").await;
    let mut found = false;
    for sql in all.iter().filter(|sql| sql.contains("\"few\"")) {
        let plan = plan(&server, sql, None).await;
        found |= plan.iter().any(|line| line.contains(index));
    }
    assert!(found, "{all:#?}");
    let found = root.get("/issues?scope=all&search=needle").await.expect(200);
    assert_eq!(found.pluck("title"), ["needle"]);
}

/// A condition that is checked for each row must not run a full-text query or look up each label of the same title.
async fn row_checks_on_sqlite_read_only_rows_of_the_issue() {
    let server = TestServer::start_with(DatabaseKind::Sqlite, ConfigOptions::default()).await;
    let root = server.root();
    let one = project(&root, "one", json!({"visibility": "public"})).await;
    let label = crate::planning::labels::label(&root, &format!("/projects/{one}"), "ui").await;
    insert_many_issues(&server, one, label, CROWD_SIZE).await;
    let lists = [
        "search=much",
        "search=much&order_by=due_date",
        "not[search]=much",
        "not[search]=needle",
        "not[search]=gr%C3%B6%C3%9Fe",
        "labels=ui",
        "not[labels]=ui",
        "labels=ui&not[labels]=bug",
        "state=opened&search=much&not[author_username]=ada&order_by=updated_at",
        "labels=ui&search=much&order_by=due_date&sort=asc",
    ];
    let mut full_text_queries = 0;
    for query in lists {
        let all = statements(&server, &root, &format!("/issues?scope=all&{query}")).await;
        // The related rows of the page are read after the page is known.
        for sql in all.iter().filter(|sql| !sql.contains("\"related_id\"")) {
            let plan = plan(&server, sql, None).await;
            full_text_queries += plan.iter().filter(|line| line.contains("issue_texts VIRTUAL TABLE")).count();
            // The condition `=` of the virtual table is a full-text query for a single row.
            let per_row = |line: &&String| {
                line.contains("VIRTUAL TABLE INDEX 0:=") || line.contains("(label_id=? AND issue_id=?)")
            };
            assert_eq!(plan.iter().find(per_row), None, "{query}: {sql} {plan:#?}");
        }
    }
    assert!(full_text_queries > 0);
    // The index of the state is in the order of creation.
    for sql in statements(&server, &root, "/issues?scope=all&state=opened&order_by=updated_at").await {
        let plan = plan(&server, &sql, None).await;
        let sorts = plan.iter().any(|line| line.contains("USE TEMP B-TREE FOR ORDER BY"));
        assert!(!sorts || !sql.contains("\"ordered\""), "{sql} {plan:#?}");
    }
    server.stop().await;
}

async fn filters_find_and_count_issues_at_the_end_of_the_order(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    let one = project(&root, "one", json!({"namespace_id": team, "visibility": "public"})).await;
    let group_label = crate::planning::labels::label(&root, &format!("/groups/{team}"), "old").await;
    let label = crate::planning::labels::label(&root, &format!("/projects/{one}"), "ui").await;
    insert_many_issues(&server, one, label, LARGE_CROWD_SIZE).await;
    // All issues have the same creation time, so the lowest IIDs are the oldest.
    let old = format!(
        "INSERT INTO issue_labels (issue_id, label_id) SELECT id, {group_label} FROM issues WHERE iid < {}",
        100 + OLD_ISSUES
    );
    server.backend.database.write().execute_unprepared(&old).await.expect("labels");
    server.backend.database.invalidate();
    // An issue that has a label of the same title in a private project is not visible to the caller.
    let elsewhere = project(&root, "elsewhere", json!({})).await;
    crate::planning::issues::open(&root, elsewhere, json!({"title": "t", "labels": "old"})).await;
    let ada = server.create_user("ada").await.client;
    let matches_query: [(&str, Predicate); 7] = [
        ("labels=old&iids[]=100&iids[]=101&iids[]=1", |iid| iid < 102),
        ("labels=old&state=opened", |_| true),
        ("labels=old,ui", |iid| iid.is_multiple_of(2)),
        ("labels=old&not[labels]=ui", |iid| !iid.is_multiple_of(2)),
        ("labels=old,ui&not[assignee_id]=1", |iid| iid.is_multiple_of(2) && !iid.is_multiple_of(3)),
        ("labels=old&assignee_id=1&not[labels]=ui&not[my_reaction_emoji]=tada", |iid| iid % 6 == 3),
        ("labels=old&not[labels]=ui&not[assignee_username]=root", |iid| {
            !iid.is_multiple_of(2) && !iid.is_multiple_of(3)
        }),
    ];
    for (query, matches_query) in matches_query {
        let expected: Vec<usize> = (100..100 + OLD_ISSUES).rev().filter(|iid| matches_query(*iid)).collect();
        for prefix in [format!("/groups/{team}"), format!("/projects/{one}"), String::new()] {
            let list = format!("{prefix}/issues?scope=all&per_page=100&order_by=due_date&{query}");
            let found = ada.get(&list).await.expect(200);
            let page: Vec<_> = expected.iter().take(100).map(|iid| json!(iid)).collect();
            assert_eq!(found.pluck("iid"), page, "{list}");
            assert_eq!(found.header("X-Total"), expected.len().to_string(), "{list}");
        }
    }
}

on_every_database![
    first_page_of_each_list_avoids_full_table_scans,
    search_for_rare_word_uses_the_text_index,
    filters_find_and_count_issues_at_the_end_of_the_order,
];

harness::tests![row_checks_on_sqlite_read_only_rows_of_the_issue];
