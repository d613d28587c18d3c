//! Modes of the files in the data directory and in backups.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use storage::database::{Database, DatabaseOptions};
use storage::jobs;
use tokio::process::Command;

use crate::registry::registry_protocol::{Tool, noise};
use crate::support::Client;
use crate::support::git::{Work, output_text};
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::spaces::{group, id};

/// Maximum time until the work in the background is done.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];

/// Returns a command of the binary that inherits a mask without effect.
fn without_mask(site: &Site, arguments: &[&str]) -> Command {
    let command = site.command(arguments);
    let command = command.as_std();
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"umask 0; exec "$0" "$@""#]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().expect("a directory")).stdin(Stdio::null()).kill_on_drop(true);
    shell
}

async fn succeeds_without_mask(site: &Site, arguments: &[&str]) {
    let output = without_mask(site, arguments).output().await.expect("the binary");
    assert!(output.status.success(), "{arguments:?}: {}", output_text(&output));
}

/// Returns a path and all paths below it. Links are not followed.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if !path.is_symlink() {
        // Files may vanish while a server runs.
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            found.extend(tree(&entry.path()));
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).map_or(0, |metadata| metadata.permissions().mode())
}

/// Returns the files and directories that other users can access, with their modes.
fn accessible(path: &Path) -> Vec<String> {
    let mut found = tree(path);
    found.retain(|path| !path.is_symlink() && mode(path) & 0o077 != 0);
    found.iter().map(|path| format!("{:o} {}", mode(path), path.display())).collect()
}

#[track_caller]
fn assert_private(path: &Path) {
    assert!(path.exists(), "{}", path.display());
    assert_eq!(accessible(path), Vec::<String>::new());
}

/// Lets all users read and write a path and everything below it.
fn open_to_others(path: &Path) {
    for path in tree(path) {
        let mode = mode(&path);
        let open = if mode & 0o100 == 0 { 0o666 } else { 0o777 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(open)).expect("a mode");
    }
}

/// Waits until all jobs are done.
async fn finish_jobs(site: &Site) {
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database");
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let left = jobs::backlog(database.read()).await.expect("a count");
        assert_eq!(left.dead, 0);
        if left.waiting + left.running == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    database.close().await.expect("closing");
}

/// Stores files of each kind: objects, packs, uploads, images, archives.
async fn store_files(site: &Site, server: &Process, work: &Work) {
    let root = Client::new(&server.base, Some(TOKEN));
    let project = id(&root.post("/projects", json!({ "name": "p" })).await.expect(201).json());
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let one = format!("/projects/{project}");
    for (branch, count) in [("few", 1), ("many", 200)] {
        let create = |number: usize| {
            let content = format!("{branch} {number}");
            json!({ "action": "create", "file_path": format!("f{number}"), "content": content })
        };
        let actions: Vec<_> = (0..count).map(create).collect();
        let body =
            json!({ "branch": branch, "start_branch": "main", "commit_message": "Add files", "actions": actions });
        root.post(&format!("{one}/repository/commits"), body).await.expect(201);
    }
    let form = Form::new().part("file", Part::bytes(noise(100, 1)).file_name("a.txt"));
    let upload = root.request(Method::POST, &format!("{one}/uploads")).multipart(form);
    root.send(upload).await.expect(201);
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/p", "pull,push").await;
    tool.push_image("v1", 1).await;
    tool.push_blob(&noise(3 << 20, 2)).await;
    let team = group(&root, "team", json!({})).await;
    root.post(&format!("/groups/{team}/export"), json!({})).await.expect(202);
    root.post(&format!("{one}/fork"), json!({ "path": "fork", "name": "fork" })).await.expect(201);
    finish_jobs(site).await;
}

async fn new_files_are_private_to_their_owner(site: Site) {
    let server = Site::ready(without_mask(&site, SERVE)).await;
    let work = Work::new().await;
    store_files(&site, &server, &work).await;
    let path = work.path.to_str().expect("UTF-8");
    succeeds_without_mask(&site, &["admin", "import-repo", "--project", "root/q", path]).await;
    assert_private(&site.data);
    let copy = site.sibling_path("copy");
    succeeds_without_mask(&site, &["backup", copy.to_str().expect("UTF-8")]).await;
    assert_private(&copy);
    server.stop().await;
    assert_private(&site.data);
    site.assert_sound(3).await;

    // A restored instance is private, also if the backup is not.
    open_to_others(&copy);
    let other = site.another().await;
    succeeds_without_mask(&other, &["restore", copy.to_str().expect("UTF-8")]).await;
    assert_private(&other.data);
    other.succeeds(&["doctor"]).await;
    other.remove().await;
}

async fn rejected_backup_directory_keeps_its_mode(site: Site) {
    site.serve(&[]).await.stop().await;
    let used = site.sibling_path("used");
    std::fs::create_dir(&used).expect("a directory");
    std::fs::write(used.join("notes"), "x").expect("a file");
    open_to_others(&used);
    let (before, path) = (accessible(&used), used.to_str().expect("UTF-8"));
    let other = site.another().await;
    for output in [site.fails(&["backup", path]).await, other.fails(&["restore", path]).await] {
        assert!(output.contains("is not empty") || output.contains("complete backup"), "{output}");
        assert_eq!((before.len(), accessible(&used)), (2, before.clone()));
    }
    other.remove().await;
}

async fn existing_files_are_restricted_by_server_and_worker(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    store_files(&site, &server, &work).await;
    server.stop().await;
    open_to_others(&site.data);
    let output = site.fails(&["doctor"]).await;
    assert!(output.contains(": other users can access ") && output.contains("`chmod -R go= "), "{output}");
    assert_eq!(mode(&site.data) & 0o777, 0o777, "`doctor` changes nothing");

    // Access to the directory ends before the server is ready. The rest is done in the background.
    let server = site.serve(&["--no-worker"]).await;
    for path in [site.data.clone(), site.data.join("secret.key"), site.data.join("repositories")] {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
    work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let worker = site.command(&["worker"]).spawn().expect("the binary");
    let deadline = Instant::now() + TIME_LIMIT;
    while !accessible(&site.data).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", accessible(&site.data));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    work.commit("b", "2").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    finish_jobs(&site).await;
    drop(worker);
    server.stop().await;
    assert_private(&site.data);
    site.assert_sound(2).await;
}

async fn links_to_the_data_directory_and_its_parts_are_followed(site: Site) {
    let (real, volume) = (site.sibling_path("real"), site.sibling_path("volume"));
    for path in [&real, &volume] {
        std::fs::create_dir(path).expect("a directory");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    if site.data.exists() {
        // It contains only the migrated database.
        std::fs::remove_dir_all(&site.data).expect("deletion");
    }
    symlink(&real, &site.data).expect("a link");
    symlink(&volume, real.join("repositories")).expect("a link");
    let server = Site::ready(without_mask(&site, SERVE)).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    server.stop().await;
    assert_private(&real);
    assert_private(&volume);
    assert!(tree(&volume).len() > 10);
}

async fn configuration_of_a_repository_shares_no_files(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let configs = tree(&site.data.join("repositories"));
    let configs: Vec<_> = configs.into_iter().filter(|path| path.ends_with("config")).collect();
    assert_eq!(configs.len(), 1, "{configs:?}");
    let text = std::fs::read_to_string(&configs[0]).expect("a configuration");
    std::fs::write(&configs[0], format!("{text}[core]\n\tsharedRepository = world\n")).expect("a configuration");
    work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "main", "main:other"]).await;
    finish_jobs(&site).await;
    server.stop().await;
    assert_private(&site.data);
}

on_every_site![
    new_files_are_private_to_their_owner,
    rejected_backup_directory_keeps_its_mode,
    existing_files_are_restricted_by_server_and_worker,
    links_to_the_data_directory_and_its_parts_are_followed,
    configuration_of_a_repository_shares_no_files,
];
