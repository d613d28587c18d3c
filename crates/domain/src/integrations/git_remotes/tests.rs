//! Tests of the client with servers that do not respond as expected.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use parsers::upload_pack::{Discovery, read_discovery};

use super::*;

const SHORT: RemoteLimits = RemoteLimits {
    connect: Duration::from_millis(500),
    list_start: Duration::from_millis(300),
    list: Duration::from_millis(900),
    pause: Duration::from_millis(300),
    response: Duration::from_millis(300),
    report: Duration::from_millis(900),
};

/// Starts a server that reads the start of one request, sends a response, and then waits.
async fn server(response: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let response = response.clone();
            tokio::spawn(async move {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(&response).await;
                std::future::pending::<()>().await;
            });
        }
    });
    format!("http://ada:s3cret@{address}/a.git")
}

fn remote(url: &str, local: bool) -> RemoteRepository {
    let url = RemoteUrl::parse(url, true).expect("a URL");
    RemoteRepository {
        url: url.shown,
        credentials: url.credentials,
        local,
    }
}

async fn list(response: &str) -> RemoteFailure {
    let url = server(response.as_bytes().to_vec()).await;
    let client = GitRemoteClient::with_limits(SHORT);
    client.list(&remote(&url, true)).await.expect_err("a failure")
}

fn response(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {ADVERTISEMENT_TYPE}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn responses_other_than_lists_of_references_fail() {
    for (response, text, is_temporary) in [
        (
            response("401 No", ""),
            "the remote repository requires other credentials",
            false,
        ),
        (
            response("404 No", ""),
            "the remote repository was not found",
            false,
        ),
        (
            response("503 No", ""),
            "the remote repository responded with the status 503",
            true,
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "the remote repository redirects to another URL, which is not followed",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "the URL is not that of a Git repository",
            false,
        ),
        (
            response("200 OK", "0021ERR wrong password s3cret now"),
            "the remote repository reported: wrong password ***** now",
            false,
        ),
        (String::new(), NO_RESPONSE, true),
        ("HTTP/1.1 200 OK\r\n".to_owned(), NO_RESPONSE, true),
        (
            response("200 OK", "0000").replace("Length: 4", "Length: 9"),
            NO_RESPONSE,
            true,
        ),
    ] {
        let started = Instant::now();
        let failure = list(&response).await;
        assert_eq!(
            (failure.text.as_str(), failure.is_temporary),
            (text, is_temporary)
        );
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn list_of_references_has_a_maximum_size() {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {ADVERTISEMENT_TYPE}\r\nContent-Length: {}\r\n\r\n",
        MAX_ADVERTISEMENT_BYTES * 2
    );
    let body = vec![b'0'; MAX_ADVERTISEMENT_BYTES * 2];
    let url = server([head.into_bytes(), body].concat()).await;
    let limits = RemoteLimits {
        list: Duration::from_secs(30),
        pause: Duration::from_secs(10),
        ..SHORT
    };
    let client = GitRemoteClient::with_limits(limits);
    let failure = client.list(&remote(&url, true)).await.expect_err("a failure");
    assert_eq!(failure.text, "the response of the remote repository is too large");
}

#[tokio::test]
async fn local_addresses_are_not_connected_unless_allowed() {
    let client = GitRemoteClient::with_limits(SHORT);
    let url = server(response("200 OK", "0000").into_bytes()).await;
    let named = url.replace("127.0.0.1", "localhost");
    let local = "the address is not allowed (setting: allow_local_requests_from_hooks_and_services)";
    let reserved = "the address is not allowed";
    for (url, text) in [
        (url, local),
        (named, local),
        ("http://169.254.169.254/a".to_owned(), reserved),
    ] {
        let failure = client.list(&remote_unchecked(&url)).await.expect_err("a failure");
        assert_eq!(failure.text, text, "{url}");
    }
}

fn remote_unchecked(url: &str) -> RemoteRepository {
    RemoteRepository {
        url: url.to_owned(),
        credentials: None,
        local: false,
    }
}

#[tokio::test]
async fn upload_ends_if_the_server_does_not_respond() {
    let url = server(Vec::new()).await;
    let client = GitRemoteClient::with_limits(SHORT);
    let command = RefCommand {
        old: None,
        new: None,
        reference: "refs/heads/a".to_owned(),
    };
    let (remote, advertisement) = (remote(&url, true), Advertisement::default());
    let endless = stream::repeat_with(|| Ok(Bytes::from(vec![0; 1 << 16])));
    for pack in [None, Some(endless)] {
        let pushed = client.push(&remote, &advertisement, std::slice::from_ref(&command), pack);
        let failure = pushed.await.expect_err("a failure");
        assert_eq!((failure.text.as_str(), failure.is_temporary), (NO_RESPONSE, true));
    }
}

#[tokio::test]
async fn push_ends_if_the_report_takes_too_long() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/a.git", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {RESULT_TYPE}\r\nContent-Length: 9000\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        while stream.write_all(b"0").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    // Only the limit of the report is shorter than the test.
    let client = GitRemoteClient::with_limits(RemoteLimits {
        pause: Duration::from_secs(5),
        ..SHORT
    });
    let (remote, advertisement) = (remote(&url, true), Advertisement::default());
    let no_pack = None::<stream::Empty<io::Result<Bytes>>>;
    let pushed = client.push(&remote, &advertisement, &[], no_pack);
    let ended = tokio::time::timeout(Duration::from_secs(20), pushed).await;
    let failure = ended.expect("an end").expect_err("a failure");
    assert_eq!((failure.text.as_str(), failure.is_temporary), (NO_RESPONSE, true));
}

#[tokio::test]
async fn fetch_ends_if_the_pack_stops_in_the_middle() {
    let pack = b"0008NAK\n000a\x01PACK\n";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nContent-Length: 9000\r\n\r\n";
    let url = server([head.as_bytes(), &pack[..]].concat()).await;
    let refs = b"001e# service=git-upload-pack\n0000\
        004d1234567890123456789012345678901234567890 refs/heads/a\0side-band-64k     \n0000";
    let Ok(Discovery::Refs(refs)) = read_discovery(refs) else {
        panic!("the list is not valid");
    };
    let client = GitRemoteClient::with_limits(SHORT);
    let request = FetchRequest {
        wanted: vec!["1234567890123456789012345678901234567890".parse().expect("an ID")],
        max_bytes: 9_000,
        ..FetchRequest::default()
    };
    let fetched = client.fetch(&remote(&url, true), &refs, &request).await;
    let mut fetched = fetched.expect("the start of a pack");
    let first = fetched.bytes.next().await.expect("bytes").expect("bytes");
    assert_eq!(first, &b"PACK\n"[..]);
    assert!(fetched.failure.get().is_none());
    assert!(fetched.bytes.next().await.expect("an error").is_err());
    let failure = fetched.failure.get().expect("a reason");
    assert_eq!((failure.text.as_str(), failure.is_temporary), (NO_RESPONSE, true));
    assert!(fetched.bytes.next().await.is_none());
}

#[tokio::test]
async fn broken_pack_is_a_temporary_failure() {
    let url = server(Vec::new()).await;
    let client = GitRemoteClient::with_limits(SHORT);
    let pack = stream::iter([
        Ok(Bytes::from_static(b"PACK")),
        Err(io::Error::other("no memory")),
    ]);
    let (remote, advertisement) = (remote(&url, true), Advertisement::default());
    let pushed = client.push(&remote, &advertisement, &[], Some(pack));
    let failure = pushed.await.expect_err("a failure");
    assert_eq!(
        (failure.text.as_str(), failure.is_temporary),
        ("the server failed to create the pack", true)
    );
}

#[test]
fn first_command_has_the_capabilities() {
    let id: git::Oid = "1234567890123456789012345678901234567890".parse().expect("an ID");
    let command = |old, new| RefCommand {
        old,
        new,
        reference: "refs/heads/a".to_owned(),
    };
    let head = request_head(
        &Advertisement::default(),
        &[command(None, Some(id)), command(Some(id), None)],
    );
    let expected =
        format!("0072{NO_OBJECT} {id} refs/heads/a\0 report-status\n0063{id} {NO_OBJECT} refs/heads/a\n0000");
    assert_eq!(String::from_utf8_lossy(&head), expected);
}
