//! Environments of projects.

use futures_util::future::join_all;
use sea_orm::{ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, deployments, environments, now};

use crate::delivery::deployments::deployment;
use crate::support::code::Project;
use crate::support::spaces::{id, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates an environment of `/projects/:id` and returns its ID.
pub async fn environment(client: &Client, path: &str, name: &str) -> i64 {
    let created = client.post(&format!("{path}/environments"), json!({ "name": name })).await;
    id(&created.expect(201).json())
}

async fn environment_lifecycle(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/environments", project(&root, "work", json!({})).await);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let body = json!({ "name": "staging", "external_url": "https://staging.example.com/a?b" });
    let created = root.post(&all, body).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "staging", "slug": "staging",
            "external_url": "https://staging.example.com/a?b", "state": "available",
        })
    );
    let one = format!("{all}/{}", created["id"]);
    let mut single = created.clone();
    single["last_deployment"] = json!(null);
    assert_eq!(root.get(&one).await.expect(200).json(), single);
    let blank = root.post(&all, json!({ "name": "Review/Topic", "external_url": " " })).await.expect(201).json();
    assert_eq!((&blank["external_url"], &blank["state"]), (&json!(null), &json!("available")));
    let slug = blank["slug"].as_str().expect("a slug");
    assert!(slug.starts_with("review-topic-") && slug.len() == 19, "{slug}");
    // Renaming does not change the slug.
    let changed = root.put(&one, json!({ "name": "pre production" })).await.expect(200).json();
    assert_eq!(
        changed,
        json!({
            "id": created["id"], "name": "pre production", "slug": "staging",
            "external_url": "https://staging.example.com/a?b",
            "state": "available",
        })
    );
    assert_eq!(root.put(&one, json!({})).await.expect(200).json(), changed);
    assert_eq!(root.put(&one, json!({ "external_url": null })).await.expect(200).json()["external_url"], json!(null));
    let again = root.post(&all, json!({ "name": "staging" })).await.expect(201).json();
    let slug = again["slug"].as_str().expect("a slug");
    assert!(slug.starts_with("staging-") && slug.len() == 14, "{slug}");
    let rejected = root.delete(&one).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - The environment must be stopped before it is deleted");
    for _ in 0..2 {
        assert_eq!(root.post(&format!("{one}/stop"), json!({})).await.expect(200).json()["state"], "stopped");
    }
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in [
        root.get(&one).await,
        root.delete(&one).await,
        root.put(&one, json!({})).await,
        root.post(&format!("{one}/stop"), json!({})).await,
    ] {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    assert_eq!(root.get(&all).await.expect(200).pluck("id"), [blank["id"].clone(), again["id"].clone()]);
}

async fn list_environments_supports_filters_and_pages(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "internal" })).await;
    let path = format!("/projects/{work}");
    let all = format!("{path}/environments");
    for name in ["production", "review/One", "review/two", "under_score", "percent"] {
        environment(&root, &path, name).await;
    }
    let stopped = environment(&root, &path, "gone").await;
    root.post(&format!("{all}/{stopped}/stop"), json!({})).await.expect(200);
    let names = async |query: &str| root.get(&format!("{all}{query}")).await.expect(200).pluck("name");
    for (query, found) in [
        ("", &["production", "review/One", "review/two", "under_score", "percent", "gone"][..]),
        ("?name=review/One", &["review/One"]),
        ("?name=review/one", &[]),
        ("?search=REVIEW", &["review/One", "review/two"]),
        ("?search=iew/o", &["review/One"]),
        ("?search=_", &["under_score"]),
        ("?search=%25", &[]),
        ("?states=stopped", &["gone"]),
        ("?states=available&search=e", &["review/One", "review/two", "under_score", "percent"]),
        ("?per_page=2&page=2", &["review/two", "under_score"]),
    ] {
        assert_eq!(names(query).await, found.iter().map(|name| json!(name)).collect::<Vec<_>>(), "{query}");
    }
    let both = root.get(&format!("{all}?name=a&search=b")).await.expect(400);
    assert_eq!(both.message(), "name, search cannot be used together");
    assert_eq!(root.get(&format!("{all}?states=x")).await.expect(400).message(), "states does not have a valid value");
    let simple = root.get("/projects?simple=true").await.expect(200).json()[0].clone();
    let listed = root.get(&all).await.expect(200).json();
    assert!(
        simple["id"] == work && listed.as_array().expect("a list").iter().all(|one| one["project"] == simple),
        "{listed}"
    );
    let before = server.statements();
    root.get(&format!("{all}?per_page=2")).await.expect(200);
    let many = server.statements() - before;
    let before = server.statements();
    root.get(&format!("{all}?per_page=1")).await.expect(200);
    assert_eq!(server.statements() - before, many);
}

async fn environment_writes_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let all = format!("{path}/environments");
    let one = format!("{all}/{}", environment(&root, &path, "production").await);
    environment(&root, &path, "staging").await;
    let original = root.get(&one).await.expect(200).json();
    let errors = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    let taken = json!(["has already been taken"]);
    assert_eq!(errors(json!({ "name": "production" })).await, json!({ "name": taken, "slug": taken }));
    let renamed = root.put(&one, json!({ "name": "staging" })).await.expect(400);
    assert_eq!(renamed.json()["message"], json!({ "name": taken }));
    assert_eq!(errors(json!({})).await, json!("name is missing"));
    for body in [json!({ "name": "a", "slug": "a" }), json!({ "name": "a", "slug": "" })] {
        assert_eq!(errors(body).await, json!("slug is automatically generated and cannot be changed"));
    }
    root.put(&one, json!({ "slug": "production" })).await.expect(400);
    let letters = "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', and spaces, but it cannot start or end with '/'";
    for name in ["/a", "a/", "a*", "ä", "a\nb", "a;b", "<a>"] {
        assert_eq!(errors(json!({ "name": name })).await, json!({ "name": [letters] }), "{name:?}");
        root.put(&one, json!({ "name": name })).await.expect(400);
    }
    assert_eq!(
        errors(json!({ "name": "a".repeat(256) })).await,
        json!({ "name": ["is too long (maximum is 255 characters)"] })
    );
    assert_eq!(errors(json!({ "name": " " })).await["name"][0], "can't be blank");
    let blocked = json!({ "external_url": ["is blocked: Only allowed schemes are http, https"] });
    for url in ["javascript:alert(1)", "data:text/html,x", "//h/x", "x", "https://h/ x", "https://"] {
        assert_eq!(errors(json!({ "name": "a", "external_url": url })).await, blocked, "{url}");
        root.put(&one, json!({ "external_url": url })).await.expect(400);
    }
    let long = format!("https://h/{}", "x".repeat(255));
    let text = json!({ "external_url": ["is too long (maximum is 255 characters)"] });
    assert_eq!(errors(json!({ "name": "a", "external_url": long })).await, text);
    root.post(&all, json!({ "name": "a\0b" })).await.expect(400);
    root.get(&format!("{all}/x")).await.expect(400);
    assert_eq!(root.get(&one).await.expect(200).json(), original);
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), [json!("production"), json!("staging")]);
}

async fn environments_require_reporter_to_read_developer_to_write(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    let path = format!("/projects/{}", work.id);
    let all = format!("{path}/environments");
    let non_member = server.create_user("stranger").await.client;
    let members = [
        (work.member("guest", AccessLevel::Guest).await, 403, 403),
        (work.member("reporter", AccessLevel::Reporter).await, 200, 403),
        (work.member("developer", AccessLevel::Developer).await, 200, 200),
        (work.member("maintainer", AccessLevel::Maintainer).await, 200, 200),
    ];
    let others = [(server.anonymous(), 401, 401), (non_member.clone(), 403, 403)];
    for (client, reads, writes) in others.iter().chain(&members) {
        let one = format!("{all}/{}", environment(&root, &path, "one").await);
        client.get(&all).await.expect(*reads);
        client.get(&one).await.expect(*reads);
        client.put(&one, json!({ "name": "two" })).await.expect(*writes);
        client.post(&format!("{one}/stop"), json!({})).await.expect(*writes);
        client.post(&all, json!({ "name": "three" })).await.expect(if *writes == 200 { 201 } else { *writes });
        client.delete(&one).await.expect(if *writes == 200 { 204 } else { *writes });
        for left in root.get(&all).await.expect(200).pluck("id") {
            root.post(&format!("{all}/{left}/stop"), json!({})).await.expect(200);
            root.delete(&format!("{all}/{left}")).await.expect(204);
        }
    }
    let one = format!("{all}/{}", environment(&root, &path, "one").await);
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    root.get(&one.replace(&path, &other)).await.expect(404);
    root.put(&one.replace(&path, &other), json!({ "name": "x" })).await.expect(404);
    non_member.get(&format!("{other}/environments")).await.expect(404);
    non_member.post(&format!("{other}/environments"), json!({ "name": "x" })).await.expect(404);
    let builds = async |level: &str| root.put(&path, json!({ "builds_access_level": level })).await.expect(200);
    builds("disabled").await;
    for response in [
        root.get(&all).await,
        root.get(&one).await,
        root.post(&all, json!({ "name": "x" })).await,
        root.put(&one, json!({})).await,
        root.post(&format!("{one}/stop"), json!({})).await,
        root.delete(&one).await,
    ] {
        assert_eq!(response.status, 403);
    }
    builds("enabled").await;
    work.archive().await;
    root.get(&one).await.expect(200);
    root.post(&format!("{one}/stop"), json!({})).await.expect(403);
}

async fn environment_shows_last_deployment_and_deletes_deployments(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let path = format!("/projects/{}", work.id);
    let first = deployment(&root, &work, "production", "success").await;
    deployment(&root, &work, "staging", "success").await;
    deployment(&root, &work, "production", "failed").await;
    let one = format!("{path}/environments/{}", first["environment"]["id"]);
    let mut expected = first.clone();
    expected.as_object_mut().expect("an object").remove("environment");
    assert_eq!(root.get(&one).await.expect(200).json()["last_deployment"], expected);
    root.post(&format!("{one}/stop"), json!({})).await.expect(200);
    assert_eq!(root.get(&one).await.expect(200).json()["last_deployment"], expected);
    // A deployment makes a stopped environment available again.
    let second = deployment(&root, &work, "production", "success").await;
    let shown = root.get(&one).await.expect(200).json();
    assert_eq!((&shown["state"], &shown["last_deployment"]["id"]), (&json!("available"), &second["id"]));
    root.post(&format!("{one}/stop"), json!({})).await.expect(200);
    root.delete(&one).await.expect(204);
    let left = root.get(&format!("{path}/deployments")).await.expect(200).json();
    assert!(left.as_array().expect("a list").len() == 1 && left[0]["environment"]["name"] == "staging", "{left}");
    let db = server.backend.database.write();
    storage::entities::projects::Entity::delete_by_id(work.id).exec(db).await.expect("a removal");
    assert_eq!(environments::Entity::find().all(db).await.expect("rows"), []);
    assert_eq!(deployments::Entity::find().all(db).await.expect("rows"), []);
}

async fn create_environment_rejects_more_than_1000_environments(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let rows = (1..1000).map(|number| environments::ActiveModel {
        project_id: Set(work),
        name: Set(format!("e{number}")),
        slug: Set(format!("e{number}")),
        state: Set(environments::EnvironmentState::Available),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    environments::Entity::insert_many(rows)
        .exec_without_returning(server.backend.database.write())
        .await
        .expect("environments");
    let all = format!("/projects/{work}/environments");
    let all = &all;
    let root = &root;
    let last = (0..3).map(async |number| root.post(all, json!({ "name": format!("last-{number}") })).await);
    let mut statuses: Vec<u16> = join_all(last).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
}

on_every_database![
    environment_lifecycle,
    list_environments_supports_filters_and_pages,
    environment_writes_reject_invalid_attributes,
    environments_require_reporter_to_read_developer_to_write,
    environment_shows_last_deployment_and_deletes_deployments,
    create_environment_rejects_more_than_1000_environments,
];
