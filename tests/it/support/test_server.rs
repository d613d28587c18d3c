//! Processes of `holdfast test-server`.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::{Client, http};

/// Returns a command whose cache and temporary data are in a directory.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let temporary = temporary(directory);
    std::fs::create_dir_all(&temporary).expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
        command.env_remove(name);
    }
    command
        .arg("test-server")
        .args(["--directory"])
        .arg(&temporary)
        .args(arguments)
        .env("XDG_CACHE_HOME", directory.join("cache"))
        .env("TMPDIR", &temporary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Returns the parent of the temporary directories of the servers.
pub fn temporary(directory: &Path) -> PathBuf {
    directory.join("tmp")
}

/// Waits until a condition holds.
pub async fn wait_until(text: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A running test server.
pub struct RunningTestServer {
    child: Child,
    /// The line that it printed.
    pub info: Value,
}

impl RunningTestServer {
    /// Starts a server with its data in a directory.
    pub async fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::ready(command(directory, arguments)).await
    }

    /// Starts a server with a given command and waits until it is ready.
    pub async fn ready(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let line = lines.next_line().await.expect("a line").expect("a line");
        Self { child, info: serde_json::from_str(&line).expect("JSON") }
    }

    /// Returns a value of the line.
    pub fn text(&self, name: &str) -> &str {
        self.info[name].as_str().unwrap_or_else(|| panic!("{name}: {}", self.info))
    }

    /// Returns the directory of its data.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(self.text("directory"))
    }

    /// Returns a client of the administrator.
    pub fn root(&self) -> Client {
        Client::new(self.text("url"), Some(self.text("token")))
    }

    /// Sends a request of the administrator whose response is not compared with the contract.
    pub async fn send(&self, method: Method, path: &str) -> reqwest::Result<Response> {
        let request = http().build()?.request(method, format!("{}{path}", self.text("api_url")));
        request.bearer_auth(self.text("token")).send().await
    }

    /// Sends a control request, and returns the status and the body.
    pub async fn control(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("{}{path}", self.text("control_url"));
        let mut request = http().build().expect("a client").request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.bearer_auth(self.text("control_token")).send().await.expect("a response");
        let (status, text) = (response.status().as_u16(), response.text().await.expect("a body"));
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Resets the state.
    pub async fn reset(&self) {
        assert_eq!(self.control(Method::POST, "/reset", None).await, (204, Value::Null));
    }

    /// Closes standard input and waits for the end.
    pub async fn close(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().await.expect("waiting")
    }

    /// Kills the process at once.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killing");
    }
}
