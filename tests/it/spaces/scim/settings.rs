//! Settings of single sign-on and the SCIM token.

use serde_json::{Value, json};

use super::{Provider, enable, rejection, token, user_attributes};
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

async fn single_sign_on_is_disabled_by_default(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let saml = format!("/groups/{engines}/saml");
    let before = json!({
        "saml_provider_id": null, "enabled": false, "default_membership_role": 10,
        "scim_url": format!("{}/api/scim/v2/groups/engines", server.base), "scim_token_created_at": null,
        "verified_domains": [],
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

async fn saml_settings_require_owner(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({ "visibility": "public" })).await;
    let (saml, token) = (format!("/groups/{engines}/saml"), format!("/groups/{engines}/scim_token"));
    for (level, member) in server.create_member_per_role(&root, engines).await {
        let allowed = level == 50;
        let status = |fine: u16| if allowed { fine } else { 403 };
        member.client.get(&saml).await.expect(status(200));
        member.client.put(&saml, json!({ "enabled": true })).await.expect(status(200));
        member.client.post(&token, json!({})).await.expect(status(201));
        member.client.delete(&token).await.expect(status(204));
    }
    server.anonymous().get(&saml).await.expect(401);
    root.get("/groups/999999/saml").await.expect(404);
}

async fn update_saml_settings_rejects_invalid_values(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let below = group(&root, "below", json!({ "parent_id": engines })).await;
    let saml = format!("/groups/{engines}/saml");
    root.put(&saml, json!({})).await.expect(400);
    root.put(&saml, json!({ "enabled": "perhaps" })).await.expect(400);
    for role in [0, 5, 50, 60, -10] {
        let rejected = root.put(&saml, json!({ "default_membership_role": role })).await.expect(400);
        assert_eq!(rejected.json()["message"]["default_membership_role"], json!(["is not included in the list"]));
    }
    let rejected = root.put(&format!("/groups/{below}/saml"), json!({ "enabled": true })).await.expect(400);
    assert_eq!(rejected.json()["message"]["enabled"], json!(["can be true only for top-level groups"]));
    root.put(&format!("/groups/{below}/saml"), json!({ "enabled": false })).await.expect(200);
}

async fn create_scim_token_revokes_previous_token(server: TestServer) {
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

async fn concurrent_scim_token_creates_leave_one_valid(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let root = server.root();
    let path = format!("/groups/{}/scim_token", provider.group);
    let created = futures_util::future::join_all((0..6).map(|_| root.post(&path, json!({})))).await;
    let mut good = 0;
    for created in created {
        let token = created.expect(201).json()["token"].as_str().expect("a token").to_owned();
        let provider = Provider::with_token(&server, provider.group, "engines", token);
        good += usize::from(provider.list(&[]).await.status == 200);
    }
    assert_eq!(good, 1);
}

async fn disabled_single_sign_on_rejects_provisioning_until_enabled(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let (root, saml) = (server.root(), format!("/groups/{}/saml", provider.group));
    root.put(&saml, json!({ "enabled": false })).await.expect(200);
    for response in [
        provider.list(&[]).await,
        provider.user("uid-ada").await,
        provider.create(&user_attributes("bob")).await,
        provider.get("/ServiceProviderConfig").await,
        provider.delete("uid-ada").await,
    ] {
        let (status, _, detail) = rejection(&response);
        assert_eq!((status, detail.as_str()), (403, "403 Forbidden - Group SAML not enabled."));
    }
    enable(&root, provider.group).await;
    assert_eq!(provider.found("id eq \"uid-ada\"").await, ["uid-ada"]);
}

async fn scim_follows_group_rename_and_transfer(server: TestServer) {
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
    // A subgroup can disable single sign-on, but not enable it again.
    let saml = format!("/groups/{}/saml", provider.group);
    root.put(&saml, json!({ "enabled": false })).await.expect(200);
    root.put(&saml, json!({ "enabled": true })).await.expect(400);
}

async fn deleted_group_keeps_provisioned_accounts(server: TestServer) {
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
    // The link to the account was deleted with the group.
    again.create(&user_attributes("ada")).await.expect(409);
}

async fn saml_settings_depend_on_membership_and_token_scope(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let ada = server.create_user("ada").await;
    ada.client.get(&format!("/groups/{engines}/saml")).await.expect(404);
    join(&root, &format!("/groups/{engines}"), ada.id, 50).await;
    ada.client.put(&format!("/groups/{engines}/saml"), json!({ "enabled": true })).await.expect(200);
    let narrow = server.with_token(&server.create_token(ada.id, &["read_api"]).await);
    narrow.get(&format!("/groups/{engines}/saml")).await.expect(200);
    narrow.post(&format!("/groups/{engines}/scim_token"), json!({})).await.expect(403);
}

on_every_database![
    single_sign_on_is_disabled_by_default,
    saml_settings_require_owner,
    update_saml_settings_rejects_invalid_values,
    create_scim_token_revokes_previous_token,
    concurrent_scim_token_creates_leave_one_valid,
    disabled_single_sign_on_rejects_provisioning_until_enabled,
    scim_follows_group_rename_and_transfer,
    deleted_group_keeps_provisioned_accounts,
    saml_settings_depend_on_membership_and_token_scope,
];
