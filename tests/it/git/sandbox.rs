//! Attempts of a git process to leave its repository, and its limits.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use git::DEFAULT_MAX_PUSH_BYTES;
use git::launcher::{self, Protection};

use crate::support::DatabaseKind;
use crate::support::git::{Work, output_text};
use crate::support::process::{Process, Site};

/// Returns why the sandbox cannot be tested, if the kernel does not support it.
fn missing() -> Option<&'static str> {
    let full = launcher::protection().is_ok_and(|protection| protection == Protection::Full);
    (!full).then_some("To test the sandbox of Git, use a kernel with Landlock (Linux 6.12 or newer).")
}

/// Returns a script that appends the name of each attempt that succeeds to `escapes` in its directory.
fn attempts(site: &Site, other: &Path, server: &Process, port: u16) -> String {
    let data = site.data.display();
    let (other, id) = (other.display(), server.id());
    let outside = site.sibling_path("outside");
    let outside = outside.display();
    // The numbers of system calls differ between architectures.
    let ptrace = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
    format!(
        r#"#!/bin/sh
attempt() {{
  name=$1
  shift
  if "$@" >/dev/null 2>&1; then echo "$name" >>escapes; fi
}}
: >ran
for limit in t n f; do ulimit -$limit; done >limits
attempt read-key cat {data}/secret.key
attempt read-database cat {data}/holdfast.db
attempt list-data ls {data}
attempt read-repository cat {other}/HEAD
attempt write-repository touch {other}/new
attempt link-repository ln {other}/HEAD stolen
attempt write-outside touch {outside}
attempt write-hooks touch {data}/repositories/.hooks/x
attempt read-environment cat /proc/{id}/environ
attempt read-memory head -c 1 /proc/{id}/maps
attempt signal kill -0 {id}
attempt trace perl -e 'exit(syscall({ptrace}, 0x4206, {id}, 0, 0) == 0 ? 0 : 1)'
attempt connect perl -e 'use Socket; socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in({port}, inet_aton("127.0.0.1"))) || exit 1'
attempt unix-socket perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) || exit 1'
attempt leave-group perl -e 'use POSIX; if (fork) {{ wait; exit($? >> 8) }} exit(setsid() < 0 ? 1 : 0)'
attempt priority perl -e 'exit(setpriority(0, {id}, 0) ? 0 : 1)'
exit 0
"#
    )
}

fn read_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the directories below the directory of the repositories, at a depth.
fn directories(site: &Site, depth: usize) -> Vec<PathBuf> {
    let mut found = vec![site.data.join("repositories")];
    for _ in 0..depth {
        let below = found.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten();
        found = below.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    }
    found
}

fn write_script(path: &Path, script: &str) {
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
}

async fn hook_cannot_leave_its_repository() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("other", &work.path).await;
    let is_repository = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "git");
    let other = directories(&site, 3).into_iter().find(is_repository).unwrap();
    site.import("p", &work.path).await;
    let own = directories(&site, 3).into_iter().find(|path| is_repository(path) && *path != other).unwrap();
    // The first push creates the directory of the hooks.
    work.git(&["push", "--quiet", &server.address("p"), "main:first"]).await;
    let hooks = directories(&site, 2).into_iter().find(|path| path.join("pre-receive").is_file()).unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = attempts(&site, &other, &server, listener.local_addr().unwrap().port());
    // Without the sandbox, every attempt but tracing may succeed: other settings of the machine can forbid that.
    let free = Work::empty();
    write_script(&free.path.join("script"), &script);
    let run = Command::new(free.path.join("script")).current_dir(&free.path).status().unwrap();
    assert!(run.success());
    let mut expected: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("attempt ")).collect();
    expected = expected.iter().filter_map(|line| line.split(' ').next()).filter(|name| *name != "trace").collect();
    let mut escapes = read_lines(&free.path.join("escapes"));
    escapes.retain(|name| name != "trace");
    assert_eq!(escapes, expected);
    listener.accept().unwrap();
    let outside = [site.sibling_path("outside"), site.data.join("repositories/.hooks/x"), other.join("new")];
    for path in &outside {
        std::fs::remove_file(path).unwrap();
    }

    write_script(&hooks.join("reference-transaction"), &script);
    let pushed = work.git(&["push", &server.address("p"), "main:second"]).await;
    assert!(own.join("ran").is_file(), "the hook did not run: {pushed}");
    assert_eq!(read_lines(&own.join("escapes")), [""; 0]);
    // Files are counted in blocks of 512 bytes. A stored pack can be 1 GiB larger than the pushed pack.
    let blocks = ((DEFAULT_MAX_PUSH_BYTES + (1 << 30)) / 512).to_string();
    assert_eq!(read_lines(&own.join("limits")), ["3600", "1024", &blocks]);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the hook connected");
    assert!(outside.iter().all(|path| !path.exists()));
    assert!(work.git(&["ls-remote", &server.address("p")]).await.contains("refs/heads/second"));
    server.stop().await;
}

/// A program of the repository itself, such as an alias that someone stored in its directory, is not executed at all.
async fn program_in_repository_is_not_executed() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let own = directories(&site, 3).pop().unwrap();
    let program = own.join("program");
    write_script(&program, "#!/bin/sh\n: >ran\n");
    std::fs::create_dir_all(own.join("objects/info")).unwrap();
    std::fs::write(own.join("objects/info/alternates"), format!("{}\n", work.path.join(".git/objects").display()))
        .unwrap();
    let configuration = std::fs::read_to_string(own.join("config")).unwrap();
    let command = format!("[core]\n\talternateRefsCommand = {}\n", program.display());
    std::fs::write(own.join("config"), configuration + &command).unwrap();
    work.git(&["push", "--quiet", &server.address("p"), "main:first"]).await;
    assert!(!own.join("ran").exists());
    server.stop().await;
}

/// The kernel sends SIGXCPU a second before SIGKILL, so that the server recognizes programs over their processor time.
fn launched_program_has_all_limits() {
    let limits = ["memory=100000000", "cpu=3", "files=17", "file-size=4096", "processes=500"];
    let mut launcher = Command::new(std::env::current_exe().unwrap());
    launcher.arg("launch-git").args(limits).args(["readable=/proc", "--"]);
    let output = launcher.args(["/bin/sh", "-c", "exec cat /proc/self/limits"]).output().unwrap();
    let text = output_text(&output);
    for (name, current, maximum) in [
        ("Max data size", "100000000", "100000000"),
        ("Max cpu time", "3", "4"),
        ("Max open files", "17", "17"),
        ("Max file size", "4096", "4096"),
        ("Max processes", "500", "500"),
        ("Max core file size", "0", "0"),
    ] {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), [current, maximum], "{name}: {text}");
    }
}

harness::tests![launched_program_has_all_limits];
harness::tests![requires missing; hook_cannot_leave_its_repository, program_in_repository_is_not_executed];
