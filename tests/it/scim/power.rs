//! What the identity provider of a group has no power over: accounts, addresses and groups that are others'.

use futures_util::future::join_all;
use serde_json::json;

use super::{Provider, account, refusal, wish};
use crate::support::places::{group, join};
use crate::support::{TestServer, on_every_database};

async fn an_address_that_nobody_confirmed_leads_to_nobody_and_keeps_nobody_away(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let alice = provider.provision(&server, "alice").await;
    let her = server.with_token(&server.token_of(alice, &["api"]).await);
    let claimed = her.post("/user/emails", json!({ "email": "boss@example.org" })).await.expect(201).json();
    assert!(claimed["confirmed_at"].is_null());
    assert!(provider.found("userName eq \"boss@example.org\"").await.is_empty());
    let boss = provider.provision(&server, "boss").await;
    assert_ne!(boss, alice);
    assert_eq!(provider.found("userName eq \"boss@example.org\"").await, ["uid-boss"]);
    her.get(&format!("/user/emails/{}", claimed["id"])).await.expect(404);
    her.post("/user/emails", json!({ "email": "boss@example.org" })).await.expect(400);
    // What somebody confirmed is theirs, and what a user added before may become their address.
    let confirmed = json!({ "email": "real@example.org", "skip_confirmation": true });
    server.root().post(&format!("/users/{alice}/emails"), confirmed).await.expect(201);
    assert_eq!(refusal(&provider.create(&wish("real")).await).0, 409);
    her.post("/user/emails", json!({ "email": "new@example.org" })).await.expect(201);
    let change = json!([{ "op": "replace", "path": "emails[type eq \"work\"].value", "value": "new@example.org" }]);
    provider.patch("uid-alice", change).await.expect(204);
    assert_eq!(her.get("/user").await.json()["email"], json!("new@example.org"));
}

async fn an_owner_who_is_shut_out_is_no_owner_to_leave_the_group_to(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let place = format!("/groups/{}", provider.group);
    root.put(&format!("{place}/members/{ada}"), json!({ "access_level": 50 })).await.expect(200);
    let human = account(&server, "root").await.expect("the administrator");
    let other = server.person("bob").await.id;
    join(&root, &place, other, 50).await;
    root.delete(&format!("{place}/members/{human}")).await.expect(204);
    root.post(&format!("/users/{other}/block"), json!({})).await.expect(201);
    let off = json!([{ "op": "Replace", "path": "active", "value": "False" }]);
    let (status, _, detail) = refusal(&provider.patch("uid-ada", off.clone()).await);
    assert_eq!((status, detail.as_str()), (403, "403 Forbidden - The last owner of the group cannot be deprovisioned"));
    assert_eq!(refusal(&provider.delete("uid-ada").await).0, 403);
    let mut said = wish("ada");
    said["active"] = json!(false);
    assert_eq!(refusal(&provider.send(reqwest::Method::PUT, "/Users/uid-ada", &said).await).0, 403);
    assert_eq!(provider.user("uid-ada").await.expect(200).json()["active"], json!(true));
    root.post(&format!("/users/{other}/unblock"), json!({})).await.expect(201);
    provider.patch("uid-ada", off).await.expect(204);
    assert_eq!(provider.role(&server, ada).await, None);
}

async fn a_provider_makes_as_many_accounts_as_the_instance_allows(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    let (status, _, detail) = refusal(&provider.create(&wish("eve")).await);
    assert_eq!(
        (status, detail.as_str()),
        (403, "403 Forbidden - The group has reached the maximum number of provisioned users (2)")
    );
    // Those that it made before count, whether they are there or not, and come again.
    provider.delete("uid-bob").await.expect(204);
    assert_eq!(refusal(&provider.create(&wish("eve")).await).0, 403);
    provider.create(&wish("bob")).await.expect(201);
    Provider::of(&server, "motors").await.provision(&server, "eve").await;
}

async fn who_leaves_by_themselves_is_free_of_the_provider(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let her = server.with_token(&server.token_of(ada, &["api"]).await);
    her.delete(&format!("/groups/{}/members/{ada}", provider.group)).await.expect(204);
    provider.user("uid-ada").await.expect(404);
    let change = json!([{ "op": "replace", "path": "displayName", "value": "pwned" }]);
    assert_eq!(refusal(&provider.patch("uid-ada", change.clone()).await).0, 404);
    assert_eq!(refusal(&provider.create(&wish("ada")).await).0, 409);
    // Who is taken away by others is not changed any more, and may be provisioned again.
    let bob = provider.provision(&server, "bob").await;
    server.root().delete(&format!("/groups/{}/members/{bob}", provider.group)).await.expect(204);
    assert_eq!(refusal(&provider.patch("uid-bob", change).await).0, 404);
    provider.create(&wish("bob")).await.expect(201);
    assert_eq!(provider.role(&server, bob).await, Some(10));
}

async fn a_name_that_was_numbered_is_not_taken_for_somebody_elses(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    group(&server.root(), "nick", json!({})).await;
    let mut nick = wish("nick");
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

async fn groups_that_give_out_one_name_at_once_all_find_another(server: TestServer) {
    let mut providers = Vec::new();
    for number in 0..6 {
        providers.push(Provider::of(&server, &format!("group-{number}")).await);
    }
    let posts = providers.iter().enumerate().flat_map(|(place, provider)| {
        (0..3).map(move |number| {
            let mut body = wish(&format!("n{place}x{number}"));
            body["userName"] = json!("twin");
            async move { provider.create(&body).await.expect(201).json()["userName"].clone() }
        })
    });
    let names: std::collections::HashSet<String> =
        join_all(posts).await.iter().map(|name| name.as_str().expect("a name").to_owned()).collect();
    assert_eq!(names.len(), 18);
    assert!(names.iter().all(|name| name.starts_with("twin")), "{names:?}");
}

async fn a_name_that_very_many_have_is_told_apart_by_chance(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for number in 0..25 {
        let mut body = wish(&format!("n{number}"));
        body["userName"] = json!("日本");
        let name = provider.create(&body).await.expect(201).json()["userName"].clone();
        let name = name.as_str().expect("a name").to_owned();
        // The word alone is nobody's.
        match number {
            0..19 => assert_eq!(name, format!("user{}", number + 1)),
            _ => assert!(name.len() > "user19".len(), "{name}"),
        }
    }
}

fn a_provider_makes_as_many_accounts_as_the_instance_allows_options() -> holdfast::config::Options {
    holdfast::config::Options { max_scim_users: Some(2), ..Default::default() }
}

on_every_database![
    an_address_that_nobody_confirmed_leads_to_nobody_and_keeps_nobody_away,
    an_owner_who_is_shut_out_is_no_owner_to_leave_the_group_to,
    a_provider_makes_as_many_accounts_as_the_instance_allows with a_provider_makes_as_many_accounts_as_the_instance_allows_options(),
    who_leaves_by_themselves_is_free_of_the_provider,
    a_name_that_was_numbered_is_not_taken_for_somebody_elses,
    groups_that_give_out_one_name_at_once_all_find_another,
    a_name_that_very_many_have_is_told_apart_by_chance,
];
