//! Memory of the server under requests that try to exhaust it.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::support::attacks::Attack;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::raw_http::RawConnection;
use crate::support::{Client, DatabaseKind, spaces};

/// Size of an attacking body in bytes.
const ATTACK_BYTES: usize = 57 << 20;
/// Length of the start of a status line that contains the status.
const STATUS_BYTES: usize = 12;

async fn dense_json_uses_bounded_memory() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let own = spaces::project(&client, "own", json!({})).await.to_string();
    let body = bytes::Bytes::from(format!(r#"{{"actions": [{}{{}}]}}"#, r#"{"":0},"#.repeat(ATTACK_BYTES / 7)));
    let attack = async |project: &str| {
        let path = format!("/projects/{project}/repository/commits");
        let request = client.request(Method::POST, &path).header("Content-Type", "application/json");
        // The server may close the connection before it has read the body.
        request.body(body.clone()).send().await.map_or(404, |response| response.status().as_u16())
    };
    let mut measured = Attack::start("dense JSON", &server);
    let strange = measured.probed(join_all((0..8).map(|_| attack("0")))).await;
    assert!(strange.iter().all(|status| *status == 404), "{strange:?}");
    let statuses = measured.probed(join_all((0..8).map(|_| attack(&own)))).await;
    assert!(statuses.iter().all(|status| matches!(status, 400 | 503)), "{statuses:?}");
    client.get("/version").await.expect(200);
    measured.check();
    server.stop().await;
}

async fn unread_files_in_json_use_bounded_memory() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    // Otherwise one file is stored as a delta of the other.
    work.git(&["config", "core.bigFileThreshold", "1m"]).await;
    for (name, megabytes) in [("large", 125), ("allowed", 19)] {
        std::fs::write(work.path.join(name), vec![b'x'; megabytes << 20]).expect("a file");
    }
    work.git(&["add", "."]).await;
    work.git(&["commit", "--quiet", "-m", "Add"]).await;
    site.import("p", &work.path).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/projects/root%2Fp", json!({"visibility": "public"})).await.expect(200);
    let mut attack = Attack::start("unread files in JSON", &server);
    let mut unread = Vec::new();
    for name in ["large", "allowed"] {
        let path = format!("/api/v4/projects/root%2Fp/repository/files/{name}?ref=main");
        let connections = join_all((0..40).map(|_| async {
            let mut connection = RawConnection::connect(&server.base).await;
            connection.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
            let mut start = [0; STATUS_BYTES];
            connection.stream.read_exact(&mut start).await.expect("a status line");
            (connection, String::from_utf8_lossy(&start[9..]).into_owned())
        }));
        unread.extend(attack.probed(connections).await);
    }
    let count = |status: &str| unread.iter().filter(|(_, found)| found == status).count();
    assert_eq!(count("413"), 40);
    assert!(count("200") > 0 && count("503") > 0, "{} {}", count("200"), count("503"));
    client.get("/version").await.expect(200);
    attack.check();
    server.stop().await;
}

harness::tests![dense_json_uses_bounded_memory, unread_files_in_json_use_bounded_memory];
