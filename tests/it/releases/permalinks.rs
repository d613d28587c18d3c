//! Permanent addresses of releases and their assets.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::release;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// Returns the target of a redirect.
async fn target(client: &Client, path: &str) -> String {
    client.get(path).await.expect(302).header("Location").to_owned()
}

async fn latest_release_is_the_newest_that_is_not_upcoming(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let latest = format!("{path}/releases/permalink/latest");
    root.get(&latest).await.expect(404);
    release(&root, &path, "next", json!({ "released_at": "2100-01-01" })).await;
    root.get(&latest).await.expect(404);
    release(&root, &path, "v2/a", json!({ "released_at": "2020-01-02" })).await;
    release(&root, &path, "v1", json!({ "released_at": "2020-01-01" })).await;
    let anonymous = server.anonymous();
    let found = target(&anonymous, &latest).await;
    let expected = format!("/api/v4/projects/{}/releases/v2%2Fa", project.id);
    assert!(found.ends_with(&expected), "{found}");
    let rest = &found[found.find("/projects").expect("a path")..];
    assert_eq!(anonymous.get(rest).await.expect(200).json()["tag_name"], "v2/a");
    let full = "/projects/root%2Fengine/releases/permalink/latest";
    assert_eq!(target(&anonymous, full).await, found);
    for (suffix, expected) in [
        ("assets/links", "assets/links"),
        ("downloads/bin/a", "downloads/bin/a"),
        ("downloads/bin%2Fa", "downloads/bin/a"),
        ("downloads/%0d%0aSet-Cookie:a=b", "downloads/%0D%0ASet-Cookie%3Aa%3Db"),
    ] {
        assert_eq!(target(&anonymous, &format!("{latest}/{suffix}")).await, format!("{found}/{expected}"));
    }
    // A release can have the tag `permalink`.
    release(&root, &path, "permalink", json!({ "released_at": "2020-01-03" })).await;
    assert_eq!(anonymous.get(&format!("{path}/releases/permalink")).await.expect(200).json()["tag_name"], "permalink");
    anonymous.get(&format!("{path}/releases/permalink/assets/links")).await.expect(200);
}

async fn download_redirects_to_asset(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let link = |name: &str, url: &str, path: &str| json!({ "name": name, "url": url, "filepath": path });
    let links = json!([
        link("a", "https://example.com/ä b?x=1".replace(' ', "%20").as_str(), "/bin/linux/a.tar.gz"),
        link("b", "ftp://example.com/b", "/b"),
        link("c", "https://example.com/c", ""),
    ]);
    let created = release(&root, &path, "v1/a", json!({ "assets": { "links": links } })).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let downloads = format!("{path}/releases/v1%2Fa/downloads");
    let encoded = "https://example.com/%C3%A4%20b?x=1";
    for (address, expected) in [
        (format!("{downloads}/bin/linux/a.tar.gz"), encoded),
        (format!("{downloads}/bin%2Flinux%2Fa.tar.gz"), encoded),
        (format!("{downloads}/b"), "ftp://example.com/b"),
        (format!("{downloads}/b/"), "ftp://example.com/b"),
    ] {
        assert_eq!(target(&reporter, &address).await, expected, "{address}");
    }
    for missing in ["none", "bin", "bin/linux", "bin/linux/a.tar.gz/x", "../b", "%2F%2Fb", "c"] {
        let response = reporter.get(&format!("{downloads}/{missing}")).await;
        assert_eq!(response.status, 404, "{missing}");
    }
    reporter.get(&format!("{path}/releases/none/downloads/b")).await.expect(404);
    reporter.get(&format!("{downloads}/%FF")).await.expect(400);
    // The permanent URL of the asset leads to the same target.
    let url = created["assets"]["links"][2]["direct_asset_url"].as_str().expect("a URL");
    let web = format!("//{}", url.splitn(4, '/').nth(3).expect("a path"));
    assert_eq!(target(&reporter, &web).await, encoded);
    assert_eq!(reporter.head(&web).await.expect(302).header("Location"), encoded);
    assert_eq!(target(&reporter, "//root/engine/-/releases/v1/a/downloads/b").await, "ftp://example.com/b");
    assert_eq!(target(&reporter, "//root/engine/-/releases/permalink/latest/downloads/b").await, "ftp://example.com/b");
    let guest = project.member("guest", AccessLevel::Guest).await;
    for client in [&guest, &server.anonymous()] {
        client.get(&web).await.expect(404);
    }
    reporter.get("//root/engine/-/releases/none/downloads/b").await.expect(404);
    reporter.get("//root/engine/-/releases/v1/a/downloads/none").await.expect(404);
}

on_every_database![latest_release_is_the_newest_that_is_not_upcoming, download_redirects_to_asset];
