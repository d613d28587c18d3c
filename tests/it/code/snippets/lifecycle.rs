//! Creation, reading, updating and deletion of snippets.

use serde_json::{Value, json};

use super::{home, snippet, titles};
use crate::support::{TestServer, on_every_database};

async fn get_project_snippet_returns_all_fields(server: TestServer) {
    let (project, path) = home(&server, "shown", "public").await;
    let root = server.root();
    let attributes = json!({
        "title": " How to start ", "file_name": "start.sh", "content": "holdfast serve\n",
        "description": "Starts it", "visibility": "internal",
    });
    let created = root.post(&format!("{path}/snippets"), attributes).await.expect(201).json();
    let keys: Vec<&String> = created.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "id",
            "title",
            "file_name",
            "description",
            "visibility",
            "author",
            "expires_at",
            "created_at",
            "updated_at",
            "project_id",
            "web_url",
            "raw_url",
        ]
    );
    for (field, value) in [
        ("title", json!("How to start")),
        ("file_name", json!("start.sh")),
        ("description", json!("Starts it")),
        ("visibility", json!("internal")),
        ("expires_at", Value::Null),
        ("project_id", json!(project)),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    assert_eq!((&created["author"]["username"], &created["created_at"]), (&json!("root"), &created["updated_at"]));
    let page = format!("{}/of-shown/shown/-/snippets/{}", server.base, created["id"]);
    assert_eq!((&created["web_url"], &created["raw_url"]), (&json!(page), &json!(format!("{page}/raw"))));
    let this = format!("{path}/snippets/{}", created["id"]);
    assert_eq!(root.get(&this).await.expect(200).json(), created);
    assert_eq!(root.get(&format!("{path}/snippets")).await.expect(200).json(), json!([created]));
    let by_path = format!("/projects/of-shown%2Fshown/snippets/{}", created["id"]);
    assert_eq!(root.get(&by_path).await.expect(200).json(), created);
    let old = json!({"title": "Old client", "file_name": "a.rb", "code": "puts 1"});
    let old = root.post(&format!("{path}/snippets"), old).await.expect(201).json();
    assert_eq!((&old["description"], &old["visibility"]), (&Value::Null, &json!("private")));
    let raw = format!("{path}/snippets/{}/raw", old["id"]);
    assert_eq!(root.get(&raw).await.expect(200).text(), "puts 1");
}

async fn personal_snippet_has_no_project(server: TestServer) {
    let ann = server.create_user("ann").await;
    let id = snippet(&ann.client, "", "Mine", json!({})).await;
    let shown = ann.client.get(&format!("/snippets/{id}")).await.expect(200).json();
    assert_eq!((&shown["project_id"], &shown["visibility"]), (&Value::Null, &json!("private")));
    assert_eq!(shown["web_url"], format!("{}/-/snippets/{id}", server.base));
    assert_eq!(shown["raw_url"], format!("{}/-/snippets/{id}/raw", server.base));
    let form = [("title", "Of a form"), ("file_name", "f"), ("content", "c"), ("visibility", "public")];
    ann.client.post_form("/snippets", &form).await.expect(201);
    assert_eq!(titles(&ann.client, "").await, ["Of a form", "Mine"], "newest first");
    let (_, path) = home(&server, "other", "public").await;
    snippet(&server.root(), &path, "Of a project", json!({"visibility": "public"})).await;
    let public = server.anonymous().get("/snippets/public?per_page=1").await.expect(200);
    assert_eq!((public.pluck("title"), public.header("X-Total")), (vec![json!("Of a form")], "1"));
    server.root().get(&format!("{path}/snippets/{id}")).await.expect(404);
}

async fn update_snippet_changes_only_sent_attributes(server: TestServer) {
    let (_, path) = home(&server, "changed", "public").await;
    let root = server.root();
    for path in ["", path.as_str()] {
        let id = snippet(&root, path, "First", json!({"description": "Why"})).await;
        let this = format!("{path}/snippets/{id}");
        let before = root.get(&this).await.expect(200).json();
        let changed = root.put(&this, json!({"title": "Second"})).await.expect(200).json();
        assert_eq!((&changed["title"], &changed["description"]), (&json!("Second"), &json!("Why")));
        assert_eq!((&changed["file_name"], &changed["created_at"]), (&before["file_name"], &before["created_at"]));
        assert!(changed["updated_at"].as_str() > before["updated_at"].as_str());
        assert_eq!(root.get(&format!("{this}/raw")).await.expect(200).text(), "What it holds");
        let rest = json!({"content": "New", "file_name": "b.txt", "visibility": "public", "description": null});
        let changed = root.put(&this, rest).await.expect(200).json();
        assert_eq!((&changed["description"], &changed["visibility"]), (&Value::Null, &json!("public")));
        let raw = root.get(&format!("{this}/raw")).await.expect(200);
        assert!(raw.header("content-disposition").contains("b.txt"));
        assert_eq!(raw.text(), "New");
        let old = root.request(reqwest::Method::DELETE, &this);
        let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        root.send(old).await.expect(412);
        root.delete(&this).await.expect(204);
        for answer in [root.get(&this).await, root.delete(&this).await, root.get(&format!("{this}/raw")).await] {
            assert_eq!(answer.expect(404).message(), "404 Snippet Not Found");
        }
    }
}

async fn create_and_update_snippet_reject_invalid_attributes(server: TestServer) {
    let (_, path) = home(&server, "refused", "public").await;
    let root = server.root();
    for path in ["", path.as_str()] {
        let (all, id) = (format!("{path}/snippets"), snippet(&root, path, "Kept", json!({})).await);
        let this = format!("{all}/{id}");
        let whole = json!({"title": "t", "file_name": "f", "content": "c"});
        for field in ["title", "file_name", "content"] {
            let mut body = whole.clone();
            body.as_object_mut().expect("an object").remove(field);
            let missing = root.post(&all, body.clone()).await.expect(400);
            let expected = match field {
                "title" => "title is missing".to_owned(),
                _ => format!("{field}, "),
            };
            let message = missing.message();
            assert!(message.starts_with(&expected) && message.contains("missing"), "{message}");
            body[field] = json!(" \n");
            let blank = root.post(&all, body.clone()).await.expect(400);
            assert!(blank.text().contains("can't be blank"), "{}", blank.text());
            root.put(&this, json!({field: ""})).await.expect(400);
            if field != "content" {
                body[field] = json!("x".repeat(256));
                root.post(&all, body).await.expect(400);
                root.put(&this, json!({field: "x".repeat(256)})).await.expect(400);
            }
        }
        let nothing = root.put(&this, json!({})).await.expect(400);
        assert!(nothing.message().ends_with("at least one parameter must be provided"));
        root.put(&this, json!({"visibility": "secret"})).await.expect(400);
        root.get(&format!("{all}/one")).await.expect(400);
        root.put(&format!("{all}/999999"), json!({"title": "t"})).await.expect(404);
        let settings = json!({"restricted_visibility_levels": ["public"]});
        root.put("/application/settings", settings).await.expect(200);
        let ann = server.create_user(&format!("ann-{}", all.len())).await;
        let attributes = json!({"title": "t", "file_name": "f", "content": "c", "visibility": "public"});
        if path.is_empty() {
            let rejected = ann.client.post(&all, attributes).await.expect(400);
            assert!(rejected.text().contains("restricted"), "{}", rejected.text());
            let own = snippet(&ann.client, "", "Own", json!({})).await;
            ann.client.put(&format!("/snippets/{own}"), json!({"visibility": "public"})).await.expect(400);
        }
        root.put("/application/settings", json!({"restricted_visibility_levels": []})).await.expect(200);
    }
    let both = json!({"title": "t", "file_name": "f", "content": "c", "code": "c"});
    let both = root.post(&format!("{path}/snippets"), both).await.expect(400);
    assert_eq!(both.message(), "content, code are mutually exclusive");
    assert_eq!(titles(&root, &path).await, ["Kept"]);
}

async fn list_snippets_does_not_read_contents(server: TestServer) {
    let (_, path) = home(&server, "light", "public").await;
    let root = server.root();
    for title in ["One", "Two"] {
        snippet(&root, &path, title, json!({})).await;
    }
    let from = server.statements();
    assert_eq!(titles(&root, &path).await, ["Two", "One"]);
    let texts = server.statement_texts(from);
    assert!(texts.iter().any(|text| text.contains("\"snippets\"")));
    assert!(!texts.iter().any(|text| text.contains("snippet_contents")), "{texts:#?}");
}

on_every_database![
    get_project_snippet_returns_all_fields,
    personal_snippet_has_no_project,
    update_snippet_changes_only_sent_attributes,
    create_and_update_snippet_reject_invalid_attributes,
    list_snippets_does_not_read_contents,
];
