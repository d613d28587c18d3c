//! Backups of a server that is written to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;

use super::{fill, succeeds, text, upload};
use crate::registry::registry_protocol::{Tool, digest, noise};
use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::project;

/// Number of backups during the writes.
const BACKUPS: usize = 2;

/// What was acknowledged, in order: the last commit, uploads with their content, and layers.
#[derive(Default, Clone)]
struct Acknowledged {
    tip: String,
    uploads: Vec<(String, String)>,
    layers: Vec<Vec<u8>>,
}

/// Everything acknowledged before a backup is in it, and it refers only to what it has, while commits are pushed, files and
/// images are uploaded, and projects, branches and tags are created and deleted.
async fn backup_during_writes_is_complete_and_consistent(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    let work = Work::new().await;
    let (id, _) = fill(&server, &work, "p").await;
    let acknowledged = Arc::new(std::sync::Mutex::new(Acknowledged {
        tip: work.git(&["rev-parse", "HEAD"]).await,
        ..Acknowledged::default()
    }));
    let stopped = Arc::new(AtomicBool::new(false));
    let rounds: [Arc<AtomicU64>; 4] = std::array::from_fn(|_| Arc::default());
    let base = server.base.clone();

    let pushes = {
        let (acknowledged, stopped, round) = (acknowledged.clone(), stopped.clone(), rounds[0].clone());
        let address = server.address("p");
        tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                let number = round.fetch_add(1, Ordering::SeqCst);
                let tip = work.commit("file", &number.to_string()).await;
                let branch = format!("main:refs/heads/b{}", number % 3);
                work.git(&["push", "--quiet", "--force", &address, "main", &branch]).await;
                acknowledged.lock().unwrap().tip = tip;
                if number % 5 == 4 {
                    work.git(&["push", "--quiet", "--delete", &address, "b1"]).await;
                }
            }
            work
        })
    };
    let uploads = {
        let (acknowledged, stopped, round) = (acknowledged.clone(), stopped.clone(), rounds[1].clone());
        let client = Client::new(&base, Some(TOKEN));
        tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                let content = format!("content {}", round.fetch_add(1, Ordering::SeqCst));
                let path = upload(&client, id, content.as_bytes()).await;
                acknowledged.lock().unwrap().uploads.push((path, content));
            }
        })
    };
    let images = {
        let (acknowledged, stopped, round) = (acknowledged.clone(), stopped.clone(), rounds[2].clone());
        let tool = Tool::new(&base, Some(("root", TOKEN)), "root/p", "*").await;
        tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                let number = usize::try_from(round.fetch_add(1, Ordering::SeqCst)).unwrap();
                let image = tool.push_image(&format!("t{}", number % 4), 100 + number).await;
                acknowledged.lock().unwrap().layers.push(image.layer);
                tool.push_blob(&noise(5_000, number)).await;
                if number % 4 == 3 {
                    tool.client.delete(&tool.path(&format!("manifests/{}", image.digest))).await.expect(202);
                    acknowledged.lock().unwrap().layers.pop();
                }
            }
        })
    };
    let projects = {
        let (stopped, round, base) = (stopped.clone(), rounds[3].clone(), base.clone());
        tokio::spawn(async move {
            let client = Client::new(&base, Some(TOKEN));
            while !stopped.load(Ordering::SeqCst) {
                let name = format!("short{}", round.fetch_add(1, Ordering::SeqCst));
                let id = project(&client, &name, json!({ "initialize_with_readme": true })).await;
                upload(&client, id, b"short").await;
                client.delete(&format!("/projects/{id}")).await.expect(202);
            }
        })
    };

    let directory = site.sibling_path("backups");
    let mut before = Vec::new();
    for _ in 0..BACKUPS {
        let progress: Vec<u64> = rounds.iter().map(|round| round.load(Ordering::SeqCst)).collect();
        before.push(acknowledged.lock().unwrap().clone());
        site.succeeds(&["backup", text(&directory)]).await;
        // Each writer is busy between two backups.
        for (round, before) in rounds.iter().zip(progress) {
            while round.load(Ordering::SeqCst) < before + 2 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    }
    stopped.store(true, Ordering::SeqCst);
    let work = pushes.await.unwrap();
    for task in [uploads, images, projects] {
        task.await.unwrap();
    }
    server.stop().await;

    succeeds(&["backup", "verify", text(&directory)]).await;
    for (name, acknowledged) in super::names(&directory).await.iter().zip(before) {
        let other = site.another().await;
        other.succeeds(&["restore", text(&directory), "--backup", name]).await;
        let server = other.serve(&["--no-worker"]).await;
        let client = Client::new(&server.base, Some(TOKEN));
        let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
        let tip = listed.split_whitespace().next().unwrap();
        work.git(&["merge-base", "--is-ancestor", &acknowledged.tip, tip]).await;
        for (path, content) in acknowledged.uploads {
            assert_eq!(client.get(&path).await.expect(200).text(), content);
        }
        let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/p", "pull").await;
        for layer in acknowledged.layers {
            let path = tool.path(&format!("blobs/{}", digest(&layer)));
            assert!(tool.client.get(&path).await.expect(200).body == layer);
        }
        server.stop().await;
        other.succeeds(&["doctor"]).await;
        other.remove().await;
    }
}

/// A project that is deleted while its backup runs is completely in the backup or not at all. The deletion is started when
/// the repository was copied, and the database was not.
async fn deletion_during_a_backup_leaves_no_row_without_repository(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    let work = Work::new().await;
    let directory = site.sibling_path("backups");
    for number in 0..3_u64 {
        let (id, _) = fill(&server, &work, &format!("p{number}")).await;
        let mut backup = site.command(&["backup", text(&directory)]).spawn().expect("the binary");
        // The files of the first pass arrive in this directory.
        while !directory.join("incoming").exists() && backup.try_wait().unwrap().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(15 * number)).await;
        client.delete(&format!("/projects/{id}")).await.expect(202);
        assert!(backup.wait().await.unwrap().success());
        succeeds(&["backup", "verify", text(&directory)]).await;
        let other = site.another().await;
        other.succeeds(&["restore", text(&directory)]).await;
        other.succeeds(&["doctor"]).await;
        other.remove().await;
    }
    server.stop().await;
}

on_every_site![
    backup_during_writes_is_complete_and_consistent,
    deletion_during_a_backup_leaves_no_row_without_repository,
];
