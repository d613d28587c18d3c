//! Updates of users with PATCH, in the forms that identity providers send.

use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{Provider, account, rejection, user_attributes};
use crate::support::{TestServer, on_every_database};

fn main_attributes(user: &Value) -> (&Value, &Value, &Value) {
    (&user["userName"], &user["displayName"], &user["emails"][0]["value"])
}

async fn patch_user_applies_all_operations(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let space = server.personal_namespace(ada).await;
    let work = server.insert_project(space.id, "work", Visibility::Public).await;
    let operations = json!([
        { "op": "Replace", "path": "name.formatted", "value": "Countess" },
        { "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "Countess@example.org" },
        { "op": "Add", "path": "userName", "value": "countess@example.org" },
        { "op": "Replace", "path": "active", "value": "True" },
    ]);
    let changed = provider.patch("uid-ada", operations.clone()).await.expect(204);
    assert!(changed.body.is_empty());
    let user = provider.user("UID-ADA").await.expect(200).json();
    assert_eq!(main_attributes(&user), (&json!("countess"), &json!("Countess"), &json!("Countess@example.org")));
    // The account ID is unchanged, its paths have moved, and its email address is unconfirmed.
    assert_eq!(account(&server, "countess").await, Some(ada));
    let root = server.root();
    assert_eq!(root.get("/namespaces/countess").await.expect(200).json()["kind"], json!("user"));
    root.get("/namespaces/ada").await.expect(404);
    // The former path leads to the project.
    assert_eq!(root.get("/projects/ada%2Fwork").await.expect(200).json()["id"], work.id);
    assert!(root.get(&format!("/users/{ada}")).await.json()["confirmed_at"].is_null());
    provider.patch("uid-ada", operations).await.expect(204);
    provider.patch("uid-ada", json!([])).await.expect(204);
    assert_eq!(provider.user("uid-ada").await.expect(200).json(), user);
}

async fn patch_user_accepts_forms_of_entra_okta_and_onelogin(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let work = "emails[type eq \"work\"].value";
    for (number, operations) in [
        // Entra
        json!([{ "op": "Replace", "path": "displayName", "value": "N0" }, { "op": "Add", "path": work, "value": "n0@x" }]),
        json!([{ "op": "replace", "value": { "name.formatted": "N1", work: "n1@x", "active": "True" } }]),
        json!([{ "op": "Add", "path": "name.formatted", "value": [{ "$ref": null, "value": "N2" }] },
            { "op": "Replace", "path": work, "value": "n2@x" },
            { "op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager", "value": "1" }]),
        // Okta
        json!([{ "op": "replace", "value": { "displayName": "N3", "emails": [{ "value": "n3@x", "primary": true }] } }]),
        json!([{ "op": "replace", "path": "name", "value": { "formatted": "N4" } },
            { "op": "replace", "path": "emails", "value": [{ "type": "home", "value": "h@x" }, { "type": "work", "value": "n4@x" }] }]),
        // OneLogin
        json!([{ "op": "replace", "path": "active", "value": true }, { "op": "replace", "path": "displayName", "value": "N5" },
            { "op": "replace", "path": "emails[primary eq true].value", "value": "n5@x" },
            { "op": "replace", "path": "phoneNumbers", "value": [] }]),
    ].into_iter().enumerate() {
        provider.patch("uid-ada", operations).await.expect(204);
        let user = provider.user("uid-ada").await.expect(200).json();
        let (name, email) = (json!(format!("N{number}")), json!(format!("n{number}@x")));
        assert_eq!(main_attributes(&user), (&json!("ada"), &name, &email));
    }
    for (name, body) in [
        ("a", json!([{ "op": "Replace", "path": "active", "value": "False" }])),
        ("b", json!([{ "op": "replace", "value": { "active": false } }])),
        ("c", json!([{ "op": "replace", "path": "active", "value": false }])),
        ("d", json!([{ "op": "ADD", "path": "ACTIVE", "value": [{ "value": "false" }] }])),
    ] {
        let user = provider.provision(&server, name).await;
        provider.patch(&format!("uid-{name}"), body).await.expect(204);
        provider.user(&format!("uid-{name}")).await.expect(404);
        assert_eq!(provider.role(&server, user).await, None, "{name}");
    }
}

async fn patch_user_accepts_query_parameters_and_plain_json(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let path = format!("{}/Users/uid-ada", provider.base);
    let query = [("Operations[][op]", "Replace"), ("Operations[][path]", "displayName"), ("Operations[][value]", "Q")];
    let request = provider.client.request(reqwest::Method::PATCH, &path).query(&query);
    provider.client.send(request).await.expect(204);
    assert_eq!(provider.user("uid-ada").await.json()["displayName"], json!("Q"));
    let body = json!({ "Operations": [{ "op": "replace", "path": "displayName", "value": "J" }] });
    let request = provider.client.request(reqwest::Method::PATCH, &path).json(&body);
    provider.client.send(request).await.expect(204);
    assert_eq!(provider.user("uid-ada").await.json()["displayName"], json!("J"));
    let text = provider.client.request(reqwest::Method::PATCH, &path).header("Content-Type", "text/plain");
    let (status, ..) = rejection(&provider.client.send(text.body("x")).await);
    assert_eq!(status, 400);
}

async fn patch_user_changes_external_id(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    let operations = json!([{ "op": "Replace", "path": "externalId", "value": "New/1" }]);
    provider.patch("uid-ada", operations).await.expect(204);
    provider.user("uid-ada").await.expect(404);
    assert_eq!(provider.user("new/1").await.expect(200).json()["id"], json!("New/1"));
    let case = json!([{ "op": "Replace", "path": "id", "value": "NEW/1" }]);
    provider.patch("New/1", case).await.expect(204);
    assert_eq!(provider.user("new/1").await.expect(200).json()["id"], json!("NEW/1"));
    let taken = json!([{ "op": "Replace", "path": "externalId", "value": "UID-BOB" },
        { "op": "Replace", "path": "displayName", "value": "Not this" }]);
    let (status, kind, detail) = rejection(&provider.patch("new/1", taken).await);
    assert_eq!((status, kind, detail.as_str()), (409, json!("uniqueness"), "externalId has already been taken"));
    assert_eq!(provider.user("new/1").await.json()["displayName"], json!("Name of ada"));
}

async fn patch_user_with_taken_value_returns_409_and_changes_nothing(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    server.create_user("bob").await;
    for (path, value, error) in [
        ("userName", "Bob", "Username has already been taken"),
        ("userName", "engines@example.org", "Username has already been taken"),
        ("emails[type eq \"work\"].value", "BOB@example.com", "Email has already been taken"),
    ] {
        let operations = json!([{ "op": "replace", "path": "displayName", "value": "Not this" },
            { "op": "replace", "path": path, "value": value }]);
        let (status, kind, detail) = rejection(&provider.patch("uid-ada", operations).await);
        assert_eq!((status, kind, detail.as_str()), (409, json!("uniqueness"), error));
    }
    for (path, value) in [("userName", "admin"), ("emails.value", "none"), ("displayName", " ")] {
        let operations = json!([{ "op": "replace", "path": path, "value": value }]);
        let (status, kind, _) = rejection(&provider.patch("uid-ada", operations).await);
        assert_eq!((status, kind), (400, json!("invalidValue")), "{path}");
    }
    let user = provider.user("uid-ada").await.expect(200).json();
    assert_eq!(main_attributes(&user), (&json!("ada"), &json!("Name of ada"), &json!("ada@example.org")));
}

async fn patch_user_name_stays_numbered_while_name_is_taken(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let bob = server.create_user("bob").await;
    provider.provision(&server, "bob2").await;
    let mut body = user_attributes("robert");
    body["userName"] = json!("bob@example.org");
    assert_eq!(provider.create(&body).await.expect(201).json()["userName"], json!("bob1"));
    // Providers send the original user name repeatedly.
    let operations = json!([{ "op": "replace", "path": "userName", "value": "bob@example.org" }]);
    provider.patch("uid-robert", operations.clone()).await.expect(204);
    assert_eq!(provider.user("uid-robert").await.json()["userName"], json!("bob1"));
    server.root().put(&format!("/users/{}", bob.id), json!({ "username": "robert" })).await.expect(200);
    provider.patch("uid-robert", operations).await.expect(204);
    assert_eq!(provider.user("uid-robert").await.json()["userName"], json!("bob"));
    let case = json!([{ "op": "replace", "path": "userName", "value": "BOB" }]);
    provider.patch("uid-robert", case).await.expect(204);
    assert_eq!(provider.user("uid-robert").await.json()["userName"], json!("BOB"));
}

async fn patch_user_of_administrator_returns_403(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    server.root().put(&format!("/users/{ada}"), json!({ "admin": true })).await.expect(200);
    for path in ["userName", "displayName", "emails.value"] {
        let operations = json!([{ "op": "replace", "path": path, "value": "taken@over" }]);
        assert_eq!(rejection(&provider.patch("uid-ada", operations).await).0, 403, "{path}");
    }
    provider.patch("uid-ada", json!([{ "op": "replace", "path": "userName", "value": "ada@x" }])).await.expect(204);
    provider.patch("uid-ada", json!([{ "op": "replace", "path": "active", "value": false }])).await.expect(204);
    assert_eq!(account(&server, "ada").await, Some(ada));
}

async fn patch_user_rejects_invalid_operations_with_scim_type(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    for (operations, kind) in [
        (json!([{ "op": "move", "path": "userName", "value": "a" }]), "invalidSyntax"),
        (json!([{ "op": "remove", "path": "userName" }]), "mutability"),
        (json!([{ "op": "replace", "path": "meta.created", "value": "2011-05-13T04:42:34Z" }]), "mutability"),
        (json!([{ "op": "remove" }]), "noTarget"),
        (json!([{ "op": "replace", "path": "emails[type eq \"home\"].value", "value": "a@x" }]), "noTarget"),
        (json!([{ "op": "replace", "value": 1 }]), "invalidSyntax"),
        (json!([{ "op": "replace", "path": "emails[[", "value": "a" }]), "invalidPath"),
        (json!([{ "op": "replace", "path": "emails[value sw \"a\"].value", "value": "a@x" }]), "invalidFilter"),
        (json!([{ "op": "replace", "path": "active", "value": "perhaps" }]), "invalidValue"),
        (json!([{ "path": "active", "value": false }]), "invalidValue"),
        (json!("active"), "invalidValue"),
        (json!([1]), "invalidValue"),
        (json!(vec![json!({ "op": "add", "path": "active", "value": true }); 101]), "invalidValue"),
    ] {
        let (status, found, detail) = rejection(&provider.patch("uid-ada", operations).await);
        assert_eq!((status, found), (400, json!(kind)), "{detail}");
    }
    let none = provider.send(reqwest::Method::PATCH, "/Users/uid-ada", &json!({})).await;
    assert_eq!(rejection(&none).2, "Operations is missing");
    let most = json!(vec![json!({ "op": "add", "path": "active", "value": true }); 100]);
    provider.patch("uid-ada", most).await.expect(204);
    // A missing user is reported before invalid operations.
    let (status, ..) = rejection(&provider.patch("missing-user", json!([{ "op": "move" }])).await);
    assert_eq!(status, 404);
    provider.user("uid-ada").await.expect(200);
}

async fn concurrent_patches_are_serialized(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    let patches = (0..12).map(|number| {
        let uid = if number % 2 == 0 { "uid-ada" } else { "uid-bob" };
        let operations = json!([{ "op": "replace", "path": "userName", "value": format!("name{}", number / 4) },
            { "op": "replace", "path": "emails.value", "value": format!("{number}@x") }]);
        let provider = &provider;
        async move { provider.patch(uid, operations).await.status }
    });
    let responses = futures_util::future::join_all(patches).await;
    assert!(responses.iter().all(|status| matches!(status, 204 | 409)), "{responses:?}");
    let (ada, bob) = (provider.user("uid-ada").await.json(), provider.user("uid-bob").await.json());
    assert_ne!(ada["userName"], bob["userName"]);
    assert_ne!(ada["emails"], bob["emails"]);
}

on_every_database![
    patch_user_applies_all_operations,
    patch_user_accepts_forms_of_entra_okta_and_onelogin,
    patch_user_accepts_query_parameters_and_plain_json,
    patch_user_changes_external_id,
    patch_user_with_taken_value_returns_409_and_changes_nothing,
    patch_user_name_stays_numbered_while_name_is_taken,
    patch_user_of_administrator_returns_403,
    patch_user_rejects_invalid_operations_with_scim_type,
    concurrent_patches_are_serialized,
];
