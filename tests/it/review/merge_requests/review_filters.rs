//! Filters of lists of merge requests by reviewer, approval and deployment.

use sea_orm::DbBackend;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{propose, row, titles};
use crate::delivery::deployments::{deployment, shipped};
use crate::support::code::{NewCommit, Project, file};
use crate::support::query_plans::{plan, statements};
use crate::support::spaces::group;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a project with the merge requests `b1` to `b3` of the administrator.
async fn proposed<'a>(server: &'a TestServer, name: &str, visibility: Visibility) -> Project<'a> {
    let project = Project::with_commits(server, name, visibility).await;
    for number in 1..=3 {
        let branch = format!("b{number}");
        project.import(&NewCommit {
            branch: &branch,
            from: Some("refs/heads/main"),
            changes: file(&format!("{number}.txt"), "x\n"),
            ..NewCommit::default()
        });
        propose(&server.root(), project.id, &branch, "main", json!({})).await;
    }
    project
}

async fn found(client: &Client, project: i64, query: &str) -> Vec<String> {
    titles(client, &format!("/projects/{project}/merge_requests?sort=asc&{query}")).await
}

async fn list_merge_requests_filters_by_reviewer(server: TestServer) {
    let root = server.root();
    let project = proposed(&server, "reviewed", Visibility::Public).await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    for (iid, reviewers) in [(1, json!([ann.id])), (2, json!([ann.id, ben.id]))] {
        let path = format!("/projects/{}/merge_requests/{iid}", project.id);
        root.put(&path, json!({"reviewer_ids": reviewers})).await.expect(200);
    }
    for (query, expected) in [
        (format!("reviewer_id={}", ann.id), &["b1", "b2"][..]),
        (format!("reviewer_id={}", ben.id), &["b2"]),
        ("reviewer_id=999999".to_owned(), &[]),
        ("reviewer_id=None".to_owned(), &["b3"]),
        ("reviewer_id=0".to_owned(), &["b3"]),
        ("reviewer_id=any".to_owned(), &["b1", "b2"]),
        ("reviewer_id=".to_owned(), &["b1", "b2", "b3"]),
        ("reviewer_username=BEN".to_owned(), &["b2"]),
        ("reviewer_username=missing-user".to_owned(), &[]),
        (format!("reviewer_username=ann&not[reviewer_id]={}", ben.id), &["b1"]),
        ("not[reviewer_username]=ann".to_owned(), &["b3"]),
        ("not[reviewer_id]=None".to_owned(), &["b1", "b2"]),
        ("not[reviewer_id]=Any".to_owned(), &["b3"]),
    ] {
        assert_eq!(found(&root, project.id, &query).await, expected, "{query}");
    }
    assert_eq!(titles(&root, "/merge_requests?reviewer_username=ben").await, ["b2"]);
}

async fn list_merge_requests_filters_by_approval(server: TestServer) {
    let root = server.root();
    let project = proposed(&server, "approved", Visibility::Public).await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    for (user, iids) in [(&ann, &[1, 2][..]), (&ben, &[2])] {
        server.insert_member(project.id, user.id, AccessLevel::Developer).await;
        for iid in iids {
            let path = format!("/projects/{}/merge_requests/{iid}/approve", project.id);
            user.client.post(&path, json!({})).await.expect(201);
        }
    }
    let both = format!("approved_by_ids[]={}&approved_by_ids[]={}", ann.id, ben.id);
    for (query, expected) in [
        (format!("approved_by_ids[]={}", ann.id), &["b1", "b2"][..]),
        (format!("approved_by_ids={},{}", ben.id, ann.id), &["b2"]),
        (both, &["b2"]),
        ("approved_by_ids=None".to_owned(), &["b3"]),
        ("approved_by_ids=any".to_owned(), &["b1", "b2"]),
        ("approved_by_ids[]=999999".to_owned(), &[]),
        ("approved_by_usernames[]=ANN".to_owned(), &["b1", "b2"]),
        ("approved_by_usernames[]=ann&approved_by_usernames[]=ben".to_owned(), &["b2"]),
        ("approved_by_usernames=None".to_owned(), &["b3"]),
        ("approved_by_usernames=Any".to_owned(), &["b1", "b2"]),
        (format!("approved_by_ids[]={}&approved_by_usernames[]=ben", ann.id), &["b2"]),
    ] {
        assert_eq!(found(&root, project.id, &query).await, expected, "{query}");
    }
}

async fn list_merge_requests_filters_by_deployment(server: TestServer) {
    let root = server.root();
    let project = proposed(&server, "deployed", Visibility::Public).await;
    let production = deployment(&root, &project, "production", "success").await;
    let staging = deployment(&root, &project, "staging", "success").await;
    server.finish_jobs().await;
    for (deployment, iid) in [(&production, 1), (&staging, 1), (&staging, 2)] {
        shipped(&server, deployment, row(&server, project.id, iid).await.id).await;
    }
    let (past, future) = ("2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z");
    let lists = ["environment=production", "environment=staging", "environment=Staging", "environment=missing"];
    for (query, expected) in lists.iter().zip([&["b1"][..], &["b1", "b2"], &[], &[]]) {
        assert_eq!(found(&root, project.id, query).await, expected, "{query}");
        let scoped = titles(&root, &format!("/merge_requests?sort=asc&{query}")).await;
        assert_eq!(scoped, expected, "{query}");
    }
    for (query, expected) in [
        (format!("deployed_after={past}"), &["b1", "b2"][..]),
        (format!("deployed_before={past}"), &[]),
        (format!("deployed_after={future}"), &[]),
        (format!("deployed_before={future}&environment=production"), &["b1"]),
        (format!("deployed_after={past}&deployed_before={future}"), &["b1", "b2"]),
    ] {
        assert_eq!(found(&root, project.id, &query).await, expected, "{query}");
    }
    // One deployment must match the deployment of the path and the environment.
    let shipped_by = format!("/projects/{}/deployments/{}/merge_requests", project.id, staging["id"]);
    assert_eq!(titles(&root, &format!("{shipped_by}?environment=production")).await, [""; 0]);
    assert_eq!(titles(&root, &format!("{shipped_by}?environment=staging&sort=asc")).await, ["b1", "b2"]);
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    project.update(|row| row.namespace_id = sea_orm::ActiveValue::Set(top)).await;
    assert_eq!(titles(&root, &format!("/groups/{top}/merge_requests?environment=production")).await, ["b1"]);
}

async fn list_merge_requests_by_deployment_requires_access_to_deployments(server: TestServer) {
    let root = server.root();
    let project = proposed(&server, "open", Visibility::Public).await;
    let production = deployment(&root, &project, "production", "success").await;
    server.finish_jobs().await;
    shipped(&server, &production, row(&server, project.id, 1).await.id).await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    server.insert_member(project.id, ann.id, AccessLevel::Reporter).await;
    server.insert_member(project.id, ben.id, AccessLevel::Guest).await;
    for query in ["environment=production", "deployed_after=2000-01-01T00:00:00Z"] {
        assert_eq!(found(&ann.client, project.id, query).await, ["b1"], "{query}");
        assert_eq!(found(&ben.client, project.id, query).await, [""; 0], "{query}");
        assert_eq!(found(&server.anonymous(), project.id, query).await, [""; 0], "{query}");
    }
    let settings = json!({"builds_access_level": "disabled"});
    root.put(&format!("/projects/{}", project.id), settings).await.expect(200);
    assert_eq!(found(&ann.client, project.id, "environment=production").await, [""; 0]);
    assert_eq!(found(&root, project.id, "environment=production").await, [""; 0]);
}

async fn list_merge_requests_rejects_invalid_reviewers_and_approvers(server: TestServer) {
    let root = server.root();
    let id = proposed(&server, "refused", Visibility::Private).await.id;
    for (query, message) in [
        ("reviewer_id=1&reviewer_username=root", "reviewer_id, reviewer_username are mutually exclusive"),
        (
            "not[reviewer_id]=1&not[reviewer_username]=root",
            "not[reviewer_id], not[reviewer_username] are mutually exclusive",
        ),
        ("reviewer_id=me", "reviewer_id should be an integer, 'None' or 'Any'"),
        ("not[reviewer_id]=me", "not[reviewer_id] should be an integer, 'None' or 'Any'"),
        ("approved_by_ids=me", "approved_by_ids should be an array of integers, 'None' or 'Any'"),
        (
            "approved_by_ids[]=1&approved_by_ids[]=Any",
            "approved_by_ids should be an array of integers, 'None' or 'Any'",
        ),
        ("deployed_after=soon", "deployed_after is invalid"),
    ] {
        let rejected = root.get(&format!("/projects/{id}/merge_requests?{query}")).await.expect(400).json();
        assert_eq!(rejected["message"], message, "{query}");
    }
    let many: Vec<String> = (1..=6).map(|id| format!("approved_by_ids[]={id}")).collect();
    root.get(&format!("/projects/{id}/merge_requests?{}", many.join("&"))).await.expect(400);
}

/// Statements of a list without these filters mention none of their tables, and the filters use an index.
async fn list_merge_requests_looks_up_reviewers_approvals_and_deployments(server: TestServer) {
    let root = server.root();
    let project = proposed(&server, "planned", Visibility::Public).await;
    let production = deployment(&root, &project, "production", "success").await;
    server.finish_jobs().await;
    shipped(&server, &production, row(&server, project.id, 1).await.id).await;
    let list = "/merge_requests?scope=all";
    for sql in statements(&server, &root, list).await {
        for table in ["\"approvals\"", "\"deployment_merge_requests\"", "\"few\""] {
            assert!(!sql.contains(table), "{sql}");
        }
    }
    for (query, table, index) in [
        ("reviewer_id=1", "merge_request_reviewers", "merge_request_reviewers_user_id"),
        ("approved_by_ids=1", "approvals", "approvals_user_id"),
        ("environment=production", "environments", "environments_name"),
        ("deployed_after=2100-01-01T00:00:00Z", "deployments", "deployments_finished_at"),
    ] {
        let all = statements(&server, &root, &format!("{list}&{query}")).await;
        let few: Vec<&String> = all.iter().filter(|sql| sql.contains("\"few\"")).collect();
        assert_eq!(few.len(), 1, "{query}: {all:#?}");
        assert!(few[0].contains(&format!("\"{table}\"")), "{query}: {few:#?}");
        let plan = plan(&server, few[0], None).await;
        // For tables with a few rows, all indexes cost the same in PostgreSQL.
        let is_certain = server.backend.database.read().get_database_backend() == DbBackend::Sqlite;
        assert!(!is_certain || plan.iter().any(|line| line.contains(index)), "{query}: {plan:#?}");
    }
}

on_every_database![
    list_merge_requests_filters_by_reviewer,
    list_merge_requests_filters_by_approval,
    list_merge_requests_filters_by_deployment,
    list_merge_requests_by_deployment_requires_access_to_deployments,
    list_merge_requests_rejects_invalid_reviewers_and_approvers,
    list_merge_requests_looks_up_reviewers_approvals_and_deployments,
];
