//! Creation of users.

use reqwest::Method;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{members, users};

use super::{Provider, account, rejection, user_attributes};
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

async fn user_row(server: &TestServer, id: i64) -> users::Model {
    let found = users::Entity::find_by_id(id).one(server.backend.database.read()).await;
    found.expect("the database").expect("a user")
}

/// Returns the number of users, including the administrator.
async fn user_count(server: &TestServer) -> u64 {
    users::Entity::find().count(server.backend.database.read()).await.expect("a number")
}

async fn create_user_creates_unconfirmed_account_with_default_role(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let row = user_row(&server, ada).await;
    assert!(row.confirmed_at.is_none() && row.password_hash.is_none() && !row.admin && row.provisioned);
    assert_eq!((row.name.as_str(), row.email.as_str()), ("Name of ada", "ada@example.org"));
    assert_eq!(provider.role(&server, ada).await, Some(10));
    assert_eq!(server.root().get("/namespaces/ada").await.expect(200).json()["kind"], json!("user"));
    server
        .root()
        .put(&format!("/groups/{}/saml", provider.group), json!({ "default_membership_role": 30 }))
        .await
        .expect(200);
    let bob = provider.provision(&server, "bob").await;
    assert_eq!((provider.role(&server, ada).await, provider.role(&server, bob).await), (Some(10), Some(30)));
}

async fn create_user_with_same_id_restores_membership(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let first = provider.create(&user_attributes("ada")).await.expect(201).json();
    let ada = account(&server, "ada").await.expect("an account");
    let mut other = user_attributes("other");
    other["externalId"] = json!("UID-ada");
    assert_eq!(provider.create(&other).await.expect(201).json(), first);
    assert_eq!(user_count(&server).await, 2);
    let root = server.root();
    let member = format!("/groups/{}/members/{ada}", provider.group);
    root.put(&member, json!({ "access_level": 40 })).await.expect(200);
    provider.create(&user_attributes("ada")).await.expect(201);
    assert_eq!(provider.role(&server, ada).await, Some(40));
    root.delete(&member).await.expect(204);
    provider.create(&user_attributes("ada")).await.expect(201);
    assert_eq!(provider.role(&server, ada).await, Some(10));
    root.put(&member, json!({ "access_level": 40, "expires_at": "2020-01-01" })).await.expect(200);
    assert_eq!(provider.role(&server, ada).await, None);
    provider.create(&user_attributes("ada")).await.expect(201);
    assert_eq!(provider.role(&server, ada).await, Some(10));
}

async fn create_user_ignores_active(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let mut body = user_attributes("ada");
    body["active"] = json!(false);
    // The second request finds the provisioned user.
    for _ in 0..2 {
        let user = provider.create(&body).await.expect(201).json();
        assert_eq!(user["active"], json!(true));
        let ada = account(&server, "ada").await.expect("an account");
        assert_eq!(provider.role(&server, ada).await, Some(10));
    }
}

async fn create_user_role_is_at_least_inherited_role(server: TestServer) {
    let root = server.root();
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let above = group(&root, "above", json!({})).await;
    join(&root, &format!("/groups/{above}"), ada, 30).await;
    root.post(&format!("/groups/{}/transfer", provider.group), json!({ "group_id": above })).await.expect(201);
    root.delete(&format!("/groups/{}/members/{ada}", provider.group)).await.expect(204);
    let moved = Provider::with_token(&server, provider.group, "above/engines", provider.token.clone());
    moved.create(&user_attributes("ada")).await.expect(201);
    assert_eq!(moved.role(&server, ada).await, Some(30));
}

async fn create_user_normalizes_and_numbers_user_names(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    server.create_user("ada").await;
    group(&server.root(), "taken", json!({})).await;
    for (number, (sent, name)) in [
        ("ada@one.example", "ada1"),
        ("ADA", "ADA2"),
        ("taken", "taken1"),
        ("Engines", "Engines1"),
        ("api", "api1"),
        ("日本", "user"),
        ("--x.git", "x"),
        ("a b/c", "abc"),
        ("x@two.example", "x1"),
        ("..", "user1"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = user_attributes(&format!("n{number}"));
        body["userName"] = json!(sent);
        let user = provider.create(&body).await.expect(201).json();
        assert_eq!(user["userName"], json!(name), "{sent}");
    }
}

async fn create_user_selects_work_email_and_joins_names(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for (number, (emails, email)) in [
        (json!([{ "type": "home", "value": "a@x" }, { "type": "Work", "value": "b@x" }]), "b@x"),
        (json!([{ "value": "c@x" }, { "value": "d@x", "primary": "True" }]), "d@x"),
        (json!([{ "value": "e@x" }, { "value": "f@x" }]), "e@x"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = user_attributes(&format!("n{number}"));
        body["emails"] = emails;
        body["name"] = json!({ "formatted": " ", "givenName": "Ada", "familyName": "King", "middleName": null });
        body["active"] = Value::Null;
        body["title"] = json!({ "deep": [1] });
        let user = provider.create(&body).await.expect(201).json();
        assert_eq!((&user["emails"][0]["value"], &user["displayName"]), (&json!(email), &json!("Ada King")));
    }
}

async fn create_user_with_taken_email_returns_409(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let bob = server.create_user("bob").await;
    let further = json!({ "email": "further@example.com", "skip_confirmation": true });
    server.root().post(&format!("/users/{}/emails", bob.id), further).await.expect(201);
    // Membership does not allow the provider to take over the account.
    join(&server.root(), &format!("/groups/{}", provider.group), bob.id, 30).await;
    let before = user_count(&server).await;
    for email in ["bob@example.com", "BOB@EXAMPLE.COM", "further@example.com"] {
        let mut body = user_attributes("ada");
        body["emails"][0]["value"] = json!(email);
        let (status, kind, detail) = rejection(&provider.create(&body).await);
        assert_eq!((status, kind), (409, json!("uniqueness")));
        assert!(
            detail.starts_with("Error saving user with ") && detail.ends_with("Email has already been taken"),
            "{detail}"
        );
    }
    assert_eq!(user_count(&server).await, before);
    assert_eq!(provider.list(&[]).await.expect(200).json()["totalResults"], json!(0));
}

/// The case of the names of attributes does not matter (RFC 7643, section 2.1).
async fn attribute_names_are_case_insensitive(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let body = json!({
        "EXTERNALID": "uid-ada", "username": "ada", "Name": { "Formatted": "Ada" },
        "emails": [{ "TYPE": "home", "Value": "h@example.org" }, { "TYPE": "work", "Value": "ada@example.org" }],
    });
    let created = provider.create(&body).await.expect(201).json();
    assert_eq!(
        (&created["id"], &created["userName"], &created["displayName"], &created["emails"][0]["value"]),
        (&json!("uid-ada"), &json!("ada"), &json!("Ada"), &json!("ada@example.org"))
    );
    let body = json!({ "USERNAME": "ada", "displayname": "Countess", "NAME": null });
    let replaced = provider.send(Method::PUT, "/Users/uid-ada", &body).await.expect(200).json();
    assert_eq!(replaced["displayName"], "Countess");
    let body = json!({ "operations": [{ "OP": "replace", "Path": "displayName", "VALUE": "Ada" }] });
    provider.send(Method::PATCH, "/Users/uid-ada", &body).await.expect(204);
    let body = json!({ "Filter": "userName eq \"ada\"", "ATTRIBUTES": ["displayName"] });
    let found = provider.send(Method::POST, "/Users/.search", &body).await.expect(200).json();
    assert_eq!((&found["totalResults"], &found["Resources"][0]["displayName"]), (&json!(1), &json!("Ada")));
    assert!(found["Resources"][0]["userName"].is_null());
    // Of two spellings, the declared one applies.
    let body = json!({ "username": "other", "userName": "ada" });
    let replaced = provider.send(Method::PUT, "/Users/uid-ada", &body).await.expect(200).json();
    assert_eq!(replaced["userName"], "ada");
}

async fn create_user_rejects_missing_and_invalid_attributes(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for attribute in ["externalId", "userName", "emails", "name"] {
        let mut body = user_attributes("ada");
        body.as_object_mut().expect("an object").remove(attribute);
        let (status, kind, detail) = rejection(&provider.create(&body).await);
        assert_eq!((status, kind), (400, json!("invalidValue")), "{detail}");
        assert!(detail.contains(attribute), "{detail}");
    }
    for (attribute, value, error) in [
        ("externalId", json!(" "), "externalId is empty"),
        ("externalId", json!("x".repeat(256)), "externalId is too long (maximum is 255 characters)"),
        ("externalId", json!("a\u{0}b"), "externalId is invalid"),
        ("userName", json!({}), "userName is invalid"),
        ("emails", json!([]), "emails is invalid"),
        ("emails", json!([{ "type": "work" }]), "Email can't be blank"),
        ("emails", json!([{ "type": "work", "value": " " }]), "Email can't be blank"),
        ("emails", json!([{ "type": "work", "value": "no address" }]), "email is invalid"),
        ("emails", json!(vec![json!({ "value": "a@b" }); 21]), "emails is invalid"),
        ("name", json!({}), "Name can't be blank"),
        ("name", json!({ "formatted": " " }), "Name can't be blank"),
        (
            "name",
            json!({ "givenName": "a".repeat(200), "familyName": "b".repeat(200) }),
            "Name is too long (maximum is 255 characters)",
        ),
        ("name", json!("Ada"), "name is invalid"),
    ] {
        let mut body = user_attributes("ada");
        body[attribute] = value;
        let (status, kind, detail) = rejection(&provider.create(&body).await);
        assert_eq!((status, kind, detail.as_str()), (400, json!("invalidValue"), error));
    }
    assert_eq!(user_count(&server).await, 1);
}

async fn concurrent_creates_with_same_id_create_one_user(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let body = user_attributes("ada");
    let responses = futures_util::future::join_all((0..8).map(|_| provider.create(&body))).await;
    let mut seen = Vec::new();
    for response in responses {
        seen.push(response.expect(201).json());
    }
    seen.dedup();
    assert_eq!((seen.len(), user_count(&server).await), (1, 2));
    let rows = members::Entity::find().filter(members::Column::NamespaceId.eq(provider.group));
    assert_eq!(rows.count(server.backend.database.read()).await.expect("a number"), 2);
}

async fn concurrent_creates_with_same_email_create_one_user(server: TestServer) {
    let (one, other) = (Provider::of(&server, "engines").await, Provider::of(&server, "motors").await);
    let posts = (0..8).map(|number| {
        let mut body = user_attributes("ada");
        body["externalId"] = json!(format!("uid-{number}"));
        let provider = if number % 2 == 0 { &one } else { &other };
        async move { provider.create(&body).await.status }
    });
    let mut responses = futures_util::future::join_all(posts).await;
    responses.sort_unstable();
    assert_eq!(responses, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(user_count(&server).await, 2);
}

async fn concurrent_creates_with_same_user_name_get_distinct_names(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let posts = (0..8).map(|number| {
        let mut body = user_attributes(&format!("n{number}"));
        body["userName"] = json!("same");
        let provider = &provider;
        async move { provider.create(&body).await.expect(201).json()["userName"].clone() }
    });
    let mut names: Vec<String> = futures_util::future::join_all(posts)
        .await
        .into_iter()
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["same", "same1", "same2", "same3", "same4", "same5", "same6", "same7"]);
}

on_every_database![
    create_user_creates_unconfirmed_account_with_default_role,
    create_user_with_same_id_restores_membership,
    create_user_ignores_active,
    create_user_role_is_at_least_inherited_role,
    create_user_normalizes_and_numbers_user_names,
    create_user_selects_work_email_and_joins_names,
    create_user_with_taken_email_returns_409,
    attribute_names_are_case_insensitive,
    create_user_rejects_missing_and_invalid_attributes,
    concurrent_creates_with_same_id_create_one_user,
    concurrent_creates_with_same_email_create_one_user,
    concurrent_creates_with_same_user_name_get_distinct_names,
];
