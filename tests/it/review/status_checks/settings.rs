//! Creating, listing, updating and deleting external status checks.

use holdfast::config::ConfigOptions;
use sea_orm::{ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, now, status_checks};

use super::{Fixture, status_check};
use crate::support::code::Project;
use crate::support::spaces::id;
use crate::support::{TestServer, on_every_database};

async fn check_is_created_listed_updated_and_deleted_without_its_secret(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let (root, all) = (&fixture.root, fixture.url("/external_status_checks"));
    let branches = root.get(&fixture.url("/protected_branches")).await.expect(200).json();
    let main = &branches[0];
    let body = json!({
        "name": " Compliance ", "external_url": "https://checks.example.com/a?b=c", "shared_secret": "very secret",
        "protected_branch_ids": [main["id"], main["id"]],
    });
    let created = root.post(&all, body).await.expect(201);
    assert!(!created.text().contains("very secret"));
    let created = created.json();
    let branch = &created["protected_branches"][0];
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "Compliance", "project_id": fixture.project.id,
            "external_url": "https://checks.example.com/a?b=c", "hmac": true,
            "protected_branches": [{
                "id": main["id"], "project_id": fixture.project.id, "name": "main", "created_at": branch["created_at"],
                "updated_at": branch["updated_at"], "code_owner_approval_required": false,
            }],
        })
    );
    let other = fixture.check(json!({ "name": "Other", "external_url": "https://checks.example.com/" })).await;
    assert_eq!((&other["hmac"], &other["protected_branches"]), (&json!(false), &json!([])));
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created, other]));
    let second = root.get(&format!("{all}?page=2&per_page=1")).await.expect(200);
    assert_eq!((second.header("x-total"), second.json()), ("2", json!([other])));
    let stored = status_checks::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert!(!format!("{stored:?}").contains("very secret"), "{stored:?}");

    let one = format!("{all}/{}", created["id"]);
    // Nothing sent changes nothing, as clients save a resource without changes.
    assert_eq!(root.put(&one, json!({})).await.expect(200).json(), created);
    let renamed = root.put(&one, json!({ "name": "Security" })).await.expect(200).json();
    assert_eq!((&renamed["name"], &renamed["hmac"]), (&json!("Security"), &json!(true)));
    assert_eq!(renamed["protected_branches"], created["protected_branches"]);
    let body = json!({
        "external_url": "https://other.example.com/", "shared_secret": null, "protected_branch_ids": [],
    });
    let changed = root.put(&one, body).await.expect(200).json();
    assert_eq!((&changed["external_url"], &changed["hmac"]), (&json!("https://other.example.com/"), &json!(false)));
    assert_eq!(changed["protected_branches"], json!([]));
    for (secret, is_signed) in [("new secret", true), ("", false)] {
        let changed = root.put(&one, json!({ "shared_secret": secret })).await.expect(200).json();
        assert_eq!(changed["hmac"], is_signed, "{secret}");
    }
    let early = root.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    root.delete(&one).await.expect(404);
    root.put(&one, json!({ "name": "x" })).await.expect(404);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([other]));
}

async fn invalid_attributes_return_422_or_400(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let (root, all) = (&fixture.root, fixture.url("/external_status_checks"));
    let first = fixture.check_at("First", "https://checks.example.com/first").await;
    let second = fixture.check_at("Second", "https://checks.example.com/second").await;
    let elsewhere = Project::empty(&server, "other", Visibility::Public).await;
    let protected = format!("/projects/{}/protected_branches", elsewhere.id);
    let foreign = root.post(&protected, json!({ "name": "x" })).await.expect(201).json();
    let long = format!("https://checks.example.com/{}", "a".repeat(2048));
    for (change, status, message) in [
        (json!({ "name": "First" }), 422, Some("name has already been taken")),
        (json!({ "name": " " }), 400, Some("name is empty")),
        (json!({ "name": "" }), 400, None),
        (json!({ "name": "x".repeat(256) }), 400, None),
        (
            json!({ "external_url": "https://checks.example.com/first" }),
            422,
            Some("external_url has already been taken"),
        ),
        (json!({ "external_url": "ftp://checks.example.com/" }), 422, Some("external_url is invalid")),
        (json!({ "external_url": "checks" }), 422, Some("external_url is invalid")),
        (json!({ "external_url": "http://169.254.169.254/latest" }), 422, Some("external_url is invalid")),
        (json!({ "external_url": "https://a b.example.com/" }), 422, Some("external_url is invalid")),
        (
            json!({ "external_url": "https://user:password@checks.example.com/" }),
            422,
            Some("external_url must not contain a username or password"),
        ),
        (
            json!({ "external_url": "https://user@checks.example.com/" }),
            422,
            Some("external_url must not contain a username or password"),
        ),
        (json!({ "external_url": long }), 400, None),
        (json!({ "shared_secret": "x".repeat(256) }), 400, None),
        (
            json!({ "protected_branch_ids": [foreign["id"]] }),
            422,
            Some("protected_branch_ids must be IDs of protected branches of the project"),
        ),
        (
            json!({ "protected_branch_ids": [999_999] }),
            422,
            Some("protected_branch_ids must be IDs of protected branches of the project"),
        ),
        (json!({ "protected_branch_ids": (1..=201).collect::<Vec<i64>>() }), 400, None),
    ] {
        let mut body = json!({ "name": "Third", "external_url": "https://checks.example.com/third" });
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let created = root.post(&all, body).await.expect(status);
        let changed = root.put(&format!("{all}/{second}"), change.clone()).await.expect(status);
        if let Some(message) = message {
            assert_eq!((created.message(), changed.message()), (message.to_owned(), message.to_owned()), "{change}");
        }
    }
    for body in [json!({ "name": "x" }), json!({ "external_url": "https://checks.example.com/x" })] {
        root.post(&all, body).await.expect(400);
    }
    let listed = root.get(&all).await.expect(200).json();
    let ids: Vec<Value> = listed.as_array().expect("a list").iter().map(|check| check["id"].clone()).collect();
    assert_eq!(ids, [json!(first), json!(second)]);
    // The other project can use the same names and URLs.
    let body = json!({ "name": "First", "external_url": "https://checks.example.com/first" });
    root.post(&format!("/projects/{}/external_status_checks", elsewhere.id), body).await.expect(201);
}

async fn project_has_at_most_20_checks(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let base = fixture.url("");
    for number in 0..20 {
        status_check(&fixture.root, &base, &format!("c{number}")).await;
    }
    let body = json!({ "name": "last", "external_url": "https://checks.example.com/last" });
    let all = fixture.url("/external_status_checks");
    let refused = fixture.root.post(&all, body.clone()).await.expect(422);
    assert_eq!(refused.message(), "Maximum number of external status checks (20) exceeded");
    let listed = fixture.root.get(&all).await.expect(200).json();
    fixture.root.delete(&format!("{all}/{}", listed[0]["id"])).await.expect(204);
    fixture.root.post(&all, body).await.expect(201);
}

async fn only_maintainers_manage_checks_and_developers_read_statuses(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    let maintainer = fixture.project.member("mia", AccessLevel::Maintainer).await;
    let reporter = fixture.project.member("rob", AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await.client;
    let all = fixture.url("/external_status_checks");
    let one = format!("{all}/{check}");
    for client in [&fixture.ann, &reporter, &stranger] {
        client.get(&all).await.expect(403);
        client.post(&all, json!({ "name": "x", "external_url": "https://x.example.com/" })).await.expect(403);
        client.put(&one, json!({ "name": "x" })).await.expect(403);
        client.delete(&one).await.expect(403);
    }
    let anonymous = server.anonymous();
    anonymous.get(&all).await.expect(401);
    anonymous.get(&fixture.url("/merge_requests/1/status_checks")).await.expect(401);
    maintainer.get(&all).await.expect(200);
    maintainer.put(&one, json!({ "name": "Renamed" })).await.expect(200);
    let head = fixture.project.id("feature/x");
    for client in [&reporter, &stranger] {
        client.get(&fixture.url("/merge_requests/1/status_checks")).await.expect(403);
        fixture.report_with(client, check, &head, "passed").await.expect(403);
        fixture.retry(client, check).await.expect(403);
    }
    fixture.ann.get(&fixture.url("/merge_requests/2/status_checks")).await.expect(404);
    fixture.root.put(&fixture.url(""), json!({ "visibility": "private" })).await.expect(200);
    for path in [all, fixture.url("/merge_requests/1/status_checks")] {
        stranger.get(&path).await.expect(404);
    }
    fixture.root.post(&fixture.url("/archive"), json!({})).await.expect(201);
    fixture.root.put(&one, json!({ "name": "Archived" })).await.expect(403);
    fixture.report_with(&fixture.ann, check, &head, "passed").await.expect(403);
}

async fn branch_without_protection_no_longer_limits_its_check(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let protected = fixture.url("/protected_branches");
    let release = fixture.root.post(&protected, json!({ "name": "release/*" })).await.expect(201).json();
    let body = json!({
        "name": "Release", "external_url": "https://checks.example.com/", "protected_branch_ids": [release["id"]],
    });
    let check = id(&fixture.check(body).await);
    assert!(fixture.statuses().await.is_empty());
    let head = fixture.project.id("feature/x");
    fixture.report_with(&fixture.ann, check, &head, "passed").await.expect(404);
    fixture.retry(&fixture.ann, check).await.expect(404);
    fixture.root.delete(&format!("{protected}/release%2F*")).await.expect(204);
    assert_eq!(fixture.status().await, "pending");
}

async fn project_deletion_deletes_its_checks(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.report(check, "failed").await;
    fixture.root.delete(&fixture.url("")).await.expect(202);
    domain::lifecycle::deletion::projects::delete_permanently(&server.backend, fixture.project.id, None, None)
        .await
        .expect("a deletion");
    let left = status_checks::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert!(left.is_empty(), "{left:?}");
}

async fn lower_plan_has_no_checks_and_requires_none(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    for path in ["/external_status_checks", "/merge_requests/1/status_checks"] {
        fixture.root.get(&fixture.url(path)).await.expect(403);
    }
    let body = json!({ "name": "x", "external_url": "https://x.example.com/" });
    fixture.root.post(&fixture.url("/external_status_checks"), body).await.expect(403);
    // The check and the setting of a higher plan have no effect.
    let row = status_checks::ActiveModel {
        project_id: Set(fixture.project.id),
        name: Set("x".to_owned()),
        external_url: Set("https://x.example.com/".to_owned()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    status_checks::Entity::insert(row).exec(server.backend.database.write()).await.expect("a row");
    let required = Set(true);
    fixture.project.update(|row| row.only_allow_merge_if_all_status_checks_passed = required).await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.merge(json!({})).await.expect(200);
}

fn premium() -> ConfigOptions {
    ConfigOptions { plan: Some("premium".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    check_is_created_listed_updated_and_deleted_without_its_secret,
    invalid_attributes_return_422_or_400,
    project_has_at_most_20_checks,
    only_maintainers_manage_checks_and_developers_read_statuses,
    branch_without_protection_no_longer_limits_its_check,
    project_deletion_deletes_its_checks,
    lower_plan_has_no_checks_and_requires_none with premium(),
];
