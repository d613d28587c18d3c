//! Encrypted backups.

use std::path::Path;

use super::{fails, files, fill, names, succeeds, text};
use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Texts that an instance contains, or that its descriptions contain.
const TEXTS: [&str; 6] =
    ["upload of hidden", "root@localhost", "refs/heads/main", "hidden", "project_id", "pack/pack-"];

/// Returns the texts that files contain.
fn readable(directory: &Path) -> Vec<&'static str> {
    let contents: Vec<Vec<u8>> = files(directory).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let is_in = |text: &&&str| {
        contents.iter().any(|content| content.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    TEXTS.iter().filter(is_in).copied().collect()
}

async fn encrypted_backup_reveals_nothing_and_needs_its_passphrase(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    let (_, path) = fill(&server, &work, "hidden").await;
    work.git(&["push", "--quiet", &server.address("hidden"), "main:other"]).await;
    let [plain, sealed] = ["plain", "sealed"].map(|name| site.sibling_path(name));
    let [right, wrong] = ["right", "wrong"].map(|name| {
        let path = site.sibling_path(name);
        std::fs::write(&path, format!("the {name} passphrase of this test\n")).unwrap();
        path
    });
    let (right, wrong) = (text(&right), text(&wrong));
    site.succeeds(&["backup", text(&plain)]).await;
    let output = site.succeeds(&["backup", text(&sealed), "--passphrase-file", right]).await;
    assert!(output.contains(", encrypted)"), "{output}");
    // Packs and compressed objects are not readable in either backup; all other texts are.
    assert!(readable(&plain).len() >= 4, "{:?}", readable(&plain));
    assert_eq!(readable(&sealed), [""; 0]);
    let digests = |directory: &Path| -> Vec<_> {
        files(&directory.join("files")).iter().map(|path| path.file_name().unwrap().to_owned()).collect()
    };
    let plain_digests = digests(&plain);
    assert!(digests(&sealed).iter().all(|name| !plain_digests.contains(name)));

    // The next backup continues it.
    work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("hidden"), "main"]).await;
    let output = site.succeeds(&["backup", text(&sealed), "--passphrase-file", right]).await;
    assert!(output.contains(": 1 repository, 0 objects"), "{output}");
    server.stop().await;
    assert_eq!(readable(&sealed), [""; 0]);

    let list = succeeds(&["backup", "list", text(&sealed), "--passphrase-file", right]).await;
    assert_eq!(list.lines().count(), 3, "{list}");
    succeeds(&["backup", "verify", text(&sealed), "--passphrase-file", right]).await;
    let other = site.another().await;
    for (arguments, expected) in [
        (&[text(&sealed)][..], "are encrypted; pass --passphrase-file"),
        (&[text(&sealed), "--passphrase-file", wrong], "the passphrase is wrong"),
        (&[text(&plain), "--passphrase-file", right], "are not encrypted; omit --passphrase-file"),
        (&[text(&sealed), "--passphrase-file", "missing"], "passphrase file missing: "),
    ] {
        let output = fails(&[&["backup", "verify"], arguments].concat()).await;
        assert!(output.contains(expected), "{output}");
        let output = site.fails(&[&["backup"], arguments].concat()).await;
        assert!(output.contains(expected), "{output}");
        let output = other.fails(&[&["restore"], arguments].concat()).await;
        assert!(output.contains(expected) && !other.data.exists(), "{output}");
    }
    assert_eq!(names(&plain).await.len(), 1);

    other.succeeds(&["restore", text(&sealed), "--passphrase-file", right]).await;
    other.assert_sound(1).await;
    let server = other.serve(&["--no-worker"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(&path).await.expect(200).text(), "upload of hidden");
    work.git(&["ls-remote", "--exit-code", &server.address("hidden"), "refs/heads/other"]).await;
    server.stop().await;
    other.remove().await;
}

on_every_site![encrypted_backup_reveals_nothing_and_needs_its_passphrase,];
