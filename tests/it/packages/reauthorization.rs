//! Uploads are authorized again after their content was stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::upload;
use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::s3::{Bucket, S3Reply};
use crate::support::spaces::{join, project};

/// Changes while the content of an upload is stored, with the status of the upload.
const CHANGES: [(&str, u16); 5] = [("archive", 403), ("disable", 403), ("remove", 404), ("revoke", 401), ("none", 201)];

async fn changes_while_content_is_stored_refuse_the_upload(site: Site) {
    let is_slow = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&is_slow);
    let bucket = Bucket::with(move |line| match line.starts_with("PUT ") && state.load(Ordering::SeqCst) {
        true => S3Reply::Wait,
        false => S3Reply::Success,
    })
    .await;
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    bucket.configure(&mut command, "hold/fast");
    let server = Site::ready(command).await;
    let root = Client::new(&server.base, Some(TOKEN));
    for (change, status) in CHANGES {
        let path = format!("/projects/{}", project(&root, change, json!({})).await);
        let name = format!("dev-{change}");
        let user = json!({"username": name, "name": name, "email": format!("{name}@example.com"), "password": TOKEN});
        let user = root.post("/users", user).await.expect(201).json()["id"].as_i64().expect("an ID");
        let tokens = format!("/users/{user}/personal_access_tokens");
        let token = root.post(&tokens, json!({"name": "upload", "scopes": ["api"]})).await.expect(201).json();
        join(&root, &path, user, 30).await;
        let client = Client::new(&server.base, token["token"].as_str());
        is_slow.store(true, Ordering::SeqCst);
        let begun = bucket.requests("PUT /");
        let changed = async {
            bucket.wait_until(|bucket| bucket.requests("PUT /") > begun).await;
            match change {
                "archive" => drop(root.post(&format!("{path}/archive"), json!({})).await.expect(201)),
                "disable" => {
                    let disabled = json!({"package_registry_access_level": "disabled"});
                    root.put(&path, disabled).await.expect(200);
                }
                "remove" => drop(root.delete(&format!("{path}/members/{user}")).await.expect(204)),
                "revoke" => {
                    root.delete(&format!("/personal_access_tokens/{}", token["id"])).await.expect(204);
                }
                _ => {}
            }
            is_slow.store(false, Ordering::SeqCst);
        };
        let (sent, ()) = tokio::join!(upload(&client, &path, ["a", "1", "f"], b"x"), changed);
        assert_eq!(sent.status, status, "{change}");
        // The content of a refused upload is deleted.
        assert_eq!(bucket.keys().len(), usize::from(status == 201), "{change}");
    }
    server.stop().await;
    bucket.assert_valid_requests();
}

on_every_site![changes_while_content_is_stored_refuse_the_upload,];
