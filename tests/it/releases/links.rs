//! Links of releases.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::release;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a project with a release, and returns a Developer and the path of the links.
async fn with_release(server: &TestServer) -> (Project<'_>, Client, String) {
    let project = Project::with_commits(server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    release(&developer, &path, "v1", json!({})).await;
    (project, developer, format!("{path}/releases/v1/assets/links"))
}

async fn release_link_lifecycle(server: TestServer) {
    let (_project, developer, all) = with_release(&server).await;
    assert_eq!(developer.get(&all).await.expect(200).json(), json!([]));
    let created = developer.post(&all, json!({ "name": "a", "url": "https://example.com/ä?x=1#y" })).await;
    let created = created.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "a", "url": "https://example.com/ä?x=1#y",
            "direct_asset_url": "https://example.com/ä?x=1#y", "link_type": "other", "external": true,
        })
    );
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(developer.get(&one).await.expect(200).json(), created);
    let body = json!({ "name": "b", "url": "ftp://example.com/b", "filepath": "/bin/b", "link_type": "runbook" });
    let second = developer.post(&all, body).await.expect(201).json();
    assert!(second["direct_asset_url"].as_str().is_some_and(|url| url.ends_with("/-/releases/v1/downloads/bin/b")));
    assert_eq!(developer.get(&all).await.expect(200).json(), json!([second, created]));
    assert_eq!(developer.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([created]));
    let of_release = developer.get(all.trim_end_matches("/assets/links")).await.expect(200).json();
    assert_eq!(of_release["assets"]["links"], json!([second, created]));
    let body = json!({ "name": "c", "direct_asset_path": "/c", "filepath": "/ignored", "link_type": "image" });
    let changed = developer.put(&one, body).await.expect(200).json();
    assert_eq!(
        (&changed["name"], &changed["link_type"], &changed["url"]),
        (&json!("c"), &json!("image"), &created["url"])
    );
    assert!(changed["direct_asset_url"].as_str().is_some_and(|url| url.ends_with("/downloads/c")));
    let changed = developer.put(&one, json!({ "name": "c", "filepath": null })).await.expect(200).json();
    assert_eq!(changed["direct_asset_url"], created["url"]);
    let early = developer.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    assert_eq!(developer.delete(&one).await.expect(200).json(), changed);
    developer.delete(&one).await.expect(404);
    developer.get(&one).await.expect(404);
    developer.put(&one, json!({ "name": "x" })).await.expect(404);
}

async fn release_links_are_unique_within_release(server: TestServer) {
    let (project, developer, all) = with_release(&server).await;
    let link = |name: &str, url: &str, path: &str| json!({ "name": name, "url": format!("https://example.com/{url}"), "filepath": path });
    developer.post(&all, link("a", "a", "/a")).await.expect(201);
    let second = developer.post(&all, link("b", "b", "/b")).await.expect(201).json();
    let one = format!("{all}/{}", second["id"]);
    for (body, attribute) in
        [(link("a", "c", "/c"), "name"), (link("c", "a", "/c"), "url"), (link("c", "c", "/a"), "filepath")]
    {
        let expected = json!({ attribute: ["has already been taken"] });
        assert_eq!(developer.post(&all, body.clone()).await.expect(400).json()["message"], expected);
        assert_eq!(developer.put(&one, body).await.expect(400).json()["message"], expected);
    }
    // Links without a path do not conflict, and other releases can have the same links.
    developer.post(&all, link("c", "c", "")).await.expect(201);
    developer.post(&all, link("d", "d", "")).await.expect(201);
    let path = format!("/projects/{}", project.id);
    release(&developer, &path, "v2", json!({ "assets": { "links": [link("a", "a", "/a")] } })).await;
    let other = format!("{path}/releases/v2/assets/links");
    for response in [
        developer.get(&format!("{other}/{}", second["id"])).await,
        developer.delete(&format!("{other}/{}", second["id"])).await,
        developer.get(&all.replace("v1", "none")).await,
        developer.post(&all.replace("v1", "none"), link("a", "a", "")).await,
    ] {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
}

async fn release_link_writes_reject_invalid_attributes(server: TestServer) {
    let (_project, developer, all) = with_release(&server).await;
    let good = "https://example.com/a";
    let created = developer.post(&all, json!({ "name": "a", "url": good })).await.expect(201).json();
    let one = format!("{all}/{}", created["id"]);
    let scheme = "is blocked: Only allowed schemes are http, https, ftp";
    let format = "is in an invalid format";
    for (body, message) in [
        (json!({}), json!("name is missing, url is missing")),
        (json!({ "name": "b" }), json!("url is missing")),
        (json!({ "name": " ", "url": good }), json!({ "name": ["can't be blank"] })),
        (
            json!({ "name": "x".repeat(256), "url": good }),
            json!({ "name": ["is too long (maximum is 255 characters)"] }),
        ),
        (json!({ "name": "b", "url": "" }), json!({ "url": ["can't be blank"] })),
        (json!({ "name": "b", "url": "file:///etc/passwd" }), json!({ "url": [scheme] })),
        (json!({ "name": "b", "url": "https://h/\r\nSet-Cookie: a=b" }), json!({ "url": [scheme] })),
        (
            json!({ "name": "b", "url": format!("{good}{}", "ä".repeat(1500)) }),
            json!({ "url": ["is too long (maximum is 2048 bytes)"] }),
        ),
        (json!({ "name": "b", "url": "https://h/b", "filepath": "b" }), json!({ "filepath": [format] })),
        (json!({ "name": "b", "url": "https://h/b", "filepath": "/../b" }), json!({ "filepath": [format] })),
        (
            json!({ "name": "b", "url": "https://h/b", "filepath": format!("/{}", "a".repeat(128)) }),
            json!({ "filepath": ["is too long (maximum is 128 characters)"] }),
        ),
        (
            json!({ "name": "b", "url": "https://h/b", "link_type": "x" }),
            json!("link_type does not have a valid value"),
        ),
    ] {
        assert_eq!(developer.post(&all, body.clone()).await.expect(400).json()["message"], message, "{body}");
    }
    for body in [json!({}), json!({ "filepath": "/b" }), json!({ "link_type": "image" })] {
        let text = "name, url are missing, at least one parameter must be provided";
        assert_eq!(developer.put(&one, body).await.expect(400).message(), text);
    }
    developer.put(&one, json!({ "url": "x" })).await.expect(400);
    assert_eq!(developer.get(&all).await.expect(200).json(), json!([created]));
}

async fn release_has_maximum_of_links(server: TestServer) {
    let (project, developer, _) = with_release(&server).await;
    let path = format!("/projects/{}", project.id);
    let links = |count: usize| -> Vec<Value> {
        (0..count).map(|number| json!({ "name": number.to_string(), "url": format!("https://h/{number}") })).collect()
    };
    let body = json!({ "tag_name": "v2", "ref": "main", "assets": { "links": links(201) } });
    developer.post(&format!("{path}/releases"), body).await.expect(400);
    release(&developer, &path, "v2", json!({ "assets": { "links": links(199) } })).await;
    let all = format!("{path}/releases/v2/assets/links");
    let requests = (0..4).map(|number| {
        developer.post(&all, json!({ "name": format!("more {number}"), "url": format!("https://more/{number}") }))
    });
    let responses = futures_util::future::join_all(requests).await;
    let created = responses.iter().filter(|response| response.status == 201).count();
    assert_eq!(created, 1);
    assert_eq!(developer.get(&all).await.expect(200).header("X-Total"), "200");
}

on_every_database![
    release_link_lifecycle,
    release_links_are_unique_within_release,
    release_link_writes_reject_invalid_attributes,
    release_has_maximum_of_links,
];
