//! `/docs` and the published OpenAPI document, both without a token.

use contract::{DOCUMENT_JSON, DOCUMENT_YAML};
use reqwest::Method;

use crate::support::{TestServer, on_every_database};

async fn openapi_document_equals_committed_file(server: TestServer) {
    let client = server.anonymous();
    let json = client.get("//api/v4/openapi.json").await.expect(200);
    assert_eq!(json.text(), DOCUMENT_JSON);
    assert_eq!(json.header("content-type"), "application/json");
    let yaml = client.get("//api/v4/openapi.yaml").await.expect(200);
    assert_eq!(yaml.text(), DOCUMENT_YAML);
    let known = client.clone().header("If-None-Match", json.header("etag"));
    let again = known.get("//api/v4/openapi.json").await.expect(304);
    assert!(again.body.is_empty());
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
    openapi_document_equals_committed_file,
    docs_page_loads_only_local_files,
    openapi_document_is_compressed_on_request,
];
