//! Stars of projects.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use serde_json::json;
use storage::entities::users::UserState;

use crate::support::spaces::project;
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

async fn names(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.expect(200).json();
    let names = list.as_array().expect("a list").iter().map(|one| one["user"]["username"].clone());
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

async fn change(server: &TestServer, user: &TestUser, state: UserState, hidden: bool) {
    let mut row = user.row.clone().into_active_model();
    row.state = Set(state);
    row.private_profile = Set(hidden);
    row.update(server.backend.database.write()).await.expect("a row");
}

async fn star_and_unstar_return_304_if_nothing_changes(server: TestServer) {
    let root = server.root();
    let id = project(&root, "open", json!({"visibility": "public"})).await;
    let ada = server.create_user("ada").await;
    let one = format!("/projects/{id}");
    let starred = ada.client.post(&format!("{one}/star"), json!({})).await.expect(201).json();
    assert_eq!((&starred["id"], &starred["star_count"]), (&json!(id), &json!(1)));
    assert!(starred["permissions"].is_object() && starred["runners_token"].is_null());
    let again = ada.client.post(&format!("{one}/star"), json!({})).await.expect(304);
    assert!(again.body.is_empty());
    root.post(&format!("{one}/star"), json!({})).await.expect(201);
    assert_eq!(root.get(&one).await.expect(200).json()["star_count"], 2);
    let unstarred = ada.client.post(&format!("{one}/unstar"), json!({})).await.expect(201).json();
    assert_eq!(unstarred["star_count"], 1);
    ada.client.post(&format!("{one}/unstar"), json!({})).await.expect(304);
    assert_eq!(root.get(&one).await.expect(200).json()["star_count"], 1);
    let list = root.get("/projects?starred=true").await.expect(200).pluck("id");
    assert_eq!(list, [json!(id)]);
    assert_eq!(ada.client.get("/projects?starred=true").await.expect(200).json(), json!([]));
}

async fn star_requires_authentication_and_visibility(server: TestServer) {
    let root = server.root();
    let open = project(&root, "open", json!({"visibility": "public"})).await;
    let hidden = project(&root, "hidden", json!({})).await;
    let ada = server.create_user("ada").await;
    for operation in ["star", "unstar"] {
        server.anonymous().post(&format!("/projects/{open}/{operation}"), json!({})).await.expect(401);
        ada.client.post(&format!("/projects/{hidden}/{operation}"), json!({})).await.expect(404);
        root.post(&format!("/projects/a%00b%2Fc/{operation}"), json!({})).await.expect(400);
    }
    let narrow = server.create_token(ada.id, &["read_user"]).await;
    for operation in ["star", "unstar"] {
        server.with_token(&narrow).post(&format!("/projects/{open}/{operation}"), json!({})).await.expect(403);
    }
    server.anonymous().get(&format!("/projects/{hidden}/starrers")).await.expect(404);
    server.with_token("wrong").get(&format!("/projects/{open}/starrers")).await.expect(401);
    server.with_token(&narrow).get(&format!("/projects/{open}/starrers")).await.expect(403);
}

async fn concurrent_stars_are_all_counted_once(server: TestServer) {
    let root = server.root();
    let id = project(&root, "open", json!({"visibility": "public"})).await;
    let mut callers = Vec::new();
    for number in 0..6 {
        callers.push(server.create_user(&format!("user{number}")).await.client);
    }
    let path = format!("/projects/{id}/star");
    // Each user sends two requests at once. One creates the star, the other changes nothing.
    let stars = callers.iter().chain(&callers).map(|client| client.post(&path, json!({})));
    let statuses: Vec<u16> =
        futures_util::future::join_all(stars).await.iter().map(|response| response.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 6, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 304).count(), 6, "{statuses:?}");
    assert_eq!(root.get(&format!("/projects/{id}")).await.expect(200).json()["star_count"], 6);
}

async fn list_starrers_excludes_private_and_blocked_users(server: TestServer) {
    let root = server.root();
    let id = project(&root, "open", json!({"visibility": "public"})).await;
    let list = format!("/projects/{id}/starrers");
    let mut accounts = Vec::new();
    for name in ["cleo", "ada", "bob", "dan"] {
        let user = server.create_user(name).await;
        user.client.post(&format!("/projects/{id}/star"), json!({})).await.expect(201);
        accounts.push(user);
    }
    let all = server.anonymous().get(&list).await.expect(200);
    assert_eq!(all.header("x-total"), "4");
    let first = all.json()[0].clone();
    assert_eq!((&first["user"]["name"], &first["user"]["state"]), (&json!("Name of cleo"), &json!("active")));
    assert!(first["starred_since"].is_string() && first["user"].get("email").is_none());
    assert_eq!(names(&root, &list).await, ["cleo", "ada", "bob", "dan"]);
    assert_eq!(names(&root, &format!("{list}?per_page=1&page=3")).await, ["bob"]);
    assert_eq!(names(&root, &format!("{list}?search=NAME%20OF%20A")).await, ["ada"]);
    assert_eq!(names(&root, &format!("{list}?search=B%25")).await, [""; 0]);
    assert_eq!(names(&root, &format!("{list}?search=an")).await, ["dan"]);
    root.get(&format!("{list}?search=%00")).await.expect(400);
    change(&server, &accounts[1], UserState::Active, true).await;
    change(&server, &accounts[2], UserState::Blocked, false).await;
    assert_eq!(names(&server.anonymous(), &list).await, ["cleo", "dan"]);
    assert_eq!(names(&accounts[1].client, &list).await, ["cleo", "ada", "dan"]);
    assert_eq!(names(&root, &list).await, ["cleo", "ada", "bob", "dan"]);
}

async fn list_statement_count_is_independent_of_starrer_count(server: TestServer) {
    let root = server.root();
    let id = project(&root, "open", json!({"visibility": "public"})).await;
    let list = format!("/projects/{id}/starrers");
    let star = format!("/projects/{id}/star");
    root.post(&star, json!({})).await.expect(201);
    let cost = async || {
        let before = server.statements();
        root.get(&list).await.expect(200);
        server.statements() - before
    };
    let one = cost().await;
    for number in 0..9 {
        server.create_user(&format!("user{number}")).await.client.post(&star, json!({})).await.expect(201);
    }
    assert_eq!(cost().await, one);
}

on_every_database![
    star_and_unstar_return_304_if_nothing_changes,
    star_requires_authentication_and_visibility,
    concurrent_stars_are_all_counted_once,
    list_starrers_excludes_private_and_blocked_users,
    list_statement_count_is_independent_of_starrer_count,
];
