//! Creating, updating and deleting files.

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;
use storage::entities::Visibility;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::repository::Sample;
use crate::support::server::ROOT_TOKEN;
use crate::support::{ApiResponse, TestServer, contract, on_every_database};

async fn file_can_be_created_updated_and_deleted(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (root, url) = (server.root(), sample.file("lib/class.rb"));
    let before = sample.id_of("main");
    let created = root
        .post(
            &url,
            json!({
                "branch": "main", "commit_message": "Add a class", "content": "class A\r\nend\r\n",
                "author_name": "Grace Hopper", "author_email": "grace@example.com",
            }),
        )
        .await
        .expect(201);
    assert_eq!(created.json(), json!({ "file_path": "lib/class.rb", "branch": "main" }));
    assert_eq!(sample.git_raw(&["show", "main:lib/class.rb"]), "class A\r\nend\r\n");
    assert_eq!(
        sample.git_raw(&["log", "-1", "--format=%an <%ae>|%cn|%P|%B", "main"]).trim(),
        format!("Grace Hopper <grace@example.com>|Administrator|{before}|Add a class")
    );
    let updated = root
        .put(
            &url,
            json!({
                "branch": "main", "commit_message": "Change it", "content": "Zm9v", "encoding": "base64",
            }),
        )
        .await
        .expect(200);
    assert_eq!(updated.json(), json!({ "file_path": "lib/class.rb", "branch": "main" }));
    assert_eq!(sample.git_raw(&["show", "main:lib/class.rb"]), "foo");
    let deleted = root.delete(&format!("{url}?branch=main&commit_message=Drop%20it")).await.expect(204);
    assert!(deleted.body.is_empty());
    assert_eq!(sample.git_raw(&["log", "-1", "--format=%s", "main"]).trim(), "Drop it");
    assert_eq!(sample.git_raw(&["ls-tree", "-r", "main", "lib"]), "");
    sample.fsck();
}

async fn create_file_returns_normalized_path(server: TestServer) {
    let sample = Sample::new(&server).await;
    for (requested, stored) in [("./dot", "dot"), ("x//y", "x/y"), ("trail/", "trail")] {
        let body = json!({ "branch": "main", "commit_message": "x", "content": requested });
        let written = server.root().post(&sample.file(requested), body).await.expect(201).json();
        assert_eq!(written["file_path"], stored);
        let found = server.root().get(&format!("{}?ref=main", sample.file(stored))).await.expect(200);
        assert_eq!(found.json()["file_path"], stored);
    }
}

async fn update_file_preserves_mode_and_create_accepts_form(server: TestServer) {
    let sample = Sample::new(&server).await;
    server
        .root()
        .put(
            &sample.file("bin/run"),
            json!({
                "branch": "main", "commit_message": "x", "content": "#!/bin/bash\n", "encoding": "text",
            }),
        )
        .await
        .expect(200);
    assert!(sample.git_raw(&["ls-tree", "main", "bin/run"]).starts_with("100755 blob"));
    let pairs = [("branch", "main"), ("commit_message", "x"), ("content", "Zm9v\nYmFy"), ("encoding", "base64")];
    server.root().post_form(&sample.file("form"), &pairs).await.expect(201);
    assert_eq!(sample.git_raw(&["show", "main:form"]), "foobar");
}

async fn first_file_of_empty_repository_creates_default_branch(server: TestServer) {
    let sample = Sample::empty(&server, Visibility::Private).await;
    let url = format!("{}?ref=main", sample.file("a"));
    assert_eq!(server.root().get(&url).await.expect(404).message(), "404 Commit Not Found");
    server
        .root()
        .post(
            &sample.file("a"),
            json!({
                "branch": "trunk", "start_branch": "whatever", "commit_message": "First", "content": "a",
            }),
        )
        .await
        .expect(201);
    assert_eq!(sample.git_raw(&["symbolic-ref", "HEAD"]).trim(), "refs/heads/trunk");
    assert_eq!(sample.project().await.default_branch.as_deref(), Some("trunk"));
    server.root().get(&format!("{}?ref=trunk", sample.file("a"))).await.expect(200);
    sample.fsck();
}

async fn create_file_creates_branch_from_start_branch(server: TestServer) {
    let sample = Sample::new(&server).await;
    let body = |branch: &str, start: Option<&str>| json!({ "branch": branch, "start_branch": start, "commit_message": "x", "content": "x" });
    let url = sample.file("new");
    server.root().post(&url, body("feature/one", Some("topic"))).await.expect(201);
    assert_eq!(sample.id_of("feature/one~1"), sample.id_of("topic"));
    let on_a_branch = "You can only create or edit files when you are on a branch";
    for (branch, start, message) in [
        ("missing", None, on_a_branch.to_owned()),
        ("missing", Some("unknown"), on_a_branch.to_owned()),
        ("missing", Some("missing"), on_a_branch.to_owned()),
        (
            "topic",
            Some("main"),
            "A branch called 'topic' already exists. Switch to that branch in order to make changes".to_owned(),
        ),
        (
            "a..b",
            Some("main"),
            "Something went wrong when we tried to create 'a..b' for you: Branch name is invalid".to_owned(),
        ),
    ] {
        let answer = server.root().post(&url, body(branch, start)).await.expect(400);
        assert_eq!(answer.message(), message, "{branch} {start:?}");
    }
    server.root().post(&url, body("topic", Some("topic"))).await.expect(201);
    for branch in ["--upload-pack=x", "-x", "a b", "a~1", "x.lock", "HEAD", "a//b", "refs/../x"] {
        server.root().post(&sample.file("other"), body(branch, Some("main"))).await.expect(400);
    }
    sample.fsck();
}

async fn write_file_rejects_invalid_changes_with_reason(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (root, before) = (server.root(), sample.id_of("main"));
    let body = json!({ "branch": "main", "commit_message": "x", "content": "x" });
    let (exists, missing) = ("A file with this name already exists", "A file with this name doesn't exist");
    assert_eq!(root.post(&sample.file("README.md"), body.clone()).await.expect(400).message(), exists);
    for path in ["missing", "bin", "sub"] {
        assert_eq!(root.put(&sample.file(path), body.clone()).await.expect(400).message(), missing, "{path}");
    }
    let answer = root.delete(&format!("{}?branch=main&commit_message=x", sample.file("missing"))).await;
    assert_eq!(answer.expect(400).message(), missing);
    let same = json!({ "branch": "main", "commit_message": "x", "content": "# Title\n\nHello, world\nBye\n" });
    assert_eq!(root.put(&sample.file("README.md"), same).await.expect(400).message(), "The commit contains no changes");
    for path in ["a/../b", "x/..", "/abs", "../../etc/passwd"] {
        let answer = root.post(&sample.file(path), body.clone()).await.expect(400);
        assert_eq!(answer.message(), "file_path should be a valid file path", "{path}");
    }
    let long = vec!["x".repeat(255); 20].join("/");
    for path in [
        ".git/config",
        "a/.GIT/hooks/x",
        "git~1",
        ".git ",
        ".g\u{200c}it/x",
        "a\nb",
        "README.md/x",
        "bin",
        &"x".repeat(300),
        &long,
    ] {
        root.post(&sample.file(path), body.clone()).await.expect(400);
    }
    let broken = json!({ "branch": "main", "commit_message": "x", "content": "!!", "encoding": "base64" });
    assert_eq!(root.post(&sample.file("b"), broken).await.expect(400).message(), "content is not valid Base64");
    assert_eq!(sample.id_of("main"), before);
    sample.fsck();
}

async fn write_file_reports_all_invalid_parameters(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (root, url) = (server.root(), sample.file("a"));
    let errors = "branch is missing, branch is empty, commit_message is missing, commit_message is empty";
    for answer in [root.post(&url, json!({})).await, root.put(&url, json!({})).await] {
        let message = answer.expect(400).message();
        assert_eq!(message, format!("{errors}, content is missing"));
    }
    assert_eq!(root.delete(&url).await.expect(400).message(), errors);
    for (body, message) in [
        (json!({ "branch": " ", "commit_message": "x", "content": "" }), "branch is empty"),
        (json!({ "branch": "m", "commit_message": "", "content": "" }), "commit_message is empty"),
        (json!({ "branch": ["m"], "commit_message": "x", "content": "" }), "branch is invalid"),
        (json!({ "branch": "m\0", "commit_message": "x", "content": "" }), "branch is invalid"),
        (
            json!({ "branch": "m", "commit_message": "x", "content": "", "encoding": "utf-7" }),
            "encoding does not have a valid value",
        ),
    ] {
        assert_eq!(root.post(&url, body).await.expect(400).message(), message);
    }
}

async fn write_file_with_stale_last_commit_id_returns_400(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (root, url) = (server.root(), sample.file("README.md"));
    let (stale, current) = (sample.id_of("v1.0"), sample.id_of("ends-with.json"));
    let changed = "You are attempting to update a file that has changed since you started editing it.";
    let body =
        |last: &str| json!({ "branch": "main", "commit_message": "x", "content": "new", "last_commit_id": last });
    assert_eq!(root.put(&url, body(&stale)).await.expect(400).message(), changed);
    let delete = format!("{url}?branch=main&commit_message=x&last_commit_id={stale}");
    assert_eq!(root.delete(&delete).await.expect(400).message(), changed);
    root.put(&url, body(&current)).await.expect(200);
    assert_eq!(root.put(&url, body(&current)).await.expect(400).message(), changed);
    let last = sample.id_of("main");
    root.delete(&format!("{url}?branch=main&commit_message=x&last_commit_id={last}")).await.expect(204);
}

async fn create_file_accepts_five_megabytes(server: TestServer) {
    let sample = Sample::new(&server).await;
    let content = "0123456789abcde\n".repeat(5 << 16);
    let body = json!({ "branch": "main", "commit_message": "x", "content": content });
    server.root().post(&sample.file("big"), body).await.expect(201);
    let raw = server.root().get(&format!("{}/raw?ref=main", sample.file("big"))).await.expect(200);
    assert!(raw.body == content.as_bytes());
}

async fn oversized_bodies_return_413_before_body_is_read(server: TestServer) {
    let sample = Sample::new(&server).await;
    for (method, path) in [
        ("POST", sample.file("a")),
        ("PUT", sample.file("a")),
        ("DELETE", sample.file("a")),
        ("POST", sample.commits()),
    ] {
        let answer = send_head(&server, method, &format!("/api/v4{path}"), (128 << 20) + 1).await;
        assert_eq!(answer.expect(413).message(), "413 Request Entity Too Large");
    }
}

on_every_database![
    file_can_be_created_updated_and_deleted,
    create_file_returns_normalized_path,
    update_file_preserves_mode_and_create_accepts_form,
    first_file_of_empty_repository_creates_default_branch,
    create_file_creates_branch_from_start_branch,
    write_file_rejects_invalid_changes_with_reason,
    write_file_reports_all_invalid_parameters,
    write_file_with_stale_last_commit_id_returns_400,
    create_file_accepts_five_megabytes,
    oversized_bodies_return_413_before_body_is_read,
];

/// Sends the head of a request with this `Content-Length` and without a body.
async fn send_head(server: &TestServer, method: &str, path: &str, length: u64) -> ApiResponse {
    let address = server.base.strip_prefix("http://").expect("an address");
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nPrivate-Token: {ROOT_TOKEN}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.expect("writing");
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.expect("reading");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| {
        let name: HeaderName = name.parse().expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    });
    let answer = ApiResponse {
        status: status.parse().expect("a number"),
        headers: headers.collect(),
        body: body.as_bytes().to_vec(),
    };
    contract::check(method, path, &answer);
    answer
}
