//! Responses begin after the body was read: a proxy stops forwarding a body once it has received a response head.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, ref_updates};
use tokio::io::AsyncWriteExt;

use crate::registry::registry_protocol::{Tool, digest, noise};
use crate::support::git::Work;
use crate::support::raw_http::RawConnection;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// How long a response has to arrive too early.
const EARLY: Duration = Duration::from_millis(700);

/// Sends a request in two parts; no byte of the response may arrive before the second part. Returns the response.
async fn in_two_parts(base: &str, head: &str, first: &[u8], rest: &[u8], after_first: impl AsyncFn()) -> String {
    let mut connection = RawConnection::connect(base).await;
    let length = first.len() + rest.len();
    let head = format!("{head}Host: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    connection.send(&head).await;
    connection.send(first).await;
    after_first().await;
    let early = tokio::time::timeout(EARLY, connection.stream.readable()).await;
    assert!(early.is_err(), "a response began before the body was sent: {head}");
    connection.send(rest).await;
    connection.read_to_end().await
}

fn git_head(service: &str, token: &str) -> String {
    let credentials = STANDARD.encode(format!("ann:{token}"));
    format!(
        "POST /g/p.git/git-{service} HTTP/1.1\r\nAuthorization: Basic {credentials}\r\n\
         Content-Type: application/x-git-{service}-request\r\n"
    )
}

/// The command that creates `main`, as a push begins.
fn create_main(id: &str, capabilities: &str) -> Vec<u8> {
    let line = format!("{} {id} refs/heads/main\0{capabilities}", "0".repeat(40));
    format!("{:04x}{line}0000", line.len() + 4).into_bytes()
}

/// Waits until the server has read the commands of a push and recorded the intent.
async fn until_announced(server: &TestServer) {
    let count = || async {
        let rows = ref_updates::Entity::find();
        rows.count(server.backend.database.read()).await.expect("a count")
    };
    let waiting = async {
        while count().await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("an intent");
}

/// A commit with a file of several megabytes that do not compress, and its pack.
async fn large_pack(work: &Work) -> (String, Vec<u8>) {
    let mut noise = vec![0_u8; 6 << 20];
    rand::rng().fill(&mut noise[..]);
    std::fs::write(work.path.join("noise"), noise).expect("a file");
    let tip = work.commit("note", "x").await;
    let mut command = work.command(&["pack-objects", "--revs", "--stdout", "--quiet"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(format!("{tip}\n").as_bytes()).await.expect("a line");
    drop(stdin);
    let output = child.wait_with_output().await.expect("git");
    assert!(output.status.success() && output.stdout.len() > 6 << 20);
    (tip, output.stdout)
}

async fn maintained(server: &TestServer) -> (String, i64) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    (ann.token, project.id)
}

async fn push_response_begins_after_the_pack_was_read(server: TestServer) {
    let (token, id) = maintained(&server).await;
    let (tip, pack) = large_pack(&Work::new().await).await;
    let mut first = create_main(&tip, "report-status side-band-64k");
    first.extend_from_slice(&pack[..4 << 20]);
    let head = git_head("receive-pack", &token);
    let response = in_two_parts(&server.base, &head, &first, &pack[4 << 20..], async || {
        until_announced(&server).await;
    })
    .await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.contains("unpack ok") && response.contains("ok refs/heads/main"), "{response}");
    assert_eq!(server.repository(id).branch("main").await.unwrap().commit.to_string(), tip);
}

async fn push_report_that_is_written_early_is_kept(server: TestServer) {
    let (token, id) = maintained(&server).await;
    let mut first = create_main(&"a".repeat(40), "report-status side-band-64k");
    first.extend_from_slice(b"no pack");
    let rest = vec![0; 6 << 20];
    let head = git_head("receive-pack", &token);
    let response = in_two_parts(&server.base, &head, &first, &rest, async || {
        until_announced(&server).await;
    })
    .await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.contains("protocol error (pack signature mismatch detected)"), "{response}");
    assert!(response.contains("ng refs/heads/main"), "{response}");
    assert!(server.repository(id).is_empty().await.unwrap());
}

async fn fetch_response_begins_after_the_request_was_read(server: TestServer) {
    let (token, _) = maintained(&server).await;
    let work = Work::new().await;
    let common = work.commit("a", "1").await;
    let tip = work.commit("b", "2").await;
    work.git(&["push", "--quiet", &crate::support::git::address(&server.base, "ann", &token, "g/p"), "main"]).await;
    let want = format!("want {tip} multi_ack_detailed no-done side-band-64k ofs-delta\n");
    let have = format!("have {common}\n");
    // The server acknowledges what both have as soon as it is named.
    let first = format!("{:04x}{want}0000{:04x}{have}", want.len() + 4, have.len() + 4);
    let head = git_head("upload-pack", &token);
    let response = in_two_parts(&server.base, &head, first.as_bytes(), b"0009done\n", async || {}).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.contains(&format!("ACK {common} common")) && response.contains("PACK"), "{response}");
}

async fn upload_responses_begin_after_the_body_was_read(server: TestServer) {
    let id = project(&server.root(), "work", json!({})).await;
    let form = format!(
        "POST /api/v4/projects/{id}/uploads HTTP/1.1\r\nPrivate-Token: {ROOT_TOKEN}\r\n\
         Content-Type: multipart/form-data; boundary=b\r\n"
    );
    let mut body = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n".to_vec();
    body.extend_from_slice(&noise(4 << 20, 1));
    let response = in_two_parts(&server.base, &form, &body, b"x\r\n--b--\r\n", async || {}).await;
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");

    let tool = Tool::of_root(&server, "root/work").await;
    let bytes = noise(6 << 20, 2);
    let (first, rest) = bytes.split_at(4 << 20);
    for whole in [true, false] {
        let location = match whole {
            true => format!("/v2/root/work/blobs/uploads/?digest={}", digest(&bytes)),
            false => tool.begin().await.replacen("//", "/", 1),
        };
        let method = if whole { "POST" } else { "PATCH" };
        let request = tool.client.request(reqwest::Method::GET, "//v2/").build().expect("a request");
        let token = request.headers()["authorization"].to_str().expect("text");
        let head = format!("{method} {location} HTTP/1.1\r\nAuthorization: {token}\r\n");
        let response = in_two_parts(&server.base, &head, first, rest, async || {}).await;
        let status = if whole { "HTTP/1.1 201 " } else { "HTTP/1.1 202 " };
        assert!(response.starts_with(status), "{response}");
    }
}

on_every_database![
    push_response_begins_after_the_pack_was_read,
    push_report_that_is_written_early_is_kept,
    fetch_response_begins_after_the_request_was_read,
    upload_responses_begin_after_the_body_was_read,
];
