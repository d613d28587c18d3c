//! Comparisons, contributors and merge bases.

use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

async fn compare_starts_at_merge_base_unless_straight(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let url = project.url("/compare?from=main&to=feature%2Fx");
    let found = server.anonymous().get(&url).await.expect(200).json();
    let id = project.id("feature/x");
    assert_eq!(found["commit"]["id"], id);
    assert_eq!(found["commits"], json!([found["commit"]]));
    assert_eq!(
        found["diffs"],
        json!([{
            "old_path": "x.txt",
            "new_path": "x.txt",
            "a_mode": "0",
            "b_mode": "100644",
            "new_file": true,
            "renamed_file": false,
            "deleted_file": false,
            "diff": "@@ -0,0 +1 @@\n+x\n",
        }])
    );
    assert_eq!((&found["compare_timeout"], &found["compare_same_ref"]), (&json!(false), &json!(false)));
    let straight = server.anonymous().get(&format!("{url}&straight=true")).await.expect(200).json();
    let paths: Vec<&Value> =
        straight["diffs"].as_array().expect("diffs").iter().map(|diff| &diff["new_path"]).collect();
    assert_eq!(paths, ["README.md", "x.txt"]);
    assert_eq!(straight["commits"], found["commits"]);
}

async fn compare_lists_commits_oldest_first(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    for number in 1..4 {
        project.import(&NewCommit {
            branch: "feature/x",
            time: 1_600_001_000 + number,
            changes: file("x.txt", &format!("{number}\n")),
            ..NewCommit::default()
        });
    }
    let url = project.url("/compare?from=main&to=feature%2Fx");
    let found = server.anonymous().get(&url).await.expect(200).json();
    let ids: Vec<&Value> = found["commits"].as_array().expect("commits").iter().map(|commit| &commit["id"]).collect();
    let expected: Vec<String> = (0..4).rev().map(|up| project.id(&format!("feature/x~{up}"))).collect();
    assert_eq!(ids, expected.iter().collect::<Vec<_>>());
    assert_eq!(found["commit"]["id"], expected[3]);
}

async fn compare_of_same_commit_returns_no_differences(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let id = project.id("main");
    let found = server.anonymous().get(&project.url(&format!("/compare?from=main&to={id}"))).await.expect(200);
    assert_eq!(
        found.json(),
        json!({ "commit": null, "commits": [], "diffs": [], "compare_timeout": false, "compare_same_ref": true })
    );
}

async fn compare_requires_two_existing_refs(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    for query in ["", "from=main", "to=main", "from=&to=main", "from=main&to=%00", "from=main&to=main&straight=x"] {
        server.anonymous().get(&project.url(&format!("/compare?{query}"))).await.expect(400);
    }
    for query in ["from=none&to=main", "from=main&to=--output%3Dx", "from=main..merged&to=main"] {
        let answer = server.anonymous().get(&project.url(&format!("/compare?{query}"))).await.expect(404);
        assert_eq!(answer.message(), "404 Commit Not Found", "{query}");
    }
    let empty = Project::empty(&server, "empty", Visibility::Public).await;
    server.anonymous().get(&empty.url("/compare?from=main&to=main")).await.expect(404);
}

async fn compare_truncates_diffs_and_sets_compare_timeout(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let changes: String = (0..1_001).map(|number| file(&format!("many/{number}.txt"), "x\n")).collect();
    project.import(&NewCommit { branch: "many", from: Some("main"), changes, ..NewCommit::default() });
    let found = server.anonymous().get(&project.url("/compare?from=main&to=many")).await.expect(200).json();
    assert_eq!(found["compare_timeout"], true);
    assert_eq!(found["diffs"].as_array().expect("diffs").len(), 1_000);
}

async fn list_contributors_groups_commits_by_email(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    for (number, author) in ["B. <bob@example.com>", "Bob <bob@example.com>", "Zoe <aa@example.com>"].iter().enumerate()
    {
        project.import(&NewCommit { author, changes: file("n", &format!("{number}\n")), ..NewCommit::default() });
    }
    let client = server.anonymous();
    let answer = client.get(&project.url("/contributors")).await.expect(200);
    assert_eq!(
        answer.json()[2],
        json!({ "name": "Bob", "email": "bob@example.com", "commits": 3, "additions": 0, "deletions": 0 })
    );
    for (query, expected) in [
        ("", ["Zoe", "Ada Lovelace", "Bob"]),
        ("?sort=desc", ["Bob", "Ada Lovelace", "Zoe"]),
        ("?order_by=name", ["Ada Lovelace", "Bob", "Zoe"]),
        ("?order_by=email&sort=asc", ["Zoe", "Ada Lovelace", "Bob"]),
        ("?order_by=email&sort=desc", ["Bob", "Ada Lovelace", "Zoe"]),
    ] {
        let answer = client.get(&project.url(&format!("/contributors{query}"))).await.expect(200);
        assert_eq!(answer.pluck("name"), expected, "{query}");
    }
    let page = client.get(&project.url("/contributors?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.pluck("name"), page.header("X-Total")), (vec![json!("Ada Lovelace")], "3"));
    for query in ["order_by=age", "sort=x", "page=x"] {
        client.get(&project.url(&format!("/contributors?{query}"))).await.expect(400);
    }
}

async fn list_contributors_of_empty_repository_returns_empty_list(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Public).await;
    let answer = server.anonymous().get(&project.url("/contributors")).await.expect(200);
    assert_eq!(answer.json(), json!([]));
}

async fn list_contributors_uses_constant_number_of_statements(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let client = server.root();
    let url = project.url("/contributors?per_page=100");
    client.get(&url).await.expect(200);
    let before = server.statements();
    assert_eq!(client.get(&project.url("/contributors?per_page=1")).await.pluck("name").len(), 1);
    let short = server.statements() - before;
    for number in 0..20 {
        let author = format!("A{number} <a{number}@example.com>");
        project.import(&NewCommit { author: &author, changes: file("n", &author), ..NewCommit::default() });
    }
    let before = server.statements();
    assert_eq!(client.get(&url).await.pluck("name").len(), 22);
    assert_eq!(server.statements() - before, short);
    assert!(short <= 5, "{short} statements");
}

async fn get_merge_base_returns_best_common_ancestor(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let client = server.anonymous();
    let base = client.get(&project.url("/merge_base?refs[]=main&refs[]=feature%2Fx")).await.expect(200).json();
    assert_eq!((&base["id"], &base["title"]), (&json!(project.id("main~1")), &json!("Change main")));
    let three = client.get(&project.url("/merge_base?refs[]=main&refs[]=main&refs[]=merged")).await.expect(200);
    assert_eq!(three.json()["id"], project.git(&["merge-base", "main", "main", "merged"]));
}

async fn get_merge_base_rejects_unknown_and_unrelated_refs(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    project.import(&NewCommit { branch: "other", changes: file("o", "o\n"), ..NewCommit::default() });
    let client = server.anonymous();
    let answer = client.get(&project.url("/merge_base?refs[]=main&refs[]=other")).await.expect(404);
    assert_eq!(answer.message(), "404 Merge Base Not Found");
    let answer = client.get(&project.url("/merge_base?refs[]=main&refs[]=none")).await.expect(400);
    assert_eq!(answer.message(), "Could not find ref: none");
    for query in ["refs[]=main", "refs=main"] {
        let answer = client.get(&project.url(&format!("/merge_base?{query}"))).await.expect(400);
        assert_eq!(answer.message(), "400 Bad request - Provide at least 2 refs");
    }
    let many = "refs[]=main&".repeat(101);
    for query in ["", "refs[]=main&refs[]=%00", &many] {
        client.get(&project.url(&format!("/merge_base?{query}"))).await.expect(400);
    }
}

on_every_database![
    compare_starts_at_merge_base_unless_straight,
    compare_lists_commits_oldest_first,
    compare_of_same_commit_returns_no_differences,
    compare_requires_two_existing_refs,
    compare_truncates_diffs_and_sets_compare_timeout,
    list_contributors_groups_commits_by_email,
    list_contributors_of_empty_repository_returns_empty_list,
    list_contributors_uses_constant_number_of_statements,
    get_merge_base_returns_best_common_ancestor,
    get_merge_base_rejects_unknown_and_unrelated_refs,
];
