//! The published OpenAPI documents, without a token.

use contract::document::{Extent, Format, Version, document, document_text};
use reqwest::Method;
use serde_json::Value;

use crate::support::{ApiResponse, TestServer, on_every_database};

async fn openapi_documents_are_served_with_type_and_digest(server: TestServer) {
    let client = server.anonymous();
    for (path, version) in [("openapi", Version::V3_0), ("openapi-3.1", Version::V3_1)] {
        for (query, extent) in [("", Extent::Complete), ("?for=sdk", Extent::Sdk)] {
            for (extension, format) in [("json", Format::Json), ("yaml", Format::Yaml)] {
                let path = format!("//api/v4/{path}.{extension}{query}");
                let response = client.get(&path).await.expect(200);
                assert!(response.text() == document_text(version, extent, format).expect("a document"), "{path}");
                assert_eq!(response.header("content-type"), format!("application/{extension}"));
                let known = client.clone().header("If-None-Match", response.header("etag"));
                assert!(known.get(&path).await.expect(304).body.is_empty(), "{path}");
            }
        }
    }
}

async fn openapi_documents_have_different_digests_and_versions(server: TestServer) {
    let client = server.anonymous();
    let mut tags = Vec::new();
    for (path, version) in [
        ("openapi.json", "3.0.3"),
        ("openapi.json?for=sdk", "3.0.3"),
        ("openapi-3.1.json", "3.1.1"),
        ("openapi-3.1.json?for=sdk", "3.1.1"),
    ] {
        let response = client.get(&format!("//api/v4/{path}")).await.expect(200);
        assert_eq!(response.json()["openapi"], version, "{path}");
        tags.push(response.header("etag").to_owned());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4);
}

async fn openapi_document_rejects_unknown_purpose(server: TestServer) {
    let client = server.anonymous();
    for query in ["for=browser", "for=", "for=sdk&for=sdk"] {
        let rejected = client.get(&format!("//api/v4/openapi.json?{query}")).await.expect(400);
        assert_eq!(rejected.json()["error"], "for does not have a valid value", "{query}");
    }
    let ignored = client.get("//api/v4/openapi.json?other=sdk").await.expect(200);
    assert!(ignored.text() == document_text(Version::V3_0, Extent::Complete, Format::Json).expect("a document"));
    let wrong = client.send(client.request(Method::POST, "//api/v4/openapi-3.1.json")).await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, "GET, HEAD"));
}

async fn openapi_documents_have_the_same_operations(server: TestServer) {
    let client = server.anonymous();
    let mut listed = Vec::new();
    for path in ["openapi.json", "openapi.json?for=sdk", "openapi-3.1.json", "openapi-3.1.json?for=sdk"] {
        let root: Value = client.get(&format!("//api/v4/{path}")).await.expect(200).json();
        let items = root["paths"].as_object().expect("paths").iter();
        let methods = items.map(|(path, item)| (path.clone(), item.as_object().expect("an item").keys().cloned()));
        listed.push(methods.map(|(path, methods)| (path, methods.collect::<Vec<_>>())).collect::<Vec<_>>());
    }
    assert!(!listed[0].is_empty() && listed.iter().all(|one| *one == listed[0]));
}

fn varies_by_encoding(response: &ApiResponse) -> bool {
    response.headers.get_all("vary").iter().any(|value| value == "Accept-Encoding")
}

async fn openapi_document_is_compressed_on_request(server: TestServer) {
    let client = server.anonymous();
    let file = document(Version::V3_0, Extent::Complete, Format::Json);
    let requested = client.request(Method::GET, "//api/v4/openapi.json").header("Accept-Encoding", "br, gzip;q=0.5");
    let response = client.send(requested).await;
    assert_eq!(response.header("content-encoding"), "gzip");
    assert!(varies_by_encoding(&response));
    assert!(response.body == *file.gzip().expect("a document") && response.body.len() * 4 < file.size);
    let rejected = client.request(Method::GET, "//api/v4/openapi.json").header("Accept-Encoding", "gzip;q=0");
    let response = client.send(rejected).await;
    assert!(response.header("content-encoding").is_empty() && varies_by_encoding(&response));
    assert_eq!(response.body.len(), file.size);
}

async fn configuration_of_stainless_is_published(server: TestServer) {
    let response = server.anonymous().get("//docs/stainless.yaml").await.expect(200);
    assert_eq!(response.header("content-type"), "application/yaml");
    let text = String::from_utf8(response.body).expect("a text");
    assert!(text.contains("endpoint: get /api/v4/projects\n"), "{text}");
}

on_every_database![
    configuration_of_stainless_is_published,
    openapi_documents_are_served_with_type_and_digest,
    openapi_documents_have_different_digests_and_versions,
    openapi_document_rejects_unknown_purpose,
    openapi_documents_have_the_same_operations,
    openapi_document_is_compressed_on_request,
];
