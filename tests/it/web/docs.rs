//! `/docs` and the published OpenAPI documents, without a token.

use contract::document::{DOCUMENT_JSON, Extent, Format, Version, document};
use reqwest::Method;
use serde_json::Value;

use crate::support::{TestServer, on_every_database};

async fn openapi_documents_are_served_with_type_and_digest(server: TestServer) {
    let client = server.anonymous();
    for (path, version) in [("openapi", Version::V3_0), ("openapi-3.1", Version::V3_1)] {
        for (query, extent) in [("", Extent::Complete), ("?for=sdk", Extent::Sdk)] {
            for (extension, format) in [("json", Format::Json), ("yaml", Format::Yaml)] {
                let path = format!("//api/v4/{path}.{extension}{query}");
                let response = client.get(&path).await.expect(200);
                assert!(response.text() == document(version, extent, format), "{path}");
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
    assert!(ignored.text() == DOCUMENT_JSON);
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

async fn docs_page_loads_only_local_files(server: TestServer) {
    let client = server.anonymous();
    let page = client.get("//docs/").await.expect(200);
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    let text = page.text();
    assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
    for quoted in text.split('"').filter(|part| part.starts_with("./")) {
        let file = client.get(&format!("//docs/{}", &quoted[2..])).await.expect(200);
        assert!(!file.body.is_empty(), "{quoted}");
    }
    // The client follows the redirect to the path with a slash.
    assert_eq!(client.get("//docs").await.expect(200).text(), text);
    assert_eq!(client.get("//docs/nothing.js").await.status, 404);
}

async fn openapi_document_is_compressed_on_request(server: TestServer) {
    let client = server.anonymous();
    let requested = client.request(Method::GET, "//api/v4/openapi.json").header("Accept-Encoding", "br, gzip;q=0.5");
    let response = client.send(requested).await;
    assert_eq!(response.header("content-encoding"), "gzip");
    assert!(response.body.len() * 4 < DOCUMENT_JSON.len(), "{} bytes", response.body.len());
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&response.body[..]), &mut unpacked).expect("gzip");
    assert_eq!(unpacked, DOCUMENT_JSON);
    let rejected = client.request(Method::GET, "//api/v4/openapi.json").header("Accept-Encoding", "gzip;q=0");
    assert_eq!(client.send(rejected).await.header("content-encoding"), "");
}

on_every_database![
    openapi_documents_are_served_with_type_and_digest,
    openapi_documents_have_different_digests_and_versions,
    openapi_document_rejects_unknown_purpose,
    openapi_documents_have_the_same_operations,
    docs_page_loads_only_local_files,
    openapi_document_is_compressed_on_request,
];
