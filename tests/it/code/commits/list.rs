//! Lists of commits, compared with the output of `git log`.

use serde_json::json;
use storage::entities::Visibility;

use crate::support::client::segment;
use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

fn log(sample: &Sample<'_>, arguments: &[&str]) -> Vec<String> {
    let mut all = vec!["log", "--format=%H"];
    all.extend(arguments);
    sample.git_raw(&all).lines().map(str::to_owned).collect()
}

async fn list_commits_matches_git_log(server: TestServer) {
    let sample = Sample::new(&server).await;
    for (query, arguments) in [
        (String::new(), vec!["main"]),
        ("ref_name=".to_owned(), vec!["main"]),
        ("ref_name=topic".to_owned(), vec!["topic"]),
        ("ref_name=v2.0".to_owned(), vec!["v2.0"]),
        ("ref_name=ends-with.json".to_owned(), vec!["ends-with.json"]),
        ("ref_name=v1.0..main".to_owned(), vec!["v1.0..main"]),
        ("ref_name=topic..".to_owned(), vec!["topic..main"]),
        ("ref_name=topic...ends-with.json".to_owned(), vec!["topic...ends-with.json"]),
        ("first_parent=true".to_owned(), vec!["--first-parent", "main"]),
        ("order=topo".to_owned(), vec!["--topo-order", "main"]),
        ("order=default".to_owned(), vec!["main"]),
        ("all=true&ref_name=topic".to_owned(), vec!["--all"]),
        ("path=README.md".to_owned(), vec!["main", "--", "README.md"]),
        ("path=bin".to_owned(), vec!["main", "--", "bin"]),
        (format!("path={}", segment("docs/two words")), vec!["main", "--", "docs/two words"]),
        ("since=2020-01-03T12:00:00Z".to_owned(), vec!["--since=2020-01-03T12:00:00Z", "main"]),
        ("until=2020-01-03T12:00:00Z".to_owned(), vec!["--until=2020-01-03T12:00:00Z", "main"]),
        ("since=2020-01-03T12:00:00.5Z".to_owned(), vec!["-1", "main"]),
    ] {
        let answer = server.root().get(&format!("{}?{query}", sample.commits())).await.expect(200);
        let expected = log(&sample, &arguments);
        assert_eq!(answer.pluck("id"), expected, "{query}");
        assert_eq!(answer.header("x-total"), expected.len().to_string(), "{query}");
    }
}

async fn list_commits_includes_stats_only_on_request(server: TestServer) {
    let sample = Sample::new(&server).await;
    let plain = server.root().get(&sample.commits()).await.expect(200).json();
    assert!(plain[0].get("stats").is_none() && plain[0].get("status").is_some_and(serde_json::Value::is_null));
    let listed = server.root().get(&format!("{}?with_stats=true", sample.commits())).await.expect(200).json();
    assert_eq!(listed[0]["stats"], json!({ "additions": 1, "deletions": 0, "total": 1 }));
    assert_eq!(listed.as_array().expect("a list").len(), 4);
}

async fn list_commits_is_paginated(server: TestServer) {
    let sample = Sample::new(&server).await;
    let all = server.root().get(&sample.commits()).await.pluck("id");
    let url = |query: &str| format!("{}?{query}", sample.commits());
    let second = server.root().get(&url("per_page=3&page=2")).await.expect(200);
    assert_eq!(second.pluck("id"), all[3..]);
    for (header, value) in [
        ("x-total", "4"),
        ("x-total-pages", "2"),
        ("x-per-page", "3"),
        ("x-page", "2"),
        ("x-next-page", ""),
        ("x-prev-page", "1"),
    ] {
        assert_eq!(second.header(header), value, "{header}");
    }
    assert!(second.header("link").contains("page=1&per_page=3"));
    let far = server.root().get(&url("page=1000000000000000000")).await.expect(200);
    assert_eq!((far.json(), far.header("x-total")), (json!([]), "4"));
    let odd = server.root().get(&url("per_page=-1&page=-5")).await.expect(200);
    assert_eq!((odd.pluck("id"), odd.header("x-per-page"), odd.header("x-page")), (all, "20", "1"));
}

async fn list_commits_with_unknown_ref_or_path_is_empty(server: TestServer) {
    let sample = Sample::new(&server).await;
    for query in [
        "ref_name=unknown",
        "ref_name=--upload-pack%3Dx",
        "ref_name=unknown..main",
        "ref_name=main...unknown",
        "ref_name=a...b..c",
        "path=unknown",
        "path=*",
        "path=..%2Fx",
        "path=-n",
        "since=2030-01-01T00:00:00Z",
        "until=1980-01-01T00:00:00Z",
    ] {
        let answer = server.root().get(&format!("{}?{query}", sample.commits())).await.expect(200);
        assert_eq!((answer.json(), answer.header("x-total")), (json!([]), "0"), "{query}");
    }
    let empty = Sample::empty(&server, Visibility::Private).await;
    for query in ["", "?all=true", "?ref_name=main"] {
        let answer = server.root().get(&format!("{}{query}", empty.commits())).await.expect(200);
        assert_eq!(answer.json(), json!([]));
    }
}

async fn list_commits_rejects_invalid_parameters(server: TestServer) {
    let sample = Sample::new(&server).await;
    for (query, message) in [
        ("since=yesterday", "since is invalid"),
        ("until=2020-13-01", "until is invalid"),
        ("order=random", "order does not have a valid value"),
        ("all=perhaps", "all is invalid"),
        ("page=abc", "page is invalid"),
        ("ref_name=a%00b", "ref_name is invalid"),
        ("path=a%00b", "path is invalid"),
    ] {
        let answer = server.root().get(&format!("{}?{query}", sample.commits())).await.expect(400);
        assert_eq!(answer.message(), message);
    }
    server.root().get(&format!("{}?path=%ff", sample.commits())).await.expect(400);
    server.root().get(&format!("{}?path={}", sample.commits(), "x".repeat(5_000))).await.expect(400);
}

/// Creates a private project with 10,002 commits on `main`, more than lists count.
pub async fn long_history(server: &TestServer) -> Sample<'_> {
    let sample = Sample::empty(server, Visibility::Private).await;
    let mut stream = String::new();
    for number in 0..10_002 {
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter A <a@example.com> {} +0000\ndata 1\nx\n",
            1_500_000_000 + number
        ));
    }
    sample.fast_import(stream.as_bytes());
    sample
}

async fn list_commits_omits_totals_for_long_histories(server: TestServer) {
    let sample = long_history(&server).await;
    sample.update(|row| row.default_branch = sea_orm::ActiveValue::Set(Some("main".to_owned()))).await;
    let first = server.root().get(&sample.commits()).await.expect(200);
    assert!(!first.headers.contains_key("x-total") && !first.header("link").contains("last"));
    assert_eq!((first.pluck("id").len(), first.header("x-next-page")), (20, "2"));
    let last = server.root().get(&format!("{}?per_page=100&page=101", sample.commits())).await.expect(200);
    assert_eq!((last.pluck("id").len(), last.header("x-next-page")), (2, ""));
}

on_every_database![
    list_commits_matches_git_log,
    list_commits_includes_stats_only_on_request,
    list_commits_is_paginated,
    list_commits_with_unknown_ref_or_path_is_empty,
    list_commits_rejects_invalid_parameters,
    list_commits_omits_totals_for_long_histories,
];
