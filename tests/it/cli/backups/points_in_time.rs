//! Restores to a time between two backups.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::json;

use super::{files, fill, names, text};
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// The database is copied between two backups, as PostgreSQL restores it from archived write-ahead logs. Commits and
/// projects of that time are complete, also if they were changed or deleted before the next backup.
async fn database_of_a_time_between_two_backups_is_completed_from_both() {
    let site = Site::new(&DatabaseKind::postgresql()).await;
    let work = Work::new().await;
    let directory = site.sibling_path("backups");
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    fill(&server, &work, "stays").await;
    let (deleted, path) = fill(&server, &work, "deleted").await;
    let variable = json!({ "key": "A", "value": "encrypted" });
    client.post("/projects/root%2Fstays/variables", variable).await.expect(201);
    server.stop().await;
    site.succeeds(&["backup", text(&directory)]).await;

    let server = site.serve(&[]).await;
    let tip = work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("stays"), "main"]).await;
    fill(&server, &work, "between").await;
    server.stop().await;
    let other = site.with_copy_of_database().await;

    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    work.commit("b", "2").await;
    work.git(&["push", "--quiet", &server.address("stays"), "main"]).await;
    let (later, _) = fill(&server, &work, "later").await;
    let package = "/projects/root%2Fstays/packages/generic/later/1/file";
    let request = client.request(Method::PUT, package).body("content");
    client.send(request).await.expect(201);
    client.delete(&format!("/projects/{deleted}")).await.expect(202);
    while site.data.join(format!("objects/projects/{deleted}")).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    site.succeeds(&["admin", "rotate-key"]).await;
    site.succeeds(&["backup", text(&directory)]).await;
    let first = names(&directory).await.remove(0);

    // The database of a running server is refused.
    let url = site.database_url();
    let arguments = ["restore", text(&directory), "--keep-database", "--fill-from", &first];
    let mut plain = super::command(&arguments);
    plain.arg("--data-dir").arg(&other.data).arg("--database-url").arg(&url);
    let output = crate::support::git::output_text(&plain.output().await.unwrap());
    assert!(output.contains("a server or command uses the database"), "{output}");
    assert!(!other.data.exists());
    server.stop().await;
    // So is that of another instance, and an empty one.
    let foreign = site.another().await;
    let output = foreign.fails(&arguments).await;
    assert!(output.contains("the database is empty"), "{output}");
    foreign.serve(&[]).await.stop().await;
    std::fs::remove_dir_all(&foreign.data).unwrap();
    let output = foreign.fails(&arguments).await;
    assert!(output.contains("does not belong to the instance of the backup"), "{output}");
    foreign.remove().await;

    // The next backup has only the key that replaced the key of the database.
    let output = other.fails(&arguments[..3]).await;
    assert!(output.contains("the backups lack the key ") && output.contains("add --fill-from"), "{output}");
    assert!(!other.data.exists());

    let output = other.succeeds(&arguments).await;
    assert!(output.contains("From the earlier backup: 1 repository, "), "{output}");
    other.assert_sound(3).await;
    // Nothing refers to these objects.
    assert!(!other.data.join(format!("objects/projects/{later}")).exists());
    assert_eq!(files(&other.data.join("objects/packages")), Vec::<PathBuf>::new());
    let server = other.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(&path).await.expect(200).text(), "upload of deleted");
    client.get("/projects/root%2Fbetween").await.expect(200);
    client.get("/projects/root%2Flater").await.expect(404);
    let variable = client.get("/projects/root%2Fstays/variables/A").await.expect(200).json();
    assert_eq!(variable["value"], "encrypted");
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &server.address("stays"), "c"]).await;
    clones.below("c").git(&["cat-file", "-e", &tip]).await;
    work.commit("c", "3").await;
    work.git(&["push", "--quiet", &server.address("stays"), "main"]).await;
    server.stop().await;
    other.assert_sound(3).await;
    other.remove().await;
    site.remove().await;
}

async fn sqlite_is_restored_only_to_the_time_of_a_backup() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let other = site.another().await;
    let output = other.fails(&["restore", text(&directory), "--keep-database"]).await;
    assert!(output.contains("--keep-database requires PostgreSQL") && !other.data.exists(), "{output}");
}

harness::tests![sqlite_is_restored_only_to_the_time_of_a_backup];
harness::tests![requires harness::postgresql::missing; database_of_a_time_between_two_backups_is_completed_from_both];
