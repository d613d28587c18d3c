//! Key files that are malformed, and values that no key decrypts.

use domain::secrets::EncryptedColumn;
use serde_json::json;

use super::secrets::{Instance, PROJECT};
use crate::support::process::{Site, on_every_site};

/// A value of an unknown key.
const FOREIGN: &str = "v1.00000000.AAAA";

async fn malformed_key_file_is_rejected_and_not_changed(site: Site) {
    site.serve(&[]).await.stop().await;
    let path = site.data.join("secret.key");
    let key = std::fs::read(&path).unwrap();
    let cut: &[u8] = b"holdfast-keys v1\nAAAA\n";
    for (content, cause) in [
        (&key[..31], "has 31 bytes of another form"),
        (&[], "has 0 bytes of another form"),
        (cut, "line 2 is not a key of 32 bytes"),
    ] {
        std::fs::write(&path, content).unwrap();
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        for arguments in [&["doctor"][..], &["admin", "rotate-key"], &["backup", "copy"], &serve] {
            let printed = site.fails(arguments).await;
            assert!(printed.contains("key file") && printed.contains(cause), "{arguments:?}: {printed}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    std::fs::write(&path, &key).unwrap();
    site.succeeds(&["admin", "rotate-key"]).await;
    // The key from before the rotation is not accepted.
    let current = std::fs::read(&path).unwrap();
    std::fs::write(&path, &key).unwrap();
    let printed = site.fails(&["doctor"]).await;
    assert!(printed.contains("the database belongs to the instance"), "{printed}");
    std::fs::write(&path, &current).unwrap();
    site.succeeds(&["doctor"]).await;
}

async fn prepared_key_is_used_by_the_next_rotation(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let (before, former) = (instance.values().await, instance.fingerprint().await);
    for added in [true, false] {
        let printed = site.succeeds(&["admin", "rotate-key", "--prepare"]).await;
        assert_eq!(printed.contains("Added the key"), added, "{printed}");
        assert!(printed.contains("Copy the key file to all nodes"), "{printed}");
    }
    let keys = instance.key_file().fingerprints();
    assert_eq!((keys.len(), &keys[0], &instance.fingerprint().await), (2, &former, &former));
    assert_eq!(instance.values().await, before);
    site.succeeds(&["doctor"]).await;
    site.succeeds(&["admin", "rotate-key"]).await;
    assert_eq!(instance.fingerprint().await, keys[1]);
    instance.assert_rotated(&before).await;
    instance.stop().await;
}

async fn doctor_counts_values_of_former_and_unknown_keys(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let sql = "UPDATE ci_variables SET value_encrypted = $1 WHERE project_id IS NOT NULL";
    assert_eq!(instance.execute(sql, vec![FOREIGN.into()]).await, 1);
    let printed = site.fails(&["doctor"]).await;
    let line = "ci_variables.value_encrypted: no key decrypts 1 value, such as that of the row ";
    assert!(printed.contains(line) && printed.contains("--discard-unreadable"), "{printed}");
    assert!(printed.contains("another key (00000000)") && printed.contains("Problems: 1."), "{printed}");
    let former = instance.fingerprint().await;
    let printed = site.fails(&["admin", "rotate-key"]).await;
    let line = "Unreadable value of ci_variables.value_encrypted in the row ";
    assert!(printed.contains(line) && printed.contains("the key was not replaced"), "{printed}");
    assert_eq!((instance.key_file().fingerprints(), instance.fingerprint().await), (vec![former.clone()], former));
    let printed = site.succeeds(&["admin", "rotate-key", "--discard-unreadable"]).await;
    assert!(printed.contains("Removed 1 value of ci_variables.value_encrypted: the CI/CD variables"), "{printed}");
    instance.root().get(&format!("{PROJECT}/variables/K")).await.expect(404);
    site.succeeds(&["doctor"]).await;
    instance.stop().await;
}

async fn unreadable_values_of_all_columns_can_be_discarded(site: Site) {
    let instance = Instance::create(site.clone()).await;
    for column in EncryptedColumn::all() {
        let (table, name) = (column.table(), column.column());
        let sql = format!("UPDATE {table} SET {name} = $1 WHERE {name} IS NOT NULL");
        assert!(instance.execute(&sql, vec![FOREIGN.into()]).await > 0, "{column:?}");
    }
    let printed = site.succeeds(&["admin", "rotate-key", "--discard-unreadable"]).await;
    for column in EncryptedColumn::all() {
        let name = format!(" of {}.{}: ", column.table(), column.column());
        let consequence = domain::operations::key_rotation::consequence(column);
        assert!(printed.contains(&format!("{name}{consequence}.\n")), "{column:?}: {printed}");
    }
    assert_eq!(instance.values().await.len(), 0);
    let root = instance.root();
    let events = root.get("/audit_events?per_page=100").await.expect(200).json();
    let of_kind = |name: &str| {
        let events = events.as_array().unwrap().iter();
        events.filter(|event| event["details"]["event_name"] == name).collect::<Vec<_>>()
    };
    let removed = of_kind("encrypted_values_removed");
    for column in EncryptedColumn::all().filter(|column| *column != EncryptedColumn::TwoFactorSecret) {
        let name = format!("{}.{}", column.table(), column.column());
        let event = removed.iter().find(|event| event["details"]["target_details"] == name);
        let event = event.unwrap_or_else(|| panic!("no event of {name}"));
        assert_eq!((&event["author_id"], &event["details"]["author_name"]), (&json!(-1), &json!("Command line")));
        let text = event["details"]["from"].as_str().unwrap();
        assert!(text.contains(" values in the rows "), "{text}");
    }
    assert_eq!(removed.len(), EncryptedColumn::all().count() - 1);
    let reset = of_kind("two_factor_reset");
    assert_eq!(reset.len(), 1);
    assert_eq!((&reset[0]["details"]["entity_path"], &reset[0]["author_id"]), (&json!("curie"), &json!(-1)));
    assert!(root.get(PROJECT).await.expect(200).json()["runners_token"].is_null());
    let hooks = root.get(&format!("{PROJECT}/hooks")).await.expect(200).json();
    assert_eq!(hooks.as_array().unwrap().len(), 1);
    assert_eq!((&hooks[0]["custom_headers"], &hooks[0]["url_variables"]), (&json!([]), &json!([])));
    for all in ["variables", "triggers", "clusters"] {
        assert_eq!(root.get(&format!("{PROJECT}/{all}")).await.expect(200).json(), json!([]), "{all}");
    }
    assert_eq!(instance.ada().get("/user").await.expect(200).json()["two_factor_enabled"], false);
    site.succeeds(&["doctor"]).await;
    instance.stop().await;
}

on_every_site![
    malformed_key_file_is_rejected_and_not_changed,
    prepared_key_is_used_by_the_next_rotation,
    doctor_counts_values_of_former_and_unknown_keys,
    unreadable_values_of_all_columns_can_be_discarded,
];
