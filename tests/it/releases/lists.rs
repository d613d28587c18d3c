//! Lists of the releases of a project.

use serde_json::json;
use storage::entities::Visibility;

use super::release;
use crate::planning::milestones::milestone;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn list_releases_sorts_and_filters(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    for (tag, day) in [("a", "02"), ("b", "03"), ("c", "01"), ("d", "03")] {
        release(&root, &path, tag, json!({ "released_at": format!("2020-01-{day}") })).await;
    }
    let url = format!("{path}/releases");
    for (query, expected) in [
        ("", ["d", "b", "a", "c"]),
        ("?sort=asc", ["c", "a", "b", "d"]),
        ("?order_by=created_at", ["d", "c", "b", "a"]),
        ("?order_by=created_at&sort=asc", ["a", "b", "c", "d"]),
    ] {
        let answer = server.anonymous().get(&format!("{url}{query}")).await.expect(200);
        assert_eq!(answer.pluck("tag_name"), expected, "{query}");
        assert_eq!(answer.header("X-Total"), "4");
    }
    let page = root.get(&format!("{url}?per_page=3&page=2")).await.expect(200);
    assert_eq!((page.pluck("tag_name"), page.header("X-Total")), (vec![json!("c")], "4"));
    let found = async |query: &str| root.get(&format!("{url}?{query}")).await.expect(200).pluck("tag_name").len();
    assert_eq!(found("updated_before=2020-01-01T00:00:00Z").await, 0);
    assert_eq!(found("updated_after=2020-01-01T00:00:00Z").await, 4);
    let changed = root.put(&format!("{url}/a"), json!({ "name": "x" })).await.expect(200);
    assert_eq!(changed.json()["name"], "x");
    assert_eq!(found("updated_after=2020-01-01T00:00:00Z&updated_before=2100-01-01T00:00:00Z").await, 4);
    for (query, text) in [
        ("order_by=name", "order_by does not have a valid value"),
        ("sort=up", "sort does not have a valid value"),
        ("updated_before=x", "updated_before is invalid"),
    ] {
        assert_eq!(root.get(&format!("{url}?{query}")).await.expect(400).message(), text);
    }
    let empty = Project::empty(&server, "empty", Visibility::Public).await;
    let none = server.anonymous().get(&format!("/projects/{}/releases", empty.id)).await;
    assert_eq!(none.expect(200).json(), json!([]));
}

async fn releases_include_html_description_on_request(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let released_at = "2020-01-01";
    release(&root, &path, "a", json!({ "description": "<b> & *x*", "released_at": released_at })).await;
    let url = format!("{path}/releases");
    let html = "include_html_description=true";
    for query in ["", "?include_html_description=false"] {
        let listed = root.get(&format!("{url}{query}")).await.expect(200).json();
        assert_eq!((&listed[0]["description"], listed[0].get("description_html")), (&json!("<b> & *x*"), None));
        let one = root.get(&format!("{url}/a{query}")).await.expect(200).json();
        assert_eq!(one.get("description_html"), None, "{query}");
    }
    let listed = root.get(&format!("{url}?{html}")).await.expect(200).json();
    assert_eq!(listed[0]["description_html"], "&lt;b&gt; &amp; *x*");
    assert_eq!(root.get(&format!("{url}/a?{html}")).await.expect(200).json(), listed[0]);
    let latest = root.get(&format!("{url}/permalink/latest?{html}")).await.expect(302);
    assert!(latest.header("Location").ends_with(&format!("/projects/{}/releases/a?{html}", project.id)));
    root.put(&format!("{url}/a"), json!({ "description": null })).await.expect(200);
    assert_eq!(root.get(&format!("{url}/a?{html}")).await.expect(200).json()["description_html"], "");
    root.get(&format!("{url}?include_html_description=x")).await.expect(400);
}

async fn list_releases_uses_constant_number_of_statements(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let url = format!("{path}/releases?per_page=100");
    let mut counts = Vec::new();
    for number in 0..12 {
        let title = format!("m{number}");
        milestone(&root, &path, &title).await;
        let link = json!({ "name": "a", "url": "https://example.com/a" });
        let extra = json!({ "milestones": [title], "assets": { "links": [link] } });
        release(&root, &path, &format!("v{number}"), extra).await;
        if number == 0 || number == 11 {
            server.finish_jobs().await;
            let before = server.statements();
            assert_eq!(root.get(&url).await.expect(200).pluck("tag_name").len(), number + 1);
            counts.push(server.statements() - before);
        }
    }
    assert!(counts[1] <= counts[0], "{counts:?} statements");
    assert!(counts[0] <= 12, "{counts:?} statements");
}

on_every_database![
    list_releases_sorts_and_filters,
    releases_include_html_description_on_request,
    list_releases_uses_constant_number_of_statements,
];
