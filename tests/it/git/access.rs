//! Permissions to clone and push, and error messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use storage::entities::{AccessLevel, Visibility, projects, users};

use crate::support::git::{self, Work};
use crate::support::users::PASSWORD;
use crate::support::{ApiResponse, TestServer, on_every_database};

/// Requests the ref advertisement as the git client does.
pub async fn advertised_refs(
    server: &TestServer,
    path: &str,
    service: &str,
    credentials: Option<(&str, &str)>,
) -> ApiResponse {
    let client = match credentials {
        Some((name, password)) => {
            let encoded = STANDARD.encode(format!("{name}:{password}"));
            server.anonymous().header("authorization", &format!("Basic {encoded}"))
        }
        None => server.anonymous(),
    };
    let request = client.request(Method::GET, &format!("//{path}.git/info/refs?service={service}"));
    client.send(request).await
}

/// Service of fetches.
pub const UPLOAD: &str = "git-upload-pack";
pub(super) const RECEIVE: &str = "git-receive-pack";

async fn public_project_allows_anonymous_clone_but_not_push(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let response = advertised_refs(&server, "g/p", UPLOAD, None).await.expect(200);
    assert_eq!(response.header("content-type"), "application/x-git-upload-pack-advertisement");
    assert!(response.header("cache-control").contains("no-cache"));
    let response = advertised_refs(&server, "g/p", RECEIVE, None).await.expect(401);
    assert_eq!(response.header("www-authenticate"), "Basic realm=\"Holdfast\"");
}

async fn hidden_project_returns_same_response_as_missing_one(server: TestServer) {
    let ann = server.create_user("ann").await;
    server.insert_project_at("g/hidden", Visibility::Private).await;
    for service in [UPLOAD, RECEIVE] {
        let hidden = advertised_refs(&server, "g/hidden", service, None).await.expect(401);
        let absent = advertised_refs(&server, "g/absent", service, None).await.expect(401);
        assert_eq!(hidden.body, absent.body);
        assert_eq!(hidden.header("www-authenticate"), "Basic realm=\"Holdfast\"");
        assert_eq!(absent.header("www-authenticate"), "Basic realm=\"Holdfast\"");
        let known = Some(("ann", ann.token.as_str()));
        let hidden = advertised_refs(&server, "g/hidden", service, known).await.expect(404);
        let absent = advertised_refs(&server, "g/absent", service, known).await.expect(404);
        assert_eq!(hidden.body, absent.body);
        assert_eq!(hidden.header("content-type"), "text/plain; charset=utf-8");
    }
    let output = Work::empty().fails(&["clone", &git::address(&server.base, "ann", &ann.token, "g/hidden"), "c"]).await;
    assert!(output.contains("remote: The project you were looking for could not be found"), "{output}");
}

async fn internal_project_requires_authentication(server: TestServer) {
    let ann = server.create_user("ann").await;
    server.insert_project_at("g/p", Visibility::Internal).await;
    advertised_refs(&server, "g/p", UPLOAD, None).await.expect(401);
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(200);
    advertised_refs(&server, "g/p", RECEIVE, Some(("ann", &ann.token))).await.expect(403);
}

async fn private_project_clone_and_push_follow_roles(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    for (level, clone, push) in [
        (AccessLevel::Guest, 403, 403),
        (AccessLevel::Reporter, 200, 403),
        (AccessLevel::Developer, 200, 200),
        (AccessLevel::Maintainer, 200, 200),
    ] {
        let user = server.create_user(&format!("p{}", i32::from(level))).await;
        server.insert_member(project.id, user.id, level).await;
        let known = Some((user.row.username.as_str(), user.token.as_str()));
        advertised_refs(&server, "g/p", UPLOAD, known).await.expect(clone);
        advertised_refs(&server, "g/p", RECEIVE, known).await.expect(push);
    }
}

async fn git_accepts_every_documented_form_of_credentials(server: TestServer) {
    let ann = server.create_user("ann").await;
    server.set_password(&ann).await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    for (name, password) in [
        ("ann", ann.token.as_str()),
        ("oauth2", &ann.token),
        ("anything", &ann.token),
        ("ann", PASSWORD),
        ("ANN", PASSWORD),
        ("ann@example.com", PASSWORD),
    ] {
        advertised_refs(&server, "g/p", RECEIVE, Some((name, password))).await.expect(200);
    }
    for (name, password) in
        [("ann", "wrong"), ("ann", ""), ("", PASSWORD), ("missing-user", PASSWORD), ("a\0b", PASSWORD)]
    {
        let response = advertised_refs(&server, "g/p", UPLOAD, Some((name, password))).await.expect(401);
        assert_eq!(response.header("www-authenticate"), "Basic realm=\"Holdfast\"");
    }
}

async fn invalid_credentials_return_401_on_public_project(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", "wrong"))).await.expect(401);
    for value in ["Bearer x", "Basic", "Basic !!", "Basic YQ=="] {
        let client = server.anonymous().header("authorization", value);
        let request = client.request(Method::GET, "//g/p.git/info/refs?service=git-upload-pack");
        client.send(request).await.expect(401);
    }
}

async fn password_change_required_returns_403_with_reason(server: TestServer) {
    let ann = server.create_user("ann").await;
    server.set_password(&ann).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let row = users::ActiveModel { id: Set(ann.id), password_change_required: Set(true), ..Default::default() };
    row.update(server.backend.database.write()).await.unwrap();
    let response = advertised_refs(&server, "g/p", UPLOAD, Some(("ann", PASSWORD))).await.expect(403);
    assert!(response.text().starts_with("Your password must be changed."), "{}", response.text());
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", "wrong"))).await.expect(401);
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(200);
}

async fn clone_and_push_follow_token_scopes(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    for (scope, clone, push) in [
        ("api", 200, 200),
        ("write_repository", 200, 200),
        ("read_repository", 200, 403),
        ("read_api", 403, 403),
        ("read_user", 403, 403),
    ] {
        let token = server.create_token(ann.id, &[scope]).await;
        advertised_refs(&server, "g/p", UPLOAD, Some(("ann", &token))).await.expect(clone);
        advertised_refs(&server, "g/p", RECEIVE, Some(("ann", &token))).await.expect(push);
    }
}

async fn blocked_user_gets_403_with_reason(server: TestServer) {
    let ann = server.create_user("ann").await;
    server.set_password(&ann).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let row = users::ActiveModel { id: Set(ann.id), state: Set(users::UserState::Blocked), ..Default::default() };
    row.update(server.backend.database.write()).await.unwrap();
    for password in [ann.token.as_str(), PASSWORD] {
        let response = advertised_refs(&server, "g/p", UPLOAD, Some(("ann", password))).await.expect(403);
        assert_eq!(response.text(), "Your account has been blocked.\n");
    }
}

async fn disabled_repository_returns_403(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    let switch = async |level| {
        let row =
            projects::ActiveModel { id: Set(project.id), repository_access_level: Set(level), ..Default::default() };
        row.update(server.backend.database.write()).await.unwrap();
    };
    switch(projects::FeatureAccess::Private).await;
    advertised_refs(&server, "g/p", UPLOAD, None).await.expect(401);
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(403);
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(200);
    switch(projects::FeatureAccess::Disabled).await;
    advertised_refs(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(403);
}

on_every_database![
    public_project_allows_anonymous_clone_but_not_push,
    hidden_project_returns_same_response_as_missing_one,
    internal_project_requires_authentication,
    private_project_clone_and_push_follow_roles,
    git_accepts_every_documented_form_of_credentials,
    invalid_credentials_return_401_on_public_project,
    password_change_required_returns_403_with_reason,
    clone_and_push_follow_token_scopes,
    blocked_user_gets_403_with_reason,
    disabled_repository_returns_403,
];
