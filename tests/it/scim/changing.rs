//! Changing users, in the forms that identity providers send.

use serde_json::{Value, json};

use super::{Provider, account, refusal, wish};
use crate::support::{TestServer, on_every_database};

fn shown(user: &Value) -> (&Value, &Value, &Value) {
    (&user["userName"], &user["displayName"], &user["emails"][0]["value"])
}

async fn operations_change_a_user_together(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let operations = json!([
        { "op": "Replace", "path": "name.formatted", "value": "Countess" },
        { "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "Countess@example.org" },
        { "op": "Add", "path": "userName", "value": "countess@example.org" },
        { "op": "Replace", "path": "active", "value": "True" },
    ]);
    let changed = provider.patch("uid-ada", operations.clone()).await.expect(204);
    assert!(changed.body.is_empty());
    let user = provider.user("UID-ADA").await.expect(200).json();
    assert_eq!(shown(&user), (&json!("countess"), &json!("Countess"), &json!("Countess@example.org")));
    // The account is the same, its paths have moved, and its address counts as confirmed.
    assert_eq!(account(&server, "countess").await, Some(ada));
    let root = server.root();
    assert_eq!(root.get("/namespaces/countess").await.expect(200).json()["kind"], json!("user"));
    root.get("/namespaces/ada").await.expect(404);
    assert!(root.get(&format!("/users/{ada}")).await.json()["confirmed_at"].is_string());
    provider.patch("uid-ada", operations).await.expect(204);
    provider.patch("uid-ada", json!([])).await.expect(204);
    assert_eq!(provider.user("uid-ada").await.expect(200).json(), user);
}

async fn every_provider_has_its_own_forms(server: TestServer) {
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
        assert_eq!(shown(&user), (&json!("ada"), &name, &email));
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

async fn operations_may_come_in_the_query_and_as_plain_json(server: TestServer) {
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
    let (status, ..) = refusal(&provider.client.send(text.body("x")).await);
    assert_eq!(status, 400);
}

async fn a_new_id_is_the_users_from_then_on(server: TestServer) {
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
    let (status, kind, detail) = refusal(&provider.patch("new/1", taken).await);
    assert_eq!((status, kind, detail.as_str()), (409, json!("uniqueness"), "externalId has already been taken"));
    assert_eq!(provider.user("new/1").await.json()["displayName"], json!("Name of ada"));
}

async fn what_somebody_else_has_is_a_conflict_and_nothing_changes(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    server.person("bob").await;
    for (path, value, told) in [
        ("userName", "Bob", "Username has already been taken"),
        ("userName", "engines@example.org", "Username has already been taken"),
        ("emails[type eq \"work\"].value", "BOB@example.com", "Email has already been taken"),
    ] {
        let operations = json!([{ "op": "replace", "path": "displayName", "value": "Not this" },
            { "op": "replace", "path": path, "value": value }]);
        let (status, kind, detail) = refusal(&provider.patch("uid-ada", operations).await);
        assert_eq!((status, kind, detail.as_str()), (409, json!("uniqueness"), told));
    }
    for (path, value) in [("userName", "admin"), ("emails.value", "none"), ("displayName", " ")] {
        let operations = json!([{ "op": "replace", "path": path, "value": value }]);
        let (status, kind, _) = refusal(&provider.patch("uid-ada", operations).await);
        assert_eq!((status, kind), (400, json!("invalidValue")), "{path}");
    }
    let user = provider.user("uid-ada").await.expect(200).json();
    assert_eq!(shown(&user), (&json!("ada"), &json!("Name of ada"), &json!("ada@example.org")));
}

async fn a_name_that_was_numbered_is_kept_as_long_as_it_must(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let bob = server.person("bob").await;
    provider.provision(&server, "bob2").await;
    let mut body = wish("robert");
    body["userName"] = json!("bob@example.org");
    assert_eq!(provider.create(&body).await.expect(201).json()["userName"], json!("bob1"));
    // Providers say again and again what they said first.
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

async fn accounts_of_administrators_are_not_changed(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    server.root().put(&format!("/users/{ada}"), json!({ "admin": true })).await.expect(200);
    for path in ["userName", "displayName", "emails.value"] {
        let operations = json!([{ "op": "replace", "path": path, "value": "taken@over" }]);
        assert_eq!(refusal(&provider.patch("uid-ada", operations).await).0, 403, "{path}");
    }
    provider.patch("uid-ada", json!([{ "op": "replace", "path": "userName", "value": "ada@x" }])).await.expect(204);
    provider.patch("uid-ada", json!([{ "op": "replace", "path": "active", "value": false }])).await.expect(204);
    assert_eq!(account(&server, "ada").await, Some(ada));
}

async fn operations_that_make_no_sense_are_refused_with_their_kind(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    for (operations, kind) in [
        (json!([{ "op": "move", "path": "userName", "value": "a" }]), "invalidSyntax"),
        (json!([{ "op": "remove", "path": "userName" }]), "invalidSyntax"),
        (json!([{ "op": "replace", "value": 1 }]), "invalidSyntax"),
        (json!([{ "op": "replace", "path": "emails[[", "value": "a" }]), "invalidPath"),
        (json!([{ "op": "replace", "path": "active", "value": "perhaps" }]), "invalidValue"),
        (json!([{ "path": "active", "value": false }]), "invalidValue"),
        (json!("active"), "invalidValue"),
        (json!([1]), "invalidValue"),
        (json!(vec![json!({ "op": "add", "path": "active", "value": true }); 101]), "invalidValue"),
    ] {
        let (status, found, detail) = refusal(&provider.patch("uid-ada", operations).await);
        assert_eq!((status, found), (400, json!(kind)), "{detail}");
    }
    let none = provider.send(reqwest::Method::PATCH, "/Users/uid-ada", &json!({})).await;
    assert_eq!(refusal(&none).2, "Operations is missing");
    let most = json!(vec![json!({ "op": "add", "path": "active", "value": true }); 100]);
    provider.patch("uid-ada", most).await.expect(204);
    // Who is not there is told before what is wrong with the operations.
    let (status, ..) = refusal(&provider.patch("nobody", json!([{ "op": "move" }])).await);
    assert_eq!(status, 404);
    provider.user("uid-ada").await.expect(200);
}

async fn changes_at_once_are_made_one_after_another(server: TestServer) {
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
    let answers = futures_util::future::join_all(patches).await;
    assert!(answers.iter().all(|status| matches!(status, 204 | 409)), "{answers:?}");
    let (ada, bob) = (provider.user("uid-ada").await.json(), provider.user("uid-bob").await.json());
    assert_ne!(ada["userName"], bob["userName"]);
    assert_ne!(ada["emails"], bob["emails"]);
}

on_every_database![
    operations_change_a_user_together,
    every_provider_has_its_own_forms,
    operations_may_come_in_the_query_and_as_plain_json,
    a_new_id_is_the_users_from_then_on,
    what_somebody_else_has_is_a_conflict_and_nothing_changes,
    a_name_that_was_numbered_is_kept_as_long_as_it_must,
    accounts_of_administrators_are_not_changed,
    operations_that_make_no_sense_are_refused_with_their_kind,
    changes_at_once_are_made_one_after_another,
];
