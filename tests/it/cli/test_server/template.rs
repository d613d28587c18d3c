//! The template of test servers in the cache directory.

use std::path::{Path, PathBuf};

use crate::support::temporary_directory;
use crate::support::test_server::{RunningTestServer, command};

/// Returns the templates in the cache of a directory.
fn templates(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("cache/holdfast/test-server")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

async fn template_is_created_once_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = temporary_directory();
    let first = RunningTestServer::start(directory.path(), &[]).await;
    let created = templates(directory.path());
    assert_eq!(created.len(), 1, "{created:?}");
    let mode = std::fs::metadata(created[0].join("snapshot.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let modified = || std::fs::metadata(&created[0]).unwrap().modified().unwrap();
    let before = modified();
    let second = RunningTestServer::start(directory.path(), &[]).await;
    assert_eq!((templates(directory.path()), modified()), (created.clone(), before));
    assert_eq!(first.text("password"), second.text("password"));
    assert_ne!(first.text("token"), second.text("token"));
}

async fn damaged_template_is_replaced() {
    let directory = temporary_directory();
    RunningTestServer::start(directory.path(), &[]).await.close().await;
    let template = templates(directory.path()).remove(0);
    for damage in ["data/holdfast.db", "snapshot.json", "data/secret.key"] {
        assert!(template.join(damage).exists(), "{damage}");
        std::fs::write(template.join(damage), "damaged").unwrap();
        let server = RunningTestServer::start(directory.path(), &[]).await;
        server.root().get("/user").await.expect(200);
        assert_ne!(std::fs::read(template.join(damage)).unwrap(), b"damaged", "{damage}");
        assert_eq!(templates(directory.path()), std::slice::from_ref(&template));
        server.close().await;
    }
    std::fs::remove_dir_all(&template).unwrap();
    std::fs::write(&template, "a file").unwrap();
    let server = RunningTestServer::start(directory.path(), &[]).await;
    server.root().get("/user").await.expect(200);
}

async fn server_starts_and_resets_without_cache_directory() {
    let directory = temporary_directory();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (name, value) in
        [("XDG_CACHE_HOME", Some(file.as_path())), ("HOME", None), ("HOME", Some(Path::new("/proc/x")))]
    {
        let mut command = command(directory.path(), &[]);
        command.env_remove("XDG_CACHE_HOME").env_remove("HOME");
        if let Some(value) = value {
            command.env(name, value);
        }
        let server = RunningTestServer::ready(command).await;
        server.root().get("/user").await.expect(200);
        server.reset().await;
        server.root().get("/user").await.expect(200);
        server.close().await;
    }
}

async fn reset_succeeds_after_cache_was_removed() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--freeze-time", "2026-01-01T00:00:00Z"]).await;
    let created = server.root().get("/user").await.expect(200).json()["created_at"].clone();
    std::fs::remove_dir_all(directory.path().join("cache")).unwrap();
    server.reset().await;
    assert_eq!(server.root().get("/user").await.expect(200).json()["created_at"], created);
    assert_eq!(created, "2020-01-01T00:00:00.000Z");
}

async fn concurrent_first_starts_succeed() {
    let directory = temporary_directory();
    let starts = (0..4).map(|_| RunningTestServer::start(directory.path(), &[]));
    let servers = futures_util::future::join_all(starts).await;
    for server in &servers {
        server.root().get("/user").await.expect(200);
        server.reset().await;
    }
    assert_eq!(templates(directory.path()).len(), 1);
}

harness::tests![
    template_is_created_once_and_private,
    damaged_template_is_replaced,
    server_starts_and_resets_without_cache_directory,
    reset_succeeds_after_cache_was_removed,
    concurrent_first_starts_succeed,
];
