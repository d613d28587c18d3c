//! Python packages of groups.

use sea_orm::ConnectionTrait;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{below_api, links, upload, wheel};
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::packages::check_ranges;
use crate::registry::registry_protocol::basic;
use crate::support::query_plans::{plan, statement_with};
use crate::support::{TestServer, on_every_database};

async fn group_index_contains_packages_of_its_projects(server: TestServer) {
    let root = server.root();
    for (path, name, version) in [
        ("engines/a", "My.Pkg", "1.0"),
        ("engines/low/b", "my-pkg", "2.0"),
        ("engines/low/b", "other", "1.0"),
        ("elsewhere/c", "my-pkg", "3.0"),
    ] {
        let project = match root.get(&format!("/projects/{}", path.replace('/', "%2F"))).await {
            found if found.status == 200 => found.json()["id"].as_i64().expect("an ID"),
            _ => server.insert_project_at(path, Visibility::Public).await.id,
        };
        upload(&root, project, name, version).await.expect(201);
    }
    let group = server.insert_group("engines", Visibility::Public).await;
    let url = format!("{}/api/v4/groups/{group}/-/packages/pypi", server.base);
    for key in [group.to_string(), "engines".to_owned()] {
        let base = format!("/groups/{key}/-/packages/pypi/simple");
        let index = root.get(&base).await.expect(200).text();
        assert_eq!(links(&index), [format!("{url}/simple/my-pkg/"), format!("{url}/simple/other/")]);
        for client in [&root, &server.anonymous()] {
            let found = links(&client.get(&format!("{base}/MY_pkg/")).await.expect(200).text());
            assert_eq!(found.len(), 2);
            for (link, file_name) in found.iter().zip([wheel("My.Pkg", "1.0"), wheel("my-pkg", "2.0")]) {
                assert!(link.starts_with(&format!("{url}/files/")) && link.contains(&file_name), "{link}");
                let file = below_api(link, &server);
                assert_eq!(client.get(&file).await.expect(200).text(), file_name);
                check_ranges(client, &file).await;
            }
        }
        root.get(&format!("{base}/missing")).await.expect(404);
        root.get(&format!("{base}/-a")).await.expect(404);
    }
    let file_name = wheel("my-pkg", "3.0");
    let digest = super::sha256(file_name.as_bytes());
    root.get(&format!("/groups/{group}/-/packages/pypi/files/{digest}/{file_name}")).await.expect(404);
    root.get(&format!("/groups/{group}/-/packages/pypi/files/x/{file_name}")).await.expect(404);
}

async fn downloads_find_files_by_an_index_of_digests(server: TestServer) {
    let root = server.root();
    let project = server.insert_project_at("engines/a", Visibility::Public).await.id;
    let group = server.insert_group("engines", Visibility::Public).await;
    upload(&root, project, "my-pkg", "1.0").await.expect(201);
    // With few files, the planner of PostgreSQL prefers other indexes.
    let files = "INSERT INTO package_files (package_id, file_name, size, md5, sha1, sha256, created_at) \
         WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000) \
         SELECT packages.id, 'f' || n, 1, '', '', 'd' || n, packages.created_at FROM numbers CROSS JOIN packages";
    for statement in [files, "ANALYZE"] {
        server.backend.database.write().execute_unprepared(statement).await.expect(statement);
    }
    let file_name = wheel("my-pkg", "1.0");
    let digest = super::sha256(file_name.as_bytes());
    for base in [format!("/projects/{project}/packages/pypi"), format!("/groups/{group}/-/packages/pypi")] {
        let path = format!("{base}/files/{digest}/{file_name}");
        for client in [&root, &server.anonymous()] {
            let parts = ["FROM \"package_files\"", "\"sha256\" ="];
            let sql = statement_with(&server, client, &path, &parts).await;
            let plan = plan(&server, &sql, None).await;
            let has_index = plan.iter().any(|line| line.contains("ix_package_files_sha256"));
            assert!(has_index, "{path}: {plan:#?}");
        }
    }
}

async fn only_readable_packages_are_returned(server: TestServer) {
    let root = server.root();
    let mut private = 0;
    for (path, visibility) in [
        ("engines/private", Visibility::Private),
        ("engines/internal", Visibility::Internal),
        ("engines/public", Visibility::Public),
        ("engines/disabled", Visibility::Public),
    ] {
        let project = server.insert_project_at(path, visibility).await.id;
        upload(&root, project, path.rsplit('/').next().expect("a name"), "1.0").await.expect(201);
        if visibility == Visibility::Private {
            private = project;
        }
    }
    root.put("/projects/engines%2Fdisabled", json!({ "packages_enabled": false })).await.expect(200);
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    server.insert_member(private, guest.id, AccessLevel::Guest).await;
    server.insert_member(private, reporter.id, AccessLevel::Reporter).await;
    let created = deploy_token(&root, "/groups/engines", &["read_package_registry"]).await;
    let (name, token) = credentials(&created);
    for (client, expected) in [
        (&server.anonymous(), &["public"][..]),
        (&guest.client, &["internal", "public"]),
        (&reporter.client, &["internal", "private", "public"]),
        (&root, &["internal", "private", "public"]),
        (&server.anonymous().header("Authorization", &basic(name, token)), &["internal", "private", "public"]),
    ] {
        let base = "/groups/engines/-/packages/pypi/simple";
        let found = links(&client.get(base).await.expect(200).text());
        let names: Vec<&str> = found.iter().filter_map(|link| link.trim_end_matches('/').rsplit('/').next()).collect();
        assert_eq!(names, expected);
        for name in ["private", "internal", "public", "disabled"] {
            let status = client.get(&format!("{base}/{name}/")).await.status;
            assert_eq!(status == 200, expected.contains(&name), "{name} {status}");
        }
    }
    // A client without credentials may have to send them.
    let asked = server.anonymous().get("/groups/engines/-/packages/pypi/simple/private/").await.expect(401);
    assert_eq!(asked.header("www-authenticate"), "Basic realm=\"Holdfast\"");
    guest.client.get("/groups/engines/-/packages/pypi/simple/private/").await.expect(404);
}

async fn private_group_is_hidden(server: TestServer) {
    let group = server.insert_group("secret", Visibility::Private).await;
    server.insert_project(group, "a", Visibility::Private).await;
    let outsider = server.create_user("outsider").await;
    let narrow = server.with_token(&server.create_token(1, &["read_user"]).await);
    let digest = super::sha256(b"x");
    for end in ["simple".to_owned(), "simple/a".to_owned(), format!("files/{digest}/a-1.0.whl")] {
        for key in ["secret", "missing", "999999"] {
            let url = format!("/groups/{key}/-/packages/pypi/{end}");
            outsider.client.get(&url).await.expect(404);
            server.anonymous().get(&url).await.expect(401);
        }
        narrow.get(&format!("/groups/secret/-/packages/pypi/{end}")).await.expect(403);
    }
}

on_every_database![
    group_index_contains_packages_of_its_projects,
    downloads_find_files_by_an_index_of_digests,
    only_readable_packages_are_returned,
    private_group_is_hidden,
];
