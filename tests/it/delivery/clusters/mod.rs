//! Clusters of projects.

use futures_util::future::join_all;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{cluster_platforms, clusters, projects};

use crate::support::spaces::{id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Adds a cluster of `/projects/:id` with an environment scope and returns its ID.
pub async fn cluster(client: &Client, path: &str, scope: &str) -> i64 {
    let created =
        client.post(&format!("{path}/clusters/user"), cluster_body(json!({ "environment_scope": scope }))).await;
    id(&created.expect(201).json())
}

/// Returns a request body for a cluster, with these attributes replaced.
fn cluster_body(more: Value) -> Value {
    let mut body = json!({
        "name": "engine-room",
        "platform_kubernetes_attributes": { "api_url": "https://kubernetes.example.com", "token": "rather-secret-1" },
    });
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().expect("an object").extend(more);
    body
}

/// As [`cluster_body`], with these platform attributes replaced.
fn cluster_body_with_platform(more: Value) -> Value {
    let mut body = cluster_body(json!({}));
    let Value::Object(more) = more else { panic!("an object") };
    let platform = body["platform_kubernetes_attributes"].as_object_mut().expect("an object");
    platform.extend(more);
    body
}

async fn cluster_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/clusters");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let body = json!({
        "name": "engine-room", "domain": "apps.example.com", "enabled": false, "managed": false, "environment_scope": "production",
        "platform_kubernetes_attributes": {
            "api_url": "https://kubernetes.example.com:6443", "token": "rather-secret-1", "ca_cert": "-----BEGIN", "namespace": "engines-1",
            "authorization_type": "abac",
        },
    });
    let created = root.post(&format!("{all}/user"), body).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "engine-room", "created_at": created["created_at"],
            "domain": "apps.example.com",
            "provider_type": "user", "platform_type": "kubernetes", "environment_scope": "production", "cluster_type": "project_type",
            "enabled": false, "managed": false, "user": created["user"],
            "platform_kubernetes": {
                "api_url": "https://kubernetes.example.com:6443", "namespace": "engines-1", "authorization_type": "abac",
                "ca_cert": "-----BEGIN",
            },
        })
    );
    assert_eq!(created["user"]["username"], "root");
    let second = root.post(&format!("{all}/user"), cluster_body(json!({}))).await.expect(201).json();
    assert_eq!(
        (
            &second["domain"],
            &second["environment_scope"],
            &second["enabled"],
            &second["managed"],
            &second["platform_kubernetes"]
        ),
        (
            &json!(null),
            &json!("*"),
            &json!(true),
            &json!(true),
            &json!({
                "api_url": "https://kubernetes.example.com", "namespace": null, "authorization_type": "rbac", "ca_cert": null,
            })
        )
    );
    let one = format!("{all}/{}", created["id"]);
    let read = root.get(&one).await.expect(200);
    assert_eq!(read.json(), created);
    let listed = root.get(&all).await.expect(200);
    assert_eq!(listed.json(), json!([created, second]));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([second]));
    assert!(!read.text().contains("rather-secret") && !listed.text().contains("rather-secret"));
    let rows = cluster_platforms::Entity::find().all(server.backend.database.read()).await.expect("rows");
    for row in rows {
        assert!(row.token_encrypted.starts_with("v1.") && !row.token_encrypted.contains("rather-secret"));
        let opened =
            |id: i64| server.backend.keyring.decrypt(&row.token_encrypted, &format!("cluster_platforms.token:{id}"));
        assert_eq!(opened(row.cluster_id).expect("the token").expose(), "rather-secret-1");
        assert!(opened(row.cluster_id + 1).is_err());
    }
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in [root.get(&one).await, root.delete(&one).await] {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    assert_eq!(root.get(&all).await.expect(200).json(), json!([second]));
    let db = server.backend.database.write();
    assert_eq!(cluster_platforms::Entity::find().all(db).await.expect("rows").len(), 1);
    projects::Entity::delete_by_id(work).exec(db).await.expect("a removal");
    assert_eq!(clusters::Entity::find().all(db).await.expect("rows"), []);
}

async fn create_cluster_rejects_invalid_attributes(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let all = format!("{path}/clusters/user");
    let errors = async |body: Value| {
        let rejected = root.post(&all, body).await.expect(400);
        assert!(!rejected.text().contains("rather-secret"));
        rejected.json()["message"].clone()
    };
    cluster(&root, &path, "review/*").await;
    let scope = json!({ "environment_scope": ["cannot add duplicated environment scope"] });
    assert_eq!(errors(cluster_body(json!({ "environment_scope": "review/*" }))).await, scope);
    assert!(errors(json!({})).await.as_str().expect("a text").starts_with("name is missing"));
    errors(json!({ "name": "a", "platform_kubernetes_attributes": {} })).await;
    errors(json!({ "name": "a", "platform_kubernetes_attributes": "x" })).await;
    assert_eq!(errors(cluster_body(json!({ "name": " " }))).await, json!({ "name": ["can't be blank"] }));
    errors(cluster_body(json!({ "name": "a".repeat(256) }))).await;
    errors(cluster_body(json!({ "environment_scope": "a;b" }))).await;
    for domain in ["-a", "a..b", "a b", "http://h", "ä.example.com", &"a".repeat(64)] {
        assert_eq!(
            errors(cluster_body(json!({ "domain": domain }))).await,
            json!({ "domain": ["is not a fully qualified domain name"] }),
            "{domain}"
        );
    }
    let blocked =
        json!({ "platform_kubernetes_attributes[api_url]": ["is blocked: Only allowed schemes are http, https"] });
    for url in ["", "javascript:alert(1)", "kubernetes.example.com", "https://", "file:///etc/passwd", "https://h\n/x"]
    {
        assert_eq!(errors(cluster_body_with_platform(json!({ "api_url": url }))).await, blocked, "{url:?}");
    }
    let blank = json!({ "platform_kubernetes_attributes[token]": ["can't be blank"] });
    assert_eq!(errors(cluster_body_with_platform(json!({ "token": " " }))).await, blank);
    let long = json!({ "platform_kubernetes_attributes[token]": ["is too long (maximum is 10000 characters)"] });
    assert_eq!(errors(cluster_body_with_platform(json!({ "token": "x".repeat(10_001) }))).await, long);
    for namespace in ["A", "a_b", "-a", "a/b", &"a".repeat(64)] {
        let invalid = json!({ "platform_kubernetes_attributes[namespace]": ["is invalid"] });
        assert_eq!(errors(cluster_body_with_platform(json!({ "namespace": namespace }))).await, invalid, "{namespace}");
    }
    errors(cluster_body_with_platform(json!({ "authorization_type": "x" }))).await;
    errors(cluster_body_with_platform(json!({ "ca_cert": "x".repeat(65_537) }))).await;
    root.get(&format!("{path}/clusters/x")).await.expect(400);
    assert_eq!(root.get(&format!("{path}/clusters")).await.expect(200).pluck("environment_scope"), [json!("review/*")]);
    // Environment scopes are unique only within a project.
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    cluster(&root, &other, "review/*").await;
    root.post(&all, cluster_body(json!({ "domain": "", "environment_scope": "x" }))).await.expect(201);
}

async fn clusters_require_maintainer(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let (developer, maintainer) = (server.create_user("developer").await, server.create_user("maintainer").await);
    join(&root, &work, developer.id, 30).await;
    join(&root, &work, maintainer.id, 40).await;
    let one = format!("{work}/clusters/{}", cluster(&maintainer.client, &work, "*").await);
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&developer.client, 403)] {
        client.get(&format!("{work}/clusters")).await.expect(status);
        client.get(&one).await.expect(status);
        client
            .post(&format!("{work}/clusters/user"), cluster_body(json!({ "environment_scope": "x" })))
            .await
            .expect(status);
        client.delete(&one).await.expect(status);
    }
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    root.get(&one.replace(&work, &other)).await.expect(404);
    root.delete(&one.replace(&work, &other)).await.expect(404);
    non_member.get(&format!("{other}/clusters")).await.expect(404);
    non_member.post(&format!("{other}/clusters/user"), cluster_body(json!({}))).await.expect(404);
    root.post(&format!("{work}/archive"), json!({})).await.expect(201);
    maintainer.client.get(&one).await.expect(200);
    maintainer.client.delete(&one).await.expect(403);
}

async fn create_cluster_rejects_more_than_100_clusters(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for number in 0..99 {
        cluster(&root, &work, &format!("e{number}")).await;
    }
    let all = format!("{work}/clusters/user");
    let last = ["x", "y", "z"].map(|scope| {
        let (root, all) = (root.clone(), all.clone());
        async move { root.post(&all, cluster_body(json!({ "environment_scope": scope }))).await.status }
    });
    let mut statuses = join_all(last).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
}

on_every_database![
    cluster_lifecycle,
    create_cluster_rejects_invalid_attributes,
    clusters_require_maintainer,
    create_cluster_rejects_more_than_100_clusters,
];
