//! Tags.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::client::segment;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

/// Creates a project with an annotated tag `v1.0.0` on the first commit, `light` on the second and `tree` on a tree.
async fn project_with_tags(server: &TestServer, visibility: Visibility) -> Project<'_> {
    let project = Project::with_commits(server, "engine", visibility).await;
    project.git(&["tag", "-a", "-m", "First release\n\nIt adds.", "v1.0.0", "main~1"]);
    project.git(&["tag", "light", "main"]);
    project.git(&["tag", "tree", "main^{tree}"]);
    project
}

async fn get_annotated_tag_returns_message_and_commit(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Public).await;
    let tag = server.anonymous().get(&project.url("/tags/v1.0.0")).await.expect(200).json();
    assert_eq!(tag["name"], "v1.0.0");
    assert_eq!(tag["message"], "First release\n\nIt adds.");
    assert_eq!(tag["target"], project.id("refs/tags/v1.0.0"));
    assert_eq!(tag["commit"]["id"], project.id("main~1"));
    assert_eq!(tag["commit"]["title"], "Change main");
    assert_eq!((&tag["release"], &tag["protected"]), (&Value::Null, &json!(false)));
}

async fn get_lightweight_tag_returns_commit_as_target(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Public).await;
    let tag = server.anonymous().get(&project.url("/tags/light")).await.expect(200).json();
    let id = project.id("main");
    assert_eq!((&tag["message"], &tag["target"]), (&Value::Null, &json!(id)));
    assert_eq!(tag["commit"]["id"], id);
}

async fn get_tag_of_tree_returns_null_commit(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Public).await;
    let tag = server.anonymous().get(&project.url("/tags/tree")).await.expect(200).json();
    assert_eq!((&tag["commit"], &tag["target"]), (&Value::Null, &json!(project.id("main^{tree}"))));
    server.root().delete(&project.url("/tags/tree")).await.expect(204);
}

async fn list_tags_sorts_by_time_or_name(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Public).await;
    project.git(&["tag", "alpha", "feature/x"]);
    for (query, expected) in [
        ("", ["alpha", "light", "v1.0.0", "tree"]),
        ("?order_by=updated&sort=asc", ["tree", "v1.0.0", "light", "alpha"]),
        ("?order_by=name", ["v1.0.0", "tree", "light", "alpha"]),
        ("?order_by=name&sort=asc", ["alpha", "light", "tree", "v1.0.0"]),
    ] {
        let answer = server.anonymous().get(&project.url(&format!("/tags{query}"))).await.expect(200);
        assert_eq!(answer.pluck("name"), expected, "{query}");
    }
    for query in ["?order_by=size", "?sort=up", "?search=%00", "?page=x"] {
        server.anonymous().get(&project.url(&format!("/tags{query}"))).await.expect(400);
    }
}

async fn list_tags_supports_search_and_pagination(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Public).await;
    let client = server.anonymous();
    for (search, expected) in [("%5Ev1", vec!["v1.0.0"]), ("ee%24", vec!["tree"]), ("zzz", vec![])] {
        let answer = client.get(&project.url(&format!("/tags?search={search}"))).await.expect(200);
        assert_eq!(answer.pluck("name"), expected);
    }
    let answer = client.get(&project.url("/tags?order_by=name&sort=asc&per_page=2&page=2")).await.expect(200);
    assert_eq!(answer.pluck("name"), ["v1.0.0"]);
    assert_eq!((answer.header("X-Total"), answer.header("X-Prev-Page")), ("3", "1"));
    let far = client.get(&project.url("/tags?page=1000000000000000000")).await.expect(200);
    assert_eq!(far.json(), json!([]));
}

async fn list_tags_uses_constant_number_of_statements(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Private).await;
    let client = server.root();
    let url = project.url("/tags?per_page=100");
    client.get(&url).await.expect(200);
    let before = server.statements();
    assert_eq!(client.get(&project.url("/tags?per_page=1")).await.pluck("name").len(), 1);
    let short = server.statements() - before;
    for number in 0..20 {
        project.git(&["tag", &format!("more-{number}"), "main"]);
    }
    let before = server.statements();
    assert_eq!(client.get(&url).await.pluck("name").len(), 23);
    assert_eq!(server.statements() - before, short);
    assert!(short <= 6, "{short} statements");
}

async fn get_missing_tag_returns_404(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Public).await;
    let long = "x".repeat(300);
    for name in ["none", "--upload-pack=x", "a..b", "refs/tags/light", "HEAD", "main", &long] {
        let answer = server.anonymous().get(&project.url(&format!("/tags/{}", segment(name)))).await;
        assert_eq!(answer.expect(404).message(), "404 Tag Not Found", "{name}");
    }
    for name in ["a%00b", "%FF"] {
        server.anonymous().get(&project.url(&format!("/tags/{name}"))).await.expect(400);
    }
    let empty = Project::empty(&server, "empty", Visibility::Public).await;
    assert_eq!(server.anonymous().get(&empty.url("/tags")).await.expect(200).json(), json!([]));
}

async fn create_tag_with_and_without_message(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let url = project.url("/tags");
    let body = json!({ "tag_name": "release/1", "ref": "feature/x", "message": "One\n\nBody" });
    let tag = developer.post(&url, body).await.expect(201).json();
    assert_eq!((&tag["name"], &tag["message"]), (&json!("release/1"), &json!("One\n\nBody")));
    assert_eq!(tag["commit"]["id"], project.id("feature/x"));
    assert_eq!(tag["target"], project.id("refs/tags/release/1"));
    let tagger = project.git(&["for-each-ref", "--format=%(taggername) %(taggeremail)", "refs/tags/release/1"]);
    assert_eq!(tagger, "Name of dev <dev@example.com>");
    for (name, message) in [("bare", None), ("blank", Some(" \n"))] {
        let body = json!({ "tag_name": name, "ref": "main", "message": message });
        let tag = developer.post(&url, body).await.expect(201).json();
        assert_eq!((&tag["message"], &tag["target"]), (&Value::Null, &json!(project.id("main"))));
    }
    assert_eq!(project.references("refs/tags"), ["bare", "blank", "release/1"]);
    project.git(&["fsck", "--strict"]);
    let read = developer.get(&project.url("/tags/release%2F1")).await.expect(200).json();
    assert_eq!(read, tag);
}

async fn create_tag_rejects_invalid_requests(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Private).await;
    let url = project.url("/tags");
    let long = "x".repeat(300);
    for (name, revision, text) in [
        ("light", "main", "Tag light already exists"),
        ("light/below", "main", "Tag light/below already exists"),
        ("new", "none", "Target none is invalid"),
        ("new", "--all", "Target --all is invalid"),
        ("new", "tree", "Target tree is invalid"),
        ("a..b", "main", "Tag name invalid"),
        ("--upload-pack=x", "main", "Tag name invalid"),
        ("refs/tags/x", "main", "Tag name invalid"),
        ("a b", "main", "Tag name invalid"),
        (&long, "main", "Tag name invalid"),
    ] {
        let body = json!({ "tag_name": name, "ref": revision });
        assert_eq!(server.root().post(&url, body).await.expect(400).message(), text);
    }
    for body in [
        json!({}),
        json!({ "tag_name": "x" }),
        json!({ "tag_name": "", "ref": "main" }),
        json!({ "tag_name": { "a": 1 }, "ref": "main" }),
        json!({ "tag_name": "a\0b", "ref": "main" }),
    ] {
        server.root().post(&url, body).await.expect(400);
    }
    let large = json!({ "tag_name": "x", "ref": "main", "message": "x".repeat(2 << 20) });
    server.root().post(&url, large).await.expect(413);
    assert_eq!(project.references("refs/tags"), ["light", "tree", "v1.0.0"]);
}

async fn delete_tag_respects_if_unmodified_since(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let url = project.url("/tags/light");
    let early = developer.clone().header("If-Unmodified-Since", "Sun, 13 Sep 2020 12:28:19 GMT");
    assert_eq!(early.delete(&url).await.expect(412).message(), "412 Precondition Failed");
    let late = developer.clone().header("If-Unmodified-Since", "Sun, 13 Sep 2020 12:28:20 GMT");
    late.delete(&url).await.expect(204);
    assert_eq!(developer.delete(&url).await.expect(404).message(), "404 Tag Not Found");
    developer.delete(&project.url("/tags/v1.0.0")).await.expect(204);
    assert_eq!(project.references("refs/tags"), ["tree"]);
    developer.delete(&project.url("/tags/%FF")).await.expect(400);
}

async fn locked_tag_returns_409(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Private).await;
    let directory = project.git(&["rev-parse", "--absolute-git-dir"]);
    for name in ["light", "new"] {
        std::fs::write(format!("{directory}/refs/tags/{name}.lock"), "").expect("a lock");
    }
    server.root().delete(&project.url("/tags/light")).await.expect(409);
    let body = json!({ "tag_name": "new", "ref": "main" });
    let answer = server.root().post(&project.url("/tags"), body).await.expect(409);
    assert_eq!(answer.message(), "409 Conflict: Resource lock");
}

async fn tag_reads_require_reporter_and_writes_require_developer(server: TestServer) {
    let project = project_with_tags(&server, Visibility::Private).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await.client;
    let reader = server.create_user_with_scopes("reader", &["read_user"]).await.client;
    let body = || json!({ "tag_name": "new", "ref": "main" });
    let (list, one) = (project.url("/tags"), project.url("/tags/light"));
    for url in [&list, &one] {
        for hidden in [&stranger, &server.anonymous()] {
            assert_eq!(hidden.get(url).await.expect(404).message(), "404 Project Not Found");
        }
        server.with_token("unknown").get(url).await.expect(401);
        assert_eq!(guest.get(url).await.expect(403).message(), "403 Forbidden");
        reporter.get(url).await.expect(200);
    }
    stranger.post(&list, body()).await.expect(404);
    stranger.delete(&one).await.expect(404);
    for client in [&guest, &reporter] {
        client.post(&list, body()).await.expect(403);
        client.delete(&one).await.expect(403);
    }
    server.anonymous().post(&list, body()).await.expect(401);
    server.anonymous().delete(&one).await.expect(401);
    // Parameters are validated before permissions are checked.
    reporter.post(&list, json!({})).await.expect(400);
    let open = Project::with_commits(&server, "open", Visibility::Public).await;
    reader.get(&open.url("/tags")).await.expect(403);
    project.archive().await;
    server.root().post(&list, body()).await.expect(403);
    server.root().delete(&one).await.expect(403);
}

async fn create_tag_without_branches_keeps_default_branch(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    project.import(&NewCommit { branch: "temporary", changes: file("a", "a\n"), ..NewCommit::default() });
    project.git(&["tag", "base", "temporary"]);
    project.git(&["update-ref", "-d", "refs/heads/temporary"]);
    let body = json!({ "tag_name": "copy", "ref": "base" });
    server.root().post(&project.url("/tags"), body).await.expect(201);
    assert_eq!(project.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
}

on_every_database![
    get_annotated_tag_returns_message_and_commit,
    get_lightweight_tag_returns_commit_as_target,
    get_tag_of_tree_returns_null_commit,
    list_tags_sorts_by_time_or_name,
    list_tags_supports_search_and_pagination,
    list_tags_uses_constant_number_of_statements,
    get_missing_tag_returns_404,
    create_tag_with_and_without_message,
    create_tag_rejects_invalid_requests,
    delete_tag_respects_if_unmodified_since,
    locked_tag_returns_409,
    tag_reads_require_reporter_and_writes_require_developer,
    create_tag_without_branches_keeps_default_branch,
];
