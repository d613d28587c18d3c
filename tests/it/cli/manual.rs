//! `holdfast man`.

use std::path::Path;
use std::process::{Command, Output};

fn write_pages(directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("man").arg(directory).output().expect("the server's binary")
}

async fn each_command_has_a_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let pages = directory.path().join("share/man1");
    let output = write_pages(&pages);
    assert!(output.status.success(), "{output:?}");
    for (page, option) in [
        ("holdfast.1", "completions"),
        ("holdfast-serve.1", "\\-\\-listen"),
        ("holdfast-test-server.1", "\\-\\-freeze\\-time"),
        ("holdfast-admin-users-list.1", "\\-\\-json"),
    ] {
        let text = std::fs::read_to_string(pages.join(page)).expect(page);
        assert!(text.contains(".TH "), "{page}: {text}");
        assert!(text.contains(option), "{page}: {text}");
    }
    // The pages of an earlier version are replaced.
    std::fs::write(pages.join("holdfast.1"), "old").expect("a page");
    assert!(write_pages(&pages).status.success());
    let text = std::fs::read_to_string(pages.join("holdfast.1")).expect("a page");
    assert!(text.contains(".TH "), "{text}");
}

async fn directory_that_cannot_be_created_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let output = write_pages(&file.join("man1"));
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with("holdfast: cannot write the manual pages to "), "{message}");
}

harness::tests![each_command_has_a_page, directory_that_cannot_be_created_is_an_error];
