//! Job tokens: accepted operations, permissions and expiry.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use reqwest::Method;
use sea_orm::ActiveValue::Set;
use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::job_tokens as rows;
use storage::entities::{AccessLevel, Visibility};

use crate::support::git::{Work, address};
use crate::support::repository::Sample;
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

pub const HOUR: TimeDelta = TimeDelta::hours(1);

/// Creates a token for a user on a project and returns its ID and secret.
pub async fn token(server: &TestServer, user: i64, project: i64, lifetime: TimeDelta) -> (i64, String) {
    let db = server.backend.database.write();
    let (row, secret) = job_tokens::create(db, user, project, lifetime).await.expect("a token");
    (row.id, secret)
}

/// Creates a Developer of a project and a job token for them.
async fn job(server: &TestServer, sample: &Sample<'_>, name: &str) -> (TestUser, String) {
    let member = server.create_user(name).await;
    server.insert_member(sample.id, member.id, AccessLevel::Developer).await;
    let (_, secret) = token(server, member.id, sample.id, HOUR).await;
    (member, secret)
}

pub fn with_job_token(server: &TestServer, secret: &str) -> Client {
    server.anonymous().header("Job-Token", secret)
}

async fn job_token_reads_its_project_by_header_bearer_and_parameter(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (_, secret) = job(&server, &sample, "ada").await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    let archive = format!("/projects/{}/repository/archive", sample.id);
    let bearer = server.anonymous().header("Authorization", &format!("Bearer {secret}"));
    for client in [with_job_token(&server, &secret), bearer] {
        client.get(&file).await.expect(200);
        client.head(&file).await.expect(200);
        client.get(&format!("{}/raw?ref=main", sample.file("README.md"))).await.expect(200);
        client.get(&format!("{}/blame?ref=main", sample.file("README.md"))).await.expect(200);
        client.get(&archive).await.expect(200);
        client.get(&format!("{archive}.zip")).await.expect(200);
    }
    server.anonymous().get(&format!("{file}&job_token={secret}")).await.expect(200);
    server.anonymous().get(&file).await.expect(404);
}

async fn job_token_is_ignored_by_operations_that_do_not_accept_it(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (_, secret) = job(&server, &sample, "ada").await;
    let one = format!("/projects/{}", sample.id);
    for client in [with_job_token(&server, &secret), with_job_token(&server, "unknown")] {
        client.get("/user").await.expect(401);
        client.get(&one).await.expect(404);
        client.get(&format!("{one}/repository/tree")).await.expect(404);
        let new = json!({ "branch": "main", "content": "x", "commit_message": "x" });
        client.post(&sample.file("new"), new).await.expect(401);
        client.get("/projects").await.expect(200);
    }
    server.anonymous().get(&format!("/user?job_token={secret}")).await.expect(401);
    // Sent as another kind of token, it is unknown.
    server.with_token(&secret).get("/user").await.expect(401);
    server.with_token(&secret).get(&format!("{}?ref=main", sample.file("README.md"))).await.expect(401);
    server.anonymous().header("Authorization", &format!("Bearer {secret}")).get("/user").await.expect(401);
    server.anonymous().get(&format!("/user?access_token={secret}")).await.expect(401);
}

async fn unknown_job_token_returns_401_for_public_projects(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    server.anonymous().get(&file).await.expect(200);
    assert_eq!(
        with_job_token(&server, "unknown").get(&file).await.expect(401).json(),
        json!({ "message": "401 Unauthorized", "error": "401 Unauthorized" })
    );
    server.anonymous().get(&format!("{file}&job_token=unknown")).await.expect(401);
    server.anonymous().header("Authorization", "Bearer unknown").get(&file).await.expect(401);
}

async fn job_token_returns_404_for_other_projects(server: TestServer) {
    let (one, other) = (Sample::new(&server).await, Sample::new(&server).await);
    let (ada, secret) = job(&server, &one, "ada").await;
    server.insert_member(other.id, ada.id, AccessLevel::Maintainer).await;
    let job = with_job_token(&server, &secret);
    let file = format!("{}?ref=main", other.file("README.md"));
    assert_eq!(job.get(&file).await.expect(404).message(), "404 Project Not Found");
    other.update(|row| row.visibility = Set(Visibility::Public)).await;
    job.get(&file).await.expect(404);
    ada.client.get(&file).await.expect(200);
    // Cached responses are not shared between two jobs of a user.
    let (_, second) = token(&server, ada.id, other.id, HOUR).await;
    with_job_token(&server, &second).get(&file).await.expect(200);
    job.get(&file).await.expect(404);
}

async fn job_token_has_the_permissions_of_its_user(server: TestServer) {
    let sample = Sample::new(&server).await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    for (name, level, status) in
        [("ada", None, 404), ("bob", Some(AccessLevel::Guest), 403), ("eve", Some(AccessLevel::Reporter), 200)]
    {
        let member = server.create_user(name).await;
        if let Some(level) = level {
            server.insert_member(sample.id, member.id, level).await;
        }
        let (_, secret) = token(&server, member.id, sample.id, HOUR).await;
        with_job_token(&server, &secret).get(&file).await.expect(status);
    }
    let (_, secret) = token(&server, 1, sample.id, HOUR).await;
    let rejected = with_job_token(&server, &secret).header("Sudo", "eve").get(&file).await.expect(403);
    assert_eq!(rejected.json()["scope"], "sudo");
}

async fn job_token_ends_with_its_lifetime_job_user_and_project(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (ada, _) = job(&server, &sample, "ada").await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    let (_, late) = token(&server, ada.id, sample.id, TimeDelta::zero()).await;
    with_job_token(&server, &late).get(&file).await.expect(401);
    let (id, ended) = token(&server, ada.id, sample.id, HOUR).await;
    with_job_token(&server, &ended).get(&file).await.expect(200);
    for _ in 0..2 {
        job_tokens::delete(server.backend.database.write(), id).await.expect("an end");
        with_job_token(&server, &ended).get(&file).await.expect(401);
    }
    let (_, active) = token(&server, ada.id, sample.id, HOUR).await;
    let root = server.root();
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    let rejected = with_job_token(&server, &active).get(&file).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - Your account has been blocked.");
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    with_job_token(&server, &active).get(&file).await.expect(401);
    let (_, deleted) = token(&server, 1, sample.id, HOUR).await;
    with_job_token(&server, &deleted).get(&file).await.expect(200);
    root.delete(&format!("/projects/{}", sample.id)).await.expect(202);
    with_job_token(&server, &deleted).get(&file).await.expect(404);
    server.finish_jobs().await;
    with_job_token(&server, &deleted).get(&file).await.expect(401);
}

async fn create_job_token_stores_digest_and_deletes_expired_tokens(server: TestServer) {
    let sample = Sample::new(&server).await;
    token(&server, 1, sample.id, TimeDelta::zero()).await;
    let (id, secret) = token(&server, 1, sample.id, HOUR).await;
    let remaining = rows::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert_eq!(remaining.iter().map(|row| row.id).collect::<Vec<_>>(), [id]);
    assert!(secret.starts_with("hfjob-") && remaining[0].digest == domain::secrets::digest(&secret));
}

async fn access_token_precedes_job_token_and_job_token_precedes_basic_auth(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (_, secret) = job(&server, &sample, "ada").await;
    let non_member = server.create_user("eve").await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    non_member.client.clone().header("Job-Token", &secret).get(&file).await.expect(404);
    with_job_token(&server, &secret).header("Authorization", "Basic cHJveHk6eA==").get(&file).await.expect(200);
    with_job_token(&server, &secret).header("Cookie", "_service_session=unknown").get(&file).await.expect(200);
}

async fn git_accepts_job_token_for_fetch_and_rejects_push(server: TestServer) {
    let (one, other) = (Sample::new(&server).await, Sample::new(&server).await);
    let (ada, secret) = job(&server, &one, "ada").await;
    server.insert_member(other.id, ada.id, AccessLevel::Maintainer).await;
    let path = async |sample: &Sample<'_>| {
        let found = server.root().get(&format!("/projects/{}", sample.id)).await.expect(200).json();
        found["path_with_namespace"].as_str().expect("a path").to_owned()
    };
    let (own, foreign) = (path(&one).await, path(&other).await);
    let work = Work::empty();
    work.git(&["clone", "--quiet", &address(&server.base, "ci-job", &secret, &own), "own"]).await;
    let clone = work.below("own");
    clone.commit("new", "x").await;
    let output = clone.fails(&["push", "origin", "HEAD:refs/heads/from-job"]).await;
    assert!(output.contains("The token needs one of these scopes"), "{output}");
    let output = work.fails(&["clone", &address(&server.base, "ci-job", &secret, &foreign), "other"]).await;
    assert!(output.contains("could not be found"), "{output}");
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    let request = server.anonymous().request(Method::GET, &format!("//{own}.git/info/refs?service=git-upload-pack"));
    server.anonymous().send(request.basic_auth("x", Some(&secret))).await.expect(403);
}

on_every_database![
    job_token_reads_its_project_by_header_bearer_and_parameter,
    job_token_is_ignored_by_operations_that_do_not_accept_it,
    unknown_job_token_returns_401_for_public_projects,
    job_token_returns_404_for_other_projects,
    job_token_has_the_permissions_of_its_user,
    job_token_ends_with_its_lifetime_job_user_and_project,
    create_job_token_stores_digest_and_deletes_expired_tokens,
    access_token_precedes_job_token_and_job_token_precedes_basic_auth,
    git_accepts_job_token_for_fetch_and_rejects_push,
];
