//! Raw file downloads: content types, ranges, conditional requests and large files.

use sha2::{Digest, Sha256};

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn get_raw_file_detects_text_and_binary_content(server: TestServer) {
    let sample = Sample::new(&server).await;
    for (path, content_type) in [
        ("README.md", "text/plain"),
        ("bin/run", "text/plain"),
        ("empty", "text/plain"),
        ("crlf.txt", "text/plain"),
        ("image.bin", "application/octet-stream"),
    ] {
        let answer = server.root().get(&format!("{}/raw?ref=main", sample.file(path))).await.expect(200);
        assert_eq!(answer.header("content-type"), content_type, "{path}");
        assert_eq!(answer.header("etag"), format!("\"{}\"", answer.header("x-service-blob-id")));
        assert!(answer.header("cache-control").contains("no-store"));
        let name = path.rsplit('/').next().expect("a name");
        let encoded = format!("inline; filename=\"{name}\"; filename*=UTF-8''{name}");
        assert_eq!(answer.header("content-disposition"), encoded);
        assert_eq!(answer.body.len().to_string(), answer.header("x-service-size"));
        let head = server.root().head(&format!("{}/raw?ref=main", sample.file(path))).await.expect(200);
        for name in ["etag", "accept-ranges", "content-disposition"] {
            assert_eq!(head.header(name), answer.header(name), "{path} {name}");
        }
    }
}

async fn get_raw_file_returns_lfs_pointer_unchanged(server: TestServer) {
    let sample = Sample::new(&server).await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let body = serde_json::json!({ "branch": "main", "commit_message": "x", "content": pointer });
    server.root().post(&sample.file("large.psd"), body).await.expect(201);
    let answer = server.root().get(&format!("{}/raw?ref=main&lfs=true", sample.file("large.psd"))).await;
    assert_eq!(answer.expect(200).text(), pointer);
}

async fn get_raw_file_with_matching_etag_returns_304(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/raw?ref=main", sample.file("README.md"));
    let tag = server.root().get(&url).await.header("etag").to_owned();
    for held in [tag.clone(), format!("W/{tag}"), "*".to_owned(), format!("\"x\", {tag}")] {
        let answer = server.root().header("If-None-Match", &held).get(&url).await.expect(304);
        assert_eq!((answer.header("etag"), answer.body.len()), (tag.as_str(), 0));
        let metadata = server.root().header("If-None-Match", &held).head(&url).await.expect(304);
        assert_eq!(metadata.header("etag"), tag);
    }
    let other = server.root().header("If-None-Match", "\"other\"");
    other.get(&url).await.expect(200);
    assert_eq!(other.head(&url).await.expect(200).header("etag"), tag);
}

async fn get_raw_file_supports_ranges(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/raw?ref=main", sample.file("README.md"));
    let whole = server.root().get(&url).await.expect(200).body;
    let size = whole.len();
    for (range, expected) in [("bytes=0-3", 0..4), ("bytes=4-", 4..size), ("bytes=-5", size - 5..size)] {
        let answer = server.root().header("Range", range).get(&url).await.expect(206);
        assert_eq!(answer.body, &whole[expected.clone()], "{range}");
        assert_eq!(answer.header("content-range"), format!("bytes {}-{}/{size}", expected.start, expected.end - 1));
    }
    let beyond = server.root().header("Range", "bytes=999-").get(&url).await.expect(416);
    assert_eq!(beyond.header("content-range"), format!("bytes */{size}"));
    let other = server.root().header("Range", "bytes=0-3").header("If-Range", "\"other\"").get(&url).await;
    assert_eq!(other.expect(200).body, whole);
}

async fn get_raw_file_streams_large_content_and_ranges(server: TestServer) {
    let sample = Sample::new(&server).await;
    let content: Vec<u8> = (0..9_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stream = b"commit refs/heads/big\ncommitter A <a@example.com> 1600000000 +0000\ndata 1\nx\n\
        M 100644 inline big\n"
        .to_vec();
    stream.extend(format!("data {}\n", content.len()).bytes());
    stream.extend(&content);
    stream.push(b'\n');
    sample.fast_import(&stream);
    let url = format!("{}/raw?ref=big", sample.file("big"));
    let answer = server.root().get(&url).await.expect(200);
    assert_eq!(Sha256::digest(&answer.body), Sha256::digest(&content));
    assert_eq!(answer.header("x-service-content-sha256"), hex::encode(Sha256::digest(&content)));
    for (start, end) in [(0, 10), (7_990, 8_010), (8_500_000, 8_999_999)] {
        let range = format!("bytes={start}-{end}");
        let part = server.root().header("Range", &range).get(&url).await.expect(206);
        assert!(part.body == content[start..=end], "{range}");
    }
}

on_every_database![
    get_raw_file_detects_text_and_binary_content,
    get_raw_file_returns_lfs_pointer_unchanged,
    get_raw_file_with_matching_etag_returns_304,
    get_raw_file_supports_ranges,
    get_raw_file_streams_large_content_and_ranges,
];
