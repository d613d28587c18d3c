//! Checks of the `git` program at the start and by `doctor`.

use std::os::unix::fs::PermissionsExt;

use crate::support::DatabaseKind;
use crate::support::git::output_text;
use crate::support::process::Site;

const WARNING: &str = "Git 2.39 is too old: merges, rebases, cherry-picks and reverts fail; install Git 2.45 or newer";

async fn old_git_is_reported_by_server_and_doctor() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    let programs = site.sibling_path("bin");
    std::fs::create_dir(&programs).unwrap();
    let git = programs.join("git");
    std::fs::write(&git, "#!/bin/sh\necho 'git version 2.39.5'\n").unwrap();
    std::fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).unwrap();
    let log = site.sibling_path("log");
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("PATH", &programs).stderr(std::fs::File::create(&log).unwrap());
    Site::ready(command).await.stop().await;
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the version of Git is too old") && log.contains(WARNING), "{log}");
    let doctor = site.command(&["doctor"]).env("PATH", &programs).output().await.unwrap();
    let report = output_text(&doctor);
    assert!(doctor.status.success() && report.contains(WARNING), "{report}");
    let report = site.succeeds(&["doctor"]).await;
    assert!(!report.contains("too old"), "{report}");
}

async fn missing_git_is_named_before_anything_is_created() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    let programs = site.sibling_path("empty");
    std::fs::create_dir(&programs).unwrap();
    let expected = "the program `git` is not in a directory of PATH; install Git 2.45 or newer";
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    let output = command.env("PATH", &programs).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(output_text(&output).contains(expected), "{}", output_text(&output));
    assert!(!site.data.exists());
    site.serve(&[]).await.stop().await;
    let output = site.command(&["doctor"]).env("PATH", &programs).output().await.unwrap();
    assert!(!output.status.success() && output_text(&output).contains(expected), "{}", output_text(&output));
}

harness::tests![old_git_is_reported_by_server_and_doctor, missing_git_is_named_before_anything_is_created];
