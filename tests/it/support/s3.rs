//! An S3 bucket that implements the part of the protocol that the server uses, and fails on demand.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::Notify;

use super::http_request::{Received, receive};

/// Access key of the bucket.
const ACCESS_KEY: &str = "access-key-of-the-tests";
/// Region of the bucket.
const REGION: &str = "eu-test-1";
/// Name of the bucket.
const BUCKET: &str = "files";
/// Time until a request that waits asks the script again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// Modification time of all objects.
const CHANGED: &str = "Sat, 21 Nov 2026 10:00:00 GMT";

/// End of the key of the object that names the instance.
pub const INSTANCE_ID: &str = "/instance-id";

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum S3Reply {
    /// The request succeeds.
    Success,
    /// The request fails with this status.
    Failure(u16),
    /// The connection is closed in the middle of the response.
    Cut,
    /// The request gets no response.
    Hang,
    /// The request succeeds or fails when the script returns another outcome.
    Wait,
}

type Script = Arc<dyn Fn(&str) -> S3Reply + Send + Sync>;

/// State of the bucket.
#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Vec<u8>>,
    uploads: HashMap<String, BTreeMap<u32, Vec<u8>>>,
    /// Number of multipart uploads that were started.
    started_uploads: usize,
    requests: Vec<String>,
    errors: Vec<String>,
}

/// A running bucket.
pub struct Bucket {
    address: String,
    contents: Arc<Mutex<Contents>>,
    changed: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Bucket {
    /// Starts a bucket in which every request succeeds.
    pub async fn start() -> Self {
        Self::with(|_| S3Reply::Success).await
    }

    /// Starts a bucket that calls `script` with the method, path and query of each request.
    pub async fn with(script: impl Fn(&str) -> S3Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let contents = Arc::new(Mutex::new(Contents::default()));
        let changed = Arc::new(Notify::new());
        let script: Script = Arc::new(script);
        let (task_contents, task_changed) = (Arc::clone(&contents), Arc::clone(&changed));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (contents, changed, script) =
                    (Arc::clone(&task_contents), Arc::clone(&task_changed), Arc::clone(&script));
                connections.spawn(async move {
                    serve(stream, &contents, &script, &changed).await;
                    changed.notify_waiters();
                });
            }
        });
        Self { address, contents, changed, task }
    }

    /// Sets the environment variables of a command so that it uses this bucket.
    pub fn configure(&self, command: &mut Command, prefix: &str) {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command
            .env("HOLDFAST_OBJECT_STORE_URL", format!("s3://{BUCKET}/{prefix}"))
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.address))
            .env("AWS_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", "secret of the tests")
            .env("NO_PROXY", "127.0.0.1");
    }

    /// Returns the keys of all objects, without the object that names the instance.
    pub fn keys(&self) -> Vec<String> {
        let keys = self.with_contents(|contents| contents.objects.keys().cloned().collect::<Vec<_>>());
        keys.into_iter().filter(|key| !key.ends_with(INSTANCE_ID)).collect()
    }

    /// Returns the number of incomplete multipart uploads.
    pub fn incomplete_uploads(&self) -> usize {
        self.with_contents(|contents| contents.uploads.len())
    }

    /// Returns the number of multipart uploads that were started.
    pub fn started_uploads(&self) -> usize {
        self.with_contents(|contents| contents.started_uploads)
    }

    /// Returns the number of requests whose method, path and query contain `part`.
    pub fn requests(&self, part: &str) -> usize {
        let matching = |contents: &Contents| contents.requests.iter().filter(|line| line.contains(part)).count();
        self.with_contents(matching)
    }

    /// Waits until a condition is true.
    pub async fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, wait).await.expect("the condition in time");
    }

    /// Asserts that a real S3 server would have accepted every request.
    pub fn assert_valid_requests(&self) {
        let errors = self.with_contents(|contents| contents.errors.clone());
        assert!(errors.is_empty(), "{errors:#?}");
    }

    fn with_contents<T>(&self, read: impl FnOnce(&Contents) -> T) -> T {
        read(&self.contents.lock().expect("the contents"))
    }
}

/// A received request.
struct Request {
    method: String,
    /// Key without the bucket.
    key: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// A response to send.
struct S3Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Value of `Content-Length`; the body of a HEAD response is not sent.
    length: usize,
}

fn response(status: u16, body: impl Into<Vec<u8>>) -> S3Response {
    let body = body.into();
    S3Response {
        status,
        headers: vec![("ETag", "\"tag\"".to_owned()), ("Last-Modified", CHANGED.to_owned())],
        length: body.len(),
        body,
    }
}

async fn serve(mut stream: TcpStream, contents: &Mutex<Contents>, script: &Script, changed: &Notify) -> Option<()> {
    let (line, request) = read(&mut stream).await?;
    contents.lock().expect("the contents").requests.push(line.clone());
    changed.notify_waiters();
    let mut reply = script(&line);
    while reply == S3Reply::Wait {
        tokio::time::sleep(PAUSE).await;
        reply = script(&line);
    }
    let response = match reply {
        S3Reply::Hang | S3Reply::Wait => std::future::pending().await,
        S3Reply::Failure(status) => response(status, "<Error><Code>Refused</Code></Error>"),
        S3Reply::Success | S3Reply::Cut => contents.lock().expect("the contents").response(&request),
    };
    let mut head =
        format!("HTTP/1.1 {} Status\r\nConnection: close\r\nContent-Length: {}\r\n", response.status, response.length);
    for (name, value) in &response.headers {
        write!(head, "{name}: {value}\r\n").expect("text");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let sent = match reply {
        S3Reply::Cut => &response.body[..response.body.len() / 2],
        _ => &response.body[..],
    };
    stream.write_all(sent).await.ok()?;
    stream.shutdown().await.ok()
}

async fn read(stream: &mut TcpStream) -> Option<(String, Request)> {
    let Received { line, headers, body } = receive(stream).await?;
    let (method, target) = line.split_once(' ')?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.strip_prefix('/')?.strip_prefix(BUCKET)?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let request = Request {
        method: method.to_owned(),
        key: decoded(path.trim_start_matches('/')),
        query: query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect(),
        headers,
        body,
    };
    Some((line, request))
}

impl Contents {
    fn response(&mut self, request: &Request) -> S3Response {
        self.check(request);
        let (key, query) = (request.key.clone(), |name: &str| request.query.get(name));
        match (request.method.as_str(), query("uploadId"), query("partNumber")) {
            ("PUT", Some(upload), Some(part)) => {
                let Some(parts) = self.uploads.get_mut(upload) else {
                    return response(404, "<Error><Code>NoSuchUpload</Code></Error>");
                };
                parts.insert(part.parse().expect("a number"), request.body.clone());
                response(200, "")
            }
            ("PUT", ..) => {
                self.objects.insert(key, request.body.clone());
                response(200, "")
            }
            ("POST", Some(upload), _) => {
                let Some(parts) = self.uploads.remove(upload) else {
                    return response(404, "<Error><Code>NoSuchUpload</Code></Error>");
                };
                let small = parts.values().rev().skip(1).any(|part| part.len() < 5 << 20);
                if small {
                    return response(400, "<Error><Code>EntityTooSmall</Code></Error>");
                }
                self.objects.insert(key, parts.into_values().flatten().collect());
                let done = "<CompleteMultipartUploadResult><ETag>\"tag\"</ETag></CompleteMultipartUploadResult>";
                response(200, done)
            }
            ("POST", ..) if query("delete").is_some() => self.delete(&request.body),
            ("POST", ..) => {
                self.started_uploads += 1;
                let upload = format!("upload-{}", self.started_uploads);
                self.uploads.insert(upload.clone(), BTreeMap::new());
                response(
                    200,
                    format!(
                        "<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                    ),
                )
            }
            ("DELETE", Some(upload), _) => {
                self.uploads.remove(upload);
                response(204, "")
            }
            ("DELETE", ..) => {
                self.objects.remove(&key);
                response(204, "")
            }
            ("GET", ..) if key.is_empty() => self.list(query("prefix").map_or("", String::as_str)),
            ("GET" | "HEAD", ..) => self.get(request),
            _ => response(405, ""),
        }
    }

    fn delete(&mut self, body: &[u8]) -> S3Response {
        let mut done = "<DeleteResult>".to_owned();
        let body = String::from_utf8_lossy(body);
        for key in body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
            self.objects.remove(key);
            write!(done, "<Deleted><Key>{key}</Key></Deleted>").expect("text");
        }
        response(200, done + "</DeleteResult>")
    }

    fn get(&self, request: &Request) -> S3Response {
        let Some(object) = self.objects.get(&request.key) else {
            return response(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let mut response = match range.and_then(|range| range.split_once('-')) {
            None => response(200, object.clone()),
            Some((start, last)) => {
                let start: usize = start.parse().expect("a number");
                let last = last.parse().unwrap_or(object.len()).min(object.len() - 1);
                let mut part = response(206, &object[start..=last]);
                part.headers.push(("Content-Range", format!("bytes {start}-{last}/{}", object.len())));
                part
            }
        };
        if request.method == "HEAD" {
            response.body.clear();
        }
        response
    }

    fn list(&self, prefix: &str) -> S3Response {
        let mut body = "<ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
        for (key, object) in self.objects.range(prefix.to_owned()..) {
            if !key.starts_with(prefix) {
                break;
            }
            write!(
                body,
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-11-21T10:00:00.000Z</LastModified>\
                 <ETag>\"tag\"</ETag></Contents>",
                object.len()
            )
            .expect("text");
        }
        body.push_str("</ListBucketResult>");
        response(200, body)
    }

    /// Records protocol violations that a real S3 server would reject.
    fn check(&mut self, request: &Request) {
        let header = |name: &str| request.headers.get(name).map_or("", String::as_str);
        let authorization = header("authorization");
        let credential = format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/");
        if !authorization.starts_with(&credential) || !authorization.contains(&format!("/{REGION}/s3/aws4_request")) {
            self.errors.push(format!("invalid signature: {authorization}"));
        }
        let digest = header("x-amz-content-sha256");
        if digest != hex::encode(Sha256::digest(&request.body)) {
            self.errors.push(format!("the body does not have the digest {digest}"));
        }
        if header("content-length").is_empty() && matches!(request.method.as_str(), "PUT") {
            self.errors.push("a body without a length".to_owned());
        }
    }
}
