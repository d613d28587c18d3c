//! Listing and reading branches.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::projects::FeatureAccess;
use storage::entities::{AccessLevel, Visibility};

use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn branches_are_listed_by_name_with_all_their_fields(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Private).await;
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

async fn branches_are_searched_by_start_end_and_middle(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Public).await;
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

async fn branches_come_in_pages(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Public).await;
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

async fn a_long_list_costs_no_more_statements_than_a_short_one(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Private).await;
    let client = server.root();
    let url = project.url("/branches?per_page=100");
    // The first use of a token is noted.
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

async fn an_empty_repository_has_no_branches(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    let answer = server.root().get(&project.url("/branches")).await.expect(200);
    assert_eq!((answer.json(), answer.header("X-Total-Pages")), (json!([]), "1"));
    let answer = server.root().get(&project.url("/branches/main")).await.expect(404);
    assert_eq!(answer.message(), "404 Branch Not Found");
}

async fn a_branch_is_read_by_its_encoded_name(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Public).await;
    let client = server.anonymous();
    let answer = client.get(&project.url("/branches/feature%2Fx")).await.expect(200);
    assert_eq!((&answer.json()["name"], &answer.json()["can_push"]), (&json!("feature/x"), &json!(false)));
    client.get(&project.url("/branches/feature/x")).await.expect(404);
    let by_path = format!("/projects/{}/repository/branches/main", segment(&project.path));
    assert_eq!(client.get(&by_path).await.expect(200).json()["default"], true);
}

async fn whether_a_branch_exists_is_told_without_reading_it(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Private).await;
    let root = server.root();
    root.head(&project.url("/branches/main")).await.expect(204);
    root.head(&project.url("/branches/feature%2Fx")).await.expect(204);
    root.head(&project.url("/branches/none")).await.expect(404);
    root.head(&project.url("/branches/a..b")).await.expect(400);
    server.anonymous().head(&project.url("/branches/main")).await.expect(404);
    let guest = project.member("guest", AccessLevel::Guest).await;
    guest.head(&project.url("/branches/main")).await.expect(403);
}

async fn names_that_no_branch_can_bear_are_refused(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Public).await;
    let long = "x".repeat(300);
    for name in ["--upload-pack=x", "a..b", "refs/heads/main", "a b", "a~1", "HEAD", "main.lock", &long] {
        let answer = server.anonymous().get(&project.url(&format!("/branches/{}", segment(name)))).await;
        assert_eq!(answer.expect(400).message(), "The branch refname is invalid", "{name:?}");
    }
    for name in ["%FF%FE", "a%00b"] {
        server.anonymous().get(&project.url(&format!("/branches/{name}"))).await.expect(400);
    }
}

async fn a_private_project_shows_its_branches_to_reporters_only(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Private).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let stranger = server.person("stranger").await.client;
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

async fn a_public_project_shows_its_branches_to_guests_and_nobody(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Public).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    guest.get(&project.url("/branches")).await.expect(200);
    server.anonymous().get(&project.url("/branches")).await.expect(200);
    let reader = server.person_with("reader", &["read_user"]).await.client;
    let answer = reader.get(&project.url("/branches")).await.expect(403);
    assert_eq!(answer.json()["error"], "insufficient_scope");
}

async fn a_repository_that_is_switched_off_is_not_there(server: TestServer) {
    let project = Project::filled(&server, "engine", Visibility::Public).await;
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
    branches_are_listed_by_name_with_all_their_fields,
    branches_are_searched_by_start_end_and_middle,
    branches_come_in_pages,
    a_long_list_costs_no_more_statements_than_a_short_one,
    an_empty_repository_has_no_branches,
    a_branch_is_read_by_its_encoded_name,
    whether_a_branch_exists_is_told_without_reading_it,
    names_that_no_branch_can_bear_are_refused,
    a_private_project_shows_its_branches_to_reporters_only,
    a_public_project_shows_its_branches_to_guests_and_nobody,
    a_repository_that_is_switched_off_is_not_there,
];
