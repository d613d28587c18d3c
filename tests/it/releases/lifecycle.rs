//! Creation, changes and deletion of releases.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::release;
use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn create_release_returns_all_attributes(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    let web_url = developer.get(&path).await.expect(200).json()["web_url"].clone();
    let web_url = web_url.as_str().expect("a URL");
    let link = json!({
        "name": "Package", "url": "https://example.com/a.deb", "direct_asset_path": "/a.deb", "link_type": "package",
    });
    let extra = json!({ "name": "First", "description": "## Notes", "assets": { "links": [link] } });
    let created = release(&developer, &path, "v1/a", extra).await;
    let page = format!("{web_url}/-/releases/v1%2Fa");
    let archive = |format: &str| format!("{web_url}/-/archive/v1%2Fa/engine-v1-a.{format}");
    let list = |kind: &str, state: &str| format!("{web_url}/-/{kind}?release_tag=v1%2Fa&scope=all&state={state}");
    let commit = project.id("main");
    let author = developer.get("/user").await.expect(200).json();
    assert_eq!(
        created,
        json!({
            "tag_name": "v1/a", "name": "First", "description": "## Notes", "created_at": created["created_at"],
            "released_at": created["created_at"], "upcoming_release": false, "historical_release": false,
            "author": {
                "id": author["id"], "username": "dev", "name": author["name"], "state": "active",
                "avatar_url": author["avatar_url"], "web_url": author["web_url"],
            },
            "commit": created["commit"], "commit_path": format!("/root/engine/-/commit/{commit}"),
            "tag_path": "/root/engine/-/tags/v1%2Fa",
            "assets": {
                "count": 5,
                "sources": [
                    { "format": "zip", "url": archive("zip") }, { "format": "tar.gz", "url": archive("tar.gz") },
                    { "format": "tar.bz2", "url": archive("tar.bz2") }, { "format": "tar", "url": archive("tar") },
                ],
                "links": [{
                    "id": created["assets"]["links"][0]["id"], "name": "Package", "url": "https://example.com/a.deb",
                    "direct_asset_url": format!("{page}/downloads/a.deb"), "link_type": "package", "external": true,
                }],
            },
            "evidences": [],
            "_links": {
                "self": page, "edit_url": format!("{page}/edit"), "closed_issues_url": list("issues", "closed"),
                "closed_merge_requests_url": list("merge_requests", "closed"),
                "merged_merge_requests_url": list("merge_requests", "merged"),
                "opened_issues_url": list("issues", "opened"),
                "opened_merge_requests_url": list("merge_requests", "opened"),
            },
        })
    );
    assert_eq!(created["commit"]["id"], commit);
    assert_eq!(developer.get(&format!("{path}/releases/v1%2Fa")).await.expect(200).json(), created);
    assert_eq!(developer.get(&format!("{path}/releases")).await.expect(200).json(), json!([created]));
    // The source archives exist.
    let host = web_url.find("/root/engine").expect("a path");
    for format in ["zip", "tar.gz", "tar.bz2", "tar"] {
        let archive = archive(format);
        developer.get(&format!("/{}", &archive[host..])).await.expect(200);
    }
}

async fn create_release_creates_lightweight_and_annotated_tags(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    let sha = project.id("feature/x");
    for revision in ["feature/x", &sha] {
        let extra = json!({ "ref": revision, "tag_message": " " });
        let created = release(&developer, &path, &format!("of-{}", revision.len()), extra).await;
        assert_eq!(created["commit"]["id"], sha);
    }
    let created = release(&developer, &path, "heavy", json!({ "tag_message": "Heavy" })).await;
    assert_eq!(created["commit"]["id"], project.id("main"));
    assert_eq!((&created["name"], &created["description"]), (&json!("heavy"), &Value::Null));
    let tag = developer.get(&project.url("/tags/heavy")).await.expect(200).json();
    assert_eq!(
        (&tag["message"], &tag["release"]),
        (&json!("Heavy"), &json!({ "tag_name": "heavy", "description": null }))
    );
    let tag = developer.get(&project.url("/tags/of-9")).await.expect(200).json();
    assert_eq!(tag["message"], Value::Null);
    let tagger = project.git(&["for-each-ref", "--format=%(taggername)", "refs/tags/heavy"]);
    assert_eq!(tagger, "Name of dev");
    // An existing tag stays where it is.
    project.git(&["tag", "old", "main~1"]);
    let created = release(&developer, &path, "old", json!({ "ref": "main", "tag_message": "New" })).await;
    assert_eq!(created["commit"]["id"], project.id("main~1"));
    let body = json!({ "tag_name": "bare", "description": "x" });
    project.git(&["tag", "bare", "main"]);
    developer.post(&format!("{path}/releases"), body).await.expect(201);
    let tags = developer.get(&project.url("/tags?order_by=name&sort=asc&search=bare")).await.expect(200).json();
    assert_eq!(tags[0]["release"], json!({ "tag_name": "bare", "description": "x" }));
    project.git(&["fsck", "--strict"]);
}

async fn create_release_rejects_invalid_requests(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let url = format!("{path}/releases");
    release(&root, &path, "v1", json!({})).await;
    let link = |name: &str, url: &str, path: &str| json!({ "name": name, "url": url, "filepath": path });
    let links = |links: Value| json!({ "tag_name": "v2", "ref": "main", "assets": { "links": links } });
    let good = "https://example.com/a";
    for (body, status, text) in [
        (json!({}), 400, "tag_name is missing"),
        (json!({ "tag_name": "v1" }), 409, "Release already exists"),
        (json!({ "tag_name": "v2" }), 422, "Ref is not specified"),
        (json!({ "tag_name": "v2", "ref": "" }), 422, "Ref is not specified"),
        (json!({ "tag_name": "v2", "ref": "none" }), 400, "Target none is invalid"),
        (json!({ "tag_name": "HEAD", "ref": "main" }), 400, "Tag name invalid"),
        (json!({ "tag_name": "a..b", "ref": "main" }), 400, "Tag name invalid"),
        (json!({ "tag_name": "", "ref": "main" }), 400, "Tag name invalid"),
        (json!({ "tag_name": "--all", "ref": "main" }), 400, "Tag name invalid"),
        (json!({ "tag_name": "v2", "ref": "main", "released_at": "soon" }), 400, "released_at is invalid"),
        (
            json!({ "tag_name": "v2", "ref": "main", "milestones": ["a"], "milestone_ids": [1] }),
            400,
            "Cannot specify milestones and milestone_ids at the same time",
        ),
        (json!({ "tag_name": "v2", "ref": "main", "milestones": ["a", "b"] }), 400, "Milestone(s) not found: a, b"),
        (json!({ "tag_name": "v2", "ref": "main", "milestone_ids": [4711] }), 400, "Milestone id(s) not found: 4711"),
        (links(json!([link(" ", good, "")])), 400, "Validation failed: Links name can't be blank"),
        (
            links(json!([link("a", "javascript:alert(1)", "")])),
            400,
            "Validation failed: Links url is blocked: Only allowed schemes are http, https, ftp",
        ),
        (links(json!([link("a", good, "a")])), 400, "Validation failed: Links filepath is in an invalid format"),
        (
            links(json!([link("a", good, "/a"), link("b", "https://example.com/b", "/a")])),
            400,
            "Validation failed: Links filepath has already been taken",
        ),
        (
            links(json!([link("a", good, "/a"), link("a", "https://example.com/b", "/b")])),
            400,
            "Validation failed: Links name has already been taken",
        ),
        (
            links(json!([link("a", good, "/a"), link("b", good, "/b")])),
            400,
            "Validation failed: Links url has already been taken",
        ),
    ] {
        let response = root.post(&url, body.clone()).await;
        assert_eq!((response.status, response.message().as_str()), (status, text), "{body}");
    }
    let long = json!({ "tag_name": "v2", "ref": "main", "name": "x".repeat(256) });
    root.post(&url, long).await.expect(400);
    // A refused release leaves no tag.
    assert_eq!(project.references("refs/tags"), ["v1"]);
    assert_eq!(root.get(&url).await.expect(200).pluck("tag_name"), ["v1"]);
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    let body = json!({ "tag_name": "v1", "ref": "main" });
    let response = root.post(&format!("/projects/{}/releases", empty.id), body).await;
    assert_eq!(response.expect(400).message(), "Target main is invalid");
}

async fn concurrent_creations_leave_one_release(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let url = format!("/projects/{}/releases", project.id);
    let link = json!({ "name": "a", "url": "https://example.com/a" });
    let body = json!({ "tag_name": "v1", "ref": "main", "assets": { "links": [link] } });
    let requests = (0..8).map(|_| root.post(&url, body.clone()));
    let responses = futures_util::future::join_all(requests).await;
    let count = |status: u16| responses.iter().filter(|response| response.status == status).count();
    assert_eq!((count(201), count(409)), (1, 7));
    let all = root.get(&url).await.expect(200).json();
    assert_eq!((all.as_array().map(Vec::len), &all[0]["assets"]["links"][0]["name"]), (Some(1), &json!("a")));
}

async fn update_release_changes_given_attributes(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    let created = release(&server.root(), &path, "v1", json!({ "name": "First", "description": "Old" })).await;
    let url = format!("{path}/releases/v1");
    let changed = developer.put(&url, json!({ "name": "Second" })).await.expect(200).json();
    let expected = |name: &str, value: Value| {
        let mut expected = created.clone();
        expected["name"] = json!("Second");
        expected[name] = value;
        expected
    };
    assert_eq!(changed, expected("name", json!("Second")));
    let body = json!({ "description": null });
    assert_eq!(developer.put(&url, body).await.expect(200).json(), expected("description", Value::Null));
    // The author remains.
    let body =
        json!({ "released_at": "2001-02-03T04:05:06+02:00", "description": "New", "tag_name": "v2", "ref": "x" });
    let changed = developer.put(&url, body).await.expect(200).json();
    assert_eq!(changed["released_at"], "2001-02-03T02:05:06.000Z");
    assert_eq!((&changed["historical_release"], &changed["tag_name"]), (&json!(true), &json!("v1")));
    assert_eq!(changed["author"]["username"], "root");
    let changed = developer.put(&url, json!({ "name": " " })).await.expect(200).json();
    assert_eq!(changed["name"], "v1");
    for body in [json!({}), json!({ "tag_name": "v2" })] {
        let response = developer.put(&url, body).await.expect(400);
        let text = "name, description, milestones, released_at are missing, at least one parameter must be provided";
        assert_eq!(response.message(), text);
    }
    let missing = developer.put(&format!("{path}/releases/none"), json!({ "name": "x" })).await;
    assert_eq!(missing.expect(404).message(), "404 Not found");
}

async fn delete_release_returns_release_and_leaves_tag(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    let created = release(&developer, &path, "v1", json!({})).await;
    let url = format!("{path}/releases/v1");
    let early = developer.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&url).await.expect(412);
    assert_eq!(developer.delete(&url).await.expect(200).json(), created);
    developer.delete(&url).await.expect(404);
    developer.get(&url).await.expect(404);
    let tag = developer.get(&project.url("/tags/v1")).await.expect(200).json();
    assert_eq!(tag["release"], Value::Null);
    release(&developer, &path, "v1", json!({})).await;
}

async fn release_remains_without_its_tag(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    release(&root, &path, "v1", json!({ "ref": "main~1" })).await;
    root.delete(&project.url("/tags/v1")).await.expect(204);
    let found = root.get(&format!("{path}/releases/v1")).await.expect(200).json();
    assert_eq!((&found["commit"], found.get("commit_path")), (&Value::Null, None));
    assert_eq!(root.get(&format!("{path}/releases")).await.expect(200).json(), json!([found]));
    // A release belongs to the name of the tag.
    root.post(&project.url("/tags"), json!({ "tag_name": "v1", "ref": "main" })).await.expect(201);
    let found = root.get(&format!("{path}/releases/v1")).await.expect(200).json();
    assert_eq!(found["commit"]["id"], project.id("main"));
    project.git(&["tag", "tree", "main^{tree}"]);
    let of_tree = release(&root, &path, "tree", json!({})).await;
    assert_eq!(of_tree["commit"], Value::Null);
}

async fn concurrent_deletion_of_tag_leaves_consistent_release(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let (url, tag) = (format!("/projects/{}/releases", project.id), project.url("/tags/v1"));
    for _ in 0..4 {
        project.git(&["tag", "-f", "v1", "main"]);
        let body = json!({ "tag_name": "v1", "ref": "main" });
        let (created, deleted) = tokio::join!(root.post(&url, body), root.delete(&tag));
        assert!(matches!(deleted.status, 204 | 404 | 409), "{}", deleted.status);
        assert!(matches!(created.status, 201), "{}: {}", created.status, created.message());
        let one = format!("{url}/v1");
        root.get(&one).await.expect(200);
        root.delete(&one).await.expect(200);
    }
}

async fn releases_follow_their_project(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    release(&root, &path, "v1", json!({})).await;
    let group = crate::support::spaces::group(&root, "team", json!({})).await;
    root.put(&format!("{path}/transfer"), json!({ "namespace": group })).await.expect(200);
    let found = root.get(&format!("{path}/releases/v1")).await.expect(200).json();
    assert_eq!(found["tag_path"], "/team/engine/-/tags/v1");
    let author = server.create_user("author").await;
    crate::support::spaces::join(&root, &path, author.id, 30).await;
    release(&author.client, &path, "v2", json!({})).await;
    root.delete(&format!("/users/{}", author.id)).await.expect(204);
    server.finish_jobs().await;
    let found = root.get(&format!("{path}/releases/v2")).await.expect(200).json();
    assert_eq!(found.get("author"), None);
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&path).await.expect(202);
    server.finish_jobs().await;
    root.get(&format!("{path}/releases")).await.expect(404);
}

async fn release_texts_are_returned_unchanged(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    for (tag, text) in [
        ("v+1%2F", "<script>alert(1)</script>"),
        ("ü-1", "'; DROP TABLE releases; --"),
        ("a&b=c", "line\r\n\u{202e}end 😀"),
    ] {
        let created = release(&root, &path, tag, json!({ "name": text, "description": text })).await;
        assert_eq!(
            (&created["tag_name"], &created["name"], &created["description"]),
            (&json!(tag), &json!(text), &json!(text))
        );
        let one = format!("{path}/releases/{}", segment(tag));
        assert_eq!(root.get(&one).await.expect(200).json(), created);
    }
    let nul = json!({ "tag_name": "v1", "ref": "main", "description": "a\u{0}b" });
    root.post(&format!("{path}/releases"), nul).await.expect(400);
    for tag in ["%00", "%FF"] {
        root.get(&format!("{path}/releases/{tag}")).await.expect(400);
    }
}

on_every_database![
    create_release_returns_all_attributes,
    create_release_creates_lightweight_and_annotated_tags,
    create_release_rejects_invalid_requests,
    concurrent_creations_leave_one_release,
    update_release_changes_given_attributes,
    delete_release_returns_release_and_leaves_tag,
    release_remains_without_its_tag,
    concurrent_deletion_of_tag_leaves_consistent_release,
    releases_follow_their_project,
    release_texts_are_returned_unchanged,
];
