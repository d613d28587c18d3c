//! Limits of an identity provider: it does not control other accounts, addresses or groups.

use domain::spaces::verified_domains;
use futures_util::future::join_all;
use serde_json::json;

use super::{Provider, account, rejection, user_attributes};
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

async fn unconfirmed_email_neither_matches_nor_blocks_users(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    verified_domains::add(&server.backend, "engines", "example.org").await.expect("a domain");
    let alice = provider.provision(&server, "alice").await;
    let her = server.with_token(&server.create_token(alice, &["api"]).await);
    let claimed = her.post("/user/emails", json!({ "email": "boss@example.org" })).await.expect(201).json();
    assert!(claimed["confirmed_at"].is_null());
    assert!(provider.found("userName eq \"boss@example.org\"").await.is_empty());
    let new_user = provider.provision(&server, "boss").await;
    assert_ne!(new_user, alice);
    assert_eq!(provider.found("userName eq \"boss@example.org\"").await, ["uid-boss"]);
    her.get(&format!("/user/emails/{}", claimed["id"])).await.expect(404);
    her.post("/user/emails", json!({ "email": "boss@example.org" })).await.expect(400);
    // A confirmed address belongs to its user, and an address the user added may become the primary one.
    let confirmed = json!({ "email": "real@example.org", "skip_confirmation": true });
    server.root().post(&format!("/users/{alice}/emails"), confirmed).await.expect(201);
    assert_eq!(rejection(&provider.create(&user_attributes("real")).await).0, 409);
    her.post("/user/emails", json!({ "email": "new@example.org" })).await.expect(201);
    let change = json!([{ "op": "replace", "path": "emails[type eq \"work\"].value", "value": "new@example.org" }]);
    provider.patch("uid-alice", change).await.expect(204);
    assert_eq!(her.get("/user").await.json()["email"], json!("new@example.org"));
}

async fn last_active_owner_cannot_be_deprovisioned(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let path = format!("/groups/{}", provider.group);
    root.put(&format!("{path}/members/{ada}"), json!({ "access_level": 50 })).await.expect(200);
    let administrator = account(&server, "root").await.expect("the administrator");
    let other = server.create_user("bob").await.id;
    join(&root, &path, other, 50).await;
    root.delete(&format!("{path}/members/{administrator}")).await.expect(204);
    root.post(&format!("/users/{other}/block"), json!({})).await.expect(201);
    let off = json!([{ "op": "Replace", "path": "active", "value": "False" }]);
    let (status, _, detail) = rejection(&provider.patch("uid-ada", off.clone()).await);
    assert_eq!((status, detail.as_str()), (403, "403 Forbidden - The last owner of the group cannot be deprovisioned"));
    assert_eq!(rejection(&provider.delete("uid-ada").await).0, 403);
    let mut attributes = user_attributes("ada");
    attributes["active"] = json!(false);
    assert_eq!(rejection(&provider.send(reqwest::Method::PUT, "/Users/uid-ada", &attributes).await).0, 403);
    assert_eq!(provider.user("uid-ada").await.expect(200).json()["active"], json!(true));
    root.post(&format!("/users/{other}/unblock"), json!({})).await.expect(201);
    provider.patch("uid-ada", off).await.expect(204);
    assert_eq!(provider.role(&server, ada).await, None);
}

async fn create_user_over_scim_user_limit_returns_403(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    let (status, _, detail) = rejection(&provider.create(&user_attributes("eve")).await);
    assert_eq!(
        (status, detail.as_str()),
        (
            403,
            "403 Forbidden - The group has reached the maximum number of provisioned users (2) (setting: max_scim_users)"
        )
    );
    // Accounts created before count even if deprovisioned, and can be provisioned again.
    provider.delete("uid-bob").await.expect(204);
    assert_eq!(rejection(&provider.create(&user_attributes("eve")).await).0, 403);
    provider.create(&user_attributes("bob")).await.expect(201);
    Provider::of(&server, "motors").await.provision(&server, "eve").await;
}

async fn user_who_left_group_is_no_longer_managed(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let her = server.with_token(&server.create_token(ada, &["api"]).await);
    her.delete(&format!("/groups/{}/members/{ada}", provider.group)).await.expect(204);
    provider.user("uid-ada").await.expect(404);
    let change = json!([{ "op": "replace", "path": "displayName", "value": "pwned" }]);
    assert_eq!(rejection(&provider.patch("uid-ada", change.clone()).await).0, 404);
    assert_eq!(rejection(&provider.create(&user_attributes("ada")).await).0, 409);
    // A user removed by others can no longer be changed, but can be provisioned again.
    let bob = provider.provision(&server, "bob").await;
    server.root().delete(&format!("/groups/{}/members/{bob}", provider.group)).await.expect(204);
    assert_eq!(rejection(&provider.patch("uid-bob", change).await).0, 404);
    provider.create(&user_attributes("bob")).await.expect(201);
    assert_eq!(provider.role(&server, bob).await, Some(10));
}

async fn filter_finds_numbered_user_by_its_original_name(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    group(&server.root(), "nick", json!({})).await;
    let mut nick = user_attributes("nick");
    nick["userName"] = json!("nick");
    assert_eq!(provider.create(&nick).await.expect(201).json()["userName"], json!("nick1"));
    assert_eq!(provider.found("userName eq \"Nick\"").await, ["uid-nick"]);
    assert!(provider.found("userName eq \"nick1\"").await.is_empty());
    let renamed = json!([{ "op": "replace", "path": "userName", "value": "nicholas@example.org" }]);
    provider.patch("uid-nick", renamed).await.expect(204);
    for name in ["nicholas", "nicholas@example.org"] {
        assert_eq!(provider.found(&format!("userName eq \"{name}\"")).await, ["uid-nick"], "{name}");
    }
    assert!(provider.found("userName eq \"nick\"").await.is_empty());
}

async fn concurrent_creates_in_many_groups_get_distinct_names(server: TestServer) {
    let mut providers = Vec::new();
    for number in 0..6 {
        providers.push(Provider::of(&server, &format!("group-{number}")).await);
    }
    let posts = providers.iter().enumerate().flat_map(|(path, provider)| {
        (0..3).map(move |number| {
            let mut body = user_attributes(&format!("n{path}x{number}"));
            body["userName"] = json!("twin");
            async move { provider.create(&body).await.expect(201).json()["userName"].clone() }
        })
    });
    let names: std::collections::HashSet<String> =
        join_all(posts).await.iter().map(|name| name.as_str().expect("a name").to_owned()).collect();
    assert_eq!(names.len(), 18);
    assert!(names.iter().all(|name| name.starts_with("twin")), "{names:?}");
}

async fn user_names_get_random_suffix_after_many_collisions(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for number in 0..25 {
        let mut body = user_attributes(&format!("n{number}"));
        body["userName"] = json!("日本");
        let name = provider.create(&body).await.expect(201).json()["userName"].clone();
        let name = name.as_str().expect("a name").to_owned();
        match number {
            0 => assert_eq!(name, "user"),
            1..20 => assert_eq!(name, format!("user{number}")),
            _ => assert!(name.len() > "user19".len(), "{name}"),
        }
    }
}

fn create_user_over_scim_user_limit_returns_403_options() -> holdfast::config::ConfigOptions {
    holdfast::config::ConfigOptions { max_scim_users: Some(2), ..Default::default() }
}

on_every_database![
    unconfirmed_email_neither_matches_nor_blocks_users,
    last_active_owner_cannot_be_deprovisioned,
    create_user_over_scim_user_limit_returns_403 with create_user_over_scim_user_limit_returns_403_options(),
    user_who_left_group_is_no_longer_managed,
    filter_finds_numbered_user_by_its_original_name,
    concurrent_creates_in_many_groups_get_distinct_names,
    user_names_get_random_suffix_after_many_collisions,
];
