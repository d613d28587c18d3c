//! Backups and restores that are killed.

use std::path::Path;
use std::time::Duration;

use rand::RngExt;

use super::{files, fill, names, succeeds, text};
use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Number of times that a command is killed.
const ROUNDS: u32 = 4;
/// Names of the projects of an instance whose commands are killed.
const PROJECTS: [&str; 3] = ["p", "q", "r"];

/// Creates projects with data that does not compress. Returns the path of the upload of the last one.
async fn populate(site: &Site, projects: &[&str]) -> String {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    let mut path = String::new();
    for name in projects {
        let mut bytes = vec![0_u8; 2 << 20];
        rand::rng().fill(&mut bytes[..]);
        std::fs::write(work.path.join("data"), bytes).unwrap();
        work.commit("README", name).await;
        path = fill(&server, &work, name).await.1;
    }
    server.stop().await;
    path
}

/// Kills a command after a part of the time that it takes, and returns whether it was still running.
async fn kill_after(site: &Site, arguments: &[&str], time: Duration) -> bool {
    let mut command = site.command(arguments).spawn().expect("the binary");
    tokio::time::sleep(time).await;
    let was_running = command.try_wait().unwrap().is_none();
    command.kill().await.unwrap();
    was_running
}

/// Kills a command as soon as a file exists, which the command creates at its start.
async fn kill_when_exists(site: &Site, arguments: &[&str], path: &Path) {
    let mut command = site.command(arguments).spawn().expect("the binary");
    while !path.exists() && command.try_wait().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    command.kill().await.unwrap();
}

async fn killed_backup_leaves_earlier_ones_intact_and_the_next_is_complete(site: Site) {
    let path = populate(&site, &PROJECTS).await;
    let directory = site.sibling_path("backups");
    let started = std::time::Instant::now();
    site.succeeds(&["backup", text(&directory)]).await;
    let time = started.elapsed();
    let mut killed = 0;
    for round in 0..ROUNDS {
        // A new directory each time, so that all files are copied; every second time, the first backup is there.
        let target = match round % 2 {
            0 => directory.clone(),
            _ => site.sibling_path(&format!("backups{round}")),
        };
        let before = names_if_any(&target).await;
        killed += u32::from(kill_after(&site, &["backup", text(&target)], time * (round + 1) / (ROUNDS + 1)).await);
        let after = names_if_any(&target).await;
        assert!(after.len() <= before.len() + 1 && after.starts_with(&before));
        if !after.is_empty() {
            succeeds(&["backup", "verify", text(&target)]).await;
        }
        site.succeeds(&["backup", text(&target)]).await;
        succeeds(&["backup", "verify", text(&target)]).await;
        assert!(!target.join("incoming").exists());
    }
    assert!(killed > 0, "no backup was killed");
    let leftovers = std::fs::read_dir(site.data.join("tmp")).unwrap().count();
    assert_eq!(leftovers, 0, "copies of the database remain");
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    other.assert_sound(3).await;
    let server = other.serve(&[]).await;
    Client::new(&server.base, Some(TOKEN)).get(&path).await.expect(200);
    server.stop().await;
    other.remove().await;
}

/// A kill rarely falls between the move of the files and the write of the file of the backup. Here, this write fails.
async fn files_of_an_incomplete_backup_are_deleted_by_the_next(site: Site) {
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let stored = || files(&directory.join("files")).len();
    let before = stored();
    let (backups, complete) = (directory.join("backups"), directory.join("complete"));
    std::fs::rename(&backups, &complete).unwrap();
    // No file can be created in this directory.
    std::os::unix::fs::symlink("/proc/self/task", &backups).unwrap();
    site.fails(&["backup", text(&directory)]).await;
    std::fs::remove_file(&backups).unwrap();
    std::fs::rename(&complete, &backups).unwrap();
    assert!(stored() > before, "the backup failed before it moved its files");

    let output = succeeds(&["backup", "verify", text(&directory)]).await;
    assert!(output.contains("an interrupted backup left "), "{output}");
    site.succeeds(&["backup", text(&directory)]).await;
    let output = succeeds(&["backup", "verify", text(&directory)]).await;
    assert!(!output.contains("an interrupted backup left "), "{output}");
    assert!(!directory.join("incoming").exists());
}

async fn names_if_any(directory: &Path) -> Vec<String> {
    match directory.join("backups").exists() {
        true => names(directory).await,
        false => Vec::new(),
    }
}

async fn killed_restore_is_refused_by_servers_and_replaced_by_the_next(site: Site) {
    let path = populate(&site, &PROJECTS).await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let first = site.another().await;
    let started = std::time::Instant::now();
    first.succeeds(&["restore", text(&directory)]).await;
    let time = started.elapsed();
    first.remove().await;

    let mut unfinished = 0;
    for round in 1..=ROUNDS {
        let other = site.another().await;
        let mark = other.data.join("restore.json");
        match round {
            // The other kills may come too early or too late on a busy machine.
            1 => kill_when_exists(&other, &["restore", text(&directory)], &mark).await,
            _ => drop(kill_after(&other, &["restore", text(&directory)], time * (round - 1) / ROUNDS).await),
        }
        if mark.exists() {
            unfinished += 1;
            // The file is the same after each kill.
            if unfinished == 1 {
                for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["doctor"], &["backup", "copy"]] {
                    let output = other.fails(arguments).await;
                    assert!(output.contains("contains an unfinished restore"), "{output}");
                }
            }
            // Killed again, at another place.
            kill_after(&other, &["restore", text(&directory)], time * (ROUNDS - round) / ROUNDS).await;
        }
        if mark.exists() || !other.data.join("instance.json").exists() {
            other.succeeds(&["restore", text(&directory)]).await;
        }
        other.assert_sound(3).await;
        let server = other.serve(&[]).await;
        Client::new(&server.base, Some(TOKEN)).get(&path).await.expect(200);
        server.stop().await;
        assert!(!files(&other.data).iter().any(|path| text(path).contains(".restoring")));
        other.remove().await;
    }
    assert!(unfinished > 0, "no restore was killed");
}

/// The last steps of a restore take too little time to be hit. Each of them is repeated here.
async fn restore_completes_after_a_kill_before_its_last_step(site: Site) {
    populate(&site, &["p"]).await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    let id = |site: &Site| {
        let text = std::fs::read(site.data.join("instance.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()["instance_id"].clone()
    };
    let before = id(&other);
    let name = &names(&directory).await[0];
    let mark = serde_json::json!({ "instance_id": before, "backup": name }).to_string();
    std::fs::write(other.data.join("restore.json"), &mark).unwrap();
    other.succeeds(&["restore", text(&directory)]).await;
    assert_eq!(id(&other), before);
    other.assert_sound(1).await;

    // The database belongs to another backup.
    site.succeeds(&["backup", text(&directory)]).await;
    std::fs::write(other.data.join("restore.json"), &mark).unwrap();
    let output = other.run(&["restore", text(&directory)]).await;
    match other.database_url().starts_with("sqlite:") {
        true => assert!(output.status.success()),
        false => {
            let output = crate::support::git::output_text(&output);
            assert!(output.contains(&format!("the unfinished restore of the backup {name}")), "{output}");
            other.succeeds(&["restore", text(&directory), "--backup", name]).await;
        }
    }
    other.assert_sound(1).await;
    // A mark that was cut off names no instance.
    let fresh = site.another().await;
    std::fs::create_dir_all(&fresh.data).unwrap();
    std::fs::write(fresh.data.join("restore.json"), "{").unwrap();
    fresh.succeeds(&["restore", text(&directory)]).await;
    fresh.assert_sound(1).await;
    fresh.remove().await;
    other.remove().await;
}

on_every_site![
    files_of_an_incomplete_backup_are_deleted_by_the_next,
    killed_backup_leaves_earlier_ones_intact_and_the_next_is_complete,
    killed_restore_is_refused_by_servers_and_replaced_by_the_next,
    restore_completes_after_a_kill_before_its_last_step,
];
