//! Lists, filters, single users and discovery.

use serde_json::{Value, json};

use super::{Provider, account, rejection, user_attributes};
use crate::support::client::segment;
use crate::support::{TestServer, on_every_database};

fn page_numbers(list: &Value) -> (i64, i64, i64, usize) {
    let number = |field: &str| list[field].as_i64().expect("a number");
    let users = list["Resources"].as_array().expect("a list").len();
    (number("totalResults"), number("itemsPerPage"), number("startIndex"), users)
}

async fn get_user_returns_all_fields(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let created = provider.create(&user_attributes("ada")).await.expect(201);
    let user = provider.user("uid-ada").await.expect(200);
    assert_eq!(user.header("content-type"), "application/scim+json");
    assert_eq!(user.json(), created.json());
    let location = format!("{}/api/scim/v2/groups/engines/Users/uid-ada", server.base);
    assert_eq!(created.header("location"), location);
    let mut shown = user.json();
    let meta = shown["meta"].take();
    assert_eq!((&meta["resourceType"], &meta["location"]), (&json!("User"), &json!(location)));
    let expected = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "id": "uid-ada", "externalId": "uid-ada",
        "userName": "ada", "displayName": "Name of ada", "name.formatted": "Name of ada",
        "name": { "formatted": "Name of ada" }, "active": true,
        "emails": [{ "type": "work", "value": "ada@example.org", "primary": true }], "meta": null,
    });
    assert_eq!(shown, expected);
}

async fn list_users_supports_start_index_and_count(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    assert_eq!(page_numbers(&provider.list(&[]).await.expect(200).json()), (0, 0, 1, 0));
    for number in 0..23 {
        provider.provision(&server, &format!("user{number:02}")).await;
    }
    for (query, expected) in [
        (vec![], (23, 20, 1, 20)),
        (vec![("startIndex", "21")], (23, 3, 21, 3)),
        (vec![("startIndex", "24")], (23, 0, 24, 0)),
        (vec![("startIndex", "0"), ("count", "2")], (23, 2, 1, 2)),
        (vec![("startIndex", "-9223372036854775808"), ("count", "2")], (23, 2, 1, 2)),
        (vec![("startIndex", "9223372036854775807"), ("count", "2")], (23, 0, i64::MAX, 0)),
        (vec![("count", "0")], (23, 0, 1, 0)),
        (vec![("count", "-5")], (23, 0, 1, 0)),
        (vec![("count", "9223372036854775807")], (23, 23, 1, 23)),
        (vec![("startIndex", ""), ("count", "")], (23, 20, 1, 20)),
    ] {
        let list = provider.list(&query).await.expect(200).json();
        assert_eq!(page_numbers(&list), expected, "{query:?}");
    }
    let third = provider.list(&[("startIndex", "3"), ("count", "1")]).await.expect(200).json();
    assert_eq!(third["Resources"][0]["id"], json!("uid-user02"));
    for query in [[("startIndex", "x")], [("count", "1.5")], [("count", "9223372036854775808")]] {
        let (status, kind, _) = rejection(&provider.list(&query).await);
        assert_eq!((status, kind), (400, json!("invalidValue")), "{query:?}");
    }
}

async fn list_users_returns_at_most_100_per_page(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for number in 0..102 {
        provider.create(&user_attributes(&format!("user{number:03}"))).await.expect(201);
    }
    let list = provider.list(&[("count", "500")]).await.expect(200).json();
    assert_eq!(page_numbers(&list), (102, 100, 1, 100));
    // The number of statements does not depend on the length of the list.
    let before = server.statements();
    provider.list(&[("count", "1"), ("startIndex", "2")]).await.expect(200);
    let few = server.statements() - before;
    let before = server.statements();
    provider.list(&[("count", "100")]).await.expect(200);
    assert_eq!(server.statements() - before, few);
    assert!(few <= 6, "{few} statements");
}

async fn list_users_filters_by_id_user_name_and_email(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    let further = json!({ "email": "countess@example.net", "skip_confirmation": true });
    server.root().post(&format!("/users/{ada}/emails"), further).await.expect(201);
    for filter in [
        "id eq \"uid-ada\"",
        "externalId eq \"UID-ADA\"",
        "EXTERNALID Eq \"uid-ada\"",
        "userName eq \"Ada\"",
        "userName eq \"ada@example.org\"",
        "username eq \"COUNTESS@example.net\"",
        "urn:ietf:params:scim:schemas:core:2.0:User:userName eq \"ada\"",
        "id eq \"uid\\u002dada\"",
    ] {
        assert_eq!(provider.found(filter).await, ["uid-ada"], "{filter}");
    }
    for filter in [
        "id eq \"uid\"",
        "id eq \"\"",
        "id eq \"%\"",
        "userName eq \"uid-ada\"",
        "id eq \"root\"",
        "userName eq \"root\"",
        "id eq \"a\\\"b\"",
    ] {
        let list = provider.list(&[("filter", filter)]).await.expect(200).json();
        assert_eq!(page_numbers(&list), (0, 0, 1, 0), "{filter}");
    }
    let paged = provider.list(&[("filter", "id eq \"uid-ada\""), ("startIndex", "2")]).await.expect(200);
    assert_eq!(page_numbers(&paged.json()), (1, 0, 2, 0));
}

async fn list_users_rejects_unsupported_filters(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    for filter in [
        "",
        "id",
        "id eq uid-ada",
        "id ne \"uid-ada\"",
        "userName co \"a\"",
        "userName sw \"a\"",
        "id pr",
        "id eq \"a\" or id eq \"uid-ada\"",
        "emails eq \"ada@example.org\"",
        "id eq \"a\\u0000\"",
        "id eq \"a",
        "(((",
        "meta.lastModified gt \"2011-05-13T04:42:34Z\"",
    ] {
        let (status, kind, detail) = rejection(&provider.list(&[("filter", filter)]).await);
        assert_eq!((status, kind), (400, json!("invalidFilter")), "{filter}");
        assert!(detail.starts_with("Unsupported Filter"), "{detail}");
    }
    let (status, kind, _) = rejection(&provider.list(&[("filter", &"(".repeat(2_100))]).await);
    assert_eq!((status, kind), (400, json!("invalidValue")));
}

async fn external_ids_may_contain_any_characters(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for (number, uid) in
        ["CN=Ada/Ou=x", "a/../b", "a b+c?d#e%2F", "ädä@example.org", "\"quoted\\\"", "{}"].iter().enumerate()
    {
        let mut body = user_attributes(&format!("user{number}"));
        body["externalId"] = json!(uid);
        let created = provider.create(&body).await.expect(201);
        let user = provider.user(uid).await.expect(200).json();
        assert_eq!(user["id"], json!(uid));
        assert_eq!(provider.user(&uid.to_uppercase()).await.expect(200).json()["id"], json!(uid));
        let filter = format!("id eq {}", json!(uid));
        assert_eq!(provider.found(&filter).await, [*uid], "{filter}");
        // The `Location` header leads to the user.
        let (_, path) = created.header("location").split_once("/Users/").expect("an address");
        assert_eq!(provider.get(&format!("/Users/{path}")).await.expect(200).json()["id"], json!(uid));
        provider.patch(uid, json!([{ "op": "add", "path": "active", "value": false }])).await.expect(204);
        provider.user(uid).await.expect(404);
    }
}

async fn get_user_not_provisioned_returns_404(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let other = Provider::of(&server, "motors").await;
    let ada = other.provision(&server, "ada").await;
    for uid in ["uid-ada", "missing-user", &ada.to_string(), "ada", "root", &segment("a/b"), "\u{1}"] {
        let (status, kind, detail) = rejection(&provider.user(uid).await);
        assert_eq!((status, kind, detail), (404, Value::Null, format!("Resource {uid} not found")));
    }
    let (status, ..) = rejection(&provider.user(&"x".repeat(256)).await);
    assert_eq!(status, 400);
    assert_eq!(provider.get("/Users/%00").await.status, 400);
    assert_eq!(provider.get("/Users/%FF").await.status, 400);
    assert!(account(&server, "ada").await.is_some());
}

async fn scim_reads_support_etags(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let user = "urn:ietf:params:scim:schemas:core:2.0:User";
    for path in [
        "/Users",
        "/Users/uid-ada",
        "/ServiceProviderConfig",
        "/ResourceTypes",
        "/ResourceTypes/User",
        "/Schemas",
        &format!("/Schemas/{user}"),
    ] {
        let first = provider.get(path).await.expect(200);
        let conditional = provider.client.clone().header("If-None-Match", first.header("etag"));
        conditional.get(&format!("{}{path}", provider.base)).await.expect(304);
    }
    let path = format!("{}/Users/uid-ada", provider.base);
    let before = provider.client.get(&path).await.expect(200);
    provider.patch("uid-ada", json!([{ "op": "replace", "path": "displayName", "value": "A" }])).await.expect(204);
    let conditional = provider.client.clone().header("If-None-Match", before.header("etag"));
    assert_eq!(conditional.get(&path).await.expect(200).json()["displayName"], json!("A"));
}

async fn deleted_account_can_be_provisioned_again(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    server.root().delete(&format!("/users/{ada}")).await.expect(204);
    provider.user("uid-ada").await.expect(404);
    assert_eq!(provider.list(&[]).await.expect(200).json()["totalResults"], json!(0));
    server.finish_jobs().await;
    provider.create(&user_attributes("ada")).await.expect(201);
}

async fn discovery_endpoints_describe_supported_features(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let config = provider.get("/ServiceProviderConfig").await.expect(200);
    assert_eq!(config.header("content-type"), "application/scim+json");
    let config = config.json();
    assert_eq!((&config["patch"]["supported"], &config["bulk"]["supported"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&config["filter"], &config["sort"]),
        (&json!({"supported": true, "maxResults": 100}), &json!({"supported": false}))
    );
    let types = provider.get("/ResourceTypes").await.expect(200).json();
    assert_eq!(page_numbers(&types), (1, 1, 1, 1));
    let one = provider.get("/ResourceTypes/User").await.expect(200).json();
    assert_eq!((&types["Resources"][0], &one["endpoint"]), (&one, &json!("/Users")));
    let schemas = provider.get("/Schemas").await.expect(200).json();
    let user = "urn:ietf:params:scim:schemas:core:2.0:User";
    let one = provider.get(&format!("/Schemas/{user}")).await.expect(200).json();
    assert_eq!((&schemas["Resources"][0], &one["id"]), (&one, &json!(user)));
    let names: Vec<_> = one["attributes"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["externalId", "userName", "name", "displayName", "emails", "active"]);
    // A filter of these lists would have no effect (RFC 7644, section 4).
    for path in ["/ServiceProviderConfig", "/ResourceTypes", "/Schemas"] {
        let (status, kind, _) = rejection(&provider.get(&format!("{path}?filter=id%20pr")).await);
        assert_eq!((status, kind), (403, Value::Null), "{path}");
    }
    for path in ["/ResourceTypes/Group", "/Schemas/urn:other"] {
        assert_eq!(rejection(&provider.get(path).await).0, 404);
    }
    for path in ["/Groups", "/Bulk", "/Me", "/Users/a/b"] {
        provider.get(path).await.expect(404);
    }
    let put = provider.send(reqwest::Method::PUT, "/Users", &json!({})).await;
    put.expect(405);
}

on_every_database![
    get_user_returns_all_fields,
    list_users_supports_start_index_and_count,
    list_users_returns_at_most_100_per_page,
    list_users_filters_by_id_user_name_and_email,
    list_users_rejects_unsupported_filters,
    external_ids_may_contain_any_characters,
    get_user_not_provisioned_returns_404,
    scim_reads_support_etags,
    deleted_account_can_be_provisioned_again,
    discovery_endpoints_describe_supported_features,
];
