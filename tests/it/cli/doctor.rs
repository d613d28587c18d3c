//! `holdfast doctor`.

use std::path::PathBuf;

use crate::support::git::Work;
use crate::support::process::{Site, on_every_site};

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
    let output = site.succeeds(&["doctor"]).await;
    assert_eq!(output, "Projects: 3. Problems: 0.\n");

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
    for arguments in [&["doctor"][..], &["backup", "copy"], &["worker"], &["admin", "create-token", "root"]] {
        let output = site.fails(arguments).await;
        assert!(output.contains("is no data directory of a server"), "{output}");
    }
    assert!(!site.data.exists());
}

on_every_site![doctor_reports_each_repository_problem, commands_reject_directory_without_server_data,];
