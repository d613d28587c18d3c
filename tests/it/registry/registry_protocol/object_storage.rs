//! Blobs in an S3 bucket.

use reqwest::Method;
use serde_json::json;

use super::{Tool, digest, noise};
use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::s3::Bucket;
use crate::support::spaces::project;

async fn s3_bucket_stores_blobs_and_serves_ranges(site: Site) {
    let bucket = Bucket::start().await;
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    bucket.configure(&mut command, "hold/fast");
    let server = Site::ready(command).await;
    project(&Client::new(&server.base, Some(TOKEN)), "work", json!({})).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    let bytes = noise((11 << 20) + 3, 1);
    let location = tool.begin().await;
    for part in [&bytes[..6 << 20], &bytes[6 << 20..(6 << 20) + 10]] {
        tool.send(Method::PATCH, &location, &[], part.to_vec()).await.expect(202);
    }
    let ended = format!("{location}?digest={}", digest(&bytes));
    tool.send(Method::PUT, &ended, &[], bytes[(6 << 20) + 10..].to_vec()).await.expect(201);
    assert_eq!((bucket.keys().len(), bucket.incomplete_uploads()), (3, 0));
    let path = tool.path(&format!("blobs/{}", digest(&bytes)));
    assert!(tool.client.get(&path).await.expect(200).body == bytes);
    let range = "bytes=6291450-6291480";
    let part = tool.client.clone().header("Range", range).get(&path).await.expect(206);
    assert!(part.body == bytes[6_291_450..=6_291_480]);
    // A second push of the same blob leaves no additional object.
    tool.push_blob(&bytes).await;
    assert_eq!((bucket.keys().len(), bucket.incomplete_uploads()), (3, 0));
    server.stop().await;
    bucket.assert_valid_requests();
}

on_every_site![s3_bucket_stores_blobs_and_serves_ranges,];
