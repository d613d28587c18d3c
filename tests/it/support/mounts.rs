//! Servers with their own mounts, for faults of file systems.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command as StdCommand, Output, Stdio};
use std::sync::LazyLock;

use tokio::process::Command;

use super::git::output_text;
use super::process::{Process, Site};

/// Script that mounts a file system in memory at the first argument, and replaces itself by the program of the others. The
/// variable `OPTIONS` has the mount options.
const MEMORY: &str = r#"mkdir -p "$0" && mount -t tmpfs -o "$OPTIONS" tmpfs "$0" && chmod 700 "$0" && exec "$@""#;

/// Options of `unshare` for a process with its own mounts. Only root can have them without its own users, and needs the
/// original users to reach PostgreSQL.
fn own_mounts() -> &'static [&'static str] {
    match rustix::process::getuid().is_root() {
        true => &["--mount"],
        false => &["--user", "--map-root-user", "--mount"],
    }
}

/// The requirement of tests with their own mounts.
pub fn missing() -> Option<&'static str> {
    static CAN_MOUNT: LazyLock<bool> = LazyLock::new(|| succeeds(own_mounts(), "mount -t tmpfs tmpfs /tmp"));
    (!*CAN_MOUNT).then_some(
        "The test needs a file system of its own. Install unshare (Debian: util-linux), and allow users to create namespaces.",
    )
}

/// The requirement of tests with their own mounts and PostgreSQL.
pub fn or_postgresql_missing() -> Option<&'static str> {
    missing().or_else(harness::postgresql::missing)
}

fn succeeds(namespaces: &[&str], script: &str) -> bool {
    let mut command = StdCommand::new("unshare");
    command.args(namespaces).args(["sh", "-c", script]);
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Starts a server whose data directory is a file system in memory.
pub async fn serve_in_memory(site: &Site, options: &str) -> Process {
    let mut command = serve_command(site, MEMORY, &site.data);
    command.env("OPTIONS", options);
    Site::ready(command).await
}

/// Returns a command that starts a server with its own mounts. A script with the name of the directory as `$0` makes the
/// mounts, and replaces itself by the program of the arguments.
pub fn serve_command(site: &Site, script: &str, directory: &Path) -> Command {
    let plain = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    let plain = plain.as_std();
    let mut command = Command::new("unshare");
    command.args(own_mounts()).args(["sh", "-c", script]).arg(directory);
    command.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Returns a command that runs a program with the mounts of a server.
fn command(server: &Process, words: impl IntoIterator<Item = OsString>) -> Command {
    let id = server.id().to_string();
    let namespaces = &own_mounts()[own_mounts().len() - 1..];
    let users = if own_mounts().len() > 1 { &["--user"][..] } else { &[] };
    let mut command = Command::new("nsenter");
    command.args(["--target", &id]).args(users).args(namespaces).args(words);
    command.stdin(Stdio::null());
    command
}

/// Runs a program with the mounts of a server, and returns its result.
pub async fn output(server: &Process, words: &[&str]) -> Output {
    command(server, words.iter().map(OsString::from)).output().await.expect("nsenter")
}

/// Runs a command of the binary with the mounts of a server, and returns its output.
pub async fn run(site: &Site, server: &Process, arguments: &[&str]) -> String {
    let plain = site.command(arguments);
    let plain = plain.as_std();
    let mut words: Vec<OsString> = vec![plain.get_program().to_owned()];
    words.extend(plain.get_args().map(OsString::from));
    output_text(&command(server, words).output().await.expect("nsenter"))
}
