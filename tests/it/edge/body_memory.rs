//! Memory of request and response bodies: order of errors for large bodies, limits of JSON, and budgets.

use holdfast::config::ConfigOptions;
use reqwest::Method;
use reqwest::header::HeaderValue;
use reqwest::multipart::Form;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::json;
use storage::entities::packages::{self, PackageStatus, PackageType};
use storage::entities::{Visibility, now, package_files, snippet_contents};
use tokio::io::AsyncReadExt;

use crate::code::snippets::snippet;
use crate::support::body_memory::wait_until_released;
use crate::support::client::http;
use crate::support::code::{NewCommit, Project, file};
use crate::support::raw_http::RawConnection;
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Size of a body that is just large, in bytes.
const LARGE: usize = (1 << 20) + 1;

/// Sends a JSON body. A chunked body does not announce its length.
async fn post(client: &Client, path: &str, body: Vec<u8>, is_chunked: bool) -> ApiResponse {
    let request = client.request(Method::POST, path).header("Content-Type", "application/json");
    let request = match is_chunked {
        true => {
            let chunks: Vec<_> = body.chunks(100_000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
            request.body(reqwest::Body::wrap_stream(futures_util::stream::iter(chunks)))
        }
        false => request.body(body),
    };
    client.send(request).await
}

async fn commit(client: &Client, project: &str, body: Vec<u8>, is_chunked: bool) -> ApiResponse {
    post(client, &format!("/projects/{project}/repository/commits"), body, is_chunked).await
}

async fn large_body_is_read_after_permission_check(server: TestServer) {
    let root = server.root();
    let guest = server.create_user("guest").await;
    project(&root, "open", json!({"visibility": "public"})).await;
    for is_chunked in [false, true] {
        let invalid = |size: usize| vec![b'{'; size];
        for (client, path, small, large) in [
            (&server.anonymous(), "root%2Fopen", 401, 401),
            (&guest.client, "root%2Fabsent", 400, 404),
            (&guest.client, "root%2Fopen", 400, 403),
            (&root, "root%2Fopen", 400, 400),
        ] {
            let statuses = [
                post(client, &format!("/projects/{path}/merge_requests"), invalid(1_000), is_chunked).await.status,
                post(client, &format!("/projects/{path}/merge_requests"), invalid(LARGE), is_chunked).await.status,
            ];
            assert_eq!(statuses, [small, large], "{path} {is_chunked}");
        }
    }
}

async fn large_commit_is_parsed_from_file(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({"initialize_with_readme": true})).await;
    for (number, is_chunked) in [(1, false), (2, true)] {
        let path = format!("large{number}.txt");
        let content = "line with \"quotes\" and ä\n".repeat(80_000);
        let body = json!({
            "branch": "main", "commit_message": "Add",
            "actions": [{"action": "create", "file_path": path, "content": content}],
        });
        commit(&root, "root%2Fwork", serde_json::to_vec(&body).expect("JSON"), is_chunked).await.expect(201);
        let sent = root.get(&format!("/projects/root%2Fwork/repository/files/{path}/raw?ref=main")).await.expect(200);
        assert!(sent.text() == content, "{path}");
    }
    assert_eq!(server.backend.budgets.memory.used(), 0);
}

async fn large_form_is_accepted_up_to_its_limit(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({"initialize_with_readme": true})).await;
    let url = "/projects/root%2Fwork/repository/files/form.txt";
    let content = "x".repeat(2 << 20);
    let pairs = [("branch", "main"), ("commit_message", "Add"), ("content", &content)];
    root.post_form(url, &pairs).await.expect(201);
    let form = Form::new().text("branch", "main").text("commit_message", "Change").text("content", "y".repeat(LARGE));
    root.send(root.request(Method::PUT, url).multipart(form)).await.expect(200);
    let content = "x".repeat(33 << 20);
    let pairs = [("branch", "main"), ("commit_message", "Change"), ("content", &content)];
    let response = root.send(root.request(Method::PUT, url).form(&pairs)).await;
    assert_eq!(response.status, 413);
}

async fn dense_json_is_rejected(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({})).await;
    let dense = |size: usize| format!(r#"{{"actions": [{}{{}}]}}"#, r#"{"":0},"#.repeat(size / 7)).into_bytes();
    for size in [500_000, 8 << 20] {
        let response = commit(&root, "root%2Fwork", dense(size), false).await.expect(400);
        assert!(response.message().starts_with("the body has too many values"), "{}", response.message());
    }
    assert_eq!(commit(&root, "root%2Fabsent", dense(8 << 20), false).await.status, 404);
    assert_eq!(server.backend.budgets.memory.used(), 0);
}

fn small_memory() -> ConfigOptions {
    ConfigOptions { body_memory_bytes: Some(3 << 20), ..ConfigOptions::default() }
}

async fn body_beyond_memory_returns_503_and_changes_nothing(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({"initialize_with_readme": true})).await;
    let body = json!({
        "branch": "main", "commit_message": "Add",
        "actions": [{"action": "create", "file_path": "a", "content": "x".repeat(2 << 20)}],
    });
    let body = serde_json::to_vec(&body).expect("JSON");
    for is_chunked in [false, true] {
        let response = commit(&root, "root%2Fwork", body.clone(), is_chunked).await.expect(503);
        assert_eq!(response.header("retry-after"), "5");
    }
    root.get("/projects/root%2Fwork/repository/files/a?ref=main").await.expect(404);
    assert_eq!(server.backend.budgets.memory.used(), 0);
}

async fn unfinished_bodies_hold_at_most_the_share_of_an_address(server: TestServer) {
    let head =
        "GET /api/v4/projects HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut connection = RawConnection::connect(&server.base).await;
        connection.send(head).await;
        connection.send(vec![b' '; 900_000]).await;
        connections.push(connection);
    }
    // The share is 2.75 MB, so at least one of the four is refused.
    let responses = connections.iter_mut().map(|connection| Box::pin(connection.response()));
    let (first, _, _) = futures_util::future::select_all(responses).await;
    assert_eq!((first.status, first.headers["retry-after"].as_str()), (503, "5"));
    assert!(server.backend.budgets.memory.used() <= 3 << 20);
    server.root().get("/version").await.expect(200);
    drop(connections);
    wait_until_released(&server).await;
}

fn small_files() -> ConfigOptions {
    ConfigOptions { max_json_file_bytes: Some(1_000), ..ConfigOptions::default() }
}

async fn large_file_in_json_returns_413_with_advice(server: TestServer) {
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    work.import(&NewCommit {
        branch: "files",
        from: Some("refs/heads/main"),
        changes: file("small", &"x".repeat(1_000)) + &file("large", &"x".repeat(1_001)),
        ..NewCommit::default()
    });
    let root = server.anonymous();
    root.get(&work.url("/files/small?ref=files")).await.expect(200);
    let blob = work.id("files:large");
    for (path, operation) in
        [(work.url("/files/large?ref=files"), "get_raw_file"), (work.url(&format!("/blobs/{blob}")), "get_raw_blob")]
    {
        let refused = root.get(&path).await.expect(413);
        assert_eq!(refused.json()["setting"], "max_json_file_bytes");
        let message = refused.message();
        let expected = format!(
            "413 Request Entity Too Large - the file has 1001 bytes (maximum is 1000); download it with {operation}"
        );
        assert_eq!(message, expected);
    }
    root.head(&work.url("/files/large?ref=files")).await.expect(200);
    assert_eq!(root.get(&work.url("/files/large/raw?ref=files")).await.expect(200).body.len(), 1_001);
    assert_eq!(root.get(&work.url(&format!("/blobs/{blob}/raw"))).await.expect(200).body.len(), 1_001);
}

fn moderate_memory() -> ConfigOptions {
    ConfigOptions { body_memory_bytes: Some(128 << 20), ..ConfigOptions::default() }
}

async fn unread_responses_hold_at_most_the_share_of_an_address(server: TestServer) {
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    work.import(&NewCommit {
        branch: "files",
        from: Some("refs/heads/main"),
        changes: file("large", &"x".repeat(8 << 20)),
        ..NewCommit::default()
    });
    let anonymous = server.anonymous();
    let path = work.url("/files/large?ref=files");
    anonymous.get(&path).await.expect(200);
    let request = format!("GET /api/v4{path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut unread = Vec::new();
    for _ in 0..12 {
        let mut connection = RawConnection::connect(&server.base).await;
        connection.send(&request).await;
        // The head shows that the server has built the response or refused it.
        let mut start = [0; 15];
        connection.stream.read_exact(&mut start).await.expect("a status line");
        unread.push((connection, String::from_utf8_lossy(&start).into_owned()));
    }
    let refused = unread.iter().filter(|(_, status)| status.contains(" 503 ")).count();
    // Each response holds eleven megabytes, and needs 32 while it is built; the address has 112.
    assert!((3..=6).contains(&refused), "{refused}");
    assert!(server.backend.budgets.memory.used() <= 112 << 20);
    // Small responses need nothing of the budget.
    server.root().get("/version").await.expect(200);
    drop(unread);
    wait_until_released(&server).await;
    anonymous.get(&path).await.expect(200);
}

async fn unread_cached_responses_hold_at_most_the_share_of_an_address(server: TestServer) {
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    work.import(&NewCommit {
        branch: "files",
        from: Some("refs/heads/main"),
        changes: file("large", &"x".repeat(150_000)),
        ..NewCommit::default()
    });
    let anonymous = server.anonymous();
    let path = |number: u64| work.url(&format!("/files/large?ref=files&x={number}"));
    let mut size = 0;
    for number in 0..20 {
        size = anonymous.get(&path(number)).await.expect(200).body.len() as u64;
    }
    assert!((200_000..256 << 10).contains(&size), "{size}");
    wait_until_released(&server).await;
    // The small window of a stream stops each response after its start.
    let client = http().http2_prior_knowledge().http2_initial_stream_window_size(1_024).build().expect("a client");
    let (mut unread, mut refused) = (Vec::new(), 0);
    for number in 0..20 {
        let response = client.get(format!("{}/api/v4{}", server.base, path(number))).send().await.expect("a response");
        match response.status().as_u16() {
            200 => unread.push(response),
            status => {
                assert_eq!((status, &response.headers()["retry-after"]), (503, &HeaderValue::from_static("5")));
                refused += 1;
            }
        }
        assert_eq!(server.backend.budgets.memory.used(), unread.len() as u64 * size, "{number}");
    }
    // The share of the address is 2.75 MiB.
    assert!(unread.len() > 5 && refused > 0, "{} {refused}", unread.len());
    // A response without a body needs no memory.
    assert!(anonymous.head(&path(0)).await.expect(200).body.is_empty());
    drop((unread, client));
    wait_until_released(&server).await;
}

/// Creates a public snippet whose content has `size` bytes, and returns the path of the content.
async fn large_snippet(server: &TestServer, size: usize) -> String {
    let id = snippet(&server.root(), "", "large", json!({"visibility": "public"})).await;
    let content = snippet_contents::Entity::update_many()
        .col_expr(snippet_contents::Column::Content, Expr::value("x".repeat(size)))
        .filter(snippet_contents::Column::SnippetId.eq(id));
    content.exec(server.backend.database.write()).await.expect("a content");
    format!("/snippets/{id}/raw")
}

async fn unread_ranges_use_at_most_the_share_of_an_address(server: TestServer) {
    let size = 8 << 20;
    let path = large_snippet(&server, size).await;
    let anonymous = server.anonymous().header("Range", "bytes=1-");
    assert_eq!(anonymous.get(&path).await.expect(206).body.len(), size - 1);
    wait_until_released(&server).await;
    for range in ["bytes=0-", "bytes=1-"] {
        let request = format!("GET /api/v4{path} HTTP/1.1\r\nHost: h\r\nRange: {range}\r\n\r\n");
        let mut unread = Vec::new();
        for _ in 0..16 {
            let mut connection = RawConnection::connect(&server.base).await;
            connection.send(&request).await;
            let mut start = [0; 15];
            connection.stream.read_exact(&mut start).await.expect("a status line");
            unread.push((connection, String::from_utf8_lossy(&start).into_owned()));
        }
        let count = |status: &str| unread.iter().filter(|(_, line)| line.contains(status)).count();
        let (sent, refused) = (count(" 206 "), count(" 503 "));
        // The address has 112 MiB.
        assert!(sent > 5 && refused > 0 && sent + refused == 16, "{range}: {sent} {refused}");
        let used = server.backend.budgets.memory.used();
        assert!(((sent * (size - 1)) as u64..=112 << 20).contains(&used), "{range}: {used}");
        drop(unread);
        wait_until_released(&server).await;
    }
    let first = server.anonymous().header("Range", "bytes=0-0");
    assert_eq!(first.get(&path).await.expect(206).text(), "x");
}

async fn raw_snippet_beyond_memory_returns_503_before_it_is_read(server: TestServer) {
    // The share of an address is 28 MiB, and content exists twice while it is read.
    let path = large_snippet(&server, 15 << 20).await;
    let anonymous = server.anonymous();
    let revalidated = anonymous.clone().header("If-None-Match", "*");
    let part = anonymous.clone().header("Range", "bytes=0-0");
    for client in [&anonymous, &revalidated, &part] {
        assert_eq!(client.get(&path).await.expect(503).header("retry-after"), "5");
        wait_until_released(&server).await;
    }
    let path = large_snippet(&server, 13 << 20).await;
    assert_eq!(anonymous.get(&path).await.expect(200).body.len(), 13 << 20);
    wait_until_released(&server).await;
    revalidated.get(&path).await.expect(304);
    wait_until_released(&server).await;
}

fn memory_of_three_indexes() -> ConfigOptions {
    ConfigOptions { body_memory_bytes: Some(32 << 20), ..ConfigOptions::default() }
}

/// Adds a Python package whose index has more than nine megabytes.
async fn large_python_package(server: &TestServer, project_id: i64) {
    let (db, at) = (server.backend.database.write(), now());
    let package = packages::ActiveModel {
        project_id: Set(project_id),
        package_type: Set(PackageType::Pypi),
        name: Set("large".to_owned()),
        name_key: Set("large".to_owned()),
        lookup_name: Set("large".to_owned()),
        version: Set("1.0".to_owned()),
        status: Set(PackageStatus::Default),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let package = package.insert(db).await.expect("a package");
    for part in 0..4 {
        let files = (0..1_000).map(|number| {
            let file_name = format!("large-{}-{part}-{number}.whl", "1".repeat(200));
            package_files::ActiveModel {
                package_id: Set(package.id),
                distinct_name: Set(Some(file_name.clone())),
                file_name: Set(file_name),
                size: Set(1),
                md5: Set("0".repeat(32)),
                sha1: Set("0".repeat(40)),
                sha256: Set("0".repeat(64)),
                sha512: Set(None),
                // Each character takes six bytes in HTML.
                requires_python: Set(Some("\"".repeat(300))),
                created_at: Set(at),
                ..Default::default()
            }
        });
        package_files::Entity::insert_many(files).exec_without_returning(db).await.expect("files");
    }
}

async fn unread_python_indexes_hold_at_most_the_share_of_an_address(server: TestServer) {
    let id = project(&server.root(), "work", json!({"visibility": "public"})).await;
    large_python_package(&server, id).await;
    let path = format!("/projects/{id}/packages/pypi/simple/large");
    let anonymous = server.anonymous();
    let size = anonymous.get(&path).await.expect(200).body.len();
    assert!(size > 9 << 20, "{size}");
    wait_until_released(&server).await;
    let request = format!("GET /api/v4{path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut unread = Vec::new();
    for _ in 0..5 {
        let mut connection = RawConnection::connect(&server.base).await;
        connection.send(&request).await;
        let mut start = [0; 15];
        connection.stream.read_exact(&mut start).await.expect("a status line");
        unread.push((connection, String::from_utf8_lossy(&start).into_owned()));
    }
    let count = |status: &str| unread.iter().filter(|(_, line)| line.contains(status)).count();
    assert!(count(" 200 ") > 0 && count(" 503 ") > 0, "{} {}", count(" 200 "), count(" 503 "));
    let used = server.backend.budgets.memory.used();
    assert!((size as u64..=28 << 20).contains(&used), "{used}");
    drop(unread);
    wait_until_released(&server).await;
    let json = anonymous.clone().header("Accept", "application/vnd.pypi.simple.v1+json");
    let index = json.get(&path).await.expect(200).json();
    assert_eq!(index["files"].as_array().map(Vec::len), Some(4_000));
    wait_until_released(&server).await;
}

/// Each range has a copy of the message while the response is built, which is not part of the size of the response.
async fn blame_reserves_commit_message_of_every_range(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({"visibility": "public"})).await;
    let lines = |changed: &str, count: usize| {
        let line = |number: usize| match number < 2 * count && number % 2 == 1 {
            true => format!("{changed} {number}\n"),
            false => format!("line {number}\n"),
        };
        (0..400).map(line).collect::<String>()
    };
    for (path, ranges, status) in [("few", 10, 200), ("many", 160, 503)] {
        let url = format!("/projects/root%2Fwork/repository/files/{path}");
        let body = json!({"branch": "main", "commit_message": "Add", "content": lines("", 0)});
        root.post(&url, body).await.expect(201);
        let message = "x".repeat(100_000);
        let body = json!({"branch": "main", "commit_message": message, "content": lines("changed", ranges)});
        root.put(&url, body).await.expect(200);
        // The response would have 16 MB, for which 16 MiB are reserved. The address has 28 MiB.
        let response = server.anonymous().get(&format!("{url}/blame?ref=main")).await.expect(status);
        if status == 200 {
            assert_eq!(response.json().as_array().map(Vec::len), Some(2 * ranges + 1));
        }
        wait_until_released(&server).await;
    }
}

on_every_database![
    large_body_is_read_after_permission_check,
    large_commit_is_parsed_from_file,
    large_form_is_accepted_up_to_its_limit,
    dense_json_is_rejected,
    body_beyond_memory_returns_503_and_changes_nothing with small_memory(),
    unfinished_bodies_hold_at_most_the_share_of_an_address with small_memory(),
    large_file_in_json_returns_413_with_advice with small_files(),
    unread_responses_hold_at_most_the_share_of_an_address with moderate_memory(),
    unread_cached_responses_hold_at_most_the_share_of_an_address with small_memory(),
    unread_ranges_use_at_most_the_share_of_an_address with moderate_memory(),
    raw_snippet_beyond_memory_returns_503_before_it_is_read with memory_of_three_indexes(),
    unread_python_indexes_hold_at_most_the_share_of_an_address with memory_of_three_indexes(),
    blame_reserves_commit_message_of_every_range with memory_of_three_indexes(),
];
