//! Queries by POST.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Provider, rejection, user_attributes};
use crate::support::{TestServer, on_every_database};

const PATHS: [&str; 2] = ["/Users/.search", "/.search"];

fn search(attributes: Value) -> Value {
    let mut body = json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"] });
    let attributes = attributes.as_object().expect("an object");
    body.as_object_mut().expect("an object").extend(attributes.clone());
    body
}

async fn search_returns_filtered_page_with_selected_attributes(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for name in ["ada", "bob", "cid"] {
        provider.provision(&server, name).await;
    }
    let all = provider.list(&[]).await.expect(200).json();
    for path in PATHS {
        let post = async |body: Value| provider.send(Method::POST, path, &search(body)).await;
        assert_eq!(post(json!({})).await.expect(200).json(), all);
        let found = post(json!({ "filter": "userName eq \"bob\"", "attributes": ["userName", "emails.value"] })).await;
        let user = json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "id": "uid-bob", "userName": "bob",
            "emails": [{ "value": "bob@example.org" }],
        });
        let expected = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"], "totalResults": 1, "itemsPerPage": 1,
            "startIndex": 1, "Resources": [user],
        });
        assert_eq!(found.expect(200).json(), expected);
        let page =
            post(json!({ "startIndex": 2, "count": 1, "excludedAttributes": ["meta"] })).await.expect(200).json();
        assert_eq!((&page["totalResults"], &page["Resources"][0]["id"]), (&json!(3), &json!("uid-bob")));
        assert!(page["Resources"][0]["meta"].is_null());
        // Sorting is not supported, and has no effect.
        let sorted = post(json!({ "sortBy": "userName", "sortOrder": "descending", "count": 3 })).await.expect(200);
        assert_eq!(sorted.json()["Resources"], all["Resources"]);
        for (body, kind) in [
            (json!({ "filter": "userName co \"b\"" }), "invalidFilter"),
            (json!({ "count": "x" }), "invalidValue"),
            (json!({ "attributes": ["id"], "excludedAttributes": ["active"] }), "invalidValue"),
            (json!({ "attributes": vec!["id"; 101] }), "invalidValue"),
        ] {
            let (status, found, _) = rejection(&post(body.clone()).await);
            assert_eq!((status, found), (400, json!(kind)), "{body}");
        }
    }
}

async fn id_of_search_path_is_reserved(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let mut body = user_attributes("ada");
    body["externalId"] = json!(".Search");
    let (status, kind, detail) = rejection(&provider.create(&body).await);
    assert_eq!((status, kind, detail.as_str()), (400, json!("invalidValue"), "externalId must not be .search"));
    provider.provision(&server, "bob").await;
    let change = json!([{ "op": "replace", "path": "externalId", "value": ".search" }]);
    assert_eq!(rejection(&provider.patch("uid-bob", change).await).0, 400);
}

/// Bulk requests refer to new resources by this text (RFC 7643, section 3.1).
async fn id_with_bulk_id_is_rejected(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let mut body = user_attributes("ada");
    body["externalId"] = json!("bulkId:ada");
    let (status, kind, detail) = rejection(&provider.create(&body).await);
    assert_eq!((status, kind, detail.as_str()), (400, json!("invalidValue"), "externalId must not contain bulkId"));
    provider.provision(&server, "bob").await;
    let change = json!([{ "op": "replace", "path": "externalId", "value": "a-bulkId" }]);
    assert_eq!(rejection(&provider.patch("uid-bob", change).await).0, 400);
}

on_every_database![
    search_returns_filtered_page_with_selected_attributes,
    id_of_search_path_is_reserved,
    id_with_bulk_id_is_rejected,
];
