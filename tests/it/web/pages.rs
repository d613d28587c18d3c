//! Archives, files, `go get` and SSH keys at the addresses of pages.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database, openpgp};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC1lZHt8tfHU6emCnvkfhBBOCd0UGsSsNvg8JqKvMAgu";

async fn raw_file_is_returned_for_refs_with_slashes(server: TestServer) {
    let project = Project::with_commits(&server, "files", Visibility::Public).await;
    project.git(&["tag", "v1", "main~1"]);
    let anonymous = server.anonymous();
    let text = async |path: &str| anonymous.get(&format!("//root/files/-/raw/{path}")).await.expect(200).text();
    assert_eq!(text("main/README.md").await, "Hello, world\n");
    assert_eq!(text("v1/README.md").await, "Hello\n");
    assert_eq!(text(&format!("{}/docs/guide.md", project.id("main"))).await, "Read me.\n");
    assert_eq!(text("feature/x/x.txt").await, "x\n");
    assert_eq!(text("feature%2Fx/x.txt?inline=false").await, "x\n");
    let found = anonymous.get("//root/files/-/raw/main/docs/guide.md").await.expect(200);
    assert_eq!(found.header("content-type"), "text/plain");
    assert_eq!(found.header("x-content-type-options"), "nosniff");
    let current = anonymous.clone().header("If-None-Match", found.header("etag"));
    current.get("//root/files/-/raw/main/docs/guide.md").await.expect(304);
    for path in ["main/missing", "main/docs", "missing/README.md", "feature/README", "main"] {
        server.anonymous().get(&format!("//root/files/-/raw/{path}")).await.expect(404);
    }
}

async fn archive_has_format_of_file_name(server: TestServer) {
    Project::with_commits(&server, "packed", Visibility::Public).await;
    let anonymous = server.anonymous();
    for (path, start) in [
        ("main/packed-main.tar.gz", &b"\x1f\x8b"[..]),
        ("feature/x/packed.zip", b"PK"),
        ("main/packed-main.tar.bz2", b"BZh"),
        ("feature/x/packed.tbz", b"BZh"),
        ("main/packed.tbz2", b"BZh"),
        ("main/packed.tb2", b"BZh"),
        ("main/packed.bz2", b"BZh"),
        ("main/packed.tgz", b"\x1f\x8b"),
        ("main/packed-main.tar", b"pax_global_header"),
    ] {
        let found = anonymous.get(&format!("//root/packed/-/archive/{path}")).await.expect(200);
        assert!(found.body.starts_with(start), "{path}");
        assert!(found.header("content-disposition").starts_with("attachment"), "{path}");
    }
    for path in ["main/packed.rar", "missing/packed.zip", "packed.zip"] {
        anonymous.get(&format!("//root/packed/-/archive/{path}")).await.expect(404);
    }
}

async fn private_files_require_access_to_the_code(server: TestServer) {
    let project = Project::with_commits(&server, "hidden", Visibility::Private).await;
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let user = server.create_user("sam").await;
    server.insert_member(project.id, user.id, AccessLevel::Reporter).await;
    let reader = server.with_token(&server.create_token(user.id, &["read_repository"]).await);
    let other_scope = server.with_token(&server.create_token(user.id, &["read_user"]).await);
    for path in ["//root/hidden/-/raw/main/README.md", "//root/hidden/-/archive/main/h.tar"] {
        for (client, status) in [
            (&server.anonymous(), 404),
            (&guest, 404),
            (&other_scope, 403),
            (&server.with_token("unknown"), 401),
            (&reporter, 200),
            (&reader, 200),
        ] {
            client.get(path).await.expect(status);
        }
    }
}

async fn go_get_returns_address_of_visible_project(server: TestServer) {
    server.insert_project_at("g/s/open", Visibility::Public).await;
    let hidden = server.insert_project_at("g/s/hidden", Visibility::Private).await;
    let host = server.base.strip_prefix("http://").expect("a host").to_owned();
    let page = async |client: &Client, path: &str| client.get(&format!("//{path}?go-get=1")).await.expect(200).text();
    let content = |path: &str| format!("content=\"{host}/{path} git {}/{path}.git\"", server.base);
    for path in ["g/s/open", "G/S/Open/", "g/s/open/v2/deep"] {
        let found = page(&server.anonymous(), path).await;
        assert!(found.contains(&content("g/s/open")), "{path}: {found}");
    }
    // Without a visible project, the page does not reveal whether one exists.
    for path in ["g/s/hidden", "g/s/missing"] {
        assert!(page(&server.anonymous(), path).await.contains(&content("g/s")), "{path}");
    }
    let ann = server.create_user("ann").await;
    server.insert_member(hidden.id, ann.id, AccessLevel::Guest).await;
    let basic = crate::registry::registry_protocol::basic("ann", &ann.token);
    let member = server.anonymous().header("Authorization", &basic);
    assert!(page(&member, "g/s/hidden/sub").await.contains(&content("g/s/hidden")));
    let unsafe_path = page(&server.anonymous(), "a%22%3E/b%3Cscript%3E").await;
    assert!(!unsafe_path.contains("<script>"), "{unsafe_path}");
    server.anonymous().get("//g?go-get=1").await.expect(404);
}

async fn keys_of_a_user_are_public(server: TestServer) {
    let ada = server.create_user("ada").await;
    let keys = server.anonymous().get("//ada.keys").await.expect(200);
    assert_eq!((keys.text().as_str(), keys.header("content-type")), ("", "text/plain; charset=utf-8"));
    ada.client.post("/user/keys", json!({"title": "laptop", "key": KEY})).await.expect(201);
    assert_eq!(server.anonymous().get("//Ada.keys").await.expect(200).text().trim_end(), KEY);
    server.anonymous().get("//missing.keys").await.expect(404);
}

async fn gpg_keys_of_a_user_are_public(server: TestServer) {
    let ada = server.create_user("ada").await;
    let keys = server.anonymous().get("//ada.gpg").await.expect(200);
    assert_eq!((keys.text().as_str(), keys.header("content-type")), ("", "text/plain; charset=utf-8"));
    for key in [openpgp::ADA, openpgp::RSA] {
        ada.client.post("/user/gpg_keys", json!({ "key": key })).await.expect(201);
    }
    let expected = format!("{}\n{}\n", openpgp::ADA.trim(), openpgp::RSA.trim());
    assert_eq!(server.anonymous().get("//Ada.gpg").await.expect(200).text(), expected);
    server.anonymous().get("//missing.gpg").await.expect(404);
}

on_every_database![
    raw_file_is_returned_for_refs_with_slashes,
    archive_has_format_of_file_name,
    private_files_require_access_to_the_code,
    go_get_returns_address_of_visible_project,
    keys_of_a_user_are_public,
    gpg_keys_of_a_user_are_public,
];
