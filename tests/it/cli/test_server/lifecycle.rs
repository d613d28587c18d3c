//! Start, reset and end of a test server.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::git::{self, Work};
use crate::support::test_server::{RunningTestServer, command, temporary, wait_until};
use crate::support::{Client, TestServer, on_every_database, temporary_directory};

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

async fn server_serves_api_and_git_until_input_closes() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    let root = server.root();
    assert_eq!(root.get("/user").await.expect(200).json()["username"], server.info["username"]);
    assert_eq!(server.info["version"], env!("CARGO_PKG_VERSION"));
    let project = json!({ "name": "p", "initialize_with_readme": true });
    root.post("/projects", project).await.expect(201);
    let address = git::address(server.text("url"), "root", server.text("token"), "root/p");
    let with_password = git::address(server.text("url"), "root", server.text("password"), "root/p");
    Work::empty().git(&["clone", "--quiet", &address, "c"]).await;
    Work::empty().git(&["ls-remote", "--exit-code", &with_password, "refs/heads/main"]).await;
    assert!(server.directory().starts_with(temporary(directory.path())));
    assert_eq!(server.close().await.code(), Some(0));
    assert!(is_empty(&temporary(directory.path())));
}

async fn given_tokens_and_plan_are_used() {
    let directory = temporary_directory();
    let (token, control) = ("token-of-the-test-server", "token-of-its-control-requests");
    let arguments = ["--root-token", token, "--control-token", control, "--plan", "free", "--compat"];
    let server = RunningTestServer::start(directory.path(), &arguments).await;
    assert_eq!((server.text("token"), server.text("control_token")), (token, control));
    let version = server.root().get("/version").await.expect(200).json();
    assert!(version["version"].as_str().unwrap().ends_with("-ee"), "{version}");
    assert_eq!(server.control(Method::GET, "/clock", None).await.0, 200);
}

/// Starts a server from a shell that holds the only other end of its input, and returns the shell and the line.
async fn start_in_shell(directory: &Path) -> (tokio::process::Child, Value) {
    const START: &str = r#"mkfifo "$0"; "$@" <"$0" & exec 3>"$0"; wait"#;
    let server = command(directory, &[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", START]).arg(directory.join("input"));
    shell.arg(server.as_std().get_program()).args(server.as_std().get_args());
    shell.env("XDG_CACHE_HOME", directory.join("cache")).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    (shell, serde_json::from_str(&line).unwrap())
}

async fn server_ends_when_its_parent_is_killed() {
    let directory = temporary_directory();
    let (mut shell, info) = start_in_shell(directory.path()).await;
    let process = Path::new("/proc").join(info["pid"].to_string());
    assert!(process.exists() && !is_empty(&temporary(directory.path())));
    shell.kill().await.unwrap();
    wait_until("the server must end", || is_empty(&temporary(directory.path()))).await;
}

async fn server_without_parent_runs_until_signal() {
    let directory = temporary_directory();
    let mut command = command(directory.path(), &["--keep-running"]);
    command.stdin(Stdio::null());
    let server = RunningTestServer::ready(command).await;
    server.root().get("/user").await.expect(200);
    let pid = i32::try_from(server.info["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(server.close().await.code(), Some(0));
    assert!(is_empty(&temporary(directory.path())));
}

async fn next_start_removes_data_of_killed_server() {
    let directory = temporary_directory();
    let killed = RunningTestServer::start(directory.path(), &[]).await;
    let running = RunningTestServer::start(directory.path(), &[]).await;
    let data = killed.directory();
    killed.kill().await;
    assert!(data.exists());
    let next = RunningTestServer::start(directory.path(), &[]).await;
    wait_until("the data of the killed server must be removed", || !data.exists()).await;
    assert!(running.directory().exists());
    running.root().get("/user").await.expect(200);
    drop(next);
}

async fn two_servers_share_nothing() {
    let directory = temporary_directory();
    let first = RunningTestServer::start(directory.path(), &[]).await;
    let second = RunningTestServer::start(directory.path(), &[]).await;
    first.root().post("/projects", json!({ "name": "p" })).await.expect(201);
    assert_eq!(second.root().get("/projects").await.expect(200).json(), json!([]));
    let stranger = Client::new(second.text("url"), Some(first.text("token")));
    stranger.get("/user").await.expect(401);
    second.reset().await;
    assert_eq!(first.root().get("/projects").await.expect(200).json()[0]["name"], "p");
}

async fn reset_restores_empty_state_and_credentials() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    let root = server.root();
    for _ in 0..3 {
        let project = json!({ "name": "p", "initialize_with_readme": true });
        let project = root.post("/projects", project).await.expect(201).json();
        assert_eq!(project["id"], 1);
        root.get("/projects/1/repository/files/README.md?ref=main").await.expect(200);
        root.delete("/personal_access_tokens/1").await.expect(204);
        root.get("/user").await.expect(401);
        server.reset().await;
        assert_eq!(root.get("/projects").await.expect(200).json(), json!([]));
        let current = |name: String| name.starts_with("data-");
        // The current state, and the state of the next reset.
        wait_until("former states must be removed", || {
            let entries = std::fs::read_dir(server.directory()).unwrap();
            entries.filter(|entry| current(entry.as_ref().unwrap().file_name().into_string().unwrap())).count() <= 2
        })
        .await;
    }
}

async fn requests_during_resets_succeed() {
    let directory = temporary_directory();
    let server = Arc::new(RunningTestServer::start(directory.path(), &[]).await);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
            tokio::spawn(async move {
                let (root, mut count) = (server.root(), 0);
                while !stop.load(Ordering::Relaxed) || count == 0 {
                    root.get("/user").await.expect(200);
                    let name = json!({ "name": format!("p{number}-{count}"), "initialize_with_readme": true });
                    root.post("/projects", name).await.expect(201);
                    count += 1;
                }
            })
        })
        .collect();
    for _ in 0..5 {
        server.reset().await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    server.reset().await;
    assert_eq!(server.root().get("/projects").await.expect(200).json(), json!([]));
}

async fn control_requests_are_checked() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    for token in [None, Some(server.text("token")), Some("")] {
        let client = reqwest::Client::new();
        let mut request = client.post(format!("{}/reset", server.text("control_url")));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        assert_eq!(request.send().await.unwrap().status(), 401, "{token:?}");
    }
    for (method, path, body, status) in [
        (Method::GET, "/reset", None, 405),
        (Method::GET, "", None, 404),
        (Method::POST, "/nothing", None, 404),
        (Method::POST, "/reset", Some(json!({ "other": 1 })), 400),
        (Method::POST, "/reset", Some(json!({ "snapshot": "/nothing" })), 400),
        (Method::POST, "/reset", Some(json!([])), 400),
        (Method::POST, "/snapshot", Some(json!({ "directory": 5 })), 400),
        (Method::PUT, "/clock", Some(json!({ "time": "noon" })), 400),
        (Method::PUT, "/clock", Some(json!({})), 400),
        (Method::PUT, "/clock", None, 400),
        (Method::PUT, "/clock", Some(json!({ "time": "+012026-01-01T00:00:00Z" })), 400),
        (Method::POST, "/clock/advance", Some(json!({ "seconds": 5 })), 409),
        (Method::POST, "/clock/advance", Some(json!({ "seconds": -5 })), 400),
        (Method::POST, "/faults", Some(json!({ "rule": "GET" })), 400),
        (Method::POST, "/faults", Some(json!({ "rule": "x".repeat(100_000) })), 400),
        (Method::DELETE, "/faults/7", None, 404),
        (Method::DELETE, "/faults/x", None, 404),
    ] {
        let (found, answer) = server.control(method.clone(), path, body).await;
        assert_eq!(found, status, "{method} {path}: {answer}");
        assert!(answer["message"].is_string(), "{method} {path}: {answer}");
    }
    server.root().get("/user").await.expect(200);
}

async fn invalid_arguments_are_refused() {
    let directory = temporary_directory();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    for (arguments, code, text) in [
        (["--fail", "GET"], 2, "the path is missing"),
        (["--freeze-time", "noon"], 2, "--freeze-time"),
        (["--freeze-time", "1969-12-31T23:59:59Z"], 2, "out of range"),
        (["--root-token", "short"], 1, "root_token is too short"),
        (["--plan", "gold"], 1, "gold"),
        (["--snapshot", missing], 1, "is not a snapshot of a test server"),
        (["--listen", &address], 1, "cannot listen on"),
        (["--directory", missing], 2, "--directory"),
    ] {
        let output = command(directory.path(), &arguments).output().await.unwrap();
        let found = git::output_text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {found}");
        assert!(found.contains(text), "{arguments:?}: {found}");
        assert!(is_empty(&temporary(directory.path())), "{arguments:?}");
    }
}

async fn serve_refuses_options_of_test_server() {
    for option in [["--fail", "GET /projects 503"], ["--freeze-time", "2026-01-01T00:00:00Z"], ["--snapshot", "s"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let output = command.arg("serve").args(option).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", git::output_text(&output));
    }
}

async fn serve_has_no_control_requests(server: TestServer) {
    let client = reqwest::Client::new();
    for action in ["reset", "snapshot", "clock", "faults"] {
        let url = format!("{}/-/test-server/{action}", server.base);
        assert_eq!(client.post(&url).send().await.unwrap().status(), 404, "{url}");
        assert_eq!(client.get(&url).send().await.unwrap().status(), 404, "{url}");
    }
}

on_every_database![serve_has_no_control_requests,];

harness::tests![
    server_serves_api_and_git_until_input_closes,
    given_tokens_and_plan_are_used,
    server_ends_when_its_parent_is_killed,
    server_without_parent_runs_until_signal,
    next_start_removes_data_of_killed_server,
    two_servers_share_nothing,
    reset_restores_empty_state_and_credentials,
    requests_during_resets_succeed,
    control_requests_are_checked,
    invalid_arguments_are_refused,
    serve_refuses_options_of_test_server,
];
