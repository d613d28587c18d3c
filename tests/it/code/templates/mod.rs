//! File templates: built-in templates of all projects.

mod groups;
mod project_templates;

use chrono::{Datelike, Utc};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::spaces::project;
use crate::support::{Client, TestServer, on_every_database};

/// A built-in template of each type.
const BUILT_IN: [(&str, &str); 5] = [
    ("dockerfiles", "Rust"),
    ("gitignores", "C++"),
    ("service_ci_ymls", "Pages/HTML"),
    ("gitlab_ci_ymls", "Nodejs"),
    ("licenses", "mit"),
];

/// Returns the keys of all pages of a list.
async fn keys(client: &Client, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for page in 1.. {
        let answer = client.get(&format!("{path}?per_page=100&page={page}")).await.expect(200);
        let read = answer.pluck("key");
        if read.is_empty() {
            break;
        }
        found.extend(read.iter().map(|key| key.as_str().expect("a text").to_owned()));
    }
    found
}

/// Returns the content of a template.
async fn content(client: &Client, path: &str) -> String {
    let read = client.get(path).await.expect(200).json();
    read["content"].as_str().expect("a text").to_owned()
}

async fn every_project_has_built_in_templates(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for (kind, key) in BUILT_IN {
        let all = format!("/projects/{work}/templates/{kind}");
        let keys = keys(&root, &all).await;
        assert!(keys.len() > 10 && keys.is_sorted() && keys.contains(&key.to_owned()), "{kind}: {keys:?}");
        let answer = root.get(&format!("{all}?per_page=3&page=2")).await.expect(200);
        assert_eq!(answer.header("x-total"), keys.len().to_string());
        assert_eq!(
            (answer.header("x-per-page"), answer.header("x-prev-page"), answer.header("x-next-page")),
            ("3", "1", "3")
        );
        assert_eq!(answer.pluck("key"), keys[3..6]);
        let entry = &answer.json()[0];
        assert_eq!(entry.as_object().expect("an object").len(), 2);
        assert_eq!(entry["name"] == entry["key"], kind != "licenses");
        root.get(&format!("{all}/{}", segment(key))).await.expect(200);
    }
    for kind in ["issues", "merge_requests"] {
        let all = format!("/projects/{work}/templates/{kind}");
        assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
        let rejected = root.get(&format!("{all}/bug")).await.expect(404);
        assert_eq!(rejected.message(), "404 Template Not Found");
    }
    let file = root.get(&format!("/projects/{work}/templates/dockerfiles/Binary")).await.expect(200).json();
    assert_eq!(file, json!({ "name": "Binary", "content": file["content"] }));
    assert!(file["content"].as_str().expect("a text").contains("\nFROM scratch\n"));
    // A plus sign in a path is literal, whether escaped or not.
    for key in ["C++", "C%2B%2B", "%43++"] {
        assert_eq!(
            root.get(&format!("/projects/{work}/templates/gitignores/{key}")).await.expect(200).json()["name"],
            "C++"
        );
    }
    let one = content(&root, &format!("/projects/{work}/templates/service_ci_ymls/Rust")).await;
    assert_eq!(one, content(&root, &format!("/projects/{work}/templates/gitlab_ci_ymls/Rust")).await);
}

async fn get_license_returns_all_fields(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/templates/licenses");
    let listed = root.get(&format!("{all}?per_page=100")).await.expect(200).json();
    let listed = listed.as_array().expect("a list");
    assert!(listed.contains(&json!({ "key": "agpl-3.0", "name": "GNU Affero General Public License v3.0" })));
    let one = root.get(&format!("{all}/gpl-3.0")).await.expect(200).json();
    assert_eq!(
        one,
        json!({
            "key": "gpl-3.0", "name": "GNU General Public License v3.0", "nickname": "GNU GPLv3", "popular": true,
            "html_url": "https://spdx.org/licenses/GPL-3.0-only.html", "source_url": "https://www.gnu.org/licenses/gpl-3.0.txt",
            "description": one["description"], "conditions": ["include-copyright", "document-changes", "disclose-source", "same-license"],
            "permissions": ["commercial-use", "modifications", "distribution", "patent-use", "private-use"],
            "limitations": ["liability", "warranty"], "content": one["content"],
        })
    );
    assert!(one["description"].as_str().expect("a text").len() > 40);
    assert_eq!(root.get(&format!("{all}/GPL-3.0")).await.expect(200).json(), one);
    let other = root.get(&format!("{all}/unlicense")).await.expect(200).json();
    assert_eq!(
        (&other["nickname"], &other["popular"], &other["conditions"]),
        (&json!(null), &json!(false), &json!([]))
    );
}

async fn get_license_replaces_placeholders(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let licenses = format!("/projects/{work}/templates/licenses");
    let year = Utc::now().year();
    let line = async |client: &Client, path: &str| {
        let text = content(client, path).await;
        text.lines().find(|line| line.starts_with("Copyright (c)")).expect("the line").to_owned()
    };
    for licenses in [licenses.as_str(), "/templates/licenses"] {
        let mit = format!("{licenses}/mit");
        assert_eq!(
            line(&root, &format!("{mit}?fullname=Grace%20%241%20%5Bproject%5D&project=P")).await,
            format!("Copyright (c) {year} Grace $1 [project]")
        );
        // The name defaults to the caller's; a blank parameter is ignored.
        let own = ada.client.get("/user").await.expect(200).json()["name"].as_str().expect("a name").to_owned();
        for query in ["", "?fullname=", "?fullname=%20"] {
            assert_eq!(line(&ada.client, &format!("{mit}{query}")).await, format!("Copyright (c) {year} {own}"));
        }
        let anonymous = server.anonymous();
        assert_eq!(line(&anonymous, &mit).await, format!("Copyright (c) {year} <copyright holders>"));
        assert_eq!(line(&anonymous, &format!("{mit}?fullname=Grace")).await, format!("Copyright (c) {year} Grace"));
        let gpl = format!("{licenses}/gpl-3.0");
        let named = content(&root, &format!("{gpl}?project=Engine")).await;
        assert!(named.contains("     Engine\n     Copyright (C)") && !named.contains("<one line"));
        for query in ["", "?project=", "?project=%20"] {
            assert!(
                content(&root, &format!("{gpl}{query}")).await.contains("<one line to give the program's name"),
                "{query}"
            );
        }
        root.get(&format!("{mit}?project={}", "x".repeat(256))).await.expect(400);
        root.get(&format!("{mit}?fullname={}", "x".repeat(256))).await.expect(400);
    }
    // The parameters apply only to licenses.
    let plain = content(&root, &format!("/projects/{work}/templates/dockerfiles/Rust")).await;
    assert_eq!(
        content(&root, &format!("/projects/{work}/templates/dockerfiles/Rust?project=x&fullname=y")).await,
        plain
    );
}

async fn instance_template_paths_require_no_project_and_no_token(server: TestServer) {
    let (root, anonymous) = (server.root(), server.anonymous());
    let work = project(&root, "work", json!({})).await;
    for (kind, older, key) in [
        ("dockerfiles", "dockerfiles", "Node"),
        ("gitignores", "gitignores", "C++"),
        ("service_ci_ymls", "gitlab_ci_ymls", "Pages/HTML"),
    ] {
        let (of_project, older) = (format!("/projects/{work}/templates/{kind}"), format!("/templates/{older}"));
        assert_eq!(keys(&anonymous, &older).await, keys(&root, &of_project).await);
        let answer = anonymous.get(&format!("{older}?per_page=1&page=2")).await.expect(200);
        assert_eq!((answer.header("x-page"), answer.pluck("name").len()), ("2", 1));
        let key = segment(key);
        let one = anonymous.get(&format!("{older}/{key}")).await.expect(200).json();
        assert_eq!(one, root.get(&format!("{of_project}/{key}")).await.expect(200).json());
        // Clients append a slash to the path of a list.
        let slashed = anonymous.get(&format!("{older}/?per_page=100")).await.expect(200);
        assert_eq!(slashed.pluck("key").len(), keys(&anonymous, &older).await.len());
        assert_eq!(anonymous.get(&format!("{older}/no-such")).await.expect(404).message(), "404 Template Not Found");
    }
    let all = anonymous.get("/templates/licenses?per_page=100").await.expect(200).json();
    let all = all.as_array().expect("a list");
    assert!(
        all.len() > 10 && all.iter().all(|license| license["content"].as_str().is_some_and(|text| text.len() > 500))
    );
    // Lists return placeholders unchanged.
    let mit = all.iter().find(|license| license["key"] == "mit").expect("the license");
    assert!(mit["content"].as_str().expect("a text").contains("<year>"));
    let popular = anonymous.get("/templates/licenses?popular=true").await.expect(200);
    assert_eq!(
        (popular.pluck("key"), popular.header("x-total")),
        (vec![json!("apache-2.0"), json!("gpl-3.0"), json!("mit")], "3")
    );
    assert_eq!(
        anonymous.get("/templates/licenses?popular=false&per_page=100").await.expect(200).json().as_array(),
        Some(all)
    );
    anonymous.get("/templates/licenses?popular=maybe").await.expect(400);
    anonymous.get("/templates/licenses/no-such").await.expect(404);
    anonymous.get("/templates/metrics_dashboard_ymls").await.expect(404);
}

async fn unknown_template_types_return_400_and_keys_404(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for kind in ["Dockerfiles", "metrics_dashboard_ymls", "no-such", "1"] {
        for path in [format!("/projects/{work}/templates/{kind}"), format!("/projects/{work}/templates/{kind}/Rust")] {
            assert_eq!(root.get(&path).await.expect(400).message(), "type does not have a valid value", "{kind}");
        }
    }
    for (kind, _) in BUILT_IN {
        for key in ["rust ", "no-such", "../../../Cargo.toml", "Rust.dockerfile", "./Rust", "Pages", "%", "ä", "'; --"]
        {
            let answer = root.get(&format!("/projects/{work}/templates/{kind}/{}", segment(key))).await;
            assert_eq!(answer.expect(404).message(), "404 Template Not Found", "{kind} {key}");
        }
        root.get(&format!("/projects/{work}/templates/{kind}/{}", "x".repeat(1_025))).await.expect(400);
        root.get(&format!("/projects/{work}/templates/{kind}/%2e%2e%2f%2e%2e%2fetc")).await.expect(404);
        root.get(&format!("/projects/{work}/templates/{kind}/a%00b")).await.expect(400);
    }
    // Keys are case-sensitive except for licenses.
    root.get(&format!("/projects/{work}/templates/dockerfiles/rust")).await.expect(404);
    root.get("/templates/dockerfiles/a%00b").await.expect(400);
}

async fn templates_are_readable_if_project_is_visible(server: TestServer) {
    let open = Project::with_commits(&server, "open", Visibility::Public).await;
    let inside = Project::empty(&server, "inside", Visibility::Internal).await;
    let hidden = Project::empty(&server, "hidden", Visibility::Private).await;
    let guest = hidden.member("guest", AccessLevel::Guest).await;
    let stranger = server.create_user("stranger").await.client;
    let anonymous = server.anonymous();
    let both = async |client: &Client, project: i64, status: u16| {
        let mut answers: Vec<Value> = Vec::new();
        for rest in ["", "/Rust"] {
            let answer = client.get(&format!("/projects/{project}/templates/dockerfiles{rest}")).await;
            answers.push(answer.expect(status).json());
        }
        answers
    };
    for client in [&anonymous, &stranger, &guest] {
        both(client, open.id, 200).await;
    }
    for client in [&stranger, &guest] {
        both(client, inside.id, 200).await;
    }
    both(&guest, hidden.id, 200).await;
    for (client, project) in
        [(&anonymous, inside.id), (&anonymous, hidden.id), (&stranger, hidden.id), (&stranger, 4_711)]
    {
        for answer in both(client, project, 404).await {
            assert_eq!(answer["message"], "404 Project Not Found");
        }
    }
    both(&server.with_token("wrong"), open.id, 401).await;
    let narrow = server.create_user_with_scopes("narrow", &["read_user"]).await.client;
    both(&narrow, open.id, 403).await;
    narrow.get("/templates/licenses").await.expect(403);
    open.archive().await;
    both(&anonymous, open.id, 200).await;
}

on_every_database![
    every_project_has_built_in_templates,
    get_license_returns_all_fields,
    get_license_replaces_placeholders,
    instance_template_paths_require_no_project_and_no_token,
    unknown_template_types_return_400_and_keys_404,
    templates_are_readable_if_project_is_visible,
];
