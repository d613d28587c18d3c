//! Lists of packages and files, and single packages.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, now, package_tags, packages};

use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};

use super::{package, upload};
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::support::client::Client;
use crate::support::query_plans::{plan, statement_with};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn names(client: &Client, path: &str) -> Vec<String> {
    let listed = client.get(path).await.expect(200).json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|package| format!("{} {}", text(&package["name"]), text(&package["version"])))
        .collect()
}

async fn package_has_all_attributes(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({ "visibility": "public" })).await;
    let work = format!("/projects/{id}");
    let (first, _) = package(&root, &work, "engine", "1.0").await;
    let (second, _) = package(&root, &work, "engine", "1.1").await;
    let listed = root.get(&format!("{work}/packages")).await.expect(200);
    assert_eq!(listed.header("x-total"), "2");
    let listed = listed.json();
    assert_eq!(
        listed[0],
        json!({
            "id": first, "name": "engine", "version": "1.0", "package_type": "generic", "status": "default",
            "_links": {
                "web_path": format!("/root/work/-/packages/{first}"),
                "delete_api_path": format!("{}/api/v4{work}/packages/{first}", server.base),
            },
            "created_at": listed[0]["created_at"], "last_downloaded_at": null, "tags": [],
        })
    );
    let mut one = root.get(&format!("{work}/packages/{second}")).await.expect(200).json();
    let versions = json!([{ "id": first, "version": "1.0", "created_at": listed[0]["created_at"] }]);
    assert_eq!(one["versions"], versions);
    one.as_object_mut().expect("an object").remove("versions");
    assert_eq!(one, listed[1]);
    let anonymous = server.anonymous().get(&format!("{work}/packages")).await.expect(200).json();
    assert_eq!(anonymous[0]["_links"], json!({ "web_path": format!("/root/work/-/packages/{first}") }));
}

async fn npm_package_has_tags(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (id, _) = package(&root, &work, "engine", "1.0").await;
    let db = server.backend.database.write();
    let row = packages::Entity::find_by_id(id).one(db).await.expect("a query").expect("a package");
    let project_id = row.project_id;
    let mut row = row.into_active_model();
    row.package_type = Set(packages::PackageType::Npm);
    row.update(db).await.expect("an update");
    for tag in ["latest", "beta"] {
        let row = package_tags::ActiveModel {
            project_id: Set(project_id),
            lookup_name: Set("engine".to_owned()),
            tag: Set(tag.to_owned()),
            package_id: Set(id),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(db).await.expect("a tag");
    }
    for shown in [
        root.get(&format!("{work}/packages")).await.expect(200).json()[0].clone(),
        root.get(&format!("{work}/packages/{id}")).await.expect(200).json(),
    ] {
        let tags = &shown["tags"];
        assert_eq!((&tags[0]["name"], &tags[1]["name"]), (&json!("latest"), &json!("beta")));
        assert_eq!(tags[0]["package_id"], id);
        assert!(tags[0]["created_at"].is_string() && tags[0]["updated_at"].is_string() && tags[0]["id"].is_i64());
    }
    assert_eq!(names(&root, &format!("{work}/packages?package_type=npm")).await, ["engine 1.0"]);
    assert_eq!(names(&root, &format!("{work}/packages?package_type=generic")).await, [""; 0]);
}

async fn list_has_filters_and_sort_orders(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for (name, version) in [("Zebra", "2.0"), ("apple_x", "1.0"), ("appleyx", "3.0")] {
        package(&root, &work, name, version).await;
    }
    let path = format!("{work}/packages/generic/secret/0.1/f?status=hidden");
    root.send(root.request(reqwest::Method::PUT, &path).body("x")).await.expect(201);
    for (query, expected) in [
        ("", vec!["Zebra 2.0", "apple_x 1.0", "appleyx 3.0"]),
        ("order_by=created_at&sort=desc", vec!["appleyx 3.0", "apple_x 1.0", "Zebra 2.0"]),
        ("order_by=name", vec!["apple_x 1.0", "appleyx 3.0", "Zebra 2.0"]),
        ("order_by=version&sort=desc", vec!["appleyx 3.0", "Zebra 2.0", "apple_x 1.0"]),
        ("order_by=type", vec!["Zebra 2.0", "apple_x 1.0", "appleyx 3.0"]),
        ("package_name=APPLE", vec!["apple_x 1.0", "appleyx 3.0"]),
        ("package_name=e_x", vec!["apple_x 1.0"]),
        ("package_name=%25", vec![]),
        ("package_version=1.0", vec!["apple_x 1.0"]),
        ("package_version=1", vec![]),
        ("status=hidden", vec!["secret 0.1"]),
        ("status=default&package_type=generic", vec!["Zebra 2.0", "apple_x 1.0", "appleyx 3.0"]),
        ("package_type=pypi", vec![]),
        ("package_type=conan", vec![]),
        ("package_type=ml_model", vec![]),
        ("package_type=terraform_module&package_version=1.0", vec![]),
        ("per_page=2&page=2", vec!["appleyx 3.0"]),
        ("include_versionless=true", vec!["Zebra 2.0", "apple_x 1.0", "appleyx 3.0"]),
    ] {
        assert_eq!(names(&root, &format!("{work}/packages?{query}")).await, expected, "{query}");
    }
    for (query, fault) in [
        ("order_by=size", "order_by does not have a valid value"),
        ("sort=up", "sort does not have a valid value"),
        ("package_type=maven2", "package_type does not have a valid value"),
        ("status=gone", "status does not have a valid value"),
        ("package_name=a%00", "package_name is invalid"),
        ("package_version=a%00", "package_version is invalid"),
    ] {
        let refused = root.get(&format!("{work}/packages?{query}")).await.expect(400);
        assert_eq!(refused.message(), fault, "{query}");
    }
}

async fn lists_use_an_index_for_each_sort_order(server: TestServer) {
    let root = server.root();
    let list = format!("/projects/{}/packages", project(&root, "work", json!({})).await);
    for (query, column) in [
        ("order_by=created_at", "created_at"),
        ("order_by=name", "name_key"),
        ("order_by=version&sort=desc", "version"),
        ("order_by=type&status=hidden", "package_type"),
    ] {
        let parts = ["FROM \"packages\"", "ORDER BY"];
        let sql = statement_with(&server, &root, &format!("{list}?{query}"), &parts).await;
        let plan = plan(&server, &sql, None).await;
        let is_index =
            |line: &String| line.contains("ix_packages_project_id_") && line.contains(&format!("{column}_id"));
        assert!(plan.iter().any(is_index), "{query}: {plan:#?}");
        let is_sort = |line: &String| line.contains("Sort") || line.contains("TEMP B-TREE");
        assert!(!plan.iter().any(is_sort), "{query}: {plan:#?}");
    }
    let refused = root.get(&format!("{list}?per_page=100&page=501")).await.expect(405);
    assert!(refused.message().contains("maximum allowed offset of 50000"), "{}", refused.message());
}

async fn group_list_contains_packages_that_the_caller_can_read(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let below = group(&root, "below", json!({ "visibility": "public", "parent_id": top })).await;
    let mut ids = Vec::new();
    for (name, namespace, visibility) in [
        ("public", top, "public"),
        ("internal", top, "internal"),
        ("private", top, "private"),
        ("below", below, "private"),
    ] {
        let body = json!({ "namespace_id": namespace, "visibility": visibility });
        let id = project(&root, name, body).await;
        package(&root, &format!("/projects/{id}"), name, "1").await;
        ids.push(id);
    }
    let elsewhere = project(&root, "elsewhere", json!({ "visibility": "public" })).await;
    package(&root, &format!("/projects/{elsewhere}"), "elsewhere", "1").await;
    let path = format!("/groups/{top}/packages");
    let (ann, guest, external) =
        (server.create_user("ann").await, server.create_user("guest").await, server.create_user("external").await);
    root.put(&format!("/users/{}", external.id), json!({ "external": true })).await.expect(200);
    join(&root, &format!("/projects/{}", ids[2]), ann.id, 20).await;
    join(&root, &format!("/groups/{top}"), guest.id, 10).await;
    let all = ["public 1", "internal 1", "private 1", "below 1"];
    assert_eq!(names(&root, &path).await, all);
    assert_eq!(names(&root, &format!("{path}?exclude_subgroups=true")).await, all[..3]);
    assert_eq!(names(&root, &format!("{path}?sort=desc&order_by=name")).await, [all[0], all[2], all[1], all[3]]);
    assert_eq!(names(&root, &format!("{path}?package_name=below&status=default")).await, ["below 1"]);
    assert_eq!(names(&ann.client, &path).await, all[..3]);
    assert_eq!(names(&guest.client, &path).await, all[..2]);
    assert_eq!(names(&external.client, &path).await, all[..1]);
    assert_eq!(names(&server.anonymous(), &path).await, all[..1]);
    let listed = root.get(&path).await.expect(200).json();
    assert_eq!((&listed[3]["project_id"], &listed[3]["project_path"]), (&json!(ids[3]), &json!("top/below/below")));
    assert!(listed[3]["_links"]["delete_api_path"].is_string());
    let listed = ann.client.get(&path).await.expect(200).json();
    assert_eq!(listed[2]["_links"].as_object().map(serde_json::Map::len), Some(1));
    // Groups that the caller cannot see, and deploy tokens.
    let hidden = server.insert_group("hidden", Visibility::Private).await;
    ann.client.get(&format!("/groups/{hidden}/packages")).await.expect(404);
    server.anonymous().get(&format!("/groups/{hidden}/packages")).await.expect(404);
    server.anonymous().get("/groups/999999/packages").await.expect(404);
    root.get(&format!("{path}?order_by=project_path")).await.expect(400);
    let token = deploy_token(&root, &format!("/groups/{top}"), &["read_package_registry"]).await;
    let client = server.anonymous().header("Deploy-Token", credentials(&token).1);
    assert_eq!(names(&client, &path).await, all[..1], "the operation ignores deploy tokens");
    let narrow = server.with_token(&server.create_token(ann.id, &["read_registry"]).await);
    narrow.get(&path).await.expect(403);
}

async fn lists_run_few_statements(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let ann = server.create_user("ann").await;
    join(&root, &format!("/groups/{top}"), ann.id, 30).await;
    let id = project(&root, "work", json!({ "namespace_id": top })).await;
    let work = format!("/projects/{id}");
    let paths = [
        format!("{work}/packages?per_page=2"),
        format!("/groups/{top}/packages?per_page=2"),
        format!("{work}/packages/1/package_files?per_page=2"),
    ];
    let mut counts = Vec::new();
    for round in ["1", "2"] {
        for number in 0..5 {
            package(&root, &work, &format!("a{number}"), round).await;
            upload(&root, &work, ["a0", "1", &format!("{round}-{number}")], b"x").await.expect(201);
        }
        for path in &paths {
            ann.client.get(path).await.expect(200);
            let before = server.statements();
            // A new query, so that the response is not cached.
            ann.client.get(&format!("{path}&round={round}")).await.expect(200);
            counts.push(server.statements() - before);
        }
    }
    assert_eq!(counts[..3], counts[3..]);
}

async fn versions_of_another_name_or_hidden_ones_are_not_listed(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let work = format!("/projects/{id}");
    let (first, _) = package(&root, &work, "a", "1").await;
    let (third, _) = package(&root, &work, "a", "3").await;
    let (second, _) = package(&root, &work, "a", "2").await;
    package(&root, &work, "b", "1").await;
    let path = format!("{work}/packages/generic/a/4/f?status=hidden");
    root.send(root.request(reqwest::Method::PUT, &path).body("x")).await.expect(201);
    let other = project(&root, "other", json!({})).await;
    package(&root, &format!("/projects/{other}"), "a", "5").await;
    let reporter = server.create_user("reporter").await;
    server.insert_member(id, reporter.id, AccessLevel::Reporter).await;
    let one = reporter.client.get(&format!("{work}/packages/{first}")).await.expect(200).json();
    let versions: Vec<&Value> = one["versions"].as_array().expect("a list").iter().map(|one| &one["id"]).collect();
    assert_eq!(versions, [&json!(second), &json!(third)]);
}

async fn sizes_of_packages_are_counted_in_statistics(server: TestServer) {
    let root = server.root();
    let ids = [project(&root, "none", json!({})).await, project(&root, "some", json!({})).await];
    for (version, size) in [("1", 1_000), ("2", 234)] {
        upload(&root, &format!("/projects/{}", ids[1]), ["a", version, "f"], &vec![7; size]).await.expect(201);
    }
    let sizes = |shown: &Value| {
        let [all, repository, packages] = ["storage_size", "repository_size", "packages_size"]
            .map(|name| shown["statistics"][name].as_i64().expect("a number"));
        assert_eq!(all, repository + packages);
        packages
    };
    for (id, expected) in [(ids[0], 0), (ids[1], 1_234)] {
        let shown = root.get(&format!("/projects/{id}?statistics=true")).await.expect(200).json();
        assert_eq!(sizes(&shown), expected);
    }
    let list = async |query: &str| {
        let path = format!("/projects?order_by=id&sort=asc&statistics=true{query}");
        root.get(&path).await.expect(200).json().as_array().expect("a list").iter().map(sizes).collect::<Vec<_>>()
    };
    assert_eq!(list("").await, [0, 1_234]);
    let cost = async || {
        let before = server.statements();
        root.get("/projects?statistics=true&per_page=100").await.expect(200);
        server.statements() - before
    };
    cost().await;
    server.backend.database.invalidate();
    let few = cost().await;
    for number in 0..3 {
        let id = project(&root, &format!("more{number}"), json!({})).await;
        upload(&root, &format!("/projects/{id}"), ["a", "1", "f"], b"x").await.expect(201);
    }
    assert_eq!(cost().await, few);
    // Callers below Reporter receive no statistics.
    let guest = server.create_user("guest").await;
    server.insert_member(ids[1], guest.id, AccessLevel::Guest).await;
    let shown = guest.client.get(&format!("/projects/{}?statistics=true", ids[1])).await.expect(200).json();
    assert_eq!(shown["statistics"], Value::Null);
}

on_every_database![
    sizes_of_packages_are_counted_in_statistics,
    package_has_all_attributes,
    npm_package_has_tags,
    list_has_filters_and_sort_orders,
    lists_use_an_index_for_each_sort_order,
    group_list_contains_packages_that_the_caller_can_read,
    lists_run_few_statements,
    versions_of_another_name_or_hidden_ones_are_not_listed,
];
