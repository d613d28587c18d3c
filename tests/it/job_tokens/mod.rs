//! Tokens of jobs: where they count, how far they reach, and when they end (specification 5).

use chrono::TimeDelta;
use domain::identity::job_tokens;
use reqwest::Method;
use sea_orm::ActiveValue::Set;
use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::job_tokens as rows;
use storage::entities::{AccessLevel, Visibility};

use crate::support::git::{Work, address};
use crate::support::people::Person;
use crate::support::repository::Sample;
use crate::support::{Client, TestServer, on_every_database};

const HOUR: TimeDelta = TimeDelta::hours(1);

/// A token for a user on a project.
async fn token(server: &TestServer, user: i64, project: i64, lifetime: TimeDelta) -> (i64, String) {
    let db = server.backend.database.write();
    let (row, secret) = job_tokens::create(db, user, project, lifetime).await.expect("a token");
    (row.id, secret)
}

/// A job of a project, run for a new Developer of it.
async fn job(server: &TestServer, sample: &Sample<'_>, name: &str) -> (Person, String) {
    let person = server.person(name).await;
    server.enrol(sample.id, person.id, AccessLevel::Developer).await;
    let (_, secret) = token(server, person.id, sample.id, HOUR).await;
    (person, secret)
}

fn by_header(server: &TestServer, secret: &str) -> Client {
    server.anonymous().header("Job-Token", secret)
}

async fn a_job_reads_its_project_in_every_place_a_token_may_stand(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (_, secret) = job(&server, &sample, "ada").await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    let archive = format!("/projects/{}/repository/archive", sample.id);
    let bearer = server.anonymous().header("Authorization", &format!("Bearer {secret}"));
    for client in [by_header(&server, &secret), bearer] {
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

async fn where_jobs_may_not_go_their_token_is_overlooked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (_, secret) = job(&server, &sample, "ada").await;
    let one = format!("/projects/{}", sample.id);
    for client in [by_header(&server, &secret), by_header(&server, "unknown")] {
        client.get("/user").await.expect(401);
        client.get(&one).await.expect(404);
        client.get(&format!("{one}/repository/tree")).await.expect(404);
        let new = json!({ "branch": "main", "content": "x", "commit_message": "x" });
        client.post(&sample.file("new"), new).await.expect(401);
        client.get("/projects").await.expect(200);
    }
    server.anonymous().get(&format!("/user?job_token={secret}")).await.expect(401);
    // In the places of other tokens it is one that nobody knows.
    server.with_token(&secret).get("/user").await.expect(401);
    server.with_token(&secret).get(&format!("{}?ref=main", sample.file("README.md"))).await.expect(401);
    server.anonymous().header("Authorization", &format!("Bearer {secret}")).get("/user").await.expect(401);
    server.anonymous().get(&format!("/user?access_token={secret}")).await.expect(401);
}

async fn unknown_tokens_are_refused_also_where_nobody_needs_one(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    server.anonymous().get(&file).await.expect(200);
    assert_eq!(
        by_header(&server, "unknown").get(&file).await.expect(401).json(),
        json!({ "message": "401 Unauthorized" })
    );
    server.anonymous().get(&format!("{file}&job_token=unknown")).await.expect(401);
    server.anonymous().header("Authorization", "Bearer unknown").get(&file).await.expect(401);
}

async fn a_job_reaches_no_other_project(server: TestServer) {
    let (one, other) = (Sample::new(&server).await, Sample::new(&server).await);
    let (ada, secret) = job(&server, &one, "ada").await;
    server.enrol(other.id, ada.id, AccessLevel::Maintainer).await;
    let job = by_header(&server, &secret);
    let file = format!("{}?ref=main", other.file("README.md"));
    assert_eq!(job.get(&file).await.expect(404).message(), "404 Project Not Found");
    other.update(|row| row.visibility = Set(Visibility::Public)).await;
    job.get(&file).await.expect(404);
    ada.client.get(&file).await.expect(200);
    // What one job of a user was answered is not what another is.
    let (_, second) = token(&server, ada.id, other.id, HOUR).await;
    by_header(&server, &second).get(&file).await.expect(200);
    job.get(&file).await.expect(404);
}

async fn a_job_may_do_what_its_user_may(server: TestServer) {
    let sample = Sample::new(&server).await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    for (name, level, status) in
        [("ada", None, 404), ("bob", Some(AccessLevel::Guest), 403), ("eve", Some(AccessLevel::Reporter), 200)]
    {
        let person = server.person(name).await;
        if let Some(level) = level {
            server.enrol(sample.id, person.id, level).await;
        }
        let (_, secret) = token(&server, person.id, sample.id, HOUR).await;
        by_header(&server, &secret).get(&file).await.expect(status);
    }
    let (_, secret) = token(&server, 1, sample.id, HOUR).await;
    let refused = by_header(&server, &secret).header("Sudo", "eve").get(&file).await.expect(403);
    assert_eq!(refused.json()["scope"], "sudo");
}

async fn a_token_ends_with_its_time_its_job_its_user_and_its_project(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (ada, _) = job(&server, &sample, "ada").await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    let (_, late) = token(&server, ada.id, sample.id, TimeDelta::zero()).await;
    by_header(&server, &late).get(&file).await.expect(401);
    let (id, ended) = token(&server, ada.id, sample.id, HOUR).await;
    by_header(&server, &ended).get(&file).await.expect(200);
    for _ in 0..2 {
        job_tokens::end(server.backend.database.write(), id).await.expect("an end");
        by_header(&server, &ended).get(&file).await.expect(401);
    }
    let (_, kept) = token(&server, ada.id, sample.id, HOUR).await;
    let root = server.root();
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    let refused = by_header(&server, &kept).get(&file).await.expect(403);
    assert_eq!(refused.message(), "403 Forbidden - Your account has been blocked.");
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    by_header(&server, &kept).get(&file).await.expect(401);
    let (_, gone) = token(&server, 1, sample.id, HOUR).await;
    by_header(&server, &gone).get(&file).await.expect(200);
    root.delete(&format!("/projects/{}", sample.id)).await.expect(202);
    by_header(&server, &gone).get(&file).await.expect(404);
    server.finish_jobs().await;
    by_header(&server, &gone).get(&file).await.expect(401);
}

async fn only_the_digest_is_kept_and_what_has_ended_is_swept(server: TestServer) {
    let sample = Sample::new(&server).await;
    token(&server, 1, sample.id, TimeDelta::zero()).await;
    let (id, secret) = token(&server, 1, sample.id, HOUR).await;
    let left = rows::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert_eq!(left.iter().map(|row| row.id).collect::<Vec<_>>(), [id]);
    assert!(secret.starts_with("hfjob-") && left[0].digest == domain::secrets::digest(&secret));
}

async fn another_token_beats_that_of_a_job_and_a_job_beats_a_proxy(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (_, secret) = job(&server, &sample, "ada").await;
    let stranger = server.person("eve").await;
    let file = format!("{}?ref=main", sample.file("README.md"));
    stranger.client.clone().header("Job-Token", &secret).get(&file).await.expect(404);
    by_header(&server, &secret).header("Authorization", "Basic cHJveHk6eA==").get(&file).await.expect(200);
    by_header(&server, &secret).header("Cookie", "_service_session=unknown").get(&file).await.expect(200);
}

async fn a_job_fetches_its_project_by_git_and_pushes_nothing(server: TestServer) {
    let (one, other) = (Sample::new(&server).await, Sample::new(&server).await);
    let (ada, secret) = job(&server, &one, "ada").await;
    server.enrol(other.id, ada.id, AccessLevel::Maintainer).await;
    let path = async |sample: &Sample<'_>| {
        let found = server.root().get(&format!("/projects/{}", sample.id)).await.expect(200).json();
        found["path_with_namespace"].as_str().expect("a path").to_owned()
    };
    let (own, foreign) = (path(&one).await, path(&other).await);
    let work = Work::empty();
    work.git(&["clone", "--quiet", &address(&server.base, "ci-job", &secret, &own), "own"]).await;
    let clone = work.below("own");
    clone.commit("new", "x").await;
    let said = clone.fails(&["push", "origin", "HEAD:refs/heads/from-job"]).await;
    assert!(said.contains("The token needs one of these scopes"), "{said}");
    let said = work.fails(&["clone", &address(&server.base, "ci-job", &secret, &foreign), "other"]).await;
    assert!(said.contains("could not be found"), "{said}");
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    let request = server.anonymous().request(Method::GET, &format!("//{own}.git/info/refs?service=git-upload-pack"));
    server.anonymous().send(request.basic_auth("x", Some(&secret))).await.expect(403);
}

on_every_database![
    a_job_reads_its_project_in_every_place_a_token_may_stand,
    where_jobs_may_not_go_their_token_is_overlooked,
    unknown_tokens_are_refused_also_where_nobody_needs_one,
    a_job_reaches_no_other_project,
    a_job_may_do_what_its_user_may,
    a_token_ends_with_its_time_its_job_its_user_and_its_project,
    only_the_digest_is_kept_and_what_has_ended_is_swept,
    another_token_beats_that_of_a_job_and_a_job_beats_a_proxy,
    a_job_fetches_its_project_by_git_and_pushes_nothing,
];
