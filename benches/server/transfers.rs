//! Clones and pushes over HTTP, compared with `git`'s own transport from a local path.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::git::{self, Repository};
use crate::instance::TOKEN;
use crate::report::{Measurement, Report};

/// Numbers of clones and pushes.
const CLONES: usize = 3;
const PUSHES: usize = 7;
/// Number of commits in a push.
const PUSHED: usize = 200;

/// Measures both and adds them to the report.
pub fn measure(
    address: SocketAddr,
    repository: &Repository,
    directory: &Path,
    report: &mut Report,
) -> Result<()> {
    report.part("Git over HTTP", "server", "local path")?;
    let work = directory.join("instance/transfers");
    std::fs::create_dir_all(&work)?;
    let remote = format!("http://root:{TOKEN}@{address}/root/history.git");

    // A copy with the server's settings, so that both sides check and sync in the same way.
    let mirror = work.join("mirror.git");
    clone(
        &["--mirror", "--local"],
        &repository.path.to_string_lossy(),
        &mirror,
    )?;
    std::fs::copy(repository.path.join("config"), mirror.join("config"))?;
    let local = format!("file://{}", mirror.display());

    let (mut server, mut reference) = (Vec::new(), Vec::new());
    for _ in 0..CLONES {
        for (source, times) in [(&remote, &mut server), (&local, &mut reference)] {
            let target = work.join("clone.git");
            git::remove(&target)?;
            times.push(clone(&["--bare"], source, &target)?);
        }
    }
    report.add(&Measurement::times("clone", &mut server, &mut reference, 1.15))?;

    let pusher = Repository {
        path: work.join("clone.git"),
    };
    let (mut server, mut reference) = (Vec::new(), Vec::new());
    for round in 0..PUSHES {
        let branch = format!("pushed-{round}");
        write_commits(&pusher, &branch)?;
        for (target, times) in [(&remote, &mut server), (&local, &mut reference)] {
            times.push(pusher.time(&["push", "-q", target, &branch])?);
        }
    }
    let name = format!("push of {PUSHED} commits");
    report.add(&Measurement::times(&name, &mut server, &mut reference, 1.15))
}

fn clone(options: &[&str], source: &str, target: &PathBuf) -> Result<Duration> {
    let mut command = git::command(&["clone", "-q"]);
    command.args(options).arg(source).arg(target);
    Ok(git::run(command, b"")?.1)
}

/// Writes a branch of new commits on top of `main`.
fn write_commits(repository: &Repository, branch: &str) -> Result<()> {
    let mut stream = format!("reset refs/heads/{branch}\nfrom refs/heads/main^0\n\n");
    for number in 0..PUSHED {
        let content = format!("Line {number} of {branch}\n").repeat(40);
        stream.push_str(&format!(
            "commit refs/heads/{branch}\ncommitter Ada Lovelace <ada@example.com> {} +0000\ndata 7\nChange\n\n\
             M 100644 inline pushed/{branch}/file{}\ndata {}\n{content}\n",
            1_800_000_000 + number,
            number % 20,
            content.len(),
        ));
    }
    git::run(repository.command(&["fast-import", "--quiet"]), stream.as_bytes())?;
    Ok(())
}
