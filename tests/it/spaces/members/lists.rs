//! Reading members.

use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

async fn list_members_filters_by_name_email_and_id(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let ada = server.create_user("ada").await;
    let bob = server.create_user("bob").await;
    let parent = format!("/groups/{engines}");
    join(&root, &parent, ada.id, 30).await;
    join(&root, &parent, bob.id, 20).await;
    let names = async |query: &str| root.get(&format!("{parent}/members?{query}")).await.expect(200).pluck("username");
    assert_eq!(names("").await, ["root", "ada", "bob"]);
    assert_eq!(names("query=NAME%20of").await, ["ada", "bob"]);
    assert_eq!(names("query=bob@EXAMPLE.com").await, ["bob"]);
    assert_eq!(names("query=_").await, [] as [Value; 0]);
    assert_eq!(names("query=").await, ["root", "ada", "bob"]);
    assert_eq!(names(&format!("user_ids={},{}", ada.id, bob.id)).await, ["ada", "bob"]);
    assert_eq!(names(&format!("user_ids[]={}&query=bob", ada.id)).await, [] as [Value; 0]);
    let list = root.get(&format!("{parent}/members?per_page=1&page=2")).await.expect(200);
    assert_eq!((list.pluck("username"), list.header("x-total")), (vec![json!("ada")], "3"));
    let shown = root.get(&format!("{parent}/members/{}", ada.id)).await.expect(200).json();
    assert_eq!(
        shown,
        json!({
            "id": ada.id, "username": "ada", "name": "Name of ada", "state": "active",
            "avatar_url": format!("{}/uploads/-/system/user/avatar/{}/identicon.svg", server.base, ada.id),
            "web_url": format!("{}/ada", server.base), "access_level": 30, "expires_at": null,
            "group_saml_identity": null,
        })
    );
    for query in ["user_ids=x", "query=%00", &format!("query={}", "x".repeat(256))] {
        root.get(&format!("{parent}/members?{query}")).await.expect(400);
    }
}

async fn unconfirmed_email_finds_members_only_for_administrators(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    for user in [ada.id, bob.id] {
        join(&root, &format!("/groups/{team}"), user, 30).await;
    }
    let user = format!("/users/{}", bob.id);
    root.put(&user, json!({"email": "boss@bank.example"})).await.expect(200);
    let found = async |caller: &Client| {
        let mut found = Vec::new();
        for list in ["members", "members/all"] {
            let list = format!("/groups/{team}/{list}?query=boss%40bank.example");
            found.extend(caller.get(&list).await.expect(200).pluck("username"));
        }
        found
    };
    assert_eq!(found(&root).await, ["bob", "bob"]);
    assert_eq!(found(&ada.client).await, [] as [Value; 0]);
    root.put(&user, json!({"email": "boss@bank.example", "skip_reconfirmation": true})).await.expect(200);
    assert_eq!(found(&ada.client).await, ["bob", "bob"]);
}

async fn member_reads_require_authentication_and_visibility(server: TestServer) {
    let root = server.root();
    let non_member = server.create_user("stranger").await;
    for (path, visibility, status) in [("open", "public", 200), ("hidden", "private", 404)] {
        let group_id = group(&root, path, json!({"visibility": visibility})).await;
        let work = project(&root, "work", json!({"namespace_id": group_id, "visibility": visibility})).await;
        join(&root, &format!("/projects/{work}"), server.create_user(&format!("m-{path}")).await.id, 20).await;
        for parent in [format!("/groups/{group_id}"), format!("/projects/{work}")] {
            let lists =
                [format!("{parent}/members"), format!("{parent}/members/all"), format!("{parent}/members/all/1")];
            for list in lists {
                non_member.client.get(&list).await.expect(status);
                server.anonymous().get(&list).await.expect(401);
            }
        }
    }
}

async fn list_all_members_returns_each_user_once_with_the_nearest_role(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let friends = group(&root, "friends", json!({})).await;
    let ada = server.create_user("ada").await;
    let bob = server.create_user("bob").await;
    let eve = server.create_user("eve").await;
    join(&root, &format!("/groups/{outer}"), ada.id, 10).await;
    join(&root, &format!("/groups/{inner}"), ada.id, 20).await;
    join(&root, &format!("/projects/{work}"), ada.id, 30).await;
    join(&root, &format!("/groups/{outer}"), bob.id, 30).await;
    join(&root, &format!("/groups/{friends}"), eve.id, 40).await;
    use sea_orm::ConnectionTrait;
    let sql = format!(
        "INSERT INTO project_shares (project_id, group_id, access_level, created_at, updated_at) \
         VALUES ({work}, {friends}, 20, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z')"
    );
    server.backend.database.write().execute_unprepared(&sql).await.expect("a share");
    let levels = async |parent: String| {
        let list = root.get(&format!("{parent}/members/all")).await.expect(200);
        list.pluck("username").into_iter().zip(list.pluck("access_level")).collect::<Vec<_>>()
    };
    let expected =
        |pairs: &[(&str, i64)]| pairs.iter().map(|(name, level)| (json!(name), json!(level))).collect::<Vec<_>>();
    assert_eq!(
        levels(format!("/projects/{work}")).await,
        expected(&[("root", 50), ("ada", 30), ("bob", 30), ("eve", 20)])
    );
    assert_eq!(levels(format!("/groups/{inner}")).await, expected(&[("root", 50), ("ada", 20), ("bob", 30)]));
    let inherited = format!("/projects/{work}/members/all/{}", bob.id);
    assert_eq!(root.get(&inherited).await.expect(200).json()["access_level"], 30);
    let direct = root.get(&format!("/projects/{work}/members/{}", bob.id)).await.expect(404);
    assert_eq!(direct.message(), "404 Not found");
    root.get(&format!("/groups/{inner}/members/all/{}", eve.id)).await.expect(404);
    // The share grants the role that the list shows.
    let read = eve.client.get(&format!("/projects/{work}")).await.expect(200);
    assert_eq!(read.json()["path"], "work");
}

async fn list_members_statement_count_is_independent_of_member_count(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let lists = [
        format!("/groups/{engines}/members"),
        format!("/groups/{engines}/members/all"),
        format!("/projects/{work}/members/all"),
    ];
    let costs = async || {
        let mut costs = Vec::new();
        for list in &lists {
            let before = server.statements();
            root.get(list).await.expect(200);
            costs.push(server.statements() - before);
        }
        costs
    };
    let one = costs().await;
    for number in 2..=20 {
        let user = server.create_user(&format!("p{number}")).await;
        join(&root, &format!("/groups/{engines}"), user.id, 20).await;
    }
    assert_eq!(costs().await, one);
    assert!(one.iter().all(|cost| *cost <= 6), "{one:?}");
}

on_every_database![
    list_members_filters_by_name_email_and_id,
    unconfirmed_email_finds_members_only_for_administrators,
    member_reads_require_authentication_and_visibility,
    list_all_members_returns_each_user_once_with_the_nearest_role,
    list_members_statement_count_is_independent_of_member_count,
];
