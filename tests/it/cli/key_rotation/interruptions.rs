//! Interrupted and concurrent rotations, and backups around them.

use std::fs::OpenOptions;
use std::process::Stdio;
use std::time::Duration;

use sea_orm::{DatabaseTransaction, Value};
use storage::entities::instances;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::secrets::{Instance, plain, values};
use crate::support::process::{Site, on_every_site};

/// Maximum time until a command prints a line.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Number of variables that make a rotation last.
const VARIABLES: i64 = 2000;

/// A running rotation.
struct Rotation {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Rotation {
    fn start(site: &Site) -> Self {
        let mut child = site.command(&["admin", "rotate-key"]).stdout(Stdio::piped()).spawn().expect("the binary");
        let lines = BufReader::new(child.stdout.take().expect("an output")).lines();
        Self { child, lines }
    }

    /// Waits for a line that contains `text`.
    async fn wait_for(&mut self, text: &str) {
        let found = async {
            while let Some(line) = self.lines.next_line().await.expect("a line") {
                if line.contains(text) {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(TIME_LIMIT, found).await.expect("an output");
        assert!(found, "the rotation did not print {text}");
    }

    async fn kill(mut self) {
        self.child.kill().await.expect("killing");
    }
}

/// Prevents changes of the current key until the transaction ends.
async fn hold_key(instance: &Instance) -> DatabaseTransaction {
    let transaction = instance.database.begin().await.expect("a transaction");
    instances::lock_key_fingerprint(&transaction).await.expect("a lock");
    transaction
}

async fn add_variables(instance: &Instance) {
    let key = super::secrets::current_key(&instance.site, &instance.database).await;
    instance
        .database
        .transaction(async |transaction| {
            for number in 0..VARIABLES {
                let sealed = key.seal_token(&format!("{number}"), &format!("pipeline_variables.value:1:V{number}"));
                let sql = "INSERT INTO pipeline_variables (pipeline_id, key, value_encrypted, kind) \
                           SELECT pipeline_id, $1, $2, kind FROM pipeline_variables WHERE id = 1";
                let values: [Value; 2] = [format!("V{number}").into(), sealed.expect("a value").into()];
                let backend = instance.database.backend();
                let statement = sea_orm::Statement::from_sql_and_values(backend, sql, values);
                sea_orm::ConnectionTrait::execute_raw(transaction, statement).await?;
            }
            Ok::<_, sea_orm::DbErr>(())
        })
        .await
        .expect("variables");
}

async fn killed_rotation_is_continued(site: Site) {
    let instance = Instance::create(site.clone()).await;
    add_variables(&instance).await;
    let before = instance.values().await;
    let former = instance.fingerprint().await;

    // After the new key was added to the file.
    let held = hold_key(&instance).await;
    let mut rotation = Rotation::start(&site);
    rotation.wait_for("Added the key").await;
    rotation.kill().await;
    held.rollback().await.unwrap();
    assert_eq!(instance.fingerprint().await, former);
    let keys = instance.key_file().fingerprints();
    assert!(keys.len() == 2 && keys[0] == former);
    assert_eq!(instance.values().await, before);
    instance.root().get(&format!("{}/variables", super::secrets::PROJECT)).await.expect(200);
    let Instance { server, database, app, ada, .. } = instance;
    server.stop().await;
    let server = site.serve(&[]).await;
    let instance = Instance { site: site.clone(), server, database, app, ada };

    // After the switch, and in the middle of the columns.
    for line in ["is the current key", "Encrypted 1 value of projects.", "Encrypted 3 values of ci_variables."] {
        let mut rotation = Rotation::start(&site);
        rotation.wait_for(line).await;
        rotation.kill().await;
        assert_eq!(instance.key_file().fingerprints(), keys);
        assert_eq!(instance.fingerprint().await, keys[1]);
        let refused = site.fails(&["admin", "rotate-key", "--prepare"]).await;
        assert!(refused.contains("the previous rotation is not finished"), "{refused}");
        assert_eq!(plain(&instance.values().await), plain(&before));
        if line != "Encrypted 3 values of ci_variables." {
            // The next rotation has all steps again.
            restore_former_values(&instance, &before).await;
        }
    }
    let left = instance.values().await.values().filter(|value| before.values().any(|old| old == *value)).count();
    assert!(left > 0, "the rotation was killed too late");
    let printed = site.fails(&["doctor"]).await;
    assert!(printed.contains(": a former encryption key encrypts "), "{printed}");
    assert!(printed.contains("; `holdfast admin rotate-key` finishes"), "{printed}");
    let path = site.data.join("secret.key");
    let both_keys = std::fs::read(&path).unwrap();
    let printed = site.succeeds(&["admin", "rotate-key"]).await;
    assert!(printed.contains("Continuing the rotation"), "{printed}");
    assert!(printed.contains(&format!("Encrypted {left} values with the new key.")), "{left}: {printed}");
    instance.assert_rotated(&before).await;

    // Before the former key was removed from the file.
    std::fs::write(&path, both_keys).unwrap();
    let printed = site.succeeds(&["admin", "rotate-key"]).await;
    assert!(printed.contains("Removed former keys: 1.\nEncrypted 0 values with the new key.\n"), "{printed}");
    instance.assert_rotated(&before).await;
    instance.stop().await;
}

/// Stores the values of an earlier state again.
async fn restore_former_values(instance: &Instance, before: &super::secrets::Values) {
    for ((table, column, id), value) in before.iter().filter(|((table, _, _), _)| *table != "pipeline_variables") {
        let sql = format!("UPDATE {table} SET {column} = $1 WHERE id = $2");
        instance.execute(&sql, vec![value.sealed.clone().into(), (*id).into()]).await;
    }
}

async fn second_rotation_is_rejected_while_one_runs(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let before = instance.values().await;
    let held = hold_key(&instance).await;
    let mut rotation = Rotation::start(&site);
    rotation.wait_for("Added the key").await;
    let copy = site.sibling_path("copy");
    // A command on SQLite would wait for the transaction if it did more than read.
    let printed = site.fails(&["admin", "rotate-key"]).await;
    assert!(printed.contains("another rotation of the key is running"), "{printed}");
    let printed = site.fails(&["backup", copy.to_str().unwrap()]).await;
    assert!(printed.contains("a rotation of the key is running") && !copy.exists(), "{printed}");
    held.rollback().await.unwrap();
    rotation.wait_for("Removed former keys: 1.").await;
    assert!(rotation.child.wait().await.unwrap().success());
    instance.assert_rotated(&before).await;
    instance.stop().await;
}

async fn rotation_is_rejected_while_a_backup_runs(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let (former, copy) = (instance.fingerprint().await, site.sibling_path("copy"));
    site.succeeds(&["backup", copy.to_str().unwrap()]).await;
    // As a second backup that is not finished.
    let lock = OpenOptions::new().write(true).open(site.data.join("keys.lock")).unwrap();
    lock.try_lock_shared().unwrap();
    let printed = site.fails(&["admin", "rotate-key"]).await;
    assert!(printed.contains("a backup or another rotation of the key is running"), "{printed}");
    assert_eq!(instance.key_file().fingerprints(), [former]);
    let another = site.sibling_path("another");
    site.succeeds(&["backup", another.to_str().unwrap()]).await;
    drop(lock);
    site.succeeds(&["admin", "rotate-key"]).await;
    instance.stop().await;
}

async fn backups_before_and_within_a_rotation_are_restored_with_their_keys(site: Site) {
    let instance = Instance::create(site.clone()).await;
    add_variables(&instance).await;
    let before = instance.values().await;
    let copies = ["before", "within"].map(|name| site.sibling_path(name));
    site.succeeds(&["backup", copies[0].to_str().unwrap()]).await;
    let mut rotation = Rotation::start(&site);
    rotation.wait_for("is the current key").await;
    rotation.kill().await;
    // Some values use the former key, whenever the process ended.
    restore_former_values(&instance, &before).await;
    site.succeeds(&["backup", copies[1].to_str().unwrap()]).await;
    site.succeeds(&["admin", "rotate-key"]).await;
    for (copy, keys) in copies.iter().zip([1, 2]) {
        let other = site.another().await;
        other.succeeds(&["restore", copy.to_str().unwrap()]).await;
        let database = super::secrets::open(&other).await;
        assert_eq!(plain(&values(&other, &database).await), plain(&before));
        let file = domain::secrets::KeyFile::read(&other.data.join("secret.key")).unwrap();
        assert_eq!(file.fingerprints().len(), keys);
        let server = other.serve(&[]).await;
        other.succeeds(&["admin", "rotate-key"]).await;
        other.succeeds(&["doctor"]).await;
        assert_eq!(plain(&values(&other, &database).await), plain(&before));
        server.stop().await;
        database.close().await.unwrap();
        other.remove().await;
    }
    instance.assert_rotated(&before).await;
    instance.stop().await;
}

on_every_site![
    killed_rotation_is_continued,
    second_rotation_is_rejected_while_one_runs,
    rotation_is_rejected_while_a_backup_runs,
    backups_before_and_within_a_rotation_are_restored_with_their_keys,
];
