//! The switch and the token.

use serde_json::{Value, json};

use super::{Provider, enable, token, wish};
use crate::support::places::{group, join};
use crate::support::{TestServer, on_every_database};

async fn single_sign_on_is_off_until_an_owner_switches_it_on(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let saml = format!("/groups/{engines}/saml");
    let before = json!({
        "saml_provider_id": null, "enabled": false, "default_membership_role": 10,
        "scim_url": format!("{}/api/scim/v2/groups/engines", server.base), "scim_token_created_at": null,
    });
    assert_eq!(root.get(&saml).await.expect(200).json(), before);
    root.delete(&format!("/groups/{engines}/scim_token")).await.expect(404);
    let early = root.post(&format!("/groups/{engines}/scim_token"), json!({})).await.expect(400);
    assert_eq!(early.message(), "Group SAML not enabled.");
    let on = root.put(&saml, json!({ "enabled": true })).await.expect(200).json();
    assert_eq!((&on["enabled"], &on["default_membership_role"]), (&json!(true), &json!(10)));
    assert!(on["saml_provider_id"].is_i64());
    token(&root, engines).await;
    let with = root.get(&saml).await.expect(200).json();
    assert!(with["scim_token_created_at"].is_string());
    let other = json!({ "default_membership_role": 30 });
    let other = root.put(&saml, other).await.expect(200).json();
    assert_eq!((&other["enabled"], &other["default_membership_role"]), (&json!(true), &json!(30)));
    assert_eq!(other["saml_provider_id"], on["saml_provider_id"]);
}

async fn owners_alone_see_and_change_it(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({ "visibility": "public" })).await;
    let (saml, token) = (format!("/groups/{engines}/saml"), format!("/groups/{engines}/scim_token"));
    for (level, person) in server.cast(&root, engines).await {
        let allowed = level == 50;
        let status = |fine: u16| if allowed { fine } else { 403 };
        person.client.get(&saml).await.expect(status(200));
        person.client.put(&saml, json!({ "enabled": true })).await.expect(status(200));
        person.client.post(&token, json!({})).await.expect(status(201));
        person.client.delete(&token).await.expect(status(204));
    }
    server.anonymous().get(&saml).await.expect(401);
    root.get("/groups/999999/saml").await.expect(404);
}

async fn what_cannot_be_is_refused(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let below = group(&root, "below", json!({ "parent_id": engines })).await;
    let saml = format!("/groups/{engines}/saml");
    root.put(&saml, json!({})).await.expect(400);
    root.put(&saml, json!({ "enabled": "perhaps" })).await.expect(400);
    for role in [0, 5, 50, 60, -10] {
        let refused = root.put(&saml, json!({ "default_membership_role": role })).await.expect(400);
        assert_eq!(refused.json()["message"]["default_membership_role"], json!(["is not included in the list"]));
    }
    let refused = root.put(&format!("/groups/{below}/saml"), json!({ "enabled": true })).await.expect(400);
    assert_eq!(refused.json()["message"]["enabled"], json!(["can be true only for top-level groups"]));
    root.put(&format!("/groups/{below}/saml"), json!({ "enabled": false })).await.expect(200);
}

async fn a_new_token_ends_the_one_before_it(server: TestServer) {
    let first = Provider::of(&server, "engines").await;
    first.list(&[]).await.expect(200);
    let root = server.root();
    let second = token(&root, first.group).await;
    assert_ne!(first.token, second);
    first.list(&[]).await.expect(401);
    let second = Provider::with_token(&server, first.group, "engines", second);
    second.list(&[]).await.expect(200);
    let path = format!("/groups/{}/scim_token", first.group);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&path).await.expect(412);
    root.delete(&path).await.expect(204);
    second.list(&[]).await.expect(401);
    root.delete(&path).await.expect(404);
    assert_eq!(root.get(&format!("/groups/{}/saml", first.group)).await.json()["scim_token_created_at"], Value::Null);
}

async fn tokens_made_at_once_leave_one(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let root = server.root();
    let path = format!("/groups/{}/scim_token", provider.group);
    let made = futures_util::future::join_all((0..6).map(|_| root.post(&path, json!({})))).await;
    let mut good = 0;
    for made in made {
        let token = made.expect(201).json()["token"].as_str().expect("a token").to_owned();
        let provider = Provider::with_token(&server, provider.group, "engines", token);
        good += usize::from(provider.list(&[]).await.status == 200);
    }
    assert_eq!(good, 1);
}

async fn nobody_is_provisioned_while_it_is_off_and_all_is_there_again_afterwards(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let (root, saml) = (server.root(), format!("/groups/{}/saml", provider.group));
    root.put(&saml, json!({ "enabled": false })).await.expect(200);
    for answer in [
        provider.list(&[]).await,
        provider.user("uid-ada").await,
        provider.create(&wish("bob")).await,
        provider.get("/ServiceProviderConfig").await,
        provider.delete("uid-ada").await,
    ] {
        assert_eq!(answer.expect(403).message(), "403 Forbidden - Group SAML not enabled.");
    }
    enable(&root, provider.group).await;
    assert_eq!(provider.found("id eq \"uid-ada\"").await, ["uid-ada"]);
}

async fn a_group_that_moves_is_provisioned_where_it_is(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    root.put(&format!("/groups/{}", provider.group), json!({ "path": "motors" })).await.expect(200);
    provider.list(&[]).await.expect(404);
    let renamed = Provider::with_token(&server, provider.group, "Motors", provider.token.clone());
    renamed.user("uid-ada").await.expect(200);
    let above = group(&root, "above", json!({})).await;
    let body = json!({ "group_id": above });
    root.post(&format!("/groups/{}/transfer", provider.group), body).await.expect(201);
    let moved = Provider::with_token(&server, provider.group, "above/motors", provider.token.clone());
    let user = moved.user("uid-ada").await.expect(200).json();
    let location = format!("{}/api/scim/v2/groups/above%2Fmotors/Users/uid-ada", server.base);
    assert_eq!(user["meta"]["location"], json!(location));
    moved.patch("uid-ada", json!([{ "op": "replace", "path": "displayName", "value": "A" }])).await.expect(204);
    moved.delete("uid-ada").await.expect(204);
    assert_eq!(moved.role(&server, ada).await, None);
    // It can be switched off here, and not on again.
    let saml = format!("/groups/{}/saml", provider.group);
    root.put(&saml, json!({ "enabled": false })).await.expect(200);
    root.put(&saml, json!({ "enabled": true })).await.expect(400);
}

async fn what_a_removed_group_provisioned_goes_with_it_and_accounts_stay(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    root.delete(&format!("/groups/{}", provider.group)).await.expect(202);
    provider.list(&[]).await.expect(404);
    server.finish_jobs().await;
    provider.list(&[]).await.expect(401);
    assert!(server.has_user_row(ada).await);
    let again = Provider::of(&server, "engines").await;
    assert_eq!(again.list(&[]).await.expect(200).json()["totalResults"], json!(0));
    // Nothing is known of the account any more.
    again.create(&wish("ada")).await.expect(409);
}

async fn an_owner_by_a_share_or_from_above_may_and_others_may_not(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let ada = server.person("ada").await;
    ada.client.get(&format!("/groups/{engines}/saml")).await.expect(404);
    join(&root, &format!("/groups/{engines}"), ada.id, 50).await;
    ada.client.put(&format!("/groups/{engines}/saml"), json!({ "enabled": true })).await.expect(200);
    let narrow = server.with_token(&server.token_of(ada.id, &["read_api"]).await);
    narrow.get(&format!("/groups/{engines}/saml")).await.expect(200);
    narrow.post(&format!("/groups/{engines}/scim_token"), json!({})).await.expect(403);
}

on_every_database![
    single_sign_on_is_off_until_an_owner_switches_it_on,
    owners_alone_see_and_change_it,
    what_cannot_be_is_refused,
    a_new_token_ends_the_one_before_it,
    tokens_made_at_once_leave_one,
    nobody_is_provisioned_while_it_is_off_and_all_is_there_again_afterwards,
    a_group_that_moves_is_provisioned_where_it_is,
    what_a_removed_group_provisioned_goes_with_it_and_accounts_stay,
    an_owner_by_a_share_or_from_above_may_and_others_may_not,
];
