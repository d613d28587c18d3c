//! Credentials of package clients.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use reqwest::Method;
use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, packages};

use super::{file_path, upload};
use crate::identity::deploy_tokens::{credentials, deploy_token, expire};
use crate::registry::registry_protocol::basic;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const FILE: [&str; 3] = ["engine", "1.4.0", "engine.tar.gz"];
const CHALLENGE: &str = "Basic realm=\"Holdfast\"";

/// Creates the private project `g/p` with a file. Returns its path and its ID.
async fn project_with_file(server: &TestServer) -> (String, i64) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    upload(&server.root(), &path, FILE, b"content").await.expect(201);
    (path, project.id)
}

fn with_basic(server: &TestServer, name: &str, password: &str) -> Client {
    server.anonymous().header("Authorization", &basic(name, password))
}

fn assert_challenge(response: ApiResponse) {
    let refused = response.expect(401);
    assert_eq!(refused.header("www-authenticate"), CHALLENGE);
    assert!(refused.message().starts_with("401 Unauthorized"), "{}", refused.message());
}

async fn anonymous_client_is_asked_for_credentials(server: TestServer) {
    let (path, id) = project_with_file(&server).await;
    let anonymous = server.anonymous();
    server.insert_project_at("g/internal", Visibility::Internal).await;
    for project in [path.as_str(), "/projects/g%2Finternal", "/projects/g%2Fnone", "/projects/999999"] {
        assert_challenge(anonymous.get(&file_path(project, FILE)).await);
        assert_challenge(upload(&anonymous, project, FILE, b"x").await);
    }
    // Other operations hide the project.
    anonymous.get(&format!("/projects/{id}/packages")).await.expect(404);
    let public = server.insert_project_at("g/public", Visibility::Public).await;
    let public = format!("/projects/{}", public.id);
    anonymous.get(&file_path(&public, FILE)).await.expect(404);
    assert_challenge(upload(&anonymous, &public, FILE, b"x").await);
}

async fn tokens_are_accepted_in_every_place(server: TestServer) {
    let (path, id) = project_with_file(&server).await;
    let ann = server.create_user("ann").await;
    server.insert_member(id, ann.id, AccessLevel::Developer).await;
    let db = server.backend.database.write();
    let (_, job) = job_tokens::create(db, ann.id, id, TimeDelta::hours(1)).await.expect("a token");
    let bearer = |token: &str| server.anonymous().header("Authorization", &format!("Bearer {token}"));
    for client in [
        server.with_token(&ann.token),
        bearer(&ann.token),
        with_basic(&server, "__token__", &ann.token),
        with_basic(&server, "", &ann.token),
        server.anonymous().header("Job-Token", &job),
        bearer(&job),
        with_basic(&server, "job", &job),
    ] {
        assert_eq!(client.get(&file_path(&path, FILE)).await.expect(200).text(), "content");
        upload(&client, &path, ["a", "1", "f"], b"x").await.expect(201);
    }
    let query = format!("{}?private_token={}", file_path(&path, FILE), ann.token);
    server.anonymous().get(&query).await.expect(200);
    // A token in a header takes precedence over the credentials of a proxy.
    let both = server.with_token(&ann.token).header("Authorization", &basic("proxy", "secret"));
    both.get(&file_path(&path, FILE)).await.expect(200);
    // A job token is valid only for the project of the job.
    let other = server.insert_project_at("g/other", Visibility::Private).await;
    server.insert_member(other.id, ann.id, AccessLevel::Developer).await;
    let other = format!("/projects/{}", other.id);
    server.anonymous().header("Job-Token", &job).get(&file_path(&other, FILE)).await.expect(404);
}

async fn wrong_credentials_return_401_for_public_projects(server: TestServer) {
    let public = server.insert_project_at("g/public", Visibility::Public).await;
    let path = format!("/projects/{}", public.id);
    upload(&server.root(), &path, FILE, b"content").await.expect(201);
    let ann = server.create_user("ann").await;
    server.set_password(&ann).await;
    let created = deploy_token(&server.root(), &path, &["read_package_registry"]).await;
    let (_, token) = credentials(&created);
    for client in [
        server.with_token("unknown"),
        server.anonymous().header("Job-Token", "unknown"),
        server.anonymous().header("Deploy-Token", "unknown"),
        server.anonymous().header("Deploy-Token", &ann.token),
        server.anonymous().header("Authorization", "Bearer unknown"),
        server.anonymous().header("Authorization", "Bearer hfdt-unknown"),
        server.anonymous().header("Authorization", "Basic ???"),
        server.anonymous().header("Authorization", "Digest x"),
        with_basic(&server, "ann", crate::support::users::PASSWORD),
        with_basic(&server, "ann", ""),
        with_basic(&server, "other", token),
    ] {
        assert_challenge(client.get(&file_path(&path, FILE)).await);
        assert_challenge(upload(&client, &path, FILE, b"x").await);
    }
    server.anonymous().get(&file_path(&path, FILE)).await.expect(200);
    server.root().post(&format!("/users/{}/block", ann.id), json!({})).await.expect(201);
    with_basic(&server, "ann", &ann.token).get(&file_path(&path, FILE)).await.expect(403);
}

async fn deploy_token_reads_and_writes_by_its_scopes(server: TestServer) {
    let (path, _) = project_with_file(&server).await;
    let root = server.root();
    for (scopes, read, write) in [
        (&["read_package_registry"][..], 200, 403),
        (&["write_package_registry"][..], 200, 201),
        (&["read_package_registry", "write_package_registry"][..], 200, 201),
        (&["read_repository", "read_registry", "write_registry"][..], 403, 403),
    ] {
        let created = deploy_token(&root, &path, scopes).await;
        assert_eq!(created["scopes"], json!(scopes));
        let (name, token) = credentials(&created);
        for client in [
            server.anonymous().header("Deploy-Token", token),
            server.anonymous().header("Authorization", &format!("Bearer {token}")),
            with_basic(&server, name, token),
        ] {
            client.get(&file_path(&path, FILE)).await.expect(read);
            upload(&client, &path, ["b", "1", "f"], b"x").await.expect(write);
        }
    }
    let package = root.get(&format!("{path}/packages?package_name=b")).await.expect(200).json()[0]["id"].clone();
    let created = deploy_token(&root, &path, &["write_package_registry"]).await;
    let client = server.anonymous().header("Deploy-Token", credentials(&created).1);
    // Operations that are not for package clients do not accept deploy tokens.
    client.delete(&format!("{path}/packages/{package}")).await.expect(401);
    client.get(&format!("{path}/packages")).await.expect(404);
    client.get(&path).await.expect(404);
    expire(&server, &created).await;
    assert_challenge(client.get(&file_path(&path, FILE)).await);
    let created = deploy_token(&root, &path, &["write_package_registry"]).await;
    let client = server.anonymous().header("Deploy-Token", credentials(&created).1);
    client.get(&file_path(&path, FILE)).await.expect(200);
    root.delete(&format!("{path}/deploy_tokens/{}", created["id"])).await.expect(204);
    assert_challenge(client.get(&file_path(&path, FILE)).await);
}

async fn deploy_token_is_valid_only_for_its_projects(server: TestServer) {
    let (path, _) = project_with_file(&server).await;
    let root = server.root();
    let below = server.insert_project_at("g/below/q", Visibility::Private).await;
    let other = server.insert_project_at("other/p", Visibility::Private).await;
    let public = server.insert_project_at("other/public", Visibility::Public).await;
    let [below, other, public] = [below, other, public].map(|project| format!("/projects/{}", project.id));
    for project in [&below, &other, &public] {
        upload(&root, project, FILE, b"x").await.expect(201);
    }
    let scopes = ["write_package_registry"];
    let of_project = deploy_token(&root, &path, &scopes).await;
    let of_group = deploy_token(&root, "/groups/g", &scopes).await;
    for (created, project, read, write) in [
        (&of_project, &path, 200, 201),
        (&of_project, &below, 404, 404),
        (&of_project, &other, 404, 404),
        (&of_project, &public, 200, 403),
        (&of_group, &path, 200, 201),
        (&of_group, &below, 200, 201),
        (&of_group, &other, 404, 404),
        (&of_group, &public, 200, 403),
    ] {
        let client = server.anonymous().header("Deploy-Token", credentials(created).1);
        client.get(&file_path(project, FILE)).await.expect(read);
        upload(&client, project, FILE, b"x").await.expect(write);
    }
    // A transferred project leaves the tokens of its former group.
    root.put(&format!("{below}/transfer"), json!({ "namespace": "other" })).await.expect(200);
    let client = server.anonymous().header("Deploy-Token", credentials(&of_group).1);
    client.get(&file_path(&below, FILE)).await.expect(404);
    root.get(&file_path(&below, FILE)).await.expect(200);
}

async fn upload_of_deploy_token_has_no_creator(server: TestServer) {
    let (path, _) = project_with_file(&server).await;
    let created = deploy_token(&server.root(), &path, &["write_package_registry"]).await;
    let client = server.anonymous().header("Deploy-Token", credentials(&created).1);
    upload(&client, &path, ["b", "1", "f"], b"x").await.expect(201);
    let db = server.backend.database.read();
    let rows = packages::Entity::find().all(db).await.expect("packages");
    let creators: Vec<bool> = rows.iter().map(|row| row.creator_id.is_some()).collect();
    assert_eq!(creators, [true, false]);
    let events = server.root().get(&format!("{path}/audit_events")).await.expect(200).json();
    assert_eq!(
        (&events[0]["author_id"], &events[0]["details"]["author_name"]),
        (&json!(-1), &json!("Deploy token cluster"))
    );
    assert_eq!(events[0]["details"]["event_name"], "package_published");
}

async fn scopes_of_access_tokens_limit_packages(server: TestServer) {
    let (path, id) = project_with_file(&server).await;
    let ann = server.create_user("ann").await;
    server.insert_member(id, ann.id, AccessLevel::Maintainer).await;
    for (scopes, read, write) in [(["api"], 200, 201), (["read_api"], 200, 403), (["read_registry"], 403, 403)] {
        let client = server.with_token(&server.create_token(ann.id, &scopes).await);
        client.get(&file_path(&path, FILE)).await.expect(read);
        upload(&client, &path, FILE, b"x").await.expect(write);
        let request = client.request(Method::DELETE, &format!("{path}/packages/999999"));
        client.send(request).await.expect(if write == 201 { 404 } else { 403 });
    }
}

on_every_database![
    anonymous_client_is_asked_for_credentials,
    tokens_are_accepted_in_every_place,
    wrong_credentials_return_401_for_public_projects,
    deploy_token_reads_and_writes_by_its_scopes,
    deploy_token_is_valid_only_for_its_projects,
    upload_of_deploy_token_has_no_creator,
    scopes_of_access_tokens_limit_packages,
];
