//! The units of systemd.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::blocks::{block, read};

/// Units and the programs that they start.
const UNITS: [(&str, &str); 3] = [
    ("holdfast.service", "/usr/local/bin/holdfast "),
    ("holdfast-backup.service", "/usr/local/bin/holdfast "),
    ("holdfast-backup.timer", ""),
];
/// Maximum exposure of the service by the rating of systemd, times 10. The service needs the network and its own data.
const MAX_EXPOSURE: &str = "20";
/// System calls with which a launcher restricts Git. No group of systemd 252 contains them.
const SANDBOX_CALLS: [&str; 4] = ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"];

/// The requirement of tests of units.
fn systemd_missing() -> Option<&'static str> {
    static IS_INSTALLED: LazyLock<bool> = LazyLock::new(|| {
        let mut command = Command::new("systemd-analyze");
        let done = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    });
    (!*IS_INSTALLED).then_some("The test needs systemd-analyze. Install it (Debian: apt-get install systemd).")
}

/// Writes the units into a directory. They start a program that exists on this machine.
fn write_units(directory: &Path) {
    for (name, program) in UNITS {
        let text = block(name);
        assert!(text.contains(program), "{name} starts another program");
        let own = format!("{}{}", env!("CARGO_BIN_EXE_holdfast"), program.chars().last().unwrap_or_default());
        let text = if program.is_empty() { text } else { text.replace(program, &own) };
        std::fs::write(directory.join(name), text).expect("a unit");
    }
}

/// Runs `systemd-analyze` and returns its success and output.
fn analyze(directory: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("systemd-analyze");
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    let output =
        command.env("SYSTEMD_UNIT_PATH", format!("{}:", directory.display())).output().expect("systemd-analyze");
    (output.status.success(), crate::support::git::output_text(&output))
}

fn units_are_valid() {
    let directory = tempfile::tempdir().expect("a directory");
    write_units(directory.path());
    for (name, _) in UNITS {
        let path = directory.path().join(name);
        let (is_valid, output) = analyze(directory.path(), &["verify", "--man=no", path.to_str().expect("UTF-8")]);
        // Units of this machine may have faults, too.
        let own: Vec<&str> = output.lines().filter(|line| line.contains("holdfast")).collect();
        assert!(is_valid && own.is_empty(), "{name}: {output}");
    }
}

fn service_is_restricted() {
    let directory = tempfile::tempdir().expect("a directory");
    write_units(directory.path());
    let path = directory.path().join("holdfast.service");
    let path = path.to_str().expect("UTF-8");
    let (is_restricted, output) =
        analyze(directory.path(), &["security", "--offline=true", "--threshold", MAX_EXPOSURE, path]);
    assert!(is_restricted, "{output}");
}

fn service_allows_the_sandbox_of_git() {
    let text = block("holdfast.service");
    let filter = text.lines().find_map(|line| line.strip_prefix("SystemCallFilter=")).expect("a filter");
    let allowed: Vec<&str> = filter.split_whitespace().collect();
    assert!(SANDBOX_CALLS.iter().all(|call| allowed.contains(call)), "{filter}");
    // Otherwise a refused call would end the process.
    assert!(text.contains("SystemCallErrorNumber=EPERM"));
    // A signal to all processes would abort pushes that the server finishes.
    assert!(text.contains("KillMode=mixed"));
}

fn service_can_wait_for_a_migration() {
    for unit in [block("holdfast.service"), read("docs/RESTARTS.md")] {
        assert!(unit.lines().any(|line| line == "TimeoutStartSec=infinity"), "{unit}");
    }
}

harness::tests![service_allows_the_sandbox_of_git, service_can_wait_for_a_migration];
harness::tests![requires systemd_missing; units_are_valid, service_is_restricted];
