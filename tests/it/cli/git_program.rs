//! Checks of the `git` program at the start and by `doctor`.

use std::os::unix::fs::PermissionsExt;

use git::launcher::{self, Protection};

use crate::support::DatabaseKind;
use crate::support::git::output_text;
use crate::support::process::{Site, started_by};

const WARNING: &str = "Git 2.39 is too old: merges, rebases, cherry-picks and reverts fail; install Git 2.45 or newer";

const NO_LANDLOCK: &str = "warning: Git programs can access all files of the server: the kernel has no Landlock";

/// Returns a Perl program that starts another one without Landlock. A filter of seccomp returns ENOSYS from the system call
/// `landlock_create_ruleset`, 444, as a kernel that lacks it.
fn without_landlock() -> String {
    // The number of `prctl` differs between architectures.
    let prctl = if cfg!(target_arch = "x86_64") { 157 } else { 167 };
    format!(
        r#"
my $filter = pack("SCCL" x 4, 0x20, 0, 0, 0, 0x15, 0, 1, 444, 0x06, 0, 0, 0x50026, 0x06, 0, 0, 0x7fff0000);
syscall({prctl}, 38, 1, 0, 0, 0) == 0 && syscall({prctl}, 22, 2, pack("S x6 P", 4, $filter)) == 0 or die $!;
exec {{ $ARGV[0] }} @ARGV;
"#
    )
}

async fn old_git_and_missing_landlock_are_reported_by_server_and_doctor() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    let programs = site.sibling_path("bin");
    std::fs::create_dir(&programs).unwrap();
    let git = programs.join("git");
    std::fs::write(&git, "#!/bin/sh\necho 'git version 2.39.5'\n").unwrap();
    std::fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let script = without_landlock();
    let command = |arguments: &[&str]| {
        let mut command = started_by("perl", &["-e", &script], &site.command(arguments));
        command.env("PATH", &path);
        command
    };
    let log = site.sibling_path("log");
    let mut server = command(&["serve", "--listen", "127.0.0.1:0"]);
    server.stderr(std::fs::File::create(&log).unwrap());
    Site::ready(server).await.stop().await;
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the version of Git is too old") && log.contains(WARNING), "{log}");
    assert!(log.contains("Git programs are not sandboxed") && log.contains("the kernel has no Landlock"), "{log}");
    let doctor = command(&["doctor"]).output().await.unwrap();
    let report = output_text(&doctor);
    assert!(doctor.status.success() && report.contains(WARNING) && report.contains(NO_LANDLOCK), "{report}");
    let report = site.succeeds(&["doctor"]).await;
    assert!(!report.contains("too old"), "{report}");
    let is_sandboxed = launcher::protection().is_ok_and(|protection| protection == Protection::Full);
    assert_eq!(report.contains("warning: Git programs"), !is_sandboxed, "{report}");
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

harness::tests![
    old_git_and_missing_landlock_are_reported_by_server_and_doctor,
    missing_git_is_named_before_anything_is_created,
];
