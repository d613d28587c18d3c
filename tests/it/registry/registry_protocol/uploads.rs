//! Uploads in one request, in two requests and in parts, and their errors.

use reqwest::Method;
use serde_json::json;

use holdfast::config::ConfigOptions;

use super::{Tool, assert_refused, digest, noise, objects};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

fn with_digest(location: &str, bytes: &[u8]) -> String {
    format!("{location}?digest={}", digest(bytes))
}

async fn blob_upload_works_in_two_requests_and_in_parts(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let bytes = noise(300_000, 1);
    // Started, and finished with the whole content.
    let location = tool.begin().await;
    let created = tool.send(Method::PUT, &with_digest(&location, &bytes), &[], bytes.clone()).await.expect(201);
    assert_eq!(created.header("location"), format!("/v2/root/work/blobs/{}", digest(&bytes)));
    assert_eq!(created.header("docker-content-digest"), digest(&bytes));
    // In parts, with the last part in the final request.
    let bytes = noise(300_000, 2);
    let location = tool.begin().await;
    let uuid = location.rsplit('/').next().expect("a name").to_owned();
    let response = tool.client.get(&location).await.expect(204);
    assert_eq!((response.header("range"), response.header("docker-upload-uuid")), ("0-0", uuid.as_str()));
    let first = tool.send(Method::PATCH, &location, &[("content-range", "0-99999")], bytes[..100_000].to_vec()).await;
    let first = first.expect(202);
    assert_eq!((first.header("range"), first.header("location")), ("0-99999", &location[1..]));
    // Without `Content-Range`, a part is appended.
    let next = tool.send(Method::PATCH, &location, &[], bytes[100_000..200_000].to_vec()).await.expect(202);
    assert_eq!(next.header("range"), "0-199999");
    assert_eq!(tool.client.get(&location).await.expect(204).header("range"), "0-199999");
    let range = [("content-range", "200000-299999")];
    tool.send(Method::PUT, &with_digest(&location, &bytes), &range, bytes[200_000..].to_vec()).await.expect(201);
    let path = tool.path(&format!("blobs/{}", digest(&bytes)));
    let pulled = tool.client.get(&path).await.expect(200);
    assert!(pulled.body == bytes);
    let part = tool.client.clone().header("Range", "bytes=99990-200009").get(&path).await.expect(206);
    assert!(part.body == bytes[99_990..200_010]);
    assert_refused(&tool.client.get(&location).await, 404, "BLOB_UPLOAD_UNKNOWN");
    // An empty blob is valid.
    let nothing = tool.push_blob(b"").await;
    assert_eq!(tool.client.get(&tool.path(&format!("blobs/{nothing}"))).await.expect(200).body, b"");
}

async fn upload_part_with_wrong_range_returns_416_with_current_range(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[("content-range", "0-9")], vec![1; 10]).await.expect(202);
    for range in ["0-9", "11-20", "9-18"] {
        for (method, path) in [(Method::PATCH, location.clone()), (Method::PUT, with_digest(&location, b"x"))] {
            let refused = tool.send(method, &path, &[("content-range", range)], vec![1; 10]).await;
            assert_refused(&refused, 416, "BLOB_UPLOAD_INVALID");
            assert_eq!((refused.header("range"), refused.header("location")), ("0-9", &location[1..]));
        }
    }
    for range in ["10-19", "x", "19-10", "10-"] {
        let refused = tool.send(Method::PATCH, &location, &[("content-range", range)], vec![1; 5]).await;
        assert_refused(&refused, 400, "BLOB_UPLOAD_INVALID");
    }
    for path in [location.clone(), format!("{location}?digest=x")] {
        assert_refused(&tool.send(Method::PUT, &path, &[], Vec::new()).await, 400, "DIGEST_INVALID");
    }
    let mut bytes = vec![1; 10];
    bytes.extend([2; 5]);
    tool.send(Method::PUT, &with_digest(&location, &bytes), &[("content-range", "10-14")], vec![2; 5])
        .await
        .expect(201);
}

async fn upload_with_wrong_digest_is_discarded(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let (location, bytes) = (tool.begin().await, noise(100_000, 3));
    tool.send(Method::PATCH, &location, &[], bytes.clone()).await.expect(202);
    assert_eq!(objects(&server).await.len(), 1);
    let refused = tool.send(Method::PUT, &with_digest(&location, b"other"), &[], Vec::new()).await;
    assert_refused(&refused, 400, "DIGEST_INVALID");
    assert_eq!(objects(&server).await, Vec::<String>::new());
    assert_refused(&tool.client.get(&location).await, 404, "BLOB_UPLOAD_UNKNOWN");
    let at_once = tool.path(&format!("blobs/uploads/?digest={}", digest(b"other")));
    assert_refused(&tool.send(Method::POST, &at_once, &[], bytes.clone()).await, 400, "DIGEST_INVALID");
    assert_eq!(objects(&server).await, Vec::<String>::new());
    for other in [bytes.as_slice(), b"other"] {
        let path = tool.path(&format!("blobs/{}", digest(other)));
        assert_refused(&tool.client.get(&path).await, 404, "BLOB_UNKNOWN");
    }
}

async fn deleted_upload_is_discarded(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[], vec![1; 1_000]).await.expect(202);
    tool.client.delete(&location).await.expect(204);
    assert_eq!(objects(&server).await, Vec::<String>::new());
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let response = tool.send(method, &location, &[], Vec::new()).await;
        assert_refused(&response, 404, "BLOB_UPLOAD_UNKNOWN");
    }
    // The upload does not exist in another repository.
    let location = tool.begin().await;
    let other = location.replace("root/work", "root/work/other");
    let non_member = Tool::of_root(&server, "root/work/other").await;
    non_member.push_blob(b"x").await;
    assert_refused(&non_member.client.get(&other).await, 404, "BLOB_UPLOAD_UNKNOWN");
    let unknown = uuid::Uuid::new_v4().to_string();
    for name in ["no-such", "%00", "%FF", "'%3B--", &unknown] {
        for method in [Method::GET, Method::PATCH, Method::DELETE] {
            let path = non_member.path(&format!("blobs/uploads/{name}"));
            assert_refused(&non_member.send(method, &path, &[], Vec::new()).await, 404, "BLOB_UPLOAD_UNKNOWN");
        }
    }
    let refused = tool.client.get(&tool.path("blobs/uploads/")).await;
    assert_refused(&refused, 405, "UNSUPPORTED");
    assert_eq!(refused.header("allow"), "POST");
}

async fn concurrent_parts_with_same_range_store_one(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let location = tool.begin().await;
    let part = |seed: u8| tool.send(Method::PATCH, &location, &[("content-range", "0-1999999")], vec![seed; 2_000_000]);
    let (one, two) = tokio::join!(part(1), part(2));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 416]);
    assert_eq!(objects(&server).await.len(), 1);
    let bytes = vec![if one.status == 202 { 1 } else { 2 }; 2_000_000];
    tool.send(Method::PUT, &with_digest(&location, &bytes), &[], Vec::new()).await.expect(201);
}

async fn blob_over_maximum_size_returns_413(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    tool.push_blob(&[1; 1_000]).await;
    let bytes = vec![2; 1_001];
    let at_once = tool.path(&format!("blobs/uploads/?digest={}", digest(&bytes)));
    let refused = tool.send(Method::POST, &at_once, &[], bytes.clone()).await;
    assert_refused(&refused, 413, "SIZE_INVALID");
    let text = refused.json()["errors"][0]["message"].clone();
    assert_eq!(text, "the blob is too large (maximum is 1000 bytes; setting: max_layer_bytes)");
    // The limit also applies to parts and to bodies without a `Content-Length`.
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[], vec![1; 600]).await.expect(202);
    assert_refused(&tool.send(Method::PATCH, &location, &[], vec![1; 600]).await, 413, "SIZE_INVALID");
    let pieces = vec![Ok::<_, std::io::Error>(vec![1_u8; 300]), Ok(vec![1; 300])];
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let request = tool.client.request(Method::PATCH, &location).body(body);
    assert_refused(&tool.client.send(request).await, 413, "SIZE_INVALID");
    assert_eq!(tool.client.get(&location).await.expect(204).header("range"), "0-599");
    assert_eq!(objects(&server).await.len(), 2);
}

fn blob_over_maximum_size_returns_413_options() -> ConfigOptions {
    ConfigOptions { max_layer_bytes: Some(1_000), ..ConfigOptions::default() }
}

on_every_database![
    blob_upload_works_in_two_requests_and_in_parts,
    upload_part_with_wrong_range_returns_416_with_current_range,
    upload_with_wrong_digest_is_discarded,
    deleted_upload_is_discarded,
    concurrent_parts_with_same_range_store_one,
    blob_over_maximum_size_returns_413 with blob_over_maximum_size_returns_413_options(),
];
