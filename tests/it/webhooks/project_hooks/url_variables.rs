//! Variables in the URLs of webhooks.

use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, project_hooks};

use super::{commit, hook};
use crate::support::code::Project;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// URL variables for the body of a request.
fn variables(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

async fn row(server: &TestServer) -> project_hooks::Model {
    let found = project_hooks::Entity::find().one(server.backend.database.read()).await;
    found.expect("a query").expect("a webhook")
}

async fn values_are_inserted_into_the_url_and_never_returned(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let all = format!("/projects/{}/hooks", project.id);
    let url = format!("{}/{{path}}?key={{key.1}}&a=b", receiver.url);
    let values = variables(&[("path", "a/secret-path"), ("key.1", "secret-key")]);
    let created = root.post(&all, json!({ "url": url, "url_variables": values })).await.expect(201).json();
    assert_eq!(
        (&created["url"], &created["url_variables"]),
        (&json!(url), &json!([{ "key": "path" }, { "key": "key.1" }]))
    );
    assert!(!format!("{:?}", row(&server).await).contains("secret-"));
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    commit(&root, project.id, "main", "a").await;
    server.finish_jobs().await;
    let arrived = receiver.next().await;
    assert!(arrived.line.starts_with("POST /a/secret-path?key=secret-key&"), "{}", arrived.line);
    let log = root.get(&format!("{one}/events")).await.expect(200);
    assert!(!log.text().contains("secret-"));
    assert_eq!(log.json()[0]["url"], json!(url));
    root.put(&format!("{one}/url_variables/path"), json!({ "value": "b" })).await.expect(204);
    let body = json!({ "url": url, "url_variables": variables(&[("other", "x")]) });
    let updated = root.put(&one, body).await.expect(200).json();
    assert_eq!(updated["url_variables"], json!([{ "key": "path" }, { "key": "key.1" }, { "key": "other" }]));
    root.post(&format!("{one}/test/push_events"), json!({})).await.expect(201);
    assert!(receiver.next().await.line.starts_with("POST /b?key=secret-key&"));
}

async fn placeholders_require_variables(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let all = format!("/projects/{}/hooks", project.id);
    let id = hook(&root, project.id, "https://a.example.com/", json!({})).await;
    let one = format!("{all}/{id}");
    let url = "https://a.example.com/{path}";
    for values in [json!([]), variables(&[("Path", "a")])] {
        let body = json!({ "url": url, "url_variables": values });
        for rejected in [root.post(&all, body.clone()).await, root.put(&one, body).await] {
            assert_eq!(rejected.expect(422).message(), "Invalid url given: the URL variable path is missing");
        }
    }
    for bad in [("a b", "x"), ("1a", "x"), ("path", ""), ("path", "a\nb")] {
        let body = json!({ "url": url, "url_variables": variables(&[bad]) });
        for rejected in [root.post(&all, body.clone()).await, root.put(&one, body).await] {
            assert!(rejected.expect(422).message().starts_with("Invalid URL variables given"), "{bad:?}");
        }
        let path = format!("{one}/url_variables/{}", bad.0.replace(' ', "%20"));
        let rejected = root.put(&path, json!({ "value": bad.1 })).await;
        assert_eq!(rejected.expect(422).message(), "Illegal key or value", "{bad:?}");
    }
    let rejected = root.put(&format!("{one}/url_variables/path"), json!({})).await;
    assert_eq!(rejected.expect(400).json()["error"], "value is missing");
    let missing = root.delete(&format!("{one}/url_variables/path")).await.expect(404);
    assert_eq!(missing.message(), "404 URL variable Not Found");
    root.put(&format!("{one}/url_variables/path"), json!({ "value": "a" })).await.expect(204);
    root.put(&one, json!({ "url": url })).await.expect(200);
    let used = root.delete(&format!("{one}/url_variables/path")).await.expect(422);
    assert_eq!(used.message(), "The URL of the webhook uses this variable: change the URL first");
    root.put(&one, json!({ "url": "https://a.example.com/" })).await.expect(200);
    root.delete(&format!("{one}/url_variables/path")).await.expect(204);
    assert_eq!(row(&server).await.url_variables_encrypted, None);
    // The placeholders of a webhook that is older than URL variables get their values one after the other.
    project_hooks::Entity::update_many()
        .col_expr(project_hooks::Column::Url, Expr::value("https://a.example.com/{a}/{b}"))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    for key in ["a", "b", "a"] {
        root.put(&format!("{one}/url_variables/{key}"), json!({ "value": "x" })).await.expect(204);
    }
}

async fn url_with_values_is_checked(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let all = format!("/projects/{}/hooks", project.id);
    for (url, value) in [
        ("https://{v}/", "127.0.0.1"),
        ("https://{v}/", "localhost"),
        ("http://{v}/latest/meta-data", "169.254.169.254"),
        ("https://a.example.com{v}/", "@10.0.0.1"),
        ("https://a.example.com/{v}", "a b"),
        ("https://a.example.com:{v}/", "443"),
    ] {
        let body = json!({ "url": url, "url_variables": variables(&[("v", value)]) });
        let message = root.post(&all, body).await.expect(422).message();
        assert!(message.starts_with("Invalid url given"), "{url}: {message}");
    }
    let body = json!({ "url": "https://{v}/x", "url_variables": variables(&[("v", "a.example.com")]) });
    let created = root.post(&all, body).await.expect(201).json();
    let variable = format!("{all}/{}/url_variables/v", created["id"]);
    let stored = row(&server).await;
    for value in ["localhost", "169.254.169.254", "a b"] {
        let message = root.put(&variable, json!({ "value": value })).await.expect(422).message();
        assert!(message.starts_with("Invalid url given"), "{value}: {message}");
    }
    assert_eq!(row(&server).await, stored);
}

fn url_with_values_is_checked_options() -> holdfast::config::ConfigOptions {
    holdfast::config::ConfigOptions { allow_local_webhooks: Some(false), ..Default::default() }
}

async fn another_origin_deletes_variables_and_secrets(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let secrets = json!({
        "token": "t0ken", "custom_headers": [{ "key": "X-A", "value": "x" }],
        "url_variables": variables(&[("host", "a.example.com"), ("path", "long-secret")]),
    });
    let url = "https://{host}/{path}";
    let id = hook(&root, project.id, url, secrets).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let stored = row(&server).await;
    // The variable does not leave the origin, neither in the path nor in the host.
    for bad in ["https://b.example.com/{path}", "https://{path}.b.example.com/", "https://a.example.com.{path}/"] {
        let message = root.put(&one, json!({ "url": bad })).await.expect(422).message();
        assert_eq!(message, "Invalid url given: the URL variable path is missing", "{bad}");
    }
    // The error does not depend on the stored value, which would make the URL too long, or the host invalid.
    let long = format!("https://b.example.com/{}/{{path}}", "x".repeat(2_015));
    for bad in [long.as_str(), "https://[{path}]/"] {
        let message = root.put(&one, json!({ "url": bad })).await.expect(422).message();
        assert_eq!(message, "Invalid url given: the URL variable path is missing", "{bad}");
    }
    // A value for the host alone would send the path to the new host.
    let variable = format!("{one}/url_variables/host");
    root.put(&variable, json!({ "value": "b.example.com" })).await.expect(422);
    assert_eq!(row(&server).await, stored);
    // The same origin without its variable.
    let shown = root.put(&one, json!({ "url": "https://a.example.com/" })).await.expect(200).json();
    assert_eq!((&shown["token_present"], shown["url_variables"].as_array().map(Vec::len)), (&json!(true), Some(2)));
    root.put(&one, json!({ "url": "https://{host}/" })).await.expect(200);
    root.put(&variable, json!({ "value": "b.example.com" })).await.expect(204);
    let shown = root.get(&one).await.expect(200).json();
    assert_eq!((&shown["token_present"], &shown["custom_headers"]), (&json!(false), &json!([])));
    assert_eq!(shown["url_variables"], json!([{ "key": "host" }]));
    let body = json!({ "url": "https://c.example.com/{path}", "url_variables": variables(&[("path", "new")]) });
    let shown = root.put(&one, body).await.expect(200).json();
    assert_eq!(shown["url_variables"], json!([{ "key": "path" }]));
    // Variables that are deleted do not count.
    let keys: Vec<String> = (0..20).map(|number| format!("v{number}")).collect();
    let many = keys[..19].iter().map(|key| (key.as_str(), "x")).collect::<Vec<_>>();
    let body = json!({ "url": "https://c.example.com/", "url_variables": variables(&many) });
    assert_eq!(root.put(&one, body).await.expect(200).json()["url_variables"].as_array().map(Vec::len), Some(20));
    let more = json!({ "url": "https://c.example.com/", "url_variables": variables(&[("w", "x")]) });
    assert!(root.put(&one, more).await.expect(422).message().starts_with("Invalid URL variables given"));
    let body = json!({ "url": "https://d.example.com/{w}", "url_variables": variables(&[("w", "x")]) });
    let shown = root.put(&one, body).await.expect(200).json();
    assert_eq!(shown["url_variables"], json!([{ "key": "w" }]));
}

async fn unreadable_values_can_be_replaced(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let url = "https://a.example.com/{a}/{b}";
    let values = json!({
        "url_variables": variables(&[("a", "x"), ("b", "y")]), "custom_headers": [{ "key": "X-A", "value": "x" }],
    });
    let id = hook(&root, project.id, url, values.clone()).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let damage = async || {
        let damaged = Expr::value("v1.00000000.AAAA");
        project_hooks::Entity::update_many()
            .col_expr(project_hooks::Column::UrlVariablesEncrypted, damaged.clone())
            .col_expr(project_hooks::Column::CustomHeadersEncrypted, damaged)
            .exec(server.backend.database.write())
            .await
            .expect("a change");
        row(&server).await
    };
    let damaged = damage().await;
    for path in ["url_variables/a", "custom_headers/X-A"] {
        let rejected = root.delete(&format!("{one}/{path}")).await.expect(422);
        assert!(rejected.message().contains("cannot be decrypted"), "{path}");
    }
    // The other values would be lost.
    for path in ["url_variables/a", "custom_headers/X-B"] {
        let rejected = root.put(&format!("{one}/{path}"), json!({ "value": "z" })).await.expect(422);
        assert!(rejected.message().contains("cannot be decrypted"), "{path}");
    }
    for (name, key) in [("url_variables", "a"), ("custom_headers", "X-B")] {
        let body = json!({ "url": "https://a.example.com/", name: variables(&[(key, "z")]) });
        let rejected = root.put(&one, body).await.expect(422);
        assert!(rejected.message().contains("cannot be decrypted"), "{name}");
    }
    root.put(&one, json!({ "url": url })).await.expect(422);
    assert_eq!(row(&server).await, damaged);
    // Other updates do not change the values.
    let body = json!({ "url": "https://a.example.com/", "url_variables": [], "custom_headers": [] });
    root.put(&one, body).await.expect(200);
    let changed = row(&server).await;
    assert_eq!(
        (&changed.url_variables_encrypted, &changed.custom_headers_encrypted),
        (&damaged.url_variables_encrypted, &damaged.custom_headers_encrypted)
    );
    root.put(&format!("{one}/custom_headers/x-a"), json!({ "value": "z" })).await.expect(204);
    let body = json!({ "url": url, "url_variables": values["url_variables"] });
    let shown = root.put(&one, body).await.expect(200).json();
    assert_eq!(shown["url_variables"], json!([{ "key": "a" }, { "key": "b" }]));
    assert_eq!(shown["custom_headers"], json!([{ "key": "x-a" }]));
    damage().await;
    let shown = root.put(&one, json!({ "url": "https://b.example.com/" })).await.expect(200).json();
    assert_eq!((&shown["url_variables"], &shown["custom_headers"]), (&json!([]), &json!([])));
}

async fn variables_can_contain_the_password(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let with = |user: &str| format!("{}/{{path}}", receiver.url.replace("http://", &format!("http://{user}@")));
    let values = variables(&[("password", "s3cret"), ("path", "a")]);
    let id = hook(&root, project.id, &with("ada:{password}"), json!({ "url_variables": values })).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    assert_eq!(root.get(&one).await.expect(200).json()["url"], with("ada:{password}"));
    let test = format!("{one}/test/push_events");
    let masked = with("ada:*****");
    let plain = with("ada:s3cret");
    root.post(&test, json!({})).await.expect(201);
    // "ada:s3cret" in Base64.
    assert_eq!(receiver.next().await.header("authorization"), "Basic YWRhOnMzY3JldA==");
    for url in [plain, masked.clone()] {
        assert_eq!(root.put(&one, json!({ "url": url })).await.expect(200).json()["url"], masked);
        root.post(&test, json!({})).await.expect(201);
        let arrived = receiver.next().await;
        assert_eq!((arrived.line.as_str(), arrived.header("authorization")), ("POST /a", "Basic YWRhOnMzY3JldA=="));
    }
}

async fn url_variables_require_maintainer(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let id = hook(&server.root(), project.id, "https://a.example.com/", json!({})).await;
    let path = format!("/projects/{}/hooks/{id}/url_variables/v", project.id);
    let body = json!({ "value": "x" });
    let developer = project.member("dev", AccessLevel::Developer).await;
    let maintainer = project.member("main", AccessLevel::Maintainer).await;
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 404), (&developer, 403)] {
        assert_eq!(client.put(&path, body.clone()).await.status, status);
        assert_eq!(client.delete(&path).await.status, status);
    }
    maintainer.put(&path, body.clone()).await.expect(204);
    maintainer.delete(&path).await.expect(204);
    let odd = format!("/projects/{}/hooks/x/url_variables/v", project.id);
    assert_eq!((maintainer.put(&odd, body.clone()).await.status, maintainer.delete(&odd).await.status), (400, 400));
    let other = format!("/projects/{}/hooks/4711/url_variables/v", project.id);
    assert_eq!(maintainer.put(&other, body).await.expect(404).message(), "404 Not found");
    assert_eq!(maintainer.put(&path, json!({ "value": "x".repeat(1_100_000) })).await.status, 413);
}

on_every_database![
    values_are_inserted_into_the_url_and_never_returned,
    placeholders_require_variables,
    url_with_values_is_checked with url_with_values_is_checked_options(),
    another_origin_deletes_variables_and_secrets,
    unreadable_values_can_be_replaced,
    variables_can_contain_the_password,
    url_variables_require_maintainer,
];
