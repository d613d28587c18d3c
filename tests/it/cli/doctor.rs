//! `holdfast doctor`.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use chrono::TimeDelta;
use domain::lifecycle::deletion::projects::delete_with_files;
use domain::operations::doctor::{self, DoctorEvent, Examination};
use git::RepositoryId;
use holdfast::config::ConfigOptions;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DbBackend, EntityTrait, Statement};
use serde_json::{Value, json};
use storage::entities::ref_updates::{self, RefUpdateKind, RefUpdateState};
use storage::entities::{Visibility, group_exports, now};

use crate::registry::registry_protocol::Tool;
use crate::support::code::Project;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::{group, project};
use crate::support::{Client, DatabaseKind, TestServer, on_every_database};

/// Returns the directories of all repositories.
fn repositories(site: &Site) -> Vec<PathBuf> {
    let mut found = vec![site.data.join("repositories")];
    for _ in 0..3 {
        let below = found.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten();
        found = below.map(|entry| entry.unwrap().path()).collect();
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "git"));
    found.sort();
    found
}

async fn doctor_reports_each_repository_problem(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    site.import("head", &work.path).await;
    let head = repositories(&site);
    site.import("gone", &work.path).await;
    let mut deleted = repositories(&site);
    deleted.retain(|path| !head.contains(path));
    site.import("broken", &work.path).await;
    let mut broken = repositories(&site);
    broken.retain(|path| !head.contains(path) && !deleted.contains(path));
    site.assert_sound(3).await;

    // Moves the directory to a name that no project uses.
    let name = "ab".repeat(32);
    std::fs::create_dir_all(site.data.join("repositories/ab/ab")).unwrap();
    std::fs::rename(&deleted[0], site.data.join(format!("repositories/ab/ab/{name}.git"))).unwrap();
    std::fs::write(head[0].join("HEAD"), "ref: refs/heads/other\n").unwrap();
    std::fs::write(broken[0].join("refs/heads/bad"), format!("{}\n", "12".repeat(20))).unwrap();
    let output = site.fails(&["doctor"]).await;
    for line in [
        "(root/gone): its repository is missing",
        &format!("repository {name}: it belongs to no project"),
        "(root/head): its default branch is main, but HEAD points to other",
        "(root/broken): git fsck: ",
    ] {
        assert!(output.contains(line), "{line} is not in {output}");
    }
}

async fn commands_reject_directory_without_server_data(site: Site) {
    let site = site.another().await;
    for arguments in [&["doctor"][..], &["backup", "copy"], &["worker"], &["admin", "create-token", "root"]] {
        let output = site.fails(arguments).await;
        assert!(output.contains("is no data directory of a server"), "{output}");
    }
    assert!(!site.data.exists());
    site.remove().await;
}

/// Each check is listed with the number of checked things, also without problems.
async fn doctor_lists_what_it_checked(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    for name in ["p", "q"] {
        site.import(name, &work.path).await;
    }
    let client = Client::new(&server.base, Some(TOKEN));
    let form = Form::new().part("file", Part::bytes(b"x".to_vec()).file_name("a.txt"));
    client.send(client.request(Method::POST, "/projects/1/uploads").multipart(form)).await.expect(201);
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/p", "*").await;
    tool.push_blob(b"blob").await;
    server.stop().await;
    let document = |output: &str| serde_json::from_str::<Value>(output).expect("JSON");
    let found = document(&site.succeeds(&["doctor", "--json"]).await);
    assert_eq!(found["problems"], 0);
    let checked = |found: &Value, subject: &str| {
        let checks = found["checks"].as_array().expect("checks").iter();
        let mut checks = checks.filter(|check| check["subject"] == subject);
        let check = checks.next().unwrap_or_else(|| panic!("{subject} is not in {found}")).clone();
        (check["checked"].as_u64().expect("a number"), check["problems"].as_array().expect("problems").len())
    };
    for (subject, number) in [
        ("projects", 2),
        ("directories of repositories", 2),
        ("object storages", 1),
        ("uploads", 1),
        ("avatars", 0),
        ("archives of groups", 0),
        ("blobs of container images", 1),
        ("unfinished ref updates", 0),
        ("disks", 1),
    ] {
        assert_eq!(checked(&found, subject), (number, 0), "{subject}");
    }
    assert!(checked(&found, "encrypted columns").0 > 5);
    assert!(checked(&found, "tables of the database").0 > 50);
    assert!(checked(&found, "files and directories of the data directory").0 > 20);
    let table = site.succeeds(&["doctor"]).await;
    let has_row = |start: &str, end: &str| {
        let mut lines = table.lines();
        lines.any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has_row("Checked ", "  Problems") && has_row("uploads ", " 1         0"), "{table}");

    let uploads = site.data.join("objects/projects/1/uploads");
    let upload = std::fs::read_dir(uploads).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(upload).unwrap();
    let output = site.run(&["doctor", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let found = document(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!((found["problems"].as_u64(), checked(&found, "uploads")), (Some(1), (1, 1)));
    let table = site.fails(&["doctor"]).await;
    assert!(table.contains("upload 1 of the project 1: its object is missing\n"), "{table}");
}

/// Returns the problems of a check.
fn problems<'a>(found: &'a Examination, subject: &str) -> &'a [String] {
    let check = found.checks.iter().find(|check| check.subject == subject);
    &check.expect("a check").problems
}

async fn doctor_skips_project_that_is_deleted_meanwhile(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let row = project.project().await;
    let is_reached = AtomicBool::new(false);
    let mut report = |event: DoctorEvent| {
        if event.subject == "projects" {
            is_reached.store(true, Ordering::SeqCst);
        }
    };
    let mut check = pin!(doctor::check(&server.backend, server.data(), false, &mut report));
    // Stops the check after it has read the row of the project.
    poll_fn(|context| match check.as_mut().poll(context) {
        Poll::Ready(_) => panic!("the check ended without waiting"),
        Poll::Pending if is_reached.load(Ordering::SeqCst) => Poll::Ready(()),
        Poll::Pending => Poll::Pending,
    })
    .await;
    delete_with_files(&server.backend, &row).await.expect("a deletion");
    let found = check.await.expect("a check");
    assert_eq!(found.projects, 1);
    for subject in ["projects", "directories of repositories"] {
        assert_eq!(problems(&found, subject), [""; 0], "{subject}");
    }
}

async fn doctor_advises_to_restore_damaged_repository_with_unfinished_update(server: TestServer) {
    let damaged = Project::with_commits(&server, "damaged", Visibility::Private).await;
    let sound = Project::with_commits(&server, "sound", Visibility::Private).await;
    for project in [&damaged, &sound] {
        let intent = ref_updates::ActiveModel {
            project_id: Set(project.id),
            kind: Set(RefUpdateKind::Push),
            changes: Set("[]".to_owned()),
            state: Set(RefUpdateState::Pending),
            created_at: Set(now()),
            ..Default::default()
        };
        intent.insert(server.backend.database.write()).await.expect("an intent");
    }
    std::fs::write(damaged.directory.join("packed-refs"), "no reference\n").expect("a file");
    let found = doctor::check(&server.backend, server.data(), true, &mut |_| {}).await.expect("a check");
    let updates = problems(&found, "unfinished ref updates");
    let [first, second] = updates else { panic!("{updates:?}") };
    assert!(first.contains("restore the repository from a backup (docs/BACKUP.md)"), "{first}");
    assert!(second.ends_with("was never recorded; restart the server to recover it"), "{second}");
}

/// The repository of a fork is created by a job.
async fn doctor_reports_missing_repository_of_fork_only_after_its_job(server: TestServer) {
    let source = Project::with_commits(&server, "p", Visibility::Public).await;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    let fork = fork["id"].as_i64().expect("an ID");
    let examine = async || doctor::check(&server.backend, server.data(), false, &mut |_| {}).await.expect("a check");
    assert_eq!(problems(&examine().await, "projects"), [""; 0]);
    server.finish_jobs().await;
    assert_eq!(problems(&examine().await, "projects"), [""; 0]);
    server.backend.repositories.remove(&RepositoryId::of_project(fork)).await.expect("a removal");
    let found = examine().await;
    let [problem] = problems(&found, "projects") else { panic!("{found:?}") };
    assert!(problem.ends_with("its repository is missing"), "{problem}");
}

async fn doctor_reports_missing_avatars_and_uploads_of_another_size(server: TestServer) {
    let root = server.root();
    let project = project(&root, "p", json!({})).await;
    let form = Form::new().part("file", Part::bytes(b"content".to_vec()).file_name("a.txt"));
    let request = root.request(Method::POST, &format!("/projects/{project}/uploads")).multipart(form);
    root.send(request).await.expect(201);
    let group = group(&root, "engines", json!({})).await;
    let user = server.create_user("ada").await.id;
    let owners = [format!("projects/{project}"), format!("groups/{group}"), format!("users/{user}")];
    for owner in &owners {
        let form = Form::new().part("avatar", Part::bytes(b"\x89PNG\r\n\x1a\n".to_vec()).file_name("a.png"));
        root.send(root.request(Method::PUT, &format!("/{owner}")).multipart(form)).await.expect(200);
    }
    let examine = async || doctor::check(&server.backend, server.data(), false, &mut |_| {}).await.expect("a check");
    let found = examine().await;
    for subject in ["avatars", "uploads"] {
        assert_eq!(problems(&found, subject), [""; 0], "{subject}");
    }
    assert!(found.checks.iter().any(|check| check.subject == "avatars" && check.checked == 3), "{found:?}");

    let objects = server.data().join("objects");
    for owner in &owners {
        std::fs::remove_file(objects.join(owner).join("avatar")).expect("a removal");
    }
    let uploads = std::fs::read_dir(objects.join(&owners[0]).join("uploads")).expect("uploads");
    for upload in uploads {
        std::fs::write(upload.expect("an upload").path(), "con").expect("a file");
    }
    let found = examine().await;
    let expected = [
        format!("avatar of the project {project}: its object is missing"),
        format!("avatar of the group {group}: its object is missing"),
        format!("avatar of the user {user}: its object is missing"),
    ];
    assert_eq!(problems(&found, "avatars"), expected);
    let [problem] = problems(&found, "uploads") else { panic!("{found:?}") };
    assert!(problem.ends_with("its object has 3 instead of 7 bytes"), "{problem}");
}

/// An archive is an object that only its row names.
async fn doctor_reports_missing_archives_of_groups(server: TestServer) {
    let group = group(&server.root(), "engines", json!({})).await;
    let row = |stored_at, expires_at| group_exports::ActiveModel {
        namespace_id: Set(Some(group)),
        user_id: Set(Some(1)),
        secret: Set(hex::encode(rand::random::<[u8; 16]>())),
        file_name: Set("a.tar.gz".to_owned()),
        size: Set(1),
        stored_at: Set(stored_at),
        expires_at: Set(expires_at),
        created_at: Set(now()),
        ..Default::default()
    };
    let db = server.backend.database.write();
    let (past, future) = (now() - TimeDelta::hours(1), now() + TimeDelta::hours(1));
    let mut ids = Vec::new();
    for (stored_at, expires_at) in [(Some(past), future), (None, future), (Some(past), past)] {
        group_exports::Entity::delete_many().exec(db).await.expect("a deletion");
        ids.push(row(stored_at, expires_at).insert(db).await.expect("an export").id);
        let found = doctor::check(&server.backend, server.data(), false, &mut |_| {}).await.expect("a check");
        let expected = match ids.len() {
            1 => vec![format!("archive of the group export {}: its object is missing", ids[0])],
            _ => Vec::new(),
        };
        assert_eq!(problems(&found, "archives of groups"), expected);
    }
}

on_every_database![
    doctor_skips_project_that_is_deleted_meanwhile,
    doctor_advises_to_restore_damaged_repository_with_unfinished_update,
    doctor_reports_missing_repository_of_fork_only_after_its_job,
    doctor_reports_missing_avatars_and_uploads_of_another_size,
    doctor_reports_missing_archives_of_groups,
];

async fn doctor_reports_broken_references_of_sqlite() {
    let server = TestServer::start_with(DatabaseKind::Sqlite, ConfigOptions::default()).await;
    let project = project(&server.root(), "p", json!({})).await;
    let db = server.backend.database.write();
    let change = format!("UPDATE projects SET creator_id = 999999 WHERE id = {project}");
    for sql in ["PRAGMA foreign_keys = OFF", &change, "PRAGMA foreign_keys = ON"] {
        db.execute_raw(Statement::from_string(DbBackend::Sqlite, sql)).await.expect("a statement");
    }
    let found = doctor::check(&server.backend, server.data(), false, &mut |_| {}).await.expect("a check");
    assert_eq!(problems(&found, "tables of the database"), ["table projects: a row refers to a missing row of users"]);
    server.stop().await;
}

harness::tests![doctor_reports_broken_references_of_sqlite];

on_every_site![
    doctor_reports_each_repository_problem,
    doctor_lists_what_it_checked,
    commands_reject_directory_without_server_data,
];
