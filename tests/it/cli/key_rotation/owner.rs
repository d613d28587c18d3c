//! Files that root writes belong to the user of the server.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::support::DatabaseKind;
use crate::support::process::Site;

/// ID of another user and group.
const OTHER: u32 = 12_345;

fn root_is_missing() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then_some("The test changes the owner of files. Run the tests as root.")
}

async fn rotation_by_root_keeps_owner_of_key_file() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    site.serve(&[]).await.stop().await;
    let key = site.data.join("secret.key");
    for path in [&site.data, &key] {
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
    let former = std::fs::read(&key).unwrap();
    site.succeeds(&["admin", "rotate-key"]).await;
    assert_ne!(std::fs::read(&key).unwrap(), former);
    let metadata = std::fs::metadata(&key).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), metadata.permissions().mode() & 0o777), (OTHER, OTHER, 0o600));
    let lock = std::fs::metadata(site.data.join("keys.lock")).unwrap();
    assert_eq!((lock.uid(), lock.gid()), (OTHER, OTHER));
    site.remove().await;
}

harness::tests![requires root_is_missing; rotation_by_root_keeps_owner_of_key_file];
