//! `holdfast demo`.

use std::path::Path;
use std::time::{Duration, Instant};

use domain::secrets::Secret;
use holdfast::config::ConfigOptions;
use holdfast::server::demo;
use serde_json::json;
use tokio::process::Command;

use crate::support::git::{self, Work};
use crate::support::process::{Process, Site, TOKEN};
use crate::support::server::ROOT_TOKEN;
use crate::support::{Client, TestServer, on_every_database};

/// Returns a demo command with temporary files in a directory that also contains server settings.
fn command(directory: &Path, arguments: &[&str]) -> Command {
    let (temporary, home) = (directory.join("tmp"), directory.join("home"));
    std::fs::create_dir_all(&temporary).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    let settings = format!("data_dir = \"{}\"\n", home.join("data").display());
    std::fs::write(home.join("holdfast.toml"), settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
        command.env_remove(name);
    }
    command
        .arg("demo")
        .args(arguments)
        .env("TMPDIR", &temporary)
        .env("HOLDFAST_ROOT_TOKEN", TOKEN)
        .env("HOLDFAST_DATA_DIR", home.join("data"))
        .env("HOLDFAST_DATABASE_URL", format!("sqlite://{}", home.join("theirs.db").display()))
        .current_dir(&home)
        .kill_on_drop(true);
    command
}

/// Returns the sorted names of a directory's entries.
fn entries_of(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until a directory is empty.
async fn wait_until_empty(directory: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !entries_of(directory).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", entries_of(directory));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn start(directory: &Path, arguments: &[&str]) -> Process {
    let arguments = [&["--listen", "127.0.0.1:0"], arguments].concat();
    Site::ready(command(directory, &arguments)).await
}

async fn demo_leaves_no_files_when_stopped() {
    let directory = crate::support::temporary_directory();
    let process = start(directory.path(), &[]).await;
    let root = Client::new(&process.base, Some(TOKEN));
    let project = root.get("/projects/harbor%2Flighthouse").await.expect(200).json();
    assert_eq!(project["visibility"], "public");
    let work = Work::empty();
    work.git(&["clone", "--quiet", &format!("{}/harbor/lighthouse.git", process.base), "c"]).await;
    assert!(work.below("c").git(&["log", "--format=%s"]).await.contains("Add the fog horn"));
    assert_eq!(entries_of(&directory.path().join("tmp")).len(), 1);
    process.stop().await;
    let none: [String; 0] = [];
    assert_eq!(entries_of(&directory.path().join("tmp")), none);
    assert_eq!(entries_of(&directory.path().join("home")), ["holdfast.toml"], "server settings must stay unchanged");
}

async fn demo_leaves_no_files_when_killed() {
    let directory = crate::support::temporary_directory();
    let process = start(directory.path(), &[]).await;
    let temporary = directory.path().join("tmp");
    assert_eq!(entries_of(&temporary).len(), 1);
    process.kill().await;
    wait_until_empty(&temporary).await;
}

async fn demo_reports_listen_failure_and_leaves_no_files() {
    let directory = crate::support::temporary_directory();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = command(directory.path(), &["--listen", &address]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", git::output_text(&output));
    assert!(git::output_text(&output).contains("cannot listen on"), "{}", git::output_text(&output));
    wait_until_empty(&directory.path().join("tmp")).await;
}

async fn demo_imports_local_repository() {
    let directory = crate::support::temporary_directory();
    let work = Work::new().await;
    let tip = work.commit("a", "1").await;
    work.git(&["clone", "--quiet", "--bare", ".", "theirs.git"]).await;
    let other_repository = work.path.join("theirs.git");
    let process = start(directory.path(), &["--repository", other_repository.to_str().unwrap()]).await;
    let root = Client::new(&process.base, Some(TOKEN));
    let commits = root.get("/projects/harbor%2Ftheirs/repository/commits").await.expect(200);
    assert_eq!(commits.pluck("id")[0], tip);
    process.stop().await;
}

async fn demo_fill_creates_sample_data(server: TestServer) {
    let root = server.root();
    let (token, password) = (Secret::new(ROOT_TOKEN.to_owned()), Secret::new("a password of the demo".to_owned()));
    let settings = ConfigOptions::default().settings().unwrap();
    demo::fill(&server.backend, &settings, &token, &password).await.unwrap();
    server.finish_jobs().await;
    let users = root.get("/users").await.expect(200).pluck("username");
    // The project of the samples has an access token, and so a bot.
    let people: Vec<_> = users.iter().filter(|name| !name.as_str().expect("a text").contains("_bot_")).collect();
    assert_eq!(people, ["dana", "cleo", "ben", "ada", "root"]);
    let project = format!("/projects/{}", demo::PROJECT.replace('/', "%2F"));
    let shown = root.get(&project).await.expect(200).json();
    assert_eq!((&shown["default_branch"], &shown["star_count"]), (&json!("main"), &json!(2)));
    let commits = root.get(&format!("{project}/repository/commits")).await.expect(200).pluck("author_name");
    for name in ["Ada", "Ben", "Cleo", "Dana"] {
        assert!(commits.contains(&json!(name)), "{name}: {commits:?}");
    }
    assert_eq!(root.get(&format!("{project}/repository/tags")).await.pluck("name").len(), 2);
    let issues = root.get(&format!("{project}/issues?sort=asc")).await.expect(200);
    assert_eq!(issues.pluck("state"), ["closed", "opened", "opened", "opened", "closed", "opened", "opened"]);
    let lamp = root.get(&format!("{project}/issues/1")).await.expect(200).json();
    assert_eq!(
        (&lamp["merge_requests_count"], &lamp["upvotes"], &lamp["user_notes_count"]),
        (&json!(1), &json!(2), &json!(2))
    );
    assert_eq!(
        server.create_user("stranger").await.client.get(&format!("{project}/issues")).await.pluck("iid").len(),
        6,
        "the confidential issue must be hidden"
    );
    let merge_requests = root.get(&format!("{project}/merge_requests?sort=asc")).await.expect(200);
    assert_eq!(merge_requests.pluck("state"), ["opened", "merged", "opened", "closed"]);
    assert_eq!(merge_requests.pluck("work_in_progress"), [false, false, true, false]);
    let milestones = root.get(&format!("{project}/milestones")).await.expect(200);
    assert_eq!(milestones.pluck("state").len(), 2);
    assert_eq!(root.get(&format!("{project}/labels")).await.expect(200).pluck("name").len(), 5);
    assert_eq!(
        root.get(&format!("{project}/boards")).await.expect(200).json()[0]["lists"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(root.get("/groups/harbor/epics/1/issues").await.expect(200).pluck("title").len(), 3);
    assert_eq!(root.get(&format!("{project}/snippets")).await.expect(200).pluck("title"), ["Tides of the week"]);
    assert_eq!(root.get("/groups/harbor/issues").await.expect(200).pluck("iid").len(), 8);
    let notebook = git::address(&server.base, "cleo", "a password of the demo", "cleo/notebook");
    Work::empty().git(&["ls-remote", "--exit-code", &notebook, "refs/heads/main"]).await;
    let again = demo::fill(&server.backend, &settings, &token, &password).await.unwrap_err();
    assert!(again.to_string().starts_with("demo: POST /users as root: 409"), "{again}");
}

on_every_database![demo_fill_creates_sample_data,];

harness::tests![
    demo_leaves_no_files_when_stopped,
    demo_leaves_no_files_when_killed,
    demo_reports_listen_failure_and_leaves_no_files,
    demo_imports_local_repository,
];
