//! Lists of projects.

use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

async fn paths(client: &Client, query: &str) -> Vec<Value> {
    let list = client.get(&format!("/projects?order_by=id&sort=asc&{query}")).await;
    list.expect(200).pluck("path")
}

const NONE: [Value; 0] = [];

async fn list_projects_applies_visibility_and_inherited_roles(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({"visibility": "public"})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer, "visibility": "public"})).await;
    for visibility in ["public", "internal", "private"] {
        project(&root, visibility, json!({"namespace_id": inner, "visibility": visibility})).await;
    }
    let ada = server.create_user("ada").await;
    assert_eq!(paths(&server.anonymous(), "").await, ["public"]);
    assert_eq!(paths(&ada.client, "").await, ["public", "internal"]);
    assert_eq!(paths(&ada.client, "membership=true").await, NONE);
    join(&root, &format!("/groups/{outer}"), ada.id, 30).await;
    assert_eq!(paths(&ada.client, "").await, ["public", "internal", "private"]);
    for visibility in ["public", "internal", "private"] {
        assert_eq!(paths(&ada.client, &format!("visibility={visibility}")).await, [visibility]);
    }
    assert_eq!(paths(&ada.client, "membership=true&visibility=private").await, ["private"]);
    assert_eq!(paths(&ada.client, "min_access_level=30").await.len(), 3);
    assert_eq!(paths(&ada.client, "min_access_level=40").await, NONE);
    assert_eq!(paths(&ada.client, "owned=true&min_access_level=30").await, NONE);
    assert_eq!(paths(&root, "owned=true").await.len(), 3);
    for query in ["owned=true", "membership=true", "min_access_level=10"] {
        assert_eq!(paths(&server.anonymous(), query).await, NONE, "{query}");
    }
}

async fn starred_filter_is_ignored_for_anonymous_requests(server: TestServer) {
    let root = server.root();
    project(&root, "one", json!({"visibility": "public"})).await;
    project(&root, "hidden", json!({})).await;
    for query in ["starred=true", "starred=false", "starred=true&owned=false", "starred=true&search=o"] {
        assert_eq!(paths(&server.anonymous(), query).await, ["one"], "{query}");
    }
    let list = server.anonymous().get("/users/root/projects?starred=true").await.expect(200);
    assert_eq!(list.pluck("path"), ["one"]);
    assert_eq!(paths(&root, "starred=true").await, NONE);
}

async fn search_with_slash_matches_the_full_path(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "Engines", json!({})).await;
    let steam = group(&root, "steam", json!({"parent_id": engines})).await;
    project(&root, "alpha", json!({"namespace_id": engines})).await;
    project(&root, "Beta", json!({"namespace_id": steam})).await;
    project(&root, "gamma", json!({"description": "as in engines/alpha"})).await;
    for (text, expected) in [
        ("engines/", vec!["alpha", "Beta", "gamma"]),
        ("ENGINES/AL", vec!["alpha", "gamma"]),
        ("engines/alpha", vec!["alpha", "gamma"]),
        ("gines/steam", vec!["Beta"]),
        ("steam/", vec!["Beta"]),
        ("engines/steam/be", vec!["Beta"]),
        ("/steam/beta", vec!["Beta"]),
        ("/beta", vec!["Beta"]),
        ("engines/beta", vec![]),
        ("steam/eta", vec![]),
        ("engines/ beta", vec!["Beta"]),
        ("beta/", vec![]),
        ("_ngines/", vec![]),
    ] {
        let query = [("search", text), ("search_namespaces", "true"), ("order_by", "id"), ("sort", "asc")];
        let request = root.request(reqwest::Method::GET, "/projects").query(&query);
        assert_eq!(root.send(request).await.expect(200).pluck("path"), expected, "{text}");
    }
    assert_eq!(paths(&root, "search=engines/").await, ["gamma"]);
}

async fn starred_and_search_filters_return_only_visible_projects(server: TestServer) {
    use sea_orm::{ActiveValue::Set, EntityTrait};
    use storage::entities::{now, project_stars};
    let root = server.root();
    let ada = server.create_user("ada").await;
    let create_group = async |name: &str, parent: Option<i64>| {
        let target = parent.map_or(json!({}), |id| json!({"parent_id": id}));
        group(&root, name, target).await
    };
    let outer = create_group("outer", None).await;
    let inner = create_group("inner", Some(outer)).await;
    let team = create_group("team", None).await;
    let squad = create_group("squad", Some(team)).await;
    let (lent, past) = (create_group("lent", None).await, create_group("past", None).await);
    join(&root, &format!("/groups/{outer}"), ada.id, 10).await;
    join(&root, &format!("/groups/{team}"), ada.id, 10).await;
    let share = async |target: String, day: Value| {
        let body = json!({"group_id": squad, "group_access": 10, "expires_at": day});
        root.post(&format!("{target}/share"), body).await.expect(201);
    };
    share(format!("/groups/{lent}"), Value::Null).await;
    share(format!("/groups/{past}"), json!("2020-01-01")).await;
    let mut ids = Vec::new();
    for (path, target, visibility) in [
        ("x-open", None, "public"),
        ("x-internal", None, "internal"),
        ("x-hidden", None, "private"),
        ("x-outer", Some(outer), "private"),
        ("x-inner", Some(inner), "private"),
        ("x-lent", Some(lent), "private"),
        ("x-past", Some(past), "private"),
        ("x-direct", None, "private"),
        ("x-shared", None, "private"),
        ("x-unshared", None, "private"),
        ("other", None, "public"),
    ] {
        let target = target.map_or(json!({}), |id| json!({"namespace_id": id}));
        let id = project(&root, path, target).await;
        if visibility != "private" {
            root.put(&format!("/projects/{id}"), json!({"visibility": visibility})).await.expect(200);
        }
        ids.push(id);
    }
    ids.push(project(&ada.client, "x-own", json!({})).await);
    join(&root, &format!("/projects/{}", ids[7]), ada.id, 10).await;
    share(format!("/projects/{}", ids[8]), Value::Null).await;
    share(format!("/projects/{}", ids[9]), json!("2020-01-01")).await;
    let visible = ["x-open", "x-internal", "x-outer", "x-inner", "x-lent", "x-direct", "x-shared", "x-own"];
    // Stars remain after the user loses access.
    let stars = ids.iter().filter(|id| **id != ids[10]).map(|id| project_stars::ActiveModel {
        user_id: Set(ada.id),
        project_id: Set(*id),
        created_at: Set(now()),
        ..Default::default()
    });
    project_stars::Entity::insert_many(stars)
        .exec_without_returning(server.backend.database.write())
        .await
        .expect("stars");
    for query in ["starred=true", "search=x-", "starred=true&search=x-", "starred=true&search_namespaces=true&search=x"]
    {
        assert_eq!(paths(&ada.client, query).await, visible, "{query}");
    }
    assert_eq!(paths(&server.anonymous(), "search=x-").await, ["x-open"]);
    assert_eq!(paths(&root, "search=x-").await.len(), 11);
    assert_eq!(paths(&ada.client, "starred=true&membership=true").await, visible[2..]);
    assert_eq!(paths(&ada.client, "starred=true&owned=true").await, ["x-own"]);
    // Internal projects are hidden from external users.
    root.put(&format!("/users/{}", ada.id), json!({"external": true})).await.expect(200);
    let inside: Vec<&str> = visible.iter().filter(|path| **path != "x-internal").copied().collect();
    assert_eq!(paths(&ada.client, "starred=true").await, inside);
}

async fn list_projects_applies_each_filter(server: TestServer) {
    use sea_orm::ConnectionTrait;
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let a = project(&root, "alpha", json!({"description": "Brass & Steam", "namespace_id": engines})).await;
    let b = project(&root, "beta", json!({"name": "Größe", "issues_enabled": false})).await;
    let c = project(&root, "gamma", json!({"merge_requests_enabled": false})).await;
    root.post(&format!("/projects/{c}/archive"), json!({})).await.expect(201);
    let sql = format!("UPDATE projects SET last_activity_at = '2020-01-01T00:00:00+00:00' WHERE id = {a}");
    let db = server.backend.database.write();
    db.execute_unprepared(&sql).await.expect("an update");
    let sql =
        format!("INSERT INTO project_stars (user_id, project_id, created_at) VALUES (1, {b}, '2020-01-01T00:00:00Z')");
    db.execute_unprepared(&sql).await.expect("a star");
    let (after, before) = (format!("id_after={a}"), format!("id_before={c}"));
    for (query, expected) in [
        ("archived=true", vec!["gamma"]),
        ("archived=false", vec!["alpha", "beta"]),
        ("search=ALPHA", vec!["alpha"]),
        ("search=steam%20brass", vec!["alpha"]),
        ("search=GRÖSSE", vec![]),
        ("search=GRÖßE", vec!["beta"]),
        ("search=%25", vec![]),
        ("search=engines", vec![]),
        ("search=engines&search_namespaces=true", vec!["alpha"]),
        ("starred=true", vec!["beta"]),
        ("starred=true&archived=true", vec![]),
        ("with_issues_enabled=true", vec!["alpha", "gamma"]),
        ("with_merge_requests_enabled=true&with_issues_enabled=true", vec!["alpha"]),
        (&after, vec!["beta", "gamma"]),
        (&before, vec!["alpha", "beta"]),
        ("last_activity_after=2021-01-01T00:00:00Z", vec!["beta", "gamma"]),
        ("last_activity_before=2021-01-01T00:00:00Z", vec!["alpha"]),
        ("last_activity_before=2020-01-01T00:00:00Z", vec![]),
        ("with_programming_language=Cobol", vec![]),
        ("custom_attributes[a]=b", vec![]),
        ("wiki_checksum_failed=true", vec![]),
        ("search=a&archived=false&membership=true&id_after=0", vec!["alpha", "beta"]),
    ] {
        assert_eq!(paths(&root, query).await, expected, "{query}");
    }
    let ordered = root.get("/projects?order_by=name&sort=asc").await.expect(200).pluck("path");
    assert_eq!(ordered.len(), 3);
    assert_eq!(root.get("/projects").await.expect(200).pluck("path"), ["gamma", "beta", "alpha"]);
}

async fn basic_attributes_are_returned_on_request_and_to_anonymous(server: TestServer) {
    let root = server.root();
    project(&root, "open", json!({"visibility": "public"})).await;
    let keys = async |client: &Client, query: &str| {
        let list = client.get(&format!("/projects?{query}")).await.expect(200).json();
        list[0].as_object().expect("a project").len()
    };
    let short = keys(&root, "simple=true").await;
    assert_eq!(short, 19);
    assert_eq!(keys(&server.anonymous(), "simple=false").await, short);
    assert!(keys(&root, "").await > 60);
    let list = root.get("/projects?statistics=true").await.expect(200).json();
    assert_eq!(
        (list[0]["statistics"]["commit_count"].clone(), list[0]["runners_token"].clone()),
        (json!(0), json!(null))
    );
}

async fn keyset_pagination_returns_each_project_once(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    for number in 0..105 {
        project(&root, &format!("p{number}"), json!({"namespace_id": engines})).await;
    }
    for sort in ["asc", "desc"] {
        let mut next = format!("/projects?pagination=keyset&order_by=id&per_page=20&sort={sort}&membership=true");
        let mut found = Vec::new();
        loop {
            let page = root.get(&next).await.expect(200);
            for name in ["x-total", "x-page", "x-next-page", "x-per-page"] {
                assert_eq!(page.header(name), "", "{name}");
            }
            if page.json() == json!([]) {
                assert_eq!((page.header("links"), page.header("link")), ("", ""));
                break;
            }
            found.extend(page.pluck("id").iter().filter_map(Value::as_i64));
            assert_eq!(page.header("links"), page.header("link"));
            let url = page.header("links").trim_start_matches('<').split('>').next().expect("a link").to_owned();
            let (_, path) = url.split_once("/api/v4").expect("an address of the API");
            next = path.to_owned();
        }
        assert_eq!(found.len(), 105, "{sort}");
        let ordered = if sort == "asc" { found.is_sorted() } else { found.is_sorted_by(|a, b| a > b) };
        assert!(ordered, "{sort}");
    }
    let rejected = root.get("/projects?pagination=cursor").await.expect(400);
    assert_eq!(rejected.message(), "pagination does not have a valid value");
    let rejected = root.get("/projects?pagination=keyset").await.expect(405);
    assert_eq!(rejected.message(), "Keyset pagination is not yet available for this type of request");
}

async fn offset_pagination_ends_at_fifty_thousand(server: TestServer) {
    let root = server.root();
    project(&root, "one", json!({})).await;
    let last = root.get("/projects?page=500&per_page=100").await.expect(200);
    assert_eq!((last.json(), last.header("x-total")), (json!([]), "1"));
    for page in ["501", "1000000000000000000"] {
        let response = root.get(&format!("/projects?page={page}&per_page=100")).await.expect(405);
        assert!(response.message().starts_with("Offset pagination has a maximum allowed offset of 50000"));
        root.get(&format!("/users/root/projects?page={page}&per_page=100")).await.expect(405);
    }
    assert_eq!(root.get("/projects?per_page=-1").await.expect(200).header("x-per-page"), "20");
    for query in [
        "order_by=size",
        "sort=up",
        "visibility=open",
        "min_access_level=15",
        "id_after=x",
        "last_activity_after=soon",
        "search=%00",
    ] {
        root.get(&format!("/projects?{query}")).await.expect(400);
    }
}

async fn list_statement_count_is_independent_of_project_count(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&root, "engines", json!({})).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 40).await;
    project(&ada.client, "p1", json!({"namespace_id": engines, "tag_list": "a"})).await;
    let lists = [
        "/projects?statistics=true",
        "/projects?membership=true&search=p&pagination=keyset&order_by=id",
        "/projects?simple=true",
    ];
    let costs = async || {
        let mut costs = Vec::new();
        for list in lists {
            let before = server.statements();
            ada.client.get(list).await.expect(200);
            costs.push(server.statements() - before);
        }
        costs
    };
    let one = costs().await;
    for number in 2..=20 {
        let namespace = if number % 2 == 0 { json!({"namespace_id": engines}) } else { json!({"tag_list": "a"}) };
        project(&ada.client, &format!("p{number}"), namespace).await;
    }
    assert_eq!(costs().await, one);
    assert!(one.iter().all(|cost| *cost <= 12), "{one:?}");
}

async fn list_user_projects_returns_projects_of_personal_namespace(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&ada.client, "engines", json!({})).await;
    project(&ada.client, "elsewhere", json!({"namespace_id": engines})).await;
    project(&ada.client, "open", json!({"visibility": "public"})).await;
    project(&ada.client, "hidden", json!({})).await;
    let paths_of =
        async |client: &Client, query: &str| client.get(&format!("/users/{query}")).await.expect(200).pluck("path");
    assert_eq!(paths_of(&root, "ADA/projects").await, ["hidden", "open"]);
    assert_eq!(paths_of(&ada.client, &format!("{}/projects?order_by=id&sort=asc", ada.id)).await, ["open", "hidden"]);
    assert_eq!(paths_of(&server.anonymous(), "ada/projects").await, ["open"]);
    let bob = server.create_user("bob").await;
    assert_eq!(paths_of(&bob.client, "ada/projects?owned=true").await, NONE);
    assert_eq!(paths_of(&bob.client, "ada/projects?membership=true").await, NONE);
    assert_eq!(paths_of(&ada.client, "ada/projects?owned=true").await, ["hidden", "open"]);
    assert_eq!(paths_of(&bob.client, "ada/projects?min_access_level=10").await, NONE);
    let missing = root.get("/users/missing-user/projects").await.expect(404);
    assert_eq!(missing.message(), "404 User Not Found");
}

async fn topic_filter_returns_projects_with_all_topics(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    for (path, topics) in [("both", "Steam, brass"), ("steam", "Steam"), ("lower", "steam"), ("none", "")] {
        let attributes = json!({"namespace_id": engines, "topics": topics, "visibility": "public"});
        project(&root, path, attributes).await;
    }
    project(&root, "own", json!({"topics": "brass"})).await;
    let twenty = vec!["Steam"; 20].join(",");
    for (query, expected) in [
        ("topic=Steam", json!(["both", "steam"])),
        ("topic=brass,%20Steam", json!(["both"])),
        ("topic[]=brass&topic[]=Steam", json!(["both"])),
        ("topic=steam", json!(["lower"])),
        ("topic=brass", json!(["both", "own"])),
        ("topic=Steam,unknown", json!([])),
        ("topic=Steam,,&search=both", json!(["both"])),
        ("topic=%25", json!([])),
        (&format!("topic={twenty}"), json!(["both", "steam"])),
    ] {
        assert_eq!(json!(paths(&root, query).await), expected, "{query}");
    }
    assert_eq!(paths(&root, "topic=").await.len(), 5);
    assert_eq!(paths(&server.anonymous(), "topic=brass").await, ["both"]);
    for (list, expected) in [(format!("/groups/{engines}/projects"), "both"), ("/users/root/projects".into(), "own")] {
        let found = root.get(&format!("{list}?topic=brass")).await.expect(200);
        assert_eq!(found.pluck("path"), [expected], "{list}");
        let refused = root.get(&format!("{list}?topic={twenty},x")).await.expect(400);
        assert_eq!(refused.message(), "topic is invalid", "{list}");
    }
}

on_every_database![
    topic_filter_returns_projects_with_all_topics,
    list_projects_applies_visibility_and_inherited_roles,
    starred_filter_is_ignored_for_anonymous_requests,
    search_with_slash_matches_the_full_path,
    starred_and_search_filters_return_only_visible_projects,
    list_projects_applies_each_filter,
    basic_attributes_are_returned_on_request_and_to_anonymous,
    keyset_pagination_returns_each_project_once,
    offset_pagination_ends_at_fifty_thousand,
    list_statement_count_is_independent_of_project_count,
    list_user_projects_returns_projects_of_personal_namespace,
];
