//! Hooks that enforce the decision on a push and report its result.
//!
//! The scripts are the same for all pushes. The rules of a push and the pipes for its [`decision`](super::decision) are in
//! a separate directory, which an environment variable names. No text of the client becomes an argument.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::RefCommand;
use super::decision::{DecisionPipes, FORWARD, HookRules, REFUSED};
use super::push::ReceivePolicy;
use super::push_directory::PushDirectory;
use crate::{Error, Repository, Result};

/// Environment variable with the directory of the push.
pub(super) const PUSH_DIRECTORY: &str = "HOLDFAST_PUSH";

/// File with the text for the pusher.
const MESSAGE: &str = "message";

/// Output of a script for `--probe`.
const PROBE_ANSWER: &[u8] = b"holdfast\n";

/// Runs in the quarantine of the new objects, before any reference moves.
///
/// Only the server has the other ends of the pipes, so the read ends when the server process ends. Opening a pipe for
/// reading and writing never waits; the writing end is closed before the first read.
const PRE_RECEIVE: &str = r#"#!/bin/sh
# Rejects a push that violates the rules of its project.
if [ "$1" = --probe ]; then echo holdfast; exit 0; fi
if ! [ -p "$HOLDFAST_PUSH/decision" ]; then
  echo "This repository takes pushes through its server only." >&2
  exit 1
fi
if [ -s "$HOLDFAST_PUSH/refused" ]; then
  cat "$HOLDFAST_PUSH/refused" >&2
  exit 1
fi
exec 3<>"$HOLDFAST_PUSH/decision" 4<"$HOLDFAST_PUSH/decision" 5<>"$HOLDFAST_PUSH/ready" 3>&-
# Runs git with limits on its output, in blocks of 512 bytes, and on its processor time.
limited() (
  ulimit -f 65536 && ulimit -t 10 && exec git "$@"
)
# Writes what the push adds into a file.
list() {
  case "$1" in
    ids) limited rev-list --max-count=10001 --stdin <"$HOLDFAST_PUSH/revisions" >"$HOLDFAST_PUSH/ids" ;;
    commits) limited cat-file --batch <"$HOLDFAST_PUSH/ids" >"$HOLDFAST_PUSH/commits" ;;
    files)
      limited diff-tree --stdin --root -r -c -z --no-renames <"$HOLDFAST_PUSH/ids" >"$HOLDFAST_PUSH/files"
      ;;
    changes)
      limited diff-tree --stdin -r -z --no-renames <"$HOLDFAST_PUSH/update" >"$HOLDFAST_PUSH/changes"
      ;;
    sizes)
      limited rev-list --objects --no-object-names --filter=object:type=blob --stdin \
        <"$HOLDFAST_PUSH/revisions" >"$HOLDFAST_PUSH/blobs" &&
        limited cat-file '--batch-check=%(objectname) %(objecttype) %(objectsize)' \
          <"$HOLDFAST_PUSH/blobs" >"$HOLDFAST_PUSH/sizes"
      ;;
  esac
}
while :; do
  status=0
  while read -r old new reason; do
    if git merge-base --is-ancestor "$old" "$new" >/dev/null 2>&1; then continue; fi
    if [ -e "$HOLDFAST_PUSH/skipped" ]; then
      printf '%s\n' "$reason" >>"$HOLDFAST_PUSH/skipped"
    else
      printf '%s\n' "$reason" >&2
      status=1
    fi
  done <"$HOLDFAST_PUSH/forward"
  if [ $status != 0 ]; then exit 1; fi
  answer=ready
  while :; do
    echo "$answer" >&5
    decision=
    read -r decision <&4
    case "$decision" in
      ids | commits | files | sizes | changes)
        answer=ready
        list "$decision" 2>/dev/null || answer=error
        ;;
      check) break ;;
      accept) exit 0 ;;
      reject)
        cat "$HOLDFAST_PUSH/refused" >&2
        exit 1
        ;;
      *)
        echo "The server stopped before it accepted the push. Push again." >&2
        exit 1
        ;;
    esac
  done
done
"#;

/// Runs after references have moved, with the list of updates as input.
const POST_RECEIVE: &str = r#"#!/bin/sh
# Records the applied commands, and shows the message for the pusher.
if [ "$1" = --probe ]; then echo holdfast; exit 0; fi
cat >"$HOLDFAST_PUSH/applied"
cat "$HOLDFAST_PUSH/message" >&2
"#;

/// Runs before each reference moves, only in pushes that skip references. The reason of an update that must be a fast-forward
/// is the name of the reference there.
const UPDATE: &str = r#"#!/bin/sh
# Refuses the update of a reference that pre-receive has skipped.
if [ "$1" = --probe ]; then echo holdfast; exit 0; fi
while IFS= read -r name; do
  if [ "$name" = "$1" ]; then exit 1; fi
done <"$HOLDFAST_PUSH/skipped"
exit 0
"#;

/// File with the names of skipped references. It exists only in pushes that skip references.
const SKIPPED: &str = "skipped";

const SCRIPTS: [(&str, &str); 3] = [
    ("pre-receive", PRE_RECEIVE),
    ("post-receive", POST_RECEIVE),
    ("update", UPDATE),
];

/// Returns the scripts of a push. The script for each reference would delay all other pushes.
fn scripts(skips: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    SCRIPTS
        .into_iter()
        .filter(move |(name, _)| skips || *name != "update")
}

/// Hook scripts that are known to run, and the directory of one push.
pub(super) struct InstalledHooks {
    directory: PathBuf,
    push: PushDirectory,
}

impl InstalledHooks {
    /// Returns the directory of the scripts.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of the rules.
    pub(super) fn push_directory(&self) -> &Path {
        self.push.path()
    }

    /// Returns the applied commands of a finished push.
    pub(super) fn applied(&self) -> Result<Vec<RefCommand>> {
        match fs::read_to_string(self.push.path().join("applied")) {
            Ok(lines) => Ok(lines.lines().filter_map(RefCommand::parse).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writes missing scripts, checks that they run, and writes the rules at the start of the push.
///
/// Git silently skips a hook that it cannot execute, for example on a file system mounted with `noexec`. This function
/// must fail instead.
pub(super) async fn install(
    repository: &Repository,
    rules: &HookRules,
    policy: &ReceivePolicy,
) -> Result<InstalledHooks> {
    let (store, message) = (repository.clone(), policy.message.clone());
    let skips = policy.skips_diverged;
    let (rejected, forward) = (rules.rejected(), rules.forward());
    repository
        .blocking(move |_| {
            let content = SCRIPTS.map(|(_, script)| script).concat();
            let version = hex::encode(Sha256::digest(content));
            let shared = store.shared();
            let root = shared.root().join(".hooks");
            let version = version.get(..16).unwrap_or(&version);
            let directory = match skips {
                true => root.join(format!("{version}-skipping")),
                false => root.join(version),
            };
            fs::create_dir_all(&directory)?;
            let mut known = shared.hooks_run.load(Ordering::Acquire);
            for (name, script) in scripts(skips) {
                let path = directory.join(name);
                if !is_in_place(&path, script) {
                    write_script(&directory, &path, script)?;
                    known = false;
                }
            }
            if !known {
                for (name, _) in scripts(skips) {
                    probe(&directory.join(name))?;
                }
                shared.hooks_run.store(true, Ordering::Release);
            }
            let push = PushDirectory::create()?;
            fs::write(push.path().join(REFUSED), rejected)?;
            fs::write(push.path().join(FORWARD), forward)?;
            fs::write(push.path().join(MESSAGE), message)?;
            if skips {
                fs::write(push.path().join(SKIPPED), "")?;
            }
            DecisionPipes::create(push.path())?;
            Ok(InstalledHooks { directory, push })
        })
        .await
}

/// Returns whether the script at `path` is complete and executable by its owner.
fn is_in_place(path: &Path, script: &str) -> bool {
    let executable = |metadata: fs::Metadata| metadata.permissions().mode() & 0o100 != 0;
    fs::metadata(path).is_ok_and(executable) && fs::read(path).is_ok_and(|bytes| bytes == script.as_bytes())
}

/// Replaces a script atomically, because other pushes may be running it.
fn write_script(directory: &Path, path: &Path, script: &str) -> Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(script.as_bytes())?;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(0o700))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Checks that a script runs.
fn probe(path: &Path) -> Result<()> {
    /// Maximum number of attempts. A child process that was forked during the write has the script open for a moment.
    const ATTEMPTS: u32 = 50;
    for _ in 0..ATTEMPTS {
        let run = Command::new(path)
            .arg("--probe")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match run {
            Ok(output) if output.stdout == PROBE_ANSWER => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => break,
        }
    }
    Err(Error::Io(io::Error::other(format!(
        "the hook {} cannot be run",
        path.display()
    ))))
}
