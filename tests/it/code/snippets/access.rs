//! Visibility of snippets and permissions to change them.

use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::json;
use storage::entities::{AccessLevel, snippets};

use super::{home, snippet, titles};
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

/// Creates an external user, who sees internal resources only as a member.
async fn external(server: &TestServer, name: &str) -> TestUser {
    let user = server.create_user(name).await;
    let mut row = user.row.clone().into_active_model();
    row.external = Set(true);
    row.update(server.backend.database.write()).await.expect("a row");
    user
}

async fn personal_snippet_access_depends_on_visibility(server: TestServer) {
    let (ann, ben, outsider) =
        (server.create_user("ann").await, server.create_user("ben").await, external(&server, "outsider").await);
    let (root, anonymous) = (server.root(), server.anonymous());
    for (visibility, [to_anonymous, to_outsider, to_ben]) in
        [("private", [404, 404, 404]), ("internal", [404, 404, 200]), ("public", [200, 200, 200])]
    {
        let id = snippet(&ann.client, "", visibility, json!({"visibility": visibility})).await;
        for path in [format!("/snippets/{id}"), format!("/snippets/{id}/raw")] {
            anonymous.get(&path).await.expect(to_anonymous);
            outsider.client.get(&path).await.expect(to_outsider);
            ben.client.get(&path).await.expect(to_ben);
            ann.client.get(&path).await.expect(200);
            root.get(&path).await.expect(200);
        }
        let this = format!("/snippets/{id}");
        let hidden = if to_ben == 200 { 403 } else { 404 };
        ben.client.put(&this, json!({"title": "x"})).await.expect(hidden);
        ben.client.delete(&this).await.expect(hidden);
        anonymous.put(&this, json!({"title": "x"})).await.expect(401);
        anonymous.delete(&this).await.expect(401);
        root.put(&this, json!({"description": "by an administrator"})).await.expect(200);
    }
    anonymous.get("/snippets").await.expect(401);
    anonymous.post("/snippets", json!({"title": "t", "file_name": "f", "content": "c"})).await.expect(401);
    let public = anonymous.get("/snippets/public").await.expect(200);
    assert_eq!(public.pluck("title"), ["public"]);
    assert_eq!(ben.client.get("/snippets/public").await.expect(200).pluck("title"), ["public"]);
    anonymous.get("/snippets/all").await.expect(401);
    let all = async |client: &Client| client.get("/snippets/all").await.expect(200).pluck("title");
    assert_eq!(all(&root).await, ["public", "internal", "private"]);
    assert_eq!(all(&ben.client).await, ["public", "internal"]);
    assert_eq!(all(&outsider.client).await, ["public"]);
    let none: [serde_json::Value; 0] = [];
    assert_eq!(titles(&root, "").await, none, "only the caller's own");
    let attributes = json!({"title": "t", "file_name": "f", "content": "c"});
    outsider.client.post("/snippets", attributes).await.expect(403);
}

async fn project_snippet_access_depends_on_visibility_and_role(server: TestServer) {
    let (id, base_path) = home(&server, "open", "public").await;
    let (ann, guest, outsider) =
        (server.create_user("ann").await, server.create_user("guest").await, external(&server, "outsider").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let root = server.root();
    let mut paths = Vec::new();
    for visibility in ["private", "internal", "public"] {
        let id = snippet(&root, &base_path, visibility, json!({"visibility": visibility})).await;
        paths.push(format!("{base_path}/snippets/{id}"));
    }
    let all = ["public", "internal", "private"];
    for (client, seen) in [
        (&server.anonymous(), &all[..1]),
        (&outsider.client, &all[..1]),
        (&ann.client, &all[..2]),
        (&guest.client, &all[..]),
        (&root, &all[..]),
    ] {
        assert_eq!(titles(client, &base_path).await, seen);
        for (path, visibility) in paths.iter().zip(["private", "internal", "public"]) {
            let status = if seen.contains(&visibility) { 200 } else { 404 };
            client.get(path).await.expect(status);
            client.get(&format!("{path}/raw")).await.expect(status);
        }
    }
    let found = guest.client.get("/snippets/all").await.expect(200);
    assert_eq!(found.pluck("title"), all);
    assert!(found.json()[0]["web_url"].as_str().expect("a URL").contains("/open/-/snippets/"), "{}", found.text());
    let later = guest.client.get("/snippets/all?created_after=2999-01-01T00:00:00Z").await.expect(200);
    assert_eq!(later.json(), json!([]));
    let earlier = guest.client.get("/snippets/all?created_before=2999-01-01T00:00:00Z").await.expect(200);
    assert_eq!(earlier.pluck("title"), all);
    // A public snippet of a project that is not visible is not visible either.
    let (hidden_id, hidden) = home(&server, "hidden", "private").await;
    let within = snippet(&root, &hidden, "within", json!({"visibility": "public"})).await;
    for answer in [
        ann.client.get(&format!("{hidden}/snippets")).await,
        ann.client.get(&format!("{hidden}/snippets/{within}")).await,
        ann.client.get(&format!("/snippets/{within}")).await,
    ] {
        answer.expect(404);
    }
    server.insert_member(hidden_id, outsider.id, AccessLevel::Guest).await;
    assert_eq!(titles(&outsider.client, &hidden).await, ["within"]);
    // A snippet of another project returns 404.
    root.get(&format!("{base_path}/snippets/{within}")).await.expect(404);
    root.delete(&format!("{base_path}/snippets/{within}")).await.expect(404);
}

async fn create_snippet_requires_reporter_and_update_requires_author(server: TestServer) {
    let (id, base_path) = home(&server, "made", "public").await;
    let (ann, maker) = (server.create_user("ann").await, server.create_user("maker").await);
    let (guest, developer) = (server.create_user("guest").await, server.create_user("developer").await);
    let maintainer = server.create_user("maintainer").await;
    for (user, level) in [
        (&maker, AccessLevel::Reporter),
        (&guest, AccessLevel::Guest),
        (&developer, AccessLevel::Developer),
        (&maintainer, AccessLevel::Maintainer),
    ] {
        server.insert_member(id, user.id, level).await;
    }
    let attributes = json!({"title": "t", "file_name": "f", "content": "c"});
    let all = format!("{base_path}/snippets");
    server.anonymous().post(&all, attributes.clone()).await.expect(401);
    for user in [&ann, &guest] {
        user.client.post(&all, attributes.clone()).await.expect(403);
    }
    let this = snippet(&maker.client, &base_path, "By the maker", json!({"visibility": "public"})).await;
    let this = format!("{all}/{this}");
    for user in [&ann, &guest, &developer] {
        user.client.put(&this, json!({"title": "x"})).await.expect(403);
        user.client.delete(&this).await.expect(403);
    }
    maker.client.put(&this, json!({"title": "By itself"})).await.expect(200);
    maintainer.client.put(&this, json!({"title": "By another"})).await.expect(200);
    server.root().post(&format!("{base_path}/archive"), json!({})).await.expect(201);
    maker.client.put(&this, json!({"title": "x"})).await.expect(403);
    maker.client.delete(&this).await.expect(403);
    maker.client.post(&all, attributes).await.expect(403);
    ann.client.get(&this).await.expect(200);
    server.root().post(&format!("{base_path}/unarchive"), json!({})).await.expect(201);
    maintainer.client.delete(&this).await.expect(204);
}

async fn snippets_access_level_limits_access(server: TestServer) {
    let (id, base_path) = home(&server, "off", "public").await;
    let (root, ann, guest) = (server.root(), server.create_user("ann").await, server.create_user("guest").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let all = format!("{base_path}/snippets");
    let this = snippet(&root, &base_path, "t", json!({"visibility": "public"})).await;
    let this = format!("{all}/{this}");
    for (level, [to_ann, to_guest, to_root]) in
        [("private", [403, 200, 200]), ("disabled", [403, 403, 403]), ("enabled", [200, 200, 200])]
    {
        root.put(&base_path, json!({"snippets_access_level": level})).await.expect(200);
        for path in [all.clone(), this.clone(), format!("{this}/raw")] {
            ann.client.get(&path).await.expect(to_ann);
            guest.client.get(&path).await.expect(to_guest);
            root.get(&path).await.expect(to_root);
        }
        root.put(&this, json!({"title": "t"})).await.expect(to_root);
        let notes = if to_ann == 200 { 200 } else { 404 };
        ann.client.get(&format!("{this}/notes")).await.expect(notes);
    }
    root.put(&base_path, json!({"snippets_access_level": "disabled"})).await.expect(200);
    root.post(&all, json!({"title": "t", "file_name": "f", "content": "c"})).await.expect(403);
    root.delete(&this).await.expect(403);
}

async fn created_before_includes_the_displayed_time(server: TestServer) {
    let root = server.root();
    let id = snippet(&root, "", "t", json!({"visibility": "public"})).await;
    let time = "2020-01-01T00:00:00.123456Z".parse::<chrono::DateTime<chrono::Utc>>().expect("a time");
    snippets::Entity::update_many()
        .col_expr(snippets::Column::CreatedAt, Expr::value(time))
        .filter(snippets::Column::Id.eq(id))
        .exec(server.backend.database.write())
        .await
        .expect("a row");
    let shown = root.get(&format!("/snippets/{id}")).await.expect(200).json()["created_at"].clone();
    assert_eq!(shown, "2020-01-01T00:00:00.123Z");
    for (query, count) in [
        ("created_before=2020-01-01T00:00:00.123Z", 1),
        ("created_before=2020-01-01T00:00:00.122Z", 0),
        ("created_after=2020-01-01T00:00:00.123Z&created_before=2020-01-01T00:00:00.123Z", 1),
        ("created_after=2020-01-01T00:00:00.124Z", 0),
    ] {
        let found = root.get(&format!("/snippets/all?{query}")).await.expect(200);
        assert_eq!(found.pluck("id").len(), count, "{query}");
    }
}

on_every_database![
    personal_snippet_access_depends_on_visibility,
    project_snippet_access_depends_on_visibility_and_role,
    create_snippet_requires_reporter_and_update_requires_author,
    snippets_access_level_limits_access,
    created_before_includes_the_displayed_time,
];
