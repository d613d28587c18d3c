//! SAML identities in lists of members.

use serde_json::{Value, json};

use super::Provider;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn group_owners_see_saml_identities_in_all_descendants(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let below = group(&root, "below", json!({ "parent_id": provider.group })).await;
    let work = project(&root, "work", json!({ "namespace_id": below })).await;
    let bob = server.create_user("bob").await;
    let (owner, maintainer) = (server.create_user("owner").await, server.create_user("maintainer").await);
    let of_below = server.create_user("of-below").await;
    let engines = format!("/groups/{}", provider.group);
    for (base_path, user, level) in [
        (engines.clone(), bob.id, 30),
        (engines.clone(), owner.id, 50),
        (engines.clone(), maintainer.id, 40),
        (format!("/groups/{below}"), of_below.id, 50),
    ] {
        join(&root, &base_path, user, level).await;
    }
    let saml = root.get(&format!("{engines}/saml")).await.json()["saml_provider_id"].clone();
    let identity = json!({ "extern_uid": "uid-ada", "provider": "group_saml", "saml_provider_id": saml });
    for base_path in [engines.clone(), format!("/groups/{below}"), format!("/projects/{work}")] {
        for client in [&root, &owner.client] {
            let one = client.get(&format!("{base_path}/members/all/{ada}")).await.expect(200);
            assert_eq!(one.json()["group_saml_identity"], identity, "{base_path}");
            let all = client.get(&format!("{base_path}/members/all")).await.expect(200).json();
            for member in all.as_array().expect("a list") {
                let expected = if member["id"] == json!(ada) { &identity } else { &Value::Null };
                assert_eq!(&member["group_saml_identity"], expected, "{base_path}");
            }
        }
        for client in [&maintainer.client, &bob.client] {
            let one = client.get(&format!("{base_path}/members/all/{ada}")).await.expect(200);
            assert_eq!(one.json()["group_saml_identity"], Value::Null, "{base_path}");
        }
    }
    // Owners of subgroups and projects do not see identities of the top-level group.
    for base_path in [format!("/groups/{below}"), format!("/projects/{work}")] {
        let one = of_below.client.get(&format!("{base_path}/members/all/{ada}")).await.expect(200);
        assert_eq!(one.json()["group_saml_identity"], Value::Null, "{base_path}");
    }
    let changed =
        owner.client.put(&format!("{engines}/members/{ada}"), json!({ "access_level": 20 })).await.expect(200);
    assert_eq!(changed.json()["group_saml_identity"], identity);
    let body = json!({ "user_id": ada, "access_level": 30 });
    let added = root.post(&format!("/groups/{below}/members"), body).await.expect(201);
    assert_eq!(added.json()["group_saml_identity"], identity);
    let direct = root.get(&format!("/groups/{below}/members")).await.expect(200).json();
    let found = direct.as_array().expect("a list").iter().find(|member| member["id"] == json!(ada));
    assert_eq!(found.expect("a member")["group_saml_identity"], identity);
    root.put(&format!("{engines}/saml"), json!({ "enabled": false })).await.expect(200);
    let one = root.get(&format!("{engines}/members/{ada}")).await.expect(200).json();
    assert_eq!(one["group_saml_identity"], Value::Null);
}

async fn list_members_with_identities_uses_constant_statements(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let owner = server.create_user("owner").await;
    join(&root, &format!("/groups/{}", provider.group), owner.id, 50).await;
    let count = async |list: &str| {
        let path = format!("/groups/{}/{list}", provider.group);
        owner.client.get(&path).await.expect(200);
        let before = server.statements();
        owner.client.get(&path).await.expect(200);
        server.statements() - before
    };
    provider.provision(&server, "first").await;
    let few = (count("members").await, count("members/all").await);
    for number in 0..12 {
        provider.provision(&server, &format!("user{number}")).await;
    }
    assert_eq!((count("members").await, count("members/all").await), few);
    assert!(few.0 <= 15 && few.1 <= 15, "{few:?}");
}

on_every_database![
    group_owners_see_saml_identities_in_all_descendants,
    list_members_with_identities_uses_constant_statements,
];
