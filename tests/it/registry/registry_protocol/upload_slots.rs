//! Upload slots: the limit of concurrent uploads per user.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use reqwest::Method;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{AccessLevel, registry_pieces};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;

use super::{Tool, digest};
use crate::support::spaces::project;
use crate::support::{ApiResponse, TestServer, on_every_database};

/// Upload slots of one user.
const OF_ONE: usize = 16;
/// Time limit. A waiting upload that never gets a slot waits longer than this.
const TIME_LIMIT: Duration = Duration::from_secs(25);

/// An upload request whose body ends on demand.
struct Part {
    end: Sender<std::io::Result<Vec<u8>>>,
    response: JoinHandle<ApiResponse>,
}

impl Part {
    /// Starts an upload with these bytes.
    async fn begin(tool: &Tool, bytes: &[u8]) -> Self {
        let location = tool.begin().await;
        let (end, receiver) = channel(1);
        end.send(Ok(bytes.to_vec())).await.expect("a receiver");
        let body = futures_util::stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|piece| (piece, receiver))
        });
        let body = reqwest::Body::wrap_stream(body.boxed());
        let request = tool.client.request(Method::PATCH, &location).body(body);
        let client = tool.client.clone();
        Self { end, response: tokio::spawn(async move { client.send(request).await }) }
    }

    /// Ends the body and returns the response.
    async fn finish(self) -> ApiResponse {
        drop(self.end);
        self.response.await.expect("a response")
    }
}

/// Waits until `expected` parts are being received.
async fn wait_for_received_parts(server: &TestServer, expected: usize) {
    let db = server.backend.database.read();
    let seen = async {
        while registry_pieces::Entity::find().count(db).await.expect("a count") < expected as u64 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, seen).await.expect("the parts are being received");
}

async fn slow_uploads_of_one_user_do_not_block_other_users(server: TestServer) {
    let id = project(&server.root(), "work", json!({})).await;
    let ada = server.create_user("ada").await;
    server.insert_member(id, ada.id, AccessLevel::Developer).await;
    let credentials = Some(("ada", ada.token.as_str()));
    let tool = Tool::new(&server.base, credentials, "root/work", "pull,push").await;
    // This upload is complete except for the final request, which is sent below when all slots are in use.
    let (location, bytes) = (tool.begin().await, b"as a whole");
    tool.send(Method::PATCH, &location, &[], bytes.to_vec()).await.expect(202);
    let mut parts = Vec::new();
    for _ in 0..OF_ONE {
        parts.push(Part::begin(&tool, b"x").await);
    }
    wait_for_received_parts(&server, OF_ONE + 1).await;
    // Further uploads of the user wait, also with another token.
    let other = server.create_token(ada.id, &["api"]).await;
    let other = Tool::new(&server.base, Some(("ada", &other)), "root/work", "pull,push").await;
    let mut waiting = Vec::new();
    for number in 0..4 {
        waiting.push(Part::begin(if number % 2 == 0 { &tool } else { &other }, b"y").await);
    }
    let ended = async {
        let path = format!("{location}?digest={}", digest(bytes));
        tool.send(Method::PUT, &path, &[], Vec::new()).await.expect(201);
        // Other users are not affected.
        Tool::of_root(&server, "root/work").await.push_blob(b"of root").await;
    };
    tokio::time::timeout(TIME_LIMIT, ended).await.expect("neither request waits for a slot");
    let db = server.backend.database.read();
    let pieces = registry_pieces::Entity::find().count(db).await.expect("a count");
    assert_eq!(pieces, OF_ONE as u64 + 2, "waiting uploads are not received");
    assert!(waiting.iter_mut().all(|part| (&mut part.response).now_or_never().is_none()));
    // Each finished upload releases a slot for the next one.
    for part in parts.into_iter().chain(waiting) {
        part.finish().await.expect(202);
    }
}

on_every_database![slow_uploads_of_one_user_do_not_block_other_users,];
