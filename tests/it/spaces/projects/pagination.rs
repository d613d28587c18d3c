//! Lists of many projects, and lists during concurrent changes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use serde_json::{Value, json};
use storage::entities::{Visibility, fold, now, projects};

use crate::support::spaces::{group, join, project};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Returns the row of a project without a repository.
fn row(namespace_id: i64, path: &str) -> projects::ActiveModel {
    projects::ActiveModel {
        namespace_id: Set(namespace_id),
        name: Set(path.to_owned()),
        name_key: Set(fold(path)),
        path: Set(path.to_owned()),
        path_key: Set(fold(path)),
        visibility: Set(Visibility::Public),
        last_activity_at: Set(now()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    }
}

async fn add(server: &TestServer, rows: Vec<projects::ActiveModel>) {
    let inserted = projects::Entity::insert_many(rows).exec_without_returning(server.backend.database.write());
    inserted.await.expect("projects");
}

/// Returns the IDs of all projects.
async fn ids(server: &TestServer) -> Vec<i64> {
    let rows = projects::Entity::find().order_by_asc(projects::Column::Id);
    let rows = rows.all(server.backend.database.read()).await.expect("projects");
    rows.into_iter().map(|row| row.id).collect()
}

/// Returns the path of the next page, if any.
fn next(page: &ApiResponse) -> Option<String> {
    let url = page.header("links").strip_prefix('<')?.split('>').next()?;
    Some(url.split_once("/api/v4")?.1.to_owned())
}

/// Returns the IDs of all pages, in order.
async fn all_pages(client: &Client, first: &str) -> Vec<i64> {
    let mut seen = Vec::new();
    let mut path = Some(first.to_owned());
    while let Some(expected) = path {
        let page = client.get(&expected).await.expect(200);
        seen.extend(page.pluck("id").iter().filter_map(Value::as_i64));
        path = next(&page);
    }
    seen
}

/// Adds and deletes projects until `stop` is set or all of `deleted_ids` are deleted. Each deletion allows one
/// addition, because pagination towards new projects would otherwise not end.
async fn add_and_delete(server: &TestServer, namespace: i64, deleted_ids: &[i64], stop: &AtomicBool) {
    let mut number = 0;
    for deleted_id in deleted_ids {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        add(server, vec![row(namespace, &format!("new-{number}"))]).await;
        number += 1;
        let deletion = projects::Entity::delete_many().filter(projects::Column::Id.eq(*deleted_id));
        deletion.exec(server.backend.database.write()).await.expect("a removal");
    }
    assert!(number > 0, "no project was added or deleted");
}

/// Inserts many projects with one statement.
pub(super) async fn insert_projects(server: &TestServer, namespace: i64, count: usize) {
    let sql = format!(
        "INSERT INTO projects (namespace_id, name, name_key, path, path_key, description, description_key, visibility, \
           last_activity_at, created_at, updated_at) \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) \
         SELECT {namespace}, 'p' || n, 'p' || n, 'p' || n, 'p' || n, 'of many', 'of many', 'public', \
           '2020-01-01T00:00:00+00:00', '2020-01-01T00:00:00+00:00', '2020-01-01T00:00:00+00:00' FROM numbers"
    );
    let db = server.backend.database.write();
    // PostgreSQL does not derive the types of constants from the columns.
    let sql = match db.get_database_backend() {
        sea_orm::DbBackend::Postgres => sql.replace("'2020-01-01T00:00:00+00:00'", "timestamptz '2020-01-01 00:00Z'"),
        _ => sql,
    };
    db.execute_unprepared(&sql).await.expect("projects");
}

async fn keyset_pagination_is_stable_during_inserts_and_deletes(server: TestServer) {
    let root = server.root();
    let namespace = group(&root, "busy", json!({"visibility": "public"})).await;
    add(&server, (0..120).map(|number| row(namespace, &format!("p-{number}"))).collect()).await;
    for (sort, client) in [("asc", root.clone()), ("desc", server.anonymous())] {
        let before = ids(&server).await;
        // Every third project is deleted, those of the last pages first.
        let mut deleted_ids: Vec<i64> = before.iter().copied().step_by(3).collect();
        if sort == "asc" {
            deleted_ids.reverse();
        }
        let stop = AtomicBool::new(false);
        let first = format!("/projects?pagination=keyset&order_by=id&per_page=7&sort={sort}");
        let walking = async {
            let seen = all_pages(&client, &first).await;
            stop.store(true, Ordering::Relaxed);
            seen
        };
        let (seen, ()) = tokio::join!(walking, add_and_delete(&server, namespace, &deleted_ids, &stop));
        let once: BTreeSet<i64> = seen.iter().copied().collect();
        assert_eq!(once.len(), seen.len(), "{sort}: a project was returned twice");
        let ordered = if sort == "asc" { seen.is_sorted() } else { seen.is_sorted_by(|a, b| a > b) };
        assert!(ordered, "{sort}");
        let after: BTreeSet<i64> = ids(&server).await.into_iter().collect();
        let missed: Vec<&i64> = before.iter().filter(|id| after.contains(id) && !once.contains(id)).collect();
        assert!(missed.is_empty(), "{sort}: {missed:?} were not returned");
        // The next round uses the same names.
        let added = projects::Entity::delete_many().filter(projects::Column::Path.starts_with("new-"));
        added.exec(server.backend.database.write()).await.expect("a removal");
    }
}

async fn keyset_pagination_continues_beyond_the_offset_limit(server: TestServer) {
    let root = server.root();
    let namespace = group(&root, "crowd", json!({"visibility": "public"})).await;
    insert_projects(&server, namespace, 50_150).await;
    for client in [root, server.anonymous()] {
        let list = "/projects?order_by=id&sort=asc&per_page=100";
        let last = client.get(&format!("{list}&page=500")).await.expect(200);
        let on_it = last.pluck("path");
        assert_eq!((on_it.len(), &on_it[99]), (100, &json!("p50000")));
        assert_eq!((last.header("x-total"), last.header("x-next-page")), ("", "501"));
        assert!(!last.header("link").contains("rel=\"last\""));
        let rejected = client.get(&format!("{list}&page=501")).await.expect(405);
        assert!(rejected.message().contains("maximum allowed offset of 50000"));
        let from = last.json()[99]["id"].as_i64().expect("an id");
        let rest = all_pages(&client, &format!("{list}&pagination=keyset&id_after={from}")).await;
        assert_eq!(rest.len(), 150);
    }
}

async fn totals_are_returned_up_to_ten_thousand_rows(server: TestServer) {
    let root = server.root();
    let namespace = group(&root, "crowd", json!({"visibility": "public"})).await;
    insert_projects(&server, namespace, 10_000).await;
    let list = "/projects?order_by=id&sort=asc&per_page=100";
    for page in [1, 2, 100] {
        let response = root.get(&format!("{list}&page={page}")).await.expect(200);
        assert_eq!((response.header("x-total"), response.header("x-total-pages")), ("10000", "100"), "{page}");
    }
    let beyond = root.get(&format!("{list}&page=101")).await.expect(200);
    assert_eq!((beyond.json(), beyond.header("x-total")), (json!([]), "10000"));
    let counted = async |page: &str| {
        let before = server.statements();
        root.get(&format!("{list}&page={page}")).await.expect(200);
        let texts = server.statement_texts(before);
        texts.iter().filter(|text| text.contains("COUNT(*)")).count()
    };
    assert_eq!((counted("1").await, counted("100").await), (1, 0));
    add(&server, vec![row(namespace, "one-more")]).await;
    for page in [1, 2, 100, 101] {
        let response = root.get(&format!("{list}&page={page}")).await.expect(200);
        assert_eq!((response.header("x-total"), response.header("x-total-pages")), ("", ""), "{page}");
    }
}

async fn filters_find_the_same_projects_above_the_lookup_limit(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let crowded = group(&root, "crowd", json!({"visibility": "public"})).await;
    let inner = group(&root, "inner", json!({"parent_id": crowded})).await;
    let apart = group(&root, "apart", json!({})).await;
    project(&root, "inside", json!({"namespace_id": inner})).await;
    let shared = project(&root, "shared", json!({"namespace_id": apart})).await;
    let share = json!({"group_id": crowded, "group_access": 20});
    root.post(&format!("/projects/{shared}/share"), share).await.expect(201);
    project(&ada.client, "own", json!({})).await;
    project(&root, "strange", json!({"visibility": "public"})).await;
    join(&root, &format!("/groups/{crowded}"), ada.id, 30).await;
    let totals = async |client: &Client| {
        let mut totals = Vec::new();
        for list in [
            "/projects?membership=true",
            "/projects?min_access_level=30",
            "/projects?owned=true",
            "/projects?membership=true&search=many",
            "/projects?search=many",
            "/projects?search=p1",
            "/groups/crowd/projects",
            "/groups/crowd/projects?with_shared=false",
            "/groups/crowd/projects?include_subgroups=true",
            "/groups/crowd/projects?include_subgroups=true&min_access_level=30",
        ] {
            let response = client
                .get(&format!("{list}{}per_page=3", if list.contains('?') { "&" } else { "?" }))
                .await
                .expect(200);
            totals.push(response.header("x-total").parse::<i64>().expect("a total"));
        }
        totals
    };
    insert_projects(&server, crowded, 40).await;
    let paths = root.get("/projects?search=p1&per_page=100").await.expect(200).pluck("path");
    let p1 = i64::try_from(paths.len()).expect("a length");
    assert_eq!(totals(&ada.client).await, [43, 42, 1, 40, 40, p1, 41, 40, 42, 41]);
    let deletion = projects::Entity::delete_many().filter(projects::Column::NamespaceId.eq(crowded));
    deletion.exec(server.backend.database.write()).await.expect("a removal");
    // More projects than the limit for lookups by ID.
    insert_projects(&server, crowded, 700).await;
    let p1 = (1..=700).filter(|number| number.to_string().starts_with('1')).count();
    let p1 = i64::try_from(p1).expect("a length");
    assert_eq!(totals(&ada.client).await, [703, 702, 1, 700, 700, p1, 701, 700, 702, 701]);
    let walked = all_pages(&ada.client, "/projects?membership=true&pagination=keyset&order_by=id&per_page=100").await;
    assert_eq!(walked.len(), 703);
}

async fn search_index_follows_updates_and_deletes(server: TestServer) {
    let root = server.root();
    let found = async |text: &str| {
        let query = [("search", text), ("order_by", "id"), ("sort", "asc")];
        let request = root.request(reqwest::Method::GET, "/projects").query(&query);
        root.send(request).await.expect(200).pluck("path")
    };
    let none: [Value; 0] = [];
    let brass = project(&root, "alpha", json!({"name": "Größe", "description": "Brass \"Steam\" AND 5% (NEAR*"})).await;
    let other = project(&root, "beta", json!({"description": "brassy"})).await;
    for (text, expected) in [
        ("BRASS", vec!["alpha", "beta"]),
        ("\"steam\"", vec!["alpha"]),
        ("near*", vec!["alpha"]),
        ("(near", vec!["alpha"]),
        ("5%", vec!["alpha"]),
        ("steam alpha", vec!["alpha"]),
        ("brassy alpha", vec![]),
        ("al", vec!["alpha"]),
        ("ß", vec!["alpha"]),
        ("GRÖß", vec!["alpha"]),
        ("brass OR beta", vec![]),
        ("name_key:alpha", vec![]),
        ("\"", vec!["alpha"]),
        ("\"\"\"", vec![]),
    ] {
        assert_eq!(found(text).await, expected, "{text}");
    }
    root.put(&format!("/projects/{brass}"), json!({"description": "copper"})).await.expect(200);
    assert_eq!(found("steam").await, none);
    assert_eq!(found("copper").await, ["alpha"]);
    root.put(&format!("/projects/{other}"), json!({"name": "gamma", "path": "delta"})).await.expect(200);
    assert_eq!(found("beta").await, none);
    assert_eq!((found("gamma").await, found("delta").await), (vec![json!("delta")], vec![json!("delta")]));
    root.delete(&format!("/projects/{other}")).await.expect(202);
    assert_eq!(found("delta").await, none);
    let db = server.backend.database.write();
    projects::Entity::delete_by_id(other).exec(db).await.expect("a removal");
    if db.get_database_backend() == sea_orm::DbBackend::Sqlite {
        // It fails if the text index differs from the projects.
        let check = "INSERT INTO project_texts (project_texts, rank) VALUES ('integrity-check', 1)";
        db.execute_unprepared(check).await.expect("a consistent index");
    }
}

on_every_database![
    keyset_pagination_is_stable_during_inserts_and_deletes,
    keyset_pagination_continues_beyond_the_offset_limit,
    totals_are_returned_up_to_ten_thousand_rows,
    filters_find_the_same_projects_above_the_lookup_limit,
    search_index_follows_updates_and_deletes,
];
