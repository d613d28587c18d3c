//! A repository with very many tags.

use std::time::{Duration, Instant};

use sea_orm::DbBackend;
use serde_json::json;

use super::{insert_images, repository};
use crate::support::query_plans::{plan, statement_with, statements};
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

/// Number of tags in the large repository.
const MANY: u32 = 10_000;

async fn registry_lists_use_index_for_many_tags(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": engines })).await;
    let few = repository(&server, work, "few").await;
    let many = repository(&server, work, "many").await;
    insert_images(server.backend.database.write(), few, 30).await;
    insert_images(server.backend.database.write(), many, MANY).await;
    server.backend.database.invalidate();
    let all = format!("/projects/{work}/registry/repositories");
    let listed = root.get(&format!("{all}?tags=true&tags_count=true")).await.expect(200).json();
    assert_eq!((&listed[0]["tags_count"], &listed[1]["tags_count"]), (&json!(31), &json!(MANY + 1)));
    let shown = listed[1]["tags"].as_array().expect("tags");
    assert_eq!((shown.len(), &shown[0]["name"], &shown[1]["name"]), (500, &json!("latest"), &json!("v0")));
    let alone = root.get(&format!("{all}?tags=true&name=many")).await.expect(200).json();
    let shown = alone[0]["tags"].as_array().expect("tags");
    assert_eq!((shown.len(), &shown[0]["name"], &shown[999]["name"]), (1_000, &json!("latest"), &json!("v1897")));
    assert_eq!(listed[0]["tags"].as_array().map(Vec::len), Some(31));

    let page = root.get(&format!("{all}/{many}/tags?per_page=100")).await.expect(200);
    assert_eq!(page.json().as_array().map(Vec::len), Some(100));
    // Totals stop at 10,000 and the repository has one tag more.
    assert_eq!((page.header("x-total"), page.header("x-next-page")), ("", "2"));
    let last = root.get(&format!("{all}/{many}/tags?per_page=100&page=101")).await.expect(200);
    assert_eq!(last.pluck("name"), ["v9999"]);
    assert_eq!(root.get(&format!("{all}/{many}/tags/v7777")).await.expect(200).json()["name"], "v7777");

    // Pages are read from an index in its order, without sorting and without reading other rows.
    let postgresql = server.backend.database.read().get_database_backend() == DbBackend::Postgres;
    let (index, sorts) = match postgresql {
        true => ("uq_registry_tags_repository_id_name", "Sort"),
        false => ("uq_registry_tags_repository_id_name", "TEMP B-TREE"),
    };
    for (path, parts) in [
        (format!("{all}/{many}/tags"), &["FROM \"registry_tags\"", "ORDER BY"][..]),
        (format!("{all}/{many}/tags/v7"), &["FROM \"registry_tags\"", "\"registry_manifests\""]),
        (format!("{all}?tags=true&name=many"), &["FROM \"registry_tags\"", "\"first\""]),
        (format!("{all}?tags_count=true"), &["FROM \"registry_tags\"", "GROUP BY"]),
    ] {
        let sql = statement_with(&server, &root, &path, parts).await;
        let plan = plan(&server, &sql, None).await;
        let read = plan.iter().any(|line| line.contains(index));
        let full_scan =
            plan.iter().any(|line| line.contains("Seq Scan on registry_tags") || line.trim() == "SCAN registry_tags");
        let sorted = plan.iter().any(|line| line.contains(sorts)) && !parts.contains(&"GROUP BY");
        assert!(read && !full_scan && !sorted, "{path}: {sql} {plan:#?}");
    }
    let most = |path: String| {
        let (server, root) = (&server, &root);
        async move { statements(server, root, &path).await.len() }
    };
    assert!(most(format!("{all}?tags=true&tags_count=true&per_page=100")).await <= 15);
    assert!(most(format!("/groups/{engines}/registry/repositories?tags=true&tags_count=true")).await <= 15);
}

async fn list_repositories_limits_tags_per_response(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for number in 0..60 {
        let id = repository(&server, work, &format!("r{number}")).await;
        insert_images(server.backend.database.write(), id, 40).await;
    }
    server.backend.database.invalidate();
    let all = format!("/projects/{work}/registry/repositories?tags=true");
    for (per_page, each) in [(1, 41), (25, 40), (50, 20), (60, 20)] {
        let page = root.get(&format!("{all}&per_page={per_page}")).await.expect(200).pluck("tags");
        let shown: Vec<usize> = page.iter().map(|tags| tags.as_array().map_or(0, Vec::len)).collect();
        assert_eq!(shown, vec![each; per_page], "{per_page}");
    }
}

async fn expensive_regex_does_not_block_other_requests(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let id = repository(&server, work, "web").await;
    insert_images(server.backend.database.write(), id, MANY).await;
    server.backend.database.invalidate();
    let all = format!("/projects/{work}/registry/repositories/{id}/tags");
    let nasty = "(?:(?:v?[0-9]*)*)*(?:[0-9]?){60}[02468]|(v+)+x";
    let query = format!("name_regex_delete={}", crate::support::client::segment(nasty));
    root.delete(&format!("{all}?{query}")).await.expect(202);
    let started = Instant::now();
    let longest = server
        .run_jobs_while(async {
            let mut longest = Duration::ZERO;
            loop {
                // A read and a write during the job.
                let start = Instant::now();
                let page = server.anonymous().get(&format!("{all}?per_page=1")).await.expect(200);
                root.put(&format!("/projects/{work}"), json!({ "description": format!("{start:?}") }))
                    .await
                    .expect(200);
                longest = longest.max(start.elapsed());
                if page.header("x-total") == "5001" {
                    return longest;
                }
                assert!(started.elapsed() < Duration::from_secs(120), "{} are left", page.header("x-total"));
            }
        })
        .await;
    assert!(longest < Duration::from_secs(10), "a request took {longest:?}");
    let left = root.get(&format!("{all}?per_page=100&page=2")).await.expect(200).pluck("name");
    assert!(
        left.iter().all(|name| name.as_str().is_some_and(|name| name.ends_with(['1', '3', '5', '7', '9']))),
        "{left:?}"
    );
}

on_every_database![
    registry_lists_use_index_for_many_tags,
    list_repositories_limits_tags_per_response,
    expensive_regex_does_not_block_other_requests,
];
