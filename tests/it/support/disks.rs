//! Servers whose data is on a disk of its own, which the test can freeze, fail or mount read-only.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use super::git::output_text;
use super::mounts;
use super::process::{Process, Site};

/// Size of a disk in bytes. Its blocks are allocated when they are written.
const SIZE: u64 = 256 << 20;
/// Time for a disk to be unused, or to be released by its last user.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Script that mounts the disk `IMAGE` at the first argument, and replaces itself by the program of the others. A new disk
/// receives a copy of the directory first.
const MOUNT: &str = r#"
mkdir -p "$IMAGE.mount" && mount -o loop "$IMAGE" "$IMAGE.mount" || exit
if [ "$FILL" = 1 ]; then
    rmdir "$IMAGE.mount/lost+found" && cp -a "$0/." "$IMAGE.mount/" && sync -f "$IMAGE.mount" || exit
fi
chmod 700 "$IMAGE.mount" && mount --move "$IMAGE.mount" "$0" && exec "$@""#;

/// The requirement of tests with disks.
pub fn missing() -> Option<&'static str> {
    static CAN_MOUNT: LazyLock<bool> = LazyLock::new(|| {
        let directory = super::temporary_directory();
        let image = create_image(directory.path());
        let mount = r#"mkdir "$1.mount" && mount -o loop "$1" "$1.mount" && command -v fsfreeze"#;
        let mut command = StdCommand::new("unshare");
        command.args(["--mount", "sh", "-c", mount, "sh"]).arg(image.unwrap_or_default());
        let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    });
    (!*CAN_MOUNT).then_some(
        "The test needs a disk of its own. Run it as root on a machine with loop devices, mkfs.ext4 (Debian: e2fsprogs) and \
         unshare (Debian: util-linux).",
    )
}

/// The requirement of tests with disks and PostgreSQL.
pub fn or_postgresql_missing() -> Option<&'static str> {
    missing().or_else(harness::postgresql::missing)
}

/// Creates a file with an empty file system. Returns `None` if the program is missing.
fn create_image(directory: &Path) -> Option<PathBuf> {
    let image = directory.join("disk.ext4");
    File::create(&image).and_then(|file| file.set_len(SIZE)).expect("a file");
    let mut command = StdCommand::new("mkfs.ext4");
    command.args(["-q", "-F", "-m", "0"]).arg(&image).env("PATH", path_of_programs());
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success()).then_some(image)
}

/// Returns the search path with the directories of programs for administrators.
fn path_of_programs() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// A disk that contains one directory of a site.
pub struct Disk {
    image: PathBuf,
    directory: PathBuf,
    is_filled: bool,
}

impl Disk {
    /// Creates a disk for a directory of an existing instance.
    pub fn new(site: &Site, directory: PathBuf) -> Self {
        let image = create_image(site.data.parent().expect("a parent")).expect("mkfs.ext4");
        Self { image, directory, is_filled: false }
    }

    /// Starts a server with the disk. Only the server and its programs see the disk.
    pub async fn serve(&mut self, site: &Site) -> Process {
        let fill = if std::mem::replace(&mut self.is_filled, true) { "0" } else { "1" };
        let mut command = mounts::serve_command(site, MOUNT, &self.directory);
        command.env("IMAGE", &self.image).env("FILL", fill).env("PATH", path_of_programs());
        Site::ready(command).await
    }

    /// Mounts the disk again with other options. Waits until no program writes to a file, which mounting it read-only
    /// requires. Without the option `bind`, also no program may have a deleted file open, such as a pack.
    pub async fn remount(&self, server: &Process, options: &str) {
        let directory = self.directory.to_str().expect("UTF-8");
        let remounted = async {
            loop {
                let words = ["mount", "-o", &format!("remount,{options}"), directory];
                let output = mounts::output(server, &words).await;
                if output.status.success() {
                    return;
                }
                assert!(output_text(&output).contains("busy"), "{}", output_text(&output));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, remounted).await.expect("a disk without writers");
    }

    /// Freezes the disk: every write waits until the returned value is dropped.
    pub fn freeze(&self, server: &Process) -> Freeze {
        let root = PathBuf::from(format!("/proc/{}/root", server.id()));
        let directory = root.join(self.directory.strip_prefix("/").expect("an absolute path"));
        let freeze = Freeze(File::open(directory).expect("the disk"));
        freeze.run("--freeze");
        freeze
    }

    /// Waits until no process uses the disk any more, and repairs it as an operator does after an error.
    pub async fn repair(&self) {
        let image = self.image.to_str().expect("UTF-8");
        let released = async {
            loop {
                let list =
                    StdCommand::new("losetup").args(["--associated", image]).env("PATH", path_of_programs()).output();
                if list.expect("losetup").stdout.is_empty() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, released).await.expect("an unused disk");
        let mut check = StdCommand::new("e2fsck");
        let output = check.args(["-f", "-y", image]).env("PATH", path_of_programs()).output().expect("e2fsck");
        // Status 1: errors were corrected.
        assert!(output.status.code().is_some_and(|code| code <= 1), "{}", output_text(&output));
    }
}

/// A frozen disk. It thaws on drop, because no process that writes to it could end otherwise.
pub struct Freeze(File);

impl Freeze {
    fn run(&self, option: &str) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        let status = StdCommand::new("fsfreeze").args([option, &path]).env("PATH", path_of_programs()).status();
        assert!(status.is_ok_and(|status| status.success()) || std::thread::panicking(), "fsfreeze {option} failed");
    }
}

impl Drop for Freeze {
    fn drop(&mut self) {
        self.run("--unfreeze");
    }
}
