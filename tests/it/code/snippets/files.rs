//! Snippets with the `files` parameter, which contains one file.

use serde_json::json;

use super::{home, snippet, titles};
use crate::support::{TestServer, on_every_database};

const ONE_FILE: &str = "must contain exactly one file";

async fn create_snippet_accepts_one_file(server: TestServer) {
    let (_, path) = home(&server, "made", "public").await;
    let root = server.root();
    for path in ["", path.as_str()] {
        let all = format!("{path}/snippets");
        let file = json!({"file_path": "a.rb", "content": "puts 1"});
        let created = root.post(&all, json!({"title": "New", "files": [file]})).await.expect(201).json();
        assert_eq!((&created["title"], &created["file_name"]), (&json!("New"), &json!("a.rb")));
        let raw = format!("{all}/{}/raw", created["id"]);
        assert_eq!(root.get(&raw).await.expect(200).text(), "puts 1");
        let form = [("title", "Of a form"), ("files[][file_path]", "f"), ("files[][content]", "c")];
        let created = root.post_form(&all, &form).await.expect(201).json();
        assert_eq!(created["file_name"], "f");
        for (files, text) in
            [(json!([file, {"file_path": "b.rb", "content": "puts 2"}]), ONE_FILE), (json!([]), ONE_FILE)]
        {
            let rejected = root.post(&all, json!({"title": "t", "files": files})).await.expect(400);
            assert_eq!(rejected.json()["message"]["files"], json!([text]));
        }
        for (files, text) in [
            (json!([{"file_path": "a.rb"}]), "files[0][content] is missing"),
            (json!([{"content": "c"}]), "files[0][file_path] is missing"),
        ] {
            let rejected = root.post(&all, json!({"title": "t", "files": files})).await.expect(400);
            assert_eq!(rejected.message(), text);
        }
        let blank = json!({"title": " ", "files": [{"file_path": " ", "content": ""}]});
        let blank = root.post(&all, blank).await.expect(400).json()["message"].clone();
        let each = json!(["can't be blank"]);
        assert_eq!(blank, json!({"content": each, "file_name": each, "title": each}), "all errors at once");
    }
    assert_eq!(titles(&root, &path).await, ["Of a form", "New"]);
}

async fn create_snippet_reports_all_parameter_errors(server: TestServer) {
    let (_, path) = home(&server, "watched", "public").await;
    let root = server.root();
    for (path, content) in [("", "content, files"), (path.as_str(), "content, code, files")] {
        let all = format!("{path}/snippets");
        let missing = "are missing, exactly one parameter must be provided";
        let rejected = root.post(&all, json!({"visibility": "secret"})).await.expect(400).message();
        for text in [
            format!("file_name, files {missing}"),
            format!("{content} {missing}"),
            "title is missing".to_owned(),
            "visibility does not have a valid value".to_owned(),
        ] {
            assert!(rejected.contains(&text), "{text}: {rejected}");
        }
        let file = json!({"file_path": "a", "content": "c"});
        let both = json!({"title": "t", "file_name": "f", "content": "c", "files": [file]});
        let rejected = root.post(&all, both).await.expect(400);
        assert_eq!(
            rejected.message(),
            "file_name, files are mutually exclusive, content, files are mutually exclusive"
        );
    }
}

async fn update_snippet_updates_and_moves_its_file(server: TestServer) {
    let (_, path) = home(&server, "changed", "public").await;
    let root = server.root();
    for path in ["", path.as_str()] {
        let this = format!("{path}/snippets/{}", snippet(&root, path, "Kept", json!({})).await);
        let put = async |file: serde_json::Value| root.put(&this, json!({"files": [file]})).await;
        let raw = async || root.get(&format!("{this}/raw")).await.expect(200).text();
        put(json!({"action": "update", "file_path": "a.txt", "content": "Second"})).await.expect(200);
        assert_eq!(raw().await, "Second");
        let moved = json!({"action": "move", "previous_path": "a.txt", "file_path": "b.txt"});
        assert_eq!(put(moved.clone()).await.expect(200).json()["file_name"], "b.txt");
        assert_eq!(raw().await, "Second");
        let rejected = put(moved).await.expect(400);
        assert_eq!(rejected.json()["message"]["files"], json!(["must refer to the file of the snippet"]));
        let both = json!({"action": "move", "file_path": "c.txt", "content": "Third"});
        assert_eq!(put(both).await.expect(200).json()["file_name"], "c.txt");
        assert_eq!(raw().await, "Third");
        for (file, text) in [
            (
                json!({"action": "update", "file_path": "a.txt", "content": "x"}),
                "must refer to the file of the snippet",
            ),
            (json!({"action": "update"}), "must include content"),
            (json!({"action": "move", "content": "x"}), "must include file_path"),
            (json!({"action": "create", "file_path": "d.txt", "content": "x"}), ONE_FILE),
            (json!({"action": "delete", "file_path": "c.txt"}), ONE_FILE),
        ] {
            let rejected = put(file).await.expect(400);
            assert_eq!(rejected.json()["message"]["files"], json!([text]));
        }
        let blank = put(json!({"action": "update", "content": " "})).await.expect(400);
        assert_eq!(blank.json()["message"]["content"], json!(["can't be blank"]));
        put(json!({"file_path": "c.txt", "content": "x"})).await.expect(400);
        put(json!({"action": "burn"})).await.expect(400);
        let same = json!({"action": "update", "content": "x"});
        let two = root.put(&this, json!({"files": [same, same]})).await.expect(400);
        assert_eq!(two.json()["message"]["files"], json!([ONE_FILE]));
        let twice = root.put(&this, json!({"files": [same], "content": "y"})).await.expect(400);
        assert_eq!(twice.message(), "files cannot be combined with file_name and content");
        root.put(&this, json!({"files": []})).await.expect(400);
        assert_eq!(raw().await, "Third");
    }
}

on_every_database![
    create_snippet_accepts_one_file,
    create_snippet_reports_all_parameter_errors,
    update_snippet_updates_and_moves_its_file,
];
