//! Callers and values that the operations refuse.

use serde_json::json;
use storage::entities::AccessLevel;

use super::Fixture;
use crate::review::merge_requests;
use crate::support::{TestServer, on_every_database};

async fn versions_and_diffs_require_access_to_the_code(server: TestServer) {
    let fixture = Fixture::new(&server, "rights").await;
    let version = fixture.get("/versions").await[0]["id"].clone();
    let one = format!("/versions/{version}");
    let paths = ["/versions", &one, "/diffs", "/raw_diffs"].map(|rest| fixture.url(rest));
    let mut members = Vec::new();
    for (name, role) in [
        ("guest", AccessLevel::Guest),
        ("reporter", AccessLevel::Reporter),
        ("developer", AccessLevel::Developer),
        ("maintainer", AccessLevel::Maintainer),
        ("owner", AccessLevel::Owner),
    ] {
        members.push(fixture.project.member(name, role).await);
    }
    let outsider = server.create_user("outsider").await;
    let narrow = server.with_token(&server.create_token(outsider.id, &["read_user"]).await);
    for path in &paths {
        server.anonymous().get(path).await.expect(200);
        outsider.client.get(path).await.expect(200);
        members[0].get(path).await.expect(200);
        narrow.get(path).await.expect(403);
        server.with_token("nonsense").get(path).await.expect(401);
    }
    fixture.root.put(&format!("/projects/{}", fixture.project.id), json!({"visibility": "private"})).await.expect(200);
    for path in &paths {
        server.anonymous().get(path).await.expect(404);
        outsider.client.get(path).await.expect(404);
        members[0].get(path).await.expect(403);
        for member in &members[1..] {
            member.get(path).await.expect(200);
        }
        fixture.root.get(path).await.expect(200);
    }
    let disabled = json!({"merge_requests_access_level": "disabled"});
    fixture.root.put(&format!("/projects/{}", fixture.project.id), disabled).await.expect(200);
    for path in &paths {
        members[1].get(path).await.expect(404);
    }
}

async fn unknown_and_foreign_versions_are_not_found(server: TestServer) {
    let fixture = Fixture::new(&server, "others").await;
    let other = merge_requests::propose(&fixture.root, fixture.project.id, "merged", "main", json!({})).await;
    let all = format!("/projects/{}/merge_requests/{other}/versions", fixture.project.id);
    let foreign = fixture.root.get(&all).await.expect(200).json()[0]["id"].clone();
    for id in [foreign.to_string(), "999999".to_owned(), i64::MAX.to_string()] {
        let missing = fixture.root.get(&fixture.url(&format!("/versions/{id}"))).await.expect(404);
        assert_eq!(missing.message(), "404 Version Not Found");
    }
    for id in ["x", "1.5", "99999999999999999999", "%00"] {
        fixture.root.get(&fixture.url(&format!("/versions/{id}"))).await.expect(400);
    }
    for rest in ["/versions", "/versions/1", "/diffs", "/raw_diffs"] {
        let at = |iid: &str| format!("/projects/{}/merge_requests/{iid}{rest}", fixture.project.id);
        fixture.root.get(&at("99")).await.expect(404);
        fixture.root.get(&at("x")).await.expect(400);
    }
    for query in ["unidiff=maybe", "page=x"] {
        fixture.root.get(&fixture.url(&format!("/diffs?{query}"))).await.expect(400);
    }
}

on_every_database![versions_and_diffs_require_access_to_the_code, unknown_and_foreign_versions_are_not_found];
