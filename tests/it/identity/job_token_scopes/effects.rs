//! Which jobs of other projects a project accepts, and what they can do.

use reqwest::Method;
use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{allow_group, allow_project, scope};
use crate::git::access::{UPLOAD, advertised_refs};
use crate::identity::job_tokens::{HOUR, token, with_job_token};
use crate::registry::registry_protocol::Tool;
use crate::support::repository::Sample;
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// A project with code, and the job of another project.
struct Jobs<'a> {
    sample: Sample<'a>,
    /// The project of the job, in the group `top/sub`.
    of_job: i64,
    /// The user of the job, a Developer of both projects.
    user: TestUser,
    secret: String,
}

impl<'a> Jobs<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let sample = Sample::new(server).await;
        let of_job = server.insert_project_at("top/sub/job", Visibility::Private).await.id;
        let user = server.create_user("ada").await;
        for project in [sample.id, of_job] {
            server.insert_member(project, user.id, AccessLevel::Developer).await;
        }
        let (_, secret) = token(server, user.id, of_job, HOUR).await;
        Self { sample, of_job, user, secret }
    }

    /// Returns the status of reading a file of the project with the job token.
    async fn read(&self, server: &TestServer) -> u16 {
        let file = format!("{}?ref=main", self.sample.file("README.md"));
        with_job_token(server, &self.secret).get(&file).await.status
    }
}

async fn jobs_of_added_projects_can_use_the_project(server: TestServer) {
    let (root, jobs) = (server.root(), Jobs::new(&server).await);
    assert_eq!(jobs.read(&server).await, 404);
    allow_project(&root, jobs.sample.id, jobs.of_job).await;
    assert_eq!(jobs.read(&server).await, 200);
    // Only in this direction.
    let (_, own) = token(&server, jobs.user.id, jobs.sample.id, HOUR).await;
    with_job_token(&server, &own).get(&format!("/projects/{}/packages", jobs.of_job)).await.expect(404);
    root.delete(&format!("{}/allowlist/{}", scope(jobs.sample.id), jobs.of_job)).await.expect(204);
    assert_eq!(jobs.read(&server).await, 404);
}

async fn jobs_of_added_groups_and_their_subgroups_can_use_the_project(server: TestServer) {
    let (root, jobs) = (server.root(), Jobs::new(&server).await);
    let found = root.get("/groups/top").await.expect(200).json();
    let top = found["id"].as_i64().expect("an ID");
    let other = server.insert_group("other", Visibility::Private).await;
    allow_group(&root, jobs.sample.id, other).await;
    assert_eq!(jobs.read(&server).await, 404);
    allow_group(&root, jobs.sample.id, top).await;
    assert_eq!(jobs.read(&server).await, 200);
    // The groups at the time of the request count.
    root.delete(&format!("{}/groups_allowlist/{other}", scope(jobs.sample.id))).await.expect(204);
    root.put(&format!("/projects/{}/transfer", jobs.of_job), json!({ "namespace": "other" })).await.expect(200);
    assert_eq!(jobs.read(&server).await, 404);
}

async fn disabled_scope_accepts_all_jobs_with_the_permissions_of_their_users(server: TestServer) {
    let (root, jobs) = (server.root(), Jobs::new(&server).await);
    root.patch(&scope(jobs.sample.id), json!({ "enabled": false })).await.expect(204);
    assert_eq!(jobs.read(&server).await, 200);
    let member = format!("/projects/{}/members/{}", jobs.sample.id, jobs.user.id);
    root.put(&member, json!({ "access_level": 10 })).await.expect(200);
    assert_eq!(jobs.read(&server).await, 403);
    root.delete(&member).await.expect(204);
    assert_eq!(jobs.read(&server).await, 404);
    root.patch(&scope(jobs.sample.id), json!({ "enabled": true })).await.expect(204);
    jobs.sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    assert_eq!(jobs.read(&server).await, 404);
}

async fn jobs_of_other_projects_fetch_code_but_do_not_push_images(server: TestServer) {
    let (root, jobs) = (server.root(), Jobs::new(&server).await);
    let found = root.get(&format!("/projects/{}", jobs.sample.id)).await.expect(200).json();
    let path = found["path_with_namespace"].as_str().expect("a path").to_owned();
    let credentials = Some(("ci-job", jobs.secret.as_str()));
    advertised_refs(&server, &path, UPLOAD, credentials).await.expect(404);
    allow_project(&root, jobs.sample.id, jobs.of_job).await;
    advertised_refs(&server, &path, UPLOAD, credentials).await.expect(200);
    let image = Tool::of_root(&server, &path).await.push_image("latest", 1).await;
    let tool = Tool::new(&server.base, credentials, &path, "*").await;
    tool.client.get(&tool.path("manifests/latest")).await.expect(200);
    tool.client.delete(&tool.path(&format!("manifests/{}", image.digest))).await.expect(403);
    tool.client.delete(&tool.path("manifests/latest")).await.expect(403);
    tool.send(Method::POST, &tool.path("blobs/uploads/"), &[], Vec::new()).await.expect(403);
}

async fn jobs_of_other_projects_publish_packages(server: TestServer) {
    let (root, jobs) = (server.root(), Jobs::new(&server).await);
    let file = format!("/projects/{}/packages/generic/tool/1.0/tool.bin", jobs.sample.id);
    let upload = async || {
        let client = with_job_token(&server, &jobs.secret);
        client.send(client.request(Method::PUT, &file).body("x")).await.status
    };
    assert_eq!(upload().await, 404);
    allow_project(&root, jobs.sample.id, jobs.of_job).await;
    assert_eq!(upload().await, 201);
    with_job_token(&server, &jobs.secret).get(&file).await.expect(200);
}

on_every_database![
    jobs_of_added_projects_can_use_the_project,
    jobs_of_added_groups_and_their_subgroups_can_use_the_project,
    disabled_scope_accepts_all_jobs_with_the_permissions_of_their_users,
    jobs_of_other_projects_fetch_code_but_do_not_push_images,
    jobs_of_other_projects_publish_packages,
];
