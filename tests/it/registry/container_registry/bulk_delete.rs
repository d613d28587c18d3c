//! Bulk deletion of tags.

use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use domain::registry::jobs::delete_registry_tags::{CleanupRules, DeleteRegistryTags};
use domain::registry::tag_cleanup;
use futures_util::future::join_all;
use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use serde_json::{Value, json};
use storage::database::{Database, DatabaseOptions};
use storage::entities::{now, registry_repositories, registry_tags};
use storage::jobs;

use super::{image, insert_images, label, tag_row, tags};
use crate::support::client::segment;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Error message of a second request within the hour.
const TOO_SOON: &str =
    "This request has already been made. You can run this at most once an hour for a given container repository";

/// A repository with tags. Each image has an age in hours, or no creation time.
struct TaggedRepository<'a> {
    server: &'a TestServer,
    project: i64,
    id: i64,
}

impl<'a> TaggedRepository<'a> {
    async fn new(server: &'a TestServer, images: &[(&str, Option<i64>)]) -> Self {
        let project = project(&server.root(), "work", json!({})).await;
        let mut id = 0;
        for (tag, hours) in images {
            let created = hours.map(|hours| (Utc::now() - TimeDelta::hours(hours)).to_rfc3339());
            id = image(server, project, "web", tag, created.as_deref()).await;
        }
        // Runs the jobs that the new project enqueued.
        server.finish_jobs().await;
        Self { server, project, id }
    }

    fn path(&self) -> String {
        format!("/projects/{}/registry/repositories/{}/tags", self.project, self.id)
    }

    async fn delete_tags(&self, query: &[(&str, &str)]) -> ApiResponse {
        let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
        self.server.root().delete(&format!("{}?{}", self.path(), pairs.join("&"))).await
    }

    /// Deletes tags, expires the rate limit and returns the remaining tags.
    async fn delete_and_list(&self, query: &[(&str, &str)]) -> Vec<String> {
        let response = self.delete_tags(query).await.expect(202);
        assert_eq!(response.json(), json!({ "message": "202 Accepted" }));
        self.server.finish_jobs().await;
        self.expire_rate_limit().await;
        tags(&self.server.root(), self.project, self.id).await
    }

    async fn expire_rate_limit(&self) {
        let earlier = now() - TimeDelta::hours(1);
        registry_repositories::Entity::update_many()
            .col_expr(registry_repositories::Column::TagsClearedAt, Expr::value(earlier))
            .filter(registry_repositories::Column::Id.eq(self.id))
            .exec(self.server.backend.database.write())
            .await
            .expect("an hour");
        self.server.backend.database.invalidate();
    }

    async fn rejected(&self, query: &[(&str, &str)]) -> String {
        let response = self.delete_tags(query).await.expect(400);
        let body = response.json();
        assert_eq!(body["message"], body["error"], "parameter errors must be under both keys");
        response.message()
    }
}

async fn delete_tags_matches_whole_names_and_keeps_latest(server: TestServer) {
    let repository = TaggedRepository::new(
        &server,
        &[("latest", Some(1)), ("v1", Some(1)), ("v1.0", Some(1)), ("xv1", Some(1)), ("LATEST", None)],
    )
    .await;
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", "v1")]).await, ["LATEST", "latest", "v1.0", "xv1"]);
    assert_eq!(
        repository.delete_and_list(&[("name_regex_delete", "1|nothing")]).await,
        ["LATEST", "latest", "v1.0", "xv1"]
    );
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", "")]).await, ["LATEST", "latest", "v1.0", "xv1"]);
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", r"x.*|\w\d\.\d")]).await, ["LATEST", "latest"]);
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", "latest")]).await, ["LATEST", "latest"]);
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", ".*")]).await, ["latest"]);
}

async fn delete_tags_uses_name_regex_without_name_regex_delete(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("a", None), ("b", None), ("c", None)]).await;
    assert_eq!(repository.delete_and_list(&[("name_regex", "a")]).await, ["b", "c"]);
    assert_eq!(repository.delete_and_list(&[("name_regex", ".*"), ("name_regex_delete", "b")]).await, ["c"]);
}

async fn delete_tags_honors_name_regex_keep(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("v1", None), ("v2", None), ("v10", None), ("w", None)]).await;
    assert_eq!(
        repository.delete_and_list(&[("name_regex_delete", ".*"), ("name_regex_keep", ".*")]).await,
        ["v1", "v10", "v2", "w"]
    );
    assert_eq!(
        repository.delete_and_list(&[("name_regex_delete", "v.*"), ("name_regex_keep", "v1")]).await,
        ["v1", "w"]
    );
    // Literal characters in RE2 must not be read as set operators of Rust.
    for (keep, instead) in
        [("v[0-9--1]*", r"`\-\-`"), ("v[[0-9]]*", r"`\[`"), ("v[0-9&&2]*", r"`\&\&`"), ("v[0-9~~1]*", r"`\~\~`")]
    {
        let message = repository.rejected(&[("name_regex_delete", ".*"), ("name_regex_keep", keep)]).await;
        assert!(
            message.starts_with("name_regex_keep is an invalid regexp: ") && message.ends_with(instead),
            "{message}"
        );
    }
    // An empty expression matches only an empty name.
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", ".*"), ("name_regex_keep", "")]).await, [""; 0]);
}

async fn delete_tags_keep_n_keeps_newest_images(server: TestServer) {
    // The push order differs from the creation order.
    let images = [
        ("v3", Some(3)),
        ("v1", Some(1)),
        ("other", Some(0)),
        ("v2", Some(2)),
        ("odd", None),
        ("v4", Some(4)),
        ("latest", Some(0)),
    ];
    let repository = TaggedRepository::new(&server, &images).await;
    let delete = ("name_regex_delete", "v.*|odd|latest");
    assert_eq!(repository.delete_and_list(&[delete, ("keep_n", "9")]).await.len(), 7);
    // `odd` has no creation time and counts as the newest. `latest` is not counted.
    assert_eq!(repository.delete_and_list(&[delete, ("keep_n", "3")]).await, ["latest", "odd", "other", "v1", "v2"]);
    assert_eq!(repository.delete_and_list(&[delete, ("keep_n", "1")]).await, ["latest", "odd", "other"]);
    assert_eq!(repository.delete_and_list(&[delete, ("keep_n", "0")]).await, ["latest", "other"]);
}

async fn delete_tags_older_than_keeps_newer_images(server: TestServer) {
    let images =
        [("h1", Some(1)), ("h30", Some(30)), ("d10", Some(240)), ("d20", Some(480)), ("d40", Some(960)), ("odd", None)];
    let repository = TaggedRepository::new(&server, &images).await;
    let delete = ("name_regex_delete", ".*");
    assert_eq!(
        repository.delete_and_list(&[delete, ("older_than", "1month")]).await,
        ["d10", "d20", "h1", "h30", "odd"]
    );
    // `keep_n` is applied before `older_than`.
    assert_eq!(
        repository.delete_and_list(&[delete, ("older_than", "2 weeks"), ("keep_n", "5")]).await,
        ["d10", "d20", "h1", "h30", "odd"]
    );
    assert_eq!(repository.delete_and_list(&[delete, ("older_than", "2 weeks")]).await, ["d10", "h1", "h30", "odd"]);
    assert_eq!(repository.delete_and_list(&[delete, ("older_than", "1d")]).await, ["h1", "odd"]);
    assert_eq!(repository.delete_and_list(&[delete, ("older_than", "1 minute")]).await, ["odd"]);
    assert_eq!(repository.delete_and_list(&[delete, ("older_than", "1h")]).await, ["odd"]);
}

async fn invalid_tag_deletion_is_rejected_and_not_rate_limited(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("v1", Some(1))]).await;
    let missing = "name_regex_delete, name_regex are missing, at least one parameter must be provided";
    assert_eq!(repository.rejected(&[]).await, missing);
    assert_eq!(repository.rejected(&[("keep_n", "1"), ("name_regex_keep", "a")]).await, missing);
    for name in ["name_regex_delete", "name_regex", "name_regex_keep"] {
        for bad in [
            "*",
            "(",
            "[",
            "(?=a)",
            r"(a)\1",
            r"\",
            "a)(b",
            "(?x)a#",
            "((a{1000}){1000}){1000}",
            "a\u{0}",
            "\u{1F4A9}(",
            "[z-a]",
            "a{2,1}",
            "(?P<n>a)(?P<n>b)",
            "\\pQ",
            "[a[b]]",
            "[a-z--b]",
            "[a&&b]",
            "[a~~b]",
        ] {
            let text = repository
                .rejected(&[("name_regex_delete", "a"), (name, bad)][usize::from(name == "name_regex_delete")..])
                .await;
            let begins = if bad.contains('\0') {
                format!("{name} is invalid")
            } else {
                format!("{name} is an invalid regexp: ")
            };
            assert!(text.starts_with(&begins), "{bad}: {text}");
        }
        let long = "a".repeat(1_025);
        let text = repository
            .rejected(&[("name_regex_delete", "a"), (name, &long)][usize::from(name == "name_regex_delete")..])
            .await;
        assert_eq!(text, format!("{name} is too long (maximum is 1024 characters)"));
    }
    assert_eq!(repository.rejected(&[("name_regex_delete", "a"), ("keep_n", "x")]).await, "keep_n is invalid");
    assert_eq!(repository.rejected(&[("name_regex_delete", "a"), ("keep_n", "1.5")]).await, "keep_n is invalid");
    assert_eq!(
        repository.rejected(&[("name_regex_delete", "a"), ("keep_n", "-1")]).await,
        "keep_n does not have a valid value"
    );
    for span in ["", "soon", "7", "0h", "-1d", "1 fortnight", "9999999999y", "1d ago"] {
        assert_eq!(
            repository.rejected(&[("name_regex_delete", "a"), ("older_than", span)]).await,
            "older_than is invalid",
            "{span}"
        );
    }
    let all =
        repository.rejected(&[("name_regex_delete", "("), ("name_regex_keep", ")"), ("older_than", "soon")]).await;
    assert_eq!(
        all,
        "name_regex_delete is an invalid regexp: unclosed group, name_regex_keep is an invalid regexp: unopened group, older_than is invalid"
    );
    let elsewhere = format!("/projects/{}/registry/repositories/999/tags?name_regex_delete=.*", repository.project);
    assert_eq!(server.root().delete(&elsewhere).await.expect(404).message(), "404 Not found");
    // Rejected requests do not count for the rate limit.
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", ".*")]).await, [""; 0]);
}

async fn delete_tags_accepts_parameters_in_body(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("a", None), ("b", None), ("c", None)]).await;
    let root = server.root();
    let body = json!({ "name_regex_delete": "[ab]", "name_regex_keep": "b", "keep_n": 0 });
    root.send(root.request(Method::DELETE, &repository.path()).json(&body)).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(tags(&root, repository.project, repository.id).await, ["b", "c"]);
    repository.expire_rate_limit().await;
    root.send(root.request(Method::DELETE, &repository.path()).form(&[("name_regex_delete", "b")])).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(tags(&root, repository.project, repository.id).await, ["c"]);
    repository.expire_rate_limit().await;
    let nested = json!({ "name_regex_delete": { "a": ["b"] } });
    root.send(root.request(Method::DELETE, &repository.path()).json(&nested)).await.expect(400);
}

async fn delete_tags_is_limited_to_once_an_hour_per_repository(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("a", None), ("b", None)]).await;
    let other = image(&server, repository.project, "other", "a", None).await;
    let responses = join_all((0..8).map(|_| repository.delete_tags(&[("name_regex_delete", "a")]))).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 400, 400, 400, 400, 400, 400, 400]);
    for response in responses.iter().filter(|response| response.status == 400) {
        assert_eq!(response.json(), json!({ "message": TOO_SOON, "error": TOO_SOON }));
    }
    let jobs = jobs::backlog(server.backend.database.read()).await.expect("the jobs");
    assert_eq!(jobs.waiting, 1, "one request must succeed");
    server.finish_jobs().await;
    // The limit applies to all callers and parameters.
    assert_eq!(repository.delete_tags(&[("name_regex_delete", "b")]).await.expect(400).message(), TOO_SOON);
    let path = format!("/projects/{}/registry/repositories/{other}/tags?name_regex_delete=.*", repository.project);
    server.root().delete(&path).await.expect(202);
    let nearly = registry_repositories::Entity::find_by_id(repository.id).one(server.backend.database.read()).await;
    let nearly = nearly.expect("the database").expect("the row");
    let cleared_at = nearly.tags_cleared_at.expect("a time");
    let mut nearly = nearly.into_active_model();
    nearly.tags_cleared_at = Set(Some(cleared_at - TimeDelta::minutes(59)));
    nearly.update(server.backend.database.write()).await.expect("a change");
    assert_eq!(repository.delete_tags(&[("name_regex_delete", "b")]).await.expect(400).message(), TOO_SOON);
    repository.expire_rate_limit().await;
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", "b")]).await, [""; 0]);
}

async fn delete_tags_keeps_tags_pushed_after_request(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("a", Some(9)), ("b", Some(9)), ("c", Some(9))]).await;
    repository.delete_tags(&[("name_regex_delete", ".*")]).await.expect(202);
    image(&server, repository.project, "web", "late", Some("2020-01-01T00:00:00Z")).await;
    // This tag points to another manifest by then.
    let mut moved = tag_row(&server, repository.id, "b").await.into_active_model();
    moved.updated_at = Set(now());
    moved.update(server.backend.database.write()).await.expect("a push");
    server.finish_jobs().await;
    assert_eq!(tags(&server.root(), repository.project, repository.id).await, ["b", "late"]);
}

async fn delete_tags_job_ignores_deleted_repository(server: TestServer) {
    let repository = TaggedRepository::new(&server, &[("a", None)]).await;
    repository.delete_tags(&[("name_regex_delete", ".*")]).await.expect(202);
    let one = format!("/projects/{}/registry/repositories/{}", repository.project, repository.id);
    server.root().delete(&one).await.expect(202);
    server.finish_jobs().await;
    for repository_id in [repository.id, 999] {
        let wish = CleanupRules { delete: ".*".to_owned(), keep: None, keep_n: None, before: None };
        let job = DeleteRegistryTags { repository_id, wish, asked_at: now() };
        tag_cleanup::run_job(server.backend.clone(), job).await.expect("nothing to do");
    }
    let backlog = jobs::backlog(server.backend.database.read()).await.expect("the jobs");
    assert_eq!((backlog.waiting, backlog.running, backlog.dead), (0, 0, 0));
}

async fn deleted_last_tag_marks_manifest_untagged(server: TestServer) {
    use storage::entities::registry_manifests::Entity;
    let repository = TaggedRepository::new(&server, &[("a", None), ("b", None)]).await;
    let twice = tag_row(&server, repository.id, "a").await.manifest_id;
    let once = tag_row(&server, repository.id, "b").await.manifest_id;
    label(&server, repository.id, "kept", twice).await;
    assert_eq!(repository.delete_and_list(&[("name_regex_delete", "a|b")]).await, ["kept"]);
    for (id, left) in [(twice, true), (once, false)] {
        let row = Entity::find_by_id(id).one(server.backend.database.read()).await;
        assert_eq!(row.expect("the database").expect("a manifest").untagged_since.is_none(), left);
    }
}

on_every_database![
    delete_tags_matches_whole_names_and_keeps_latest,
    delete_tags_uses_name_regex_without_name_regex_delete,
    delete_tags_honors_name_regex_keep,
    delete_tags_keep_n_keeps_newest_images,
    delete_tags_older_than_keeps_newer_images,
    invalid_tag_deletion_is_rejected_and_not_rate_limited,
    delete_tags_accepts_parameters_in_body,
    delete_tags_is_limited_to_once_an_hour_per_repository,
    delete_tags_keeps_tags_pushed_after_request,
    delete_tags_job_ignores_deleted_repository,
    deleted_last_tag_marks_manifest_untagged,
];

/// Number of tags in the test that kills the worker.
const MANY: u32 = 12_000;

async fn killed_tag_deletion_resumes(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let work = project(&root, "work", json!({})).await;
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.unwrap();
    let row = registry_repositories::ActiveModel {
        project_id: Set(work),
        name: Set("web".to_owned()),
        created_at: Set(now()),
        ..Default::default()
    };
    let id = row.insert(database.write()).await.unwrap().id;
    insert_images(database.write(), id, MANY).await;
    let left = async || registry_tags::of_repository(id).count(database.read()).await.unwrap();
    assert_eq!(left().await, u64::from(MANY) + 1);
    let tags = format!("/projects/{work}/registry/repositories/{id}/tags");
    root.delete(&format!("{tags}?name_regex_delete=v.*&keep_n=5&older_than=8h")).await.expect(202);
    let mut killed = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    while killed < 2 {
        let before = left().await;
        let mut worker = site.command(&["worker"]).spawn().unwrap();
        while left().await == before {
            assert!(Instant::now() < deadline && worker.try_wait().unwrap().is_none(), "{before} are left");
            tokio::task::yield_now().await;
        }
        worker.kill().await.unwrap();
        assert!(left().await > 9, "the job ended before it was killed");
        killed += 1;
        // Requeues the jobs of the killed worker, as a sole server does when it starts.
        jobs::requeue_abandoned(&database).await.unwrap();
    }
    let mut worker = site.command(&["worker"]).spawn().unwrap();
    loop {
        let backlog = jobs::backlog(database.read()).await.unwrap();
        assert_eq!(backlog.dead, 0);
        if backlog.waiting + backlog.running == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{backlog:?}, {} are left", left().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.kill().await.unwrap();
    // The five newest tags, the tags newer than eight hours, and `latest`.
    let names = root.get(&tags).await.expect(200).pluck("name");
    let mut remaining: Vec<Value> = (0..=7).map(|number| json!(format!("v{number}"))).collect();
    remaining.insert(0, json!("latest"));
    assert_eq!(names, remaining);
    database.close().await.unwrap();
    server.stop().await;
}

on_every_site![killed_tag_deletion_resumes,];
