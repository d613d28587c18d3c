//! `holdfast backup` and `restore`.

use crate::support::git::Work;
use crate::support::process::{Site, on_every_site};

async fn restore_recovers_repositories_users_and_tokens(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let tip = work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let token = site.succeeds(&["admin", "create-token", "ann"]).await;
    let copy = site.sibling_path("copy");
    let copy = copy.to_str().unwrap();
    let output = site.succeeds(&["backup", copy]).await;
    assert!(output.contains("Saved 1 repository to "), "{output}");
    // Later commits are not in the backup.
    work.commit("b", "2").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let output = site.fails(&["backup", copy]).await;
    assert!(output.contains("is not empty"), "{output}");
    let output = site.fails(&["restore", copy]).await;
    assert!(output.contains("is not empty"), "{output}");
    server.stop().await;

    let other = site.another().await;
    other.succeeds(&["restore", copy]).await;
    other.succeeds(&["doctor"]).await;
    assert_eq!(
        std::fs::read(other.data.join("secret.key")).unwrap(),
        std::fs::read(site.data.join("secret.key")).unwrap()
    );
    let server = other.serve(&[]).await;
    let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
    assert!(listed.starts_with(&tip), "{listed}");
    let url = crate::support::git::address(&server.base, "ann", token.trim(), "root/p");
    let output = work.fails(&["ls-remote", &url]).await;
    assert!(output.contains("could not be found"), "the token must be valid: {output}");
    // New rows get unused IDs.
    other.import("q", &work.path).await;
    work.git(&["push", "--quiet", &server.address("q"), "main:other"]).await;
    server.stop().await;
    other.succeeds(&["doctor"]).await;
    other.remove().await;
}

async fn restore_rejects_incomplete_backup(site: Site) {
    site.serve(&[]).await.stop().await;
    let copy = site.sibling_path("copy");
    site.succeeds(&["backup", copy.to_str().unwrap()]).await;
    std::fs::remove_file(copy.join("manifest.json")).unwrap();
    let other = site.another().await;
    let output = other.fails(&["restore", copy.to_str().unwrap()]).await;
    assert!(output.contains("does not contain a complete backup"), "{output}");
    assert!(!other.data.exists());
    other.remove().await;
}

on_every_site![restore_recovers_repositories_users_and_tokens, restore_rejects_incomplete_backup,];
