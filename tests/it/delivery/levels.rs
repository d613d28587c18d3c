//! Access levels of environments, feature flags, clusters and metrics dashboards of projects.

use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::clusters::cluster;
use super::deployments::{deployment, shipped};
use super::environments::environment;
use super::feature_flag_user_lists::user_list;
use super::feature_flags::flag;
use super::feature_flags_clients::FlagsProject;
use crate::instance::feature_gates::gate;
use crate::support::code::{NewCommit, Project, file};
use crate::support::spaces::{id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// A request that can be repeated, and its status for a Maintainer.
type LevelRequest = (Method, String, Value, u16);

/// Checks the statuses of the requests of a Maintainer. All requests return 403 if the area is disabled, and to callers
/// without a role.
async fn check_levels(server: &TestServer, path: &str, setting: &str, reason: &str, requests: &[LevelRequest]) {
    let root = server.root();
    let (member, stranger) = (server.create_user("member").await, server.create_user("stranger").await);
    join(&root, path, member.id, 40).await;
    for level in ["enabled", "private", "disabled"] {
        root.put(path, json!({ setting: level })).await.expect(200);
        let is_disabled = level == "disabled";
        for (method, url, body, status) in requests {
            let send = async |client: &Client| {
                let request = client.request(method.clone(), url);
                let has_body = *method == Method::POST || *method == Method::PUT;
                client.send(if has_body { request.json(body) } else { request }).await
            };
            let of_member = if is_disabled { 403 } else { *status };
            for (client, expected) in [(&member.client, of_member), (&stranger.client, 403), (&server.anonymous(), 401)]
            {
                let response = send(client).await;
                assert_eq!(response.status, expected, "{level} {method} {url}: {}", response.text());
            }
            if is_disabled {
                let refused = send(&root).await.expect(403);
                assert_eq!(refused.message(), format!("403 Forbidden - {reason}"), "{method} {url}");
            }
        }
    }
}

async fn level_of_environments_restricts_environments_and_deployments(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    let path = format!("/projects/{}", work.id);
    let all = format!("{path}/environments");
    let one = format!("{all}/{}", environment(&root, &path, "staging").await);
    let missing = format!("{all}/{}", i64::MAX);
    let deployed = deployment(&root, &work, "production", "running").await;
    let deployments = format!("{path}/deployments");
    let deployment = format!("{deployments}/{}", deployed["id"]);
    let new = json!({
        "environment": "production", "sha": work.id("main"), "ref": "main", "tag": false, "status": "running",
    });
    let reason = "The environments of this project are disabled.";
    let requests = [
        (Method::GET, all.clone(), json!({}), 200),
        (Method::POST, all, json!({ "name": "staging" }), 400),
        (Method::GET, one.clone(), json!({}), 200),
        (Method::PUT, one.clone(), json!({ "external_url": "https://example.com" }), 200),
        (Method::POST, format!("{one}/stop"), json!({}), 200),
        (Method::DELETE, missing, json!({}), 404),
        (Method::GET, deployments.clone(), json!({}), 200),
        (Method::POST, deployments, new, 201),
        (Method::GET, deployment.clone(), json!({}), 200),
        (Method::PUT, deployment.clone(), json!({ "status": "running" }), 200),
        (Method::GET, format!("{deployment}/merge_requests"), json!({}), 200),
    ];
    check_levels(&server, &path, "environments_access_level", reason, &requests).await;
}

async fn merge_requests_do_not_reveal_disabled_deployments(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    let text = file("addition.txt", "x\n");
    work.import(&NewCommit { branch: "addition", from: Some("main"), changes: text, ..NewCommit::default() });
    let path = format!("/projects/{}", work.id);
    let body = json!({ "source_branch": "addition", "target_branch": "main", "title": "Add a file" });
    let created = root.post(&format!("{path}/merge_requests"), body).await.expect(201).json();
    let production = deployment(&root, &work, "production", "success").await;
    shipped(&server, &production, id(&created)).await;
    let one = format!("{path}/merge_requests/{}", created["iid"]);
    let reporter = work.member("reporter", AccessLevel::Reporter).await;
    let shown = async |client: &Client| {
        let read = client.get(&one).await.expect(200).json();
        let list = client.get(&format!("{path}/merge_requests?environment=production")).await.expect(200).json();
        (read["first_deployed_to_production_at"].is_string(), list.as_array().map(Vec::len))
    };
    for (level, expected) in
        [("enabled", (true, Some(1))), ("private", (true, Some(1))), ("disabled", (false, Some(0)))]
    {
        root.put(&path, json!({ "environments_access_level": level })).await.expect(200);
        assert_eq!(shown(&reporter).await, expected, "{level}");
    }
}

async fn level_of_feature_flags_restricts_flags_and_user_lists(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let (first, list) = user_list(&root, &path, "early birds").await;
    flag(&root, &path, "checkout", list).await;
    let flags = format!("{path}/feature_flags");
    let lists = format!("{path}/feature_flags_user_lists");
    let client = format!("{path}/feature_flags_client");
    let reason = "The feature flags of this project are disabled.";
    let requests = [
        (Method::GET, flags.clone(), json!({}), 200),
        (Method::POST, flags.clone(), json!({ "name": "checkout" }), 400),
        (Method::GET, format!("{flags}/checkout"), json!({}), 200),
        (Method::PUT, format!("{flags}/checkout"), json!({ "description": "x" }), 200),
        (Method::DELETE, format!("{flags}/missing"), json!({}), 404),
        (Method::GET, lists.clone(), json!({}), 200),
        (Method::POST, lists.clone(), json!({ "name": "early birds", "user_xids": "a" }), 400),
        (Method::GET, format!("{lists}/{first}"), json!({}), 200),
        (Method::PUT, format!("{lists}/{first}"), json!({ "user_xids": "a" }), 200),
        (Method::DELETE, format!("{lists}/{}", i64::MAX), json!({}), 404),
        (Method::GET, client.clone(), json!({}), 200),
        (Method::POST, format!("{client}/reset_token"), json!({}), 201),
    ];
    check_levels(&server, &path, "feature_flags_access_level", reason, &requests).await;
}

async fn disabled_feature_flags_are_refused_to_sdks(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let (unknown, known) = (server.anonymous(), server.anonymous().header("UNLEASH-INSTANCEID", &flags.instance_id));
    for (level, read, accepted) in [("private", 200, 202), ("disabled", 403, 403), ("enabled", 200, 202)] {
        root.put(&flags.path, json!({ "feature_flags_access_level": level })).await.expect(200);
        for (method, rest, expected) in [
            (Method::GET, "", read),
            (Method::GET, "/features", read),
            (Method::GET, "/client/features", read),
            (Method::POST, "/client/register", accepted),
            (Method::POST, "/client/metrics", accepted),
        ] {
            let url = format!("{}{rest}", flags.unleash);
            let send = async |client: &Client| {
                let request = client.request(method.clone(), &url);
                let request = if method == Method::POST { request.json(&json!({})) } else { request };
                client.send(request).await
            };
            let response = send(&known).await.expect(expected);
            if expected == 403 {
                let reason = "403 Forbidden - The feature flags of this project are disabled.";
                assert_eq!(response.message(), reason, "{url}");
            }
            // A client without the instance ID cannot find out the level.
            send(&unknown).await.expect(401);
        }
    }
}

async fn level_of_infrastructure_restricts_clusters(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let all = format!("{path}/clusters");
    let one = format!("{all}/{}", cluster(&root, &path, "*").await);
    let taken = json!({
        "name": "engine-room",
        "platform_kubernetes_attributes": { "api_url": "https://kubernetes.example.com", "token": "rather-secret-1" },
    });
    let reason = "The clusters of this project are disabled.";
    let requests = [
        (Method::GET, all.clone(), json!({}), 200),
        (Method::POST, format!("{all}/user"), taken, 400),
        (Method::GET, one, json!({}), 200),
        (Method::DELETE, format!("{all}/{}", i64::MAX), json!({}), 404),
    ];
    check_levels(&server, &path, "infrastructure_access_level", reason, &requests).await;
}

async fn level_of_monitor_restricts_dashboards(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    gate(&root, "metrics_dashboard_annotations", json!({ "value": true })).await;
    let environment = format!("/environments/{}", environment(&root, &path, "production").await);
    let cluster = format!("/clusters/{}", cluster(&root, &path, "*").await);
    let annotation = json!({
        "dashboard_path": "config/prometheus/common_metrics.yml", "starting_at": "2026-03-01T10:00:00Z",
        "description": "What happened",
    });
    let stars = format!("{path}/metrics/user_starred_dashboards");
    let reason = "The metrics dashboards of this project are disabled.";
    let requests = [
        (Method::POST, stars.clone(), json!({ "dashboard_path": "missing.yml" }), 400),
        (Method::DELETE, stars, json!({}), 200),
        (Method::POST, format!("{environment}/metrics_dashboard/annotations"), annotation.clone(), 201),
        (Method::POST, format!("{cluster}/metrics_dashboard/annotations"), annotation.clone(), 201),
    ];
    check_levels(&server, &path, "monitor_access_level", reason, &requests).await;
    // Annotations also require the area of their subject.
    root.put(&path, json!({ "monitor_access_level": "enabled" })).await.expect(200);
    for (setting, disabled, other) in
        [("environments_access_level", &environment, &cluster), ("infrastructure_access_level", &cluster, &environment)]
    {
        root.put(&path, json!({ setting: "disabled" })).await.expect(200);
        root.post(&format!("{disabled}/metrics_dashboard/annotations"), annotation.clone()).await.expect(403);
        root.post(&format!("{other}/metrics_dashboard/annotations"), annotation.clone()).await.expect(201);
        root.put(&path, json!({ setting: "enabled" })).await.expect(200);
    }
}

on_every_database![
    level_of_environments_restricts_environments_and_deployments,
    merge_requests_do_not_reveal_disabled_deployments,
    level_of_feature_flags_restricts_flags_and_user_lists,
    disabled_feature_flags_are_refused_to_sdks,
    level_of_infrastructure_restricts_clusters,
    level_of_monitor_restricts_dashboards,
];
