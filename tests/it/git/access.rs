//! Who may clone and push, and what the others are told.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use storage::entities::{AccessLevel, Visibility, projects, users};

use crate::support::git::{self, Work};
use crate::support::people::PASSWORD;
use crate::support::{Answer, TestServer, on_every_database};

/// Asks for the references as git does.
async fn ask(server: &TestServer, path: &str, service: &str, credentials: Option<(&str, &str)>) -> Answer {
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

const UPLOAD: &str = "git-upload-pack";
const RECEIVE: &str = "git-receive-pack";

async fn public_projects_are_cloned_without_credentials_and_pushed_to_with(server: TestServer) {
    server.project_at("g/p", Visibility::Public).await;
    let answer = ask(&server, "g/p", UPLOAD, None).await.expect(200);
    assert_eq!(answer.header("content-type"), "application/x-git-upload-pack-advertisement");
    assert!(answer.header("cache-control").contains("no-cache"));
    let answer = ask(&server, "g/p", RECEIVE, None).await.expect(401);
    assert_eq!(answer.header("www-authenticate"), "Basic realm=\"Holdfast\"");
}

async fn hidden_projects_answer_like_absent_ones(server: TestServer) {
    let ann = server.person("ann").await;
    server.project_at("g/hidden", Visibility::Private).await;
    for service in [UPLOAD, RECEIVE] {
        let hidden = ask(&server, "g/hidden", service, None).await.expect(401);
        let absent = ask(&server, "g/absent", service, None).await.expect(401);
        assert_eq!(hidden.body, absent.body);
        assert_eq!(hidden.header("www-authenticate"), "Basic realm=\"Holdfast\"");
        assert_eq!(absent.header("www-authenticate"), "Basic realm=\"Holdfast\"");
        let known = Some(("ann", ann.token.as_str()));
        let hidden = ask(&server, "g/hidden", service, known).await.expect(404);
        let absent = ask(&server, "g/absent", service, known).await.expect(404);
        assert_eq!(hidden.body, absent.body);
        assert_eq!(hidden.header("content-type"), "text/plain; charset=utf-8");
    }
    let said = Work::empty().fails(&["clone", &git::address(&server.base, "ann", &ann.token, "g/hidden"), "c"]).await;
    assert!(said.contains("remote: The project you were looking for could not be found"), "{said}");
}

async fn internal_projects_are_open_to_everybody_signed_in(server: TestServer) {
    let ann = server.person("ann").await;
    server.project_at("g/p", Visibility::Internal).await;
    ask(&server, "g/p", UPLOAD, None).await.expect(401);
    ask(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(200);
    ask(&server, "g/p", RECEIVE, Some(("ann", &ann.token))).await.expect(403);
}

async fn roles_decide_on_private_projects(server: TestServer) {
    let project = server.project_at("g/p", Visibility::Private).await;
    for (level, clone, push) in [
        (AccessLevel::Guest, 403, 403),
        (AccessLevel::Reporter, 200, 403),
        (AccessLevel::Developer, 200, 200),
        (AccessLevel::Maintainer, 200, 200),
    ] {
        let person = server.person(&format!("p{}", i32::from(level))).await;
        server.enrol(project.id, person.id, level).await;
        let known = Some((person.row.username.as_str(), person.token.as_str()));
        ask(&server, "g/p", UPLOAD, known).await.expect(clone);
        ask(&server, "g/p", RECEIVE, known).await.expect(push);
    }
}

async fn every_documented_form_of_credentials_is_taken(server: TestServer) {
    let ann = server.person("ann").await;
    server.give_password(&ann).await;
    let project = server.project_at("g/p", Visibility::Private).await;
    server.enrol(project.id, ann.id, AccessLevel::Developer).await;
    for (name, password) in [
        ("ann", ann.token.as_str()),
        ("oauth2", &ann.token),
        ("anything", &ann.token),
        ("ann", PASSWORD),
        ("ANN", PASSWORD),
        ("ann@example.com", PASSWORD),
    ] {
        ask(&server, "g/p", RECEIVE, Some((name, password))).await.expect(200);
    }
    for (name, password) in [("ann", "wrong"), ("ann", ""), ("", PASSWORD), ("nobody", PASSWORD), ("a\0b", PASSWORD)] {
        let answer = ask(&server, "g/p", UPLOAD, Some((name, password))).await.expect(401);
        assert_eq!(answer.header("www-authenticate"), "Basic realm=\"Holdfast\"");
    }
}

async fn bad_credentials_are_refused_on_public_projects_too(server: TestServer) {
    server.project_at("g/p", Visibility::Public).await;
    ask(&server, "g/p", UPLOAD, Some(("ann", "wrong"))).await.expect(401);
    for value in ["Bearer x", "Basic", "Basic !!", "Basic YQ=="] {
        let client = server.anonymous().header("authorization", value);
        let request = client.request(Method::GET, "//g/p.git/info/refs?service=git-upload-pack");
        client.send(request).await.expect(401);
    }
}

async fn a_password_that_must_be_changed_is_refused_with_the_reason(server: TestServer) {
    let ann = server.person("ann").await;
    server.give_password(&ann).await;
    server.project_at("g/p", Visibility::Public).await;
    let row = users::ActiveModel { id: Set(ann.id), password_change_required: Set(true), ..Default::default() };
    row.update(server.backend.database.write()).await.unwrap();
    let answer = ask(&server, "g/p", UPLOAD, Some(("ann", PASSWORD))).await.expect(403);
    assert!(answer.text().starts_with("Your password must be changed."), "{}", answer.text());
    ask(&server, "g/p", UPLOAD, Some(("ann", "wrong"))).await.expect(401);
    ask(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(200);
}

async fn scopes_of_tokens_decide(server: TestServer) {
    let ann = server.person("ann").await;
    let project = server.project_at("g/p", Visibility::Private).await;
    server.enrol(project.id, ann.id, AccessLevel::Developer).await;
    for (scope, clone, push) in [
        ("api", 200, 200),
        ("write_repository", 200, 200),
        ("read_repository", 200, 403),
        ("read_api", 403, 403),
        ("read_user", 403, 403),
    ] {
        let token = server.token_of(ann.id, &[scope]).await;
        ask(&server, "g/p", UPLOAD, Some(("ann", &token))).await.expect(clone);
        ask(&server, "g/p", RECEIVE, Some(("ann", &token))).await.expect(push);
    }
}

async fn blocked_users_are_refused_with_the_reason(server: TestServer) {
    let ann = server.person("ann").await;
    server.give_password(&ann).await;
    server.project_at("g/p", Visibility::Public).await;
    let row = users::ActiveModel { id: Set(ann.id), state: Set(users::State::Blocked), ..Default::default() };
    row.update(server.backend.database.write()).await.unwrap();
    for password in [ann.token.as_str(), PASSWORD] {
        let answer = ask(&server, "g/p", UPLOAD, Some(("ann", password))).await.expect(403);
        assert_eq!(answer.text(), "Your account has been blocked.\n");
    }
}

async fn repositories_that_are_switched_off_are_not_served(server: TestServer) {
    let ann = server.person("ann").await;
    let project = server.project_at("g/p", Visibility::Public).await;
    let switch = async |level| {
        let row =
            projects::ActiveModel { id: Set(project.id), repository_access_level: Set(level), ..Default::default() };
        row.update(server.backend.database.write()).await.unwrap();
    };
    switch(projects::FeatureAccess::Private).await;
    ask(&server, "g/p", UPLOAD, None).await.expect(401);
    ask(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(403);
    server.enrol(project.id, ann.id, AccessLevel::Developer).await;
    ask(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(200);
    switch(projects::FeatureAccess::Disabled).await;
    ask(&server, "g/p", UPLOAD, Some(("ann", &ann.token))).await.expect(403);
}

on_every_database![
    public_projects_are_cloned_without_credentials_and_pushed_to_with,
    hidden_projects_answer_like_absent_ones,
    internal_projects_are_open_to_everybody_signed_in,
    roles_decide_on_private_projects,
    every_documented_form_of_credentials_is_taken,
    bad_credentials_are_refused_on_public_projects_too,
    a_password_that_must_be_changed_is_refused_with_the_reason,
    scopes_of_tokens_decide,
    blocked_users_are_refused_with_the_reason,
    repositories_that_are_switched_off_are_not_served,
];
