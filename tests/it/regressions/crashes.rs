//! Durability of acknowledged pushes and imports when the process is killed.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use tokio::sync::{Mutex, Notify};

use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, descendants, on_every_site};

/// Number of times the process is killed.
const ROUNDS: u64 = 3;

async fn acknowledged_pushes_survive_server_kill(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Arc::new(Work::new().await);
    let first = work.git(&["rev-parse", "HEAD"]).await;
    site.import("p", &work.path).await;
    let acknowledged = Arc::new(Mutex::new(first.clone()));
    let mut pushed = 0;
    for round in 0..ROUNDS {
        let server = site.serve(&[]).await;
        let address = server.address("p");
        let under_way = Arc::new(Notify::new());
        let pushing = {
            let (work, acknowledged) = (Arc::clone(&work), Arc::clone(&acknowledged));
            let under_way = Arc::clone(&under_way);
            tokio::spawn(async move {
                for count in 1.. {
                    let tip = work.commit("file", &format!("{round} {count}")).await;
                    let output = work.run(&["push", "--quiet", &address, "main"]).await;
                    if !output.status.success() {
                        return count - 1;
                    }
                    *acknowledged.lock().await = tip;
                    under_way.notify_one();
                }
                0
            })
        };
        // Kill the server some time after the first push.
        let first = tokio::time::timeout(Duration::from_secs(30), under_way.notified());
        first.await.expect("a push that is acknowledged");
        tokio::time::sleep(Duration::from_millis(60 + 137 * round)).await;
        server.kill().await;
        pushed += pushing.await.unwrap();

        let server = site.serve(&[]).await;
        let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
        let tip = listed.split_whitespace().next().unwrap().to_owned();
        let known = acknowledged.lock().await.clone();
        work.git(&["merge-base", "--is-ancestor", &known, &tip]).await;
        // A full clone proves that every object is present.
        let clones = Work::empty();
        clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
        clones.below("c").git(&["fsck", "--full"]).await;
        server.stop().await;
        site.assert_sound(1).await;
    }
    assert!(pushed > 0, "no push was ever acknowledged");
}

async fn import_after_killed_import_completes(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    for number in 0..5 {
        // Random data does not compress, so the import takes longer.
        let mut bytes = vec![0_u8; 2 << 20];
        rand::rng().fill(&mut bytes[..]);
        std::fs::write(work.path.join(format!("file{number}")), bytes).unwrap();
        let tip = work.commit("README", &number.to_string()).await;
        work.git(&["tag", &format!("v{number}"), &tip]).await;
        work.git(&["branch", &format!("b{number}"), &tip]).await;
    }
    let path = work.path.to_str().unwrap();
    let mut cut = 0;
    for round in 0..ROUNDS {
        let mut import = site.command(&["admin", "import-repo", "--project", "root/p", path]).spawn().unwrap();
        let id = import.id().expect("a running process");
        let started = async {
            // Wait until the import has started Git or has ended.
            while import.try_wait().unwrap().is_none() && descendants(id).is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), started).await.expect("an import");
        tokio::time::sleep(Duration::from_millis(3 + 90 * round)).await;
        let left = descendants(id);
        cut += u64::from(import.try_wait().unwrap().is_none());
        import.kill().await.unwrap();
        // Child processes may still run for a moment, as after a real kill.
        let exited = async {
            while left.iter().any(|(id, _)| std::path::Path::new(&format!("/proc/{id}")).exists()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), exited).await.expect("the end of the child processes");
    }
    assert!(cut > 0, "no import was killed");
    site.import("p", &work.path).await;
    let server = site.serve(&[]).await;
    let listed = work.git(&["ls-remote", "--heads", "--tags", &server.address("p")]).await;
    let own = work.git(&["ls-remote", "--heads", "--tags", "."]).await;
    assert_eq!(listed, own);
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
    clones.below("c").git(&["fsck", "--full"]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let project = root.get("/projects/root%2Fp").await.expect(200).json();
    assert_eq!((&project["default_branch"], &project["empty_repo"]), (&json!("main"), &json!(false)));
    server.stop().await;
    site.assert_sound(1).await;
}

on_every_site![acknowledged_pushes_survive_server_kill, import_after_killed_import_completes,];
