//! Listing and reading branches.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::projects::FeatureAccess;
use storage::entities::{AccessLevel, Visibility};

use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn list_branches_returns_all_fields_ordered_by_name(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let answer = server.root().get(&project.url("/branches")).await.expect(200);
    assert_eq!(answer.pluck("name"), ["feature/x", "main", "merged"]);
    assert_eq!((answer.header("X-Total"), answer.header("X-Total-Pages")), ("3", "1"));
    let (id, parent) = (project.id("feature/x"), project.id("main~1"));
    let page = format!("{}/{}/-", server.base, project.path);
    assert_eq!(
        answer.json()[0],
        json!({
            "name": "feature/x",
            "commit": {
                "id": id,
                "short_id": &id[..8],
                "created_at": "2020-09-13T14:30:00.000+02:00",
                "parent_ids": [parent],
                "title": "Change feature/x",
                "message": "Change feature/x\n\nAt 1600000200.\n",
                "author_name": "Ada Lovelace",
                "author_email": "ada@example.com",
                "authored_date": "2020-09-13T14:30:00.000+02:00",
                "committer_name": "Ada Lovelace",
                "committer_email": "ada@example.com",
                "committed_date": "2020-09-13T14:30:00.000+02:00",
                "web_url": format!("{page}/commit/{id}"),
            },
            "merged": false,
            "protected": false,
            "developers_can_push": false,
            "developers_can_merge": false,
            "can_push": true,
            "default": false,
            "web_url": format!("{page}/tree/feature/x"),
        })
    );
    assert_eq!(answer.pluck("merged"), [false, false, true]);
    assert_eq!(answer.pluck("default"), [false, true, false]);
    assert_eq!(answer.pluck("protected"), [false, true, false]);
}

async fn list_branches_search_matches_prefix_suffix_and_substring(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    for (search, expected) in [
        ("EATURE", vec!["feature/x"]),
        ("%5Em", vec!["main", "merged"]),
        ("n%24", vec!["main"]),
        ("%5Emain%24", vec!["main"]),
        ("main'; DROP TABLE", vec![]),
        ("", vec!["feature/x", "main", "merged"]),
    ] {
        let answer = server.anonymous().get(&project.url(&format!("/branches?search={search}"))).await;
        assert_eq!(answer.expect(200).pluck("name"), expected, "{search}");
    }
}

async fn list_branches_is_paginated(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let client = server.anonymous();
    let answer = client.get(&project.url("/branches?per_page=2&page=2")).await.expect(200);
    assert_eq!(answer.pluck("name"), ["merged"]);
    assert_eq!((answer.header("X-Prev-Page"), answer.header("X-Next-Page")), ("1", ""));
    let far = client.get(&project.url("/branches?page=1000000000000000000")).await;
    assert_eq!(far.expect(200).json(), json!([]));
    client.get(&project.url("/branches?page=abc")).await.expect(400);
    let one = client.get(&project.url("/branches?per_page=-1")).await.expect(200);
    assert!(!one.pluck("name").is_empty());
    let long = "x".repeat(1_025);
    client.get(&project.url(&format!("/branches?search={long}"))).await.expect(400);
    for search in ["%FF", "%00"] {
        client.get(&project.url(&format!("/branches?search={search}"))).await.expect(400);
    }
}

async fn list_branches_statement_count_is_constant(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let client = server.root();
    let url = project.url("/branches?per_page=100");
    // The first use of a token writes its time of last use.
    client.get(&url).await.expect(200);
    let before = server.statements();
    assert_eq!(client.get(&project.url("/branches?per_page=1")).await.pluck("name").len(), 1);
    let short = server.statements() - before;
    for number in 0..20 {
        project.git(&["branch", &format!("more-{number}"), "main"]);
    }
    let before = server.statements();
    assert_eq!(client.get(&url).await.pluck("name").len(), 23);
    assert_eq!(server.statements() - before, short);
    assert!(short <= 8, "{short} statements");
}

async fn list_branches_of_empty_repository_is_empty(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    let answer = server.root().get(&project.url("/branches")).await.expect(200);
    assert_eq!((answer.json(), answer.header("X-Total-Pages")), (json!([]), "1"));
    let answer = server.root().get(&project.url("/branches/main")).await.expect(404);
    assert_eq!(answer.message(), "404 Branch Not Found");
}

async fn get_branch_accepts_url_encoded_name(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let client = server.anonymous();
    let answer = client.get(&project.url("/branches/feature%2Fx")).await.expect(200);
    assert_eq!((&answer.json()["name"], &answer.json()["can_push"]), (&json!("feature/x"), &json!(false)));
    client.get(&project.url("/branches/feature/x")).await.expect(404);
    let by_path = format!("/projects/{}/repository/branches/main", segment(&project.path));
    assert_eq!(client.get(&by_path).await.expect(200).json()["default"], true);
}

async fn head_branch_returns_status_for_existence_and_access(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    root.head(&project.url("/branches/main")).await.expect(204);
    root.head(&project.url("/branches/feature%2Fx")).await.expect(204);
    root.head(&project.url("/branches/none")).await.expect(404);
    root.head(&project.url("/branches/a..b")).await.expect(400);
    server.anonymous().head(&project.url("/branches/main")).await.expect(404);
    let guest = project.member("guest", AccessLevel::Guest).await;
    guest.head(&project.url("/branches/main")).await.expect(403);
}

async fn get_branch_rejects_invalid_names(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let long = "x".repeat(300);
    for name in ["--upload-pack=x", "a..b", "refs/heads/main", "a b", "a~1", "HEAD", "main.lock", &long] {
        let answer = server.anonymous().get(&project.url(&format!("/branches/{}", segment(name)))).await;
        assert_eq!(answer.expect(400).message(), "The branch refname is invalid", "{name:?}");
    }
    for name in ["%FF%FE", "a%00b"] {
        server.anonymous().get(&project.url(&format!("/branches/{name}"))).await.expect(400);
    }
}

async fn private_project_branches_require_reporter(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await.client;
    for path in ["/branches", "/branches/main"] {
        let url = project.url(path);
        for hidden in [&server.anonymous(), &stranger] {
            let answer = hidden.get(&url).await.expect(404);
            assert_eq!(answer.message(), "404 Project Not Found");
        }
        assert_eq!(guest.get(&url).await.expect(403).message(), "403 Forbidden");
        reporter.get(&url).await.expect(200);
        server.with_token("hfpat-unknown").get(&url).await.expect(401);
    }
}

async fn public_project_branches_are_readable_anonymously(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    guest.get(&project.url("/branches")).await.expect(200);
    server.anonymous().get(&project.url("/branches")).await.expect(200);
    let reader = server.create_user_with_scopes("reader", &["read_user"]).await.client;
    let answer = reader.get(&project.url("/branches")).await.expect(403);
    assert_eq!(answer.json()["error"], "insufficient_scope");
}

async fn disabled_repository_returns_404(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    project.update(|row| row.repository_access_level = Set(FeatureAccess::Private)).await;
    let answer = server.anonymous().get(&project.url("/branches")).await.expect(404);
    assert_eq!(answer.message(), "404 Repository Not Found");
    guest.get(&project.url("/branches")).await.expect(200);
    project.update(|row| row.repository_access_level = Set(FeatureAccess::Disabled)).await;
    for path in ["/branches", "/branches/main", "/tags", "/tree", "/contributors", "/archive"] {
        let answer = server.root().get(&project.url(path)).await.expect(404);
        assert_eq!(answer.message(), "404 Repository Not Found");
    }
}

on_every_database![
    list_branches_returns_all_fields_ordered_by_name,
    list_branches_search_matches_prefix_suffix_and_substring,
    list_branches_is_paginated,
    list_branches_statement_count_is_constant,
    list_branches_of_empty_repository_is_empty,
    get_branch_accepts_url_encoded_name,
    head_branch_returns_status_for_existence_and_access,
    get_branch_rejects_invalid_names,
    private_project_branches_require_reporter,
    public_project_branches_are_readable_anonymously,
    disabled_repository_returns_404,
];
