//! Query plans of pipelines and their jobs.

use sea_orm::ConnectionTrait;
use serde_json::json;
use storage::entities::Visibility;

use super::{ids, pipeline};
use crate::delivery::commit_statuses::report;
use crate::support::code::Project;
use crate::support::query_plans::{plan, statement_with};
use crate::support::{TestServer, on_every_database};

/// Index of the jobs of a pipeline that no newer job replaced.
const CURRENT_JOBS: &str = "ix_ci_jobs_pipeline_id_retried_id";
/// Index of the pipelines of each branch or tag.
const OF_EACH_REF: &str = "ix_pipelines_project_id_tag_ref_name_id";

async fn report_of_a_status_does_not_read_replaced_statuses(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "planned", Visibility::Private).await;
    let (head, success) = (project.id("main"), json!({ "state": "success", "ref": "main" }));
    report(&root, project.id, &head, success.clone()).await;
    // If all jobs belonged to one pipeline, PostgreSQL could as well read all of them in the order of their IDs.
    let other = json!({ "state": "success", "ref": "feature/x" });
    report(&root, project.id, &project.id("feature/x"), other).await;
    let db = server.backend.database.write();
    let columns = "project_id, pipeline_id, name, stage, status, allow_failure, retried, created_at, updated_at";
    let replaced = columns.replace("retried", "TRUE");
    let copy = format!("INSERT INTO ci_jobs ({columns}) SELECT {replaced} FROM ci_jobs");
    for _ in 0..11 {
        db.execute_unprepared(&copy).await.expect("jobs");
    }
    db.execute_unprepared("ANALYZE ci_jobs").await.expect("statistics");
    let before = server.statements();
    report(&root, project.id, &head, success).await;
    let texts = server.statement_texts(before);
    // The statement with a limit finds replaced jobs above their maximum.
    let reads_current = |sql: &&String| {
        sql.starts_with("SELECT")
            && sql.contains("\"ci_jobs\"")
            && sql.contains("\"retried\" = ")
            && !sql.contains("LIMIT")
    };
    let reads: Vec<&String> = texts.iter().filter(reads_current).collect();
    assert!(!reads.is_empty(), "{texts:?}");
    for sql in reads {
        let plan = plan(&server, sql, None).await;
        assert!(plan.iter().any(|line| line.contains(CURRENT_JOBS)), "{sql}: {plan:#?}");
    }
}

async fn newest_pipeline_of_each_branch_is_read_from_an_index(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "newest", Visibility::Private).await;
    pipeline(&root, project.id, "main").await;
    let feature = pipeline(&root, project.id, "feature/x").await;
    let newest = pipeline(&root, project.id, "main").await;
    let list = format!("/projects/{}/pipelines", project.id);
    assert_eq!(ids(&root, &format!("{list}?scope=branches")).await, [newest, feature]);
    assert_eq!(ids(&root, &format!("{list}?scope=branches&ref=feature/x")).await, [feature]);
    assert_eq!(ids(&root, &format!("{list}?scope=tags")).await, [0; 0]);
    // PostgreSQL reads so few pipelines in any way.
    if server.locks_rows() {
        return;
    }
    for query in ["scope=branches", "scope=tags"] {
        let sql = statement_with(&server, &root, &format!("{list}?{query}"), &["GROUP BY"]).await;
        let plan = plan(&server, &sql, None).await;
        let is_covered = |line: &String| line.contains("COVERING INDEX") && line.contains(OF_EACH_REF);
        assert!(plan.iter().any(is_covered), "{sql}: {plan:#?}");
    }
}

on_every_database![
    report_of_a_status_does_not_read_replaced_statuses,
    newest_pipeline_of_each_branch_is_read_from_an_index,
];
