//! Deprovisioning of users.

use serde_json::{Value, json};

use super::{Provider, account, rejection, user_attributes};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn delete_user_keeps_account_and_removes_all_memberships(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let own = server.create_token(ada, &["api"]).await;
    let below = group(&root, "below", json!({ "parent_id": provider.group })).await;
    let work = project(&root, "work", json!({ "namespace_id": below })).await;
    let elsewhere = group(&root, "elsewhere", json!({})).await;
    for path in [format!("/groups/{below}"), format!("/projects/{work}"), format!("/groups/{elsewhere}")] {
        join(&root, &path, ada, 30).await;
    }
    let deleted = provider.delete("UID-ada").await.expect(204);
    assert!(deleted.body.is_empty());
    let her = server.with_token(&own);
    for path in [format!("/groups/{}", provider.group), format!("/groups/{below}"), format!("/projects/{work}")] {
        her.get(&path).await.expect(404);
    }
    her.get(&format!("/groups/{elsewhere}")).await.expect(200);
    assert_eq!(her.get("/user").await.expect(200).json()["id"], json!(ada));
    provider.user("uid-ada").await.expect(404);
    assert_eq!(provider.list(&[]).await.json()["totalResults"], json!(0));
    let (status, _, detail) = rejection(&provider.delete("uid-ada").await);
    assert_eq!((status, detail.as_str()), (404, "Resource uid-ada not found"));
}

async fn create_user_after_delete_restores_account(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let other = Provider::of(&server, "motors").await;
    let ada = provider.provision(&server, "ada").await;
    provider.delete("uid-ada").await.expect(204);
    // Another group cannot claim the account.
    assert_eq!(rejection(&other.create(&user_attributes("ada")).await).0, 409);
    // Neither can another external ID with the same address: the existing tokens belong to the former user.
    let mut other_person = user_attributes("ada");
    other_person["externalId"] = json!("another-uid");
    let (status, _, detail) = rejection(&provider.create(&other_person).await);
    assert!(status == 409 && detail.contains("Email has already been taken"), "{status} {detail}");
    let again = user_attributes("ada");
    let user = provider.create(&again).await.expect(201).json();
    assert_eq!((&user["id"], &user["userName"]), (&json!("uid-ada"), &json!("ada")));
    assert_eq!((account(&server, "ada").await, provider.role(&server, ada).await), (Some(ada), Some(10)));
    // With another address it is a different user, and the ID may be reused.
    provider.patch("uid-ada", json!([{ "op": "replace", "path": "active", "value": false }])).await.expect(204);
    let mut new = again.clone();
    new["emails"][0]["value"] = json!("new@example.org");
    assert_eq!(provider.create(&new).await.expect(201).json()["userName"], json!("ada1"));
}

async fn deactivation_ignores_other_changes_in_same_patch(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let operations = json!([{ "op": "replace", "path": "displayName", "value": "Other" },
        { "op": "replace", "path": "externalId", "value": "other" }, { "op": "replace", "path": "active", "value": false }]);
    provider.patch("uid-ada", operations).await.expect(204);
    assert_eq!(server.root().get(&format!("/users/{ada}")).await.json()["name"], json!("Name of ada"));
    for uid in ["uid-ada", "other"] {
        provider.user(uid).await.expect(404);
    }
    // `true` does not add a user who is not a member.
    let active = json!([{ "op": "replace", "path": "active", "value": true }]);
    assert_eq!(rejection(&provider.patch("uid-ada", active.clone()).await).0, 404);
    let bob = provider.provision(&server, "bob").await;
    server.root().delete(&format!("/groups/{}/members/{bob}", provider.group)).await.expect(204);
    provider.patch("uid-bob", active).await.expect(404);
    assert_eq!(provider.role(&server, bob).await, None);
}

async fn last_owner_cannot_be_deprovisioned(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let member = |id: i64| format!("/groups/{}/members/{id}", provider.group);
    root.put(&member(ada), json!({ "access_level": 50 })).await.expect(200);
    root.delete(&member(1)).await.expect(204);
    let active = json!([{ "op": "replace", "path": "active", "value": false }]);
    for response in [provider.delete("uid-ada").await, provider.patch("uid-ada", active).await] {
        let (status, kind, detail) = rejection(&response);
        assert_eq!((status, kind), (403, Value::Null));
        assert_eq!(detail, "403 Forbidden - The last owner of the group cannot be deprovisioned");
    }
    provider.user("uid-ada").await.expect(200);
    assert_eq!(provider.role(&server, ada).await, Some(50));
    // A member with an expired ownership is not an owner.
    let bob = provider.provision(&server, "bob").await;
    root.put(&member(bob), json!({ "access_level": 50, "expires_at": "2020-01-01" })).await.expect(200);
    provider.delete("uid-ada").await.expect(403);
    provider.delete("uid-bob").await.expect(204);
    let bob = provider.provision(&server, "bob").await;
    root.put(&member(bob), json!({ "access_level": 50 })).await.expect(200);
    provider.delete("uid-ada").await.expect(204);
    provider.delete("uid-bob").await.expect(403);
}

async fn concurrent_deletes_of_all_owners_keep_one(server: TestServer) {
    let root = server.root();
    for round in 0..3 {
        let provider = Provider::of(&server, &format!("engines{round}")).await;
        let mut uids = Vec::new();
        for number in 0..4 {
            let name = format!("o{round}-{number}");
            let owner = provider.provision(&server, &name).await;
            let member = format!("/groups/{}/members/{owner}", provider.group);
            root.put(&member, json!({ "access_level": 50 })).await.expect(200);
            uids.push(format!("uid-{name}"));
        }
        root.delete(&format!("/groups/{}/members/1", provider.group)).await.expect(204);
        let deleted = uids.iter().enumerate().map(async |(number, uid)| match number % 2 {
            0 => provider.delete(uid).await.status,
            _ => {
                let end = json!([{ "op": "replace", "value": { "active": "False" } }]);
                provider.patch(uid, end).await.status
            }
        });
        let mut deleted = futures_util::future::join_all(deleted).await;
        deleted.sort_unstable();
        assert_eq!(deleted, [204, 204, 204, 403]);
        let members = root.get(&format!("/groups/{}/members", provider.group)).await.expect(200);
        assert_eq!(members.pluck("access_level"), [json!(50)]);
    }
}

async fn concurrent_deletes_of_one_user_succeed_once(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let mut responses: Vec<u16> = futures_util::future::join_all((0..4).map(|_| provider.delete("uid-ada")))
        .await
        .into_iter()
        .map(|response| response.status)
        .collect();
    responses.sort_unstable();
    assert_eq!(responses, [204, 404, 404, 404]);
}

on_every_database![
    delete_user_keeps_account_and_removes_all_memberships,
    create_user_after_delete_restores_account,
    deactivation_ignores_other_changes_in_same_patch,
    last_owner_cannot_be_deprovisioned,
    concurrent_deletes_of_all_owners_keep_one,
    concurrent_deletes_of_one_user_succeed_once,
];
