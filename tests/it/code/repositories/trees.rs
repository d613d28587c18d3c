//! Directory listings.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn list_tree_orders_trees_blobs_and_submodules(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let answer = server.anonymous().get(&project.url("/tree")).await.expect(200);
    assert_eq!(answer.pluck("name"), ["docs", "README.md", "link", "run.sh", "module"]);
    assert_eq!(answer.pluck("type"), ["tree", "blob", "blob", "blob", "commit"]);
    assert_eq!(answer.pluck("mode"), ["040000", "100644", "120000", "100755", "160000"]);
    assert_eq!(
        answer.json()[0],
        json!({ "id": project.id("main:docs"), "name": "docs", "type": "tree", "path": "docs", "mode": "040000" })
    );
    assert_eq!(answer.header("X-Total"), "5");
}

async fn list_tree_supports_ref_path_and_recursive(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    project.git(&["tag", "-a", "-m", "One", "v1", "feature/x"]);
    let id = project.id("feature/x");
    for (query, expected) in [
        ("path=docs", vec!["docs/deep", "docs/guide.md"]),
        ("path=/docs/", vec!["docs/deep", "docs/guide.md"]),
        ("path=docs%2Fdeep", vec!["docs/deep/note.txt"]),
        ("path=docs&recursive=true", vec!["docs/deep", "docs/deep/note.txt", "docs/guide.md"]),
        ("path=docs&recursive=1&ref=v1", vec!["docs/deep", "docs/deep/note.txt", "docs/guide.md"]),
        ("path=none", vec![]),
        ("path=README.md", vec![]),
        ("path=module", vec![]),
        ("path=docs%2F..%2F..%2F..", vec![]),
        ("path=x.txt", vec![]),
        ("ref=&path=docs%2Fdeep", vec!["docs/deep/note.txt"]),
    ] {
        let answer = server.anonymous().get(&project.url(&format!("/tree?{query}"))).await.expect(200);
        assert_eq!(answer.pluck("path"), expected, "{query}");
    }
    for revision in ["feature%2Fx", "v1", &id, &id[..8]] {
        let answer = server.anonymous().get(&project.url(&format!("/tree?ref={revision}"))).await.expect(200);
        assert!(answer.pluck("path").contains(&json!("x.txt")), "{revision}");
    }
}

async fn list_tree_of_unknown_ref_returns_404(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let long = "x".repeat(300);
    for revision in ["none", "--upload-pack=x", "a..b", "main%5E%7Btree%7D", "%40%7B-1%7D", &long] {
        let answer = server.anonymous().get(&project.url(&format!("/tree?ref={revision}"))).await.expect(404);
        assert_eq!(answer.message(), "404 Tree Not Found", "{revision}");
    }
    let empty = Project::empty(&server, "empty", Visibility::Public).await;
    for path in ["/tree", "/tree?ref=main"] {
        assert_eq!(server.anonymous().get(&empty.url(path)).await.expect(404).message(), "404 Tree Not Found");
    }
    let very_long = "x".repeat(4_097);
    for query in ["ref=%00", "path=a%00b", "recursive=perhaps", "page=x", &format!("path={very_long}")] {
        server.anonymous().get(&project.url(&format!("/tree?{query}"))).await.expect(400);
    }
}

async fn list_tree_paginates_with_constant_number_of_statements(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let client = server.root();
    client.get(&project.url("/tree")).await.expect(200);
    let before = server.statements();
    let answer = client.get(&project.url("/tree?per_page=1&page=2")).await.expect(200);
    let short = server.statements() - before;
    assert_eq!(answer.pluck("name"), ["README.md"]);
    assert_eq!((answer.header("X-Next-Page"), answer.header("X-Total-Pages")), ("3", "5"));
    let before = server.statements();
    client.get(&project.url("/tree?recursive=true&per_page=100")).await.expect(200);
    assert_eq!(server.statements() - before, short);
    assert!(short <= 5, "{short} statements");
    let far = client.get(&project.url("/tree?page=1000000000000000000")).await.expect(200);
    assert_eq!(far.json(), json!([]));
}

async fn repository_reads_of_private_project_require_reporter(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await.client;
    let blob = project.id("main:README.md");
    let paths = [
        "/tree".to_owned(),
        format!("/blobs/{blob}"),
        format!("/blobs/{blob}/raw"),
        "/archive".to_owned(),
        "/archive.zip".to_owned(),
        "/compare?from=main&to=main".to_owned(),
        "/contributors".to_owned(),
        "/merge_base?refs[]=main&refs[]=merged".to_owned(),
    ];
    let open = Project::with_commits(&server, "open", Visibility::Public).await;
    let reader = server.create_user_with_scopes("reader", &["read_user"]).await.client;
    let member = open.member("member", AccessLevel::Guest).await;
    for path in paths {
        let url = project.url(&path);
        for hidden in [&stranger, &server.anonymous()] {
            assert_eq!(hidden.get(&url).await.expect(404).message(), "404 Project Not Found", "{path}");
        }
        server.with_token("unknown").get(&url).await.expect(401);
        assert_eq!(guest.get(&url).await.expect(403).message(), "403 Forbidden", "{path}");
        reporter.get(&url).await.expect(200);
        reader.get(&open.url(&path)).await.expect(403);
        member.get(&open.url(&path)).await.expect(200);
        server.anonymous().get(&open.url(&path)).await.expect(200);
    }
}

on_every_database![
    list_tree_orders_trees_blobs_and_submodules,
    list_tree_supports_ref_path_and_recursive,
    list_tree_of_unknown_ref_returns_404,
    list_tree_paginates_with_constant_number_of_statements,
    repository_reads_of_private_project_require_reporter,
];
