//! The decision on a push whose pack is complete.
//!
//! The `pre-receive` hook checks which updates are fast-forwards, writes a line to the pipe `ready` and waits for a word from
//! the pipe `decision`: `accept`, `reject`, or `check` if more updates must be fast-forwards. Files contain the reasons
//! for a rejection and the updates to check. After `check`, the hook checks the updates and writes to `ready` again, so
//! an accepted push always complies with the latest decision.
//!
//! A decision can depend on the new commits of the push, which only the hook can read. On the words of [`Listing`], the hook
//! writes the output of a program into a file, and then `ready`, or `error` if the program failed ([`PushInspector`]).

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::fs::{CWD, Mode, mkfifoat};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::RefCommand;
use crate::new_commits::{self, Listing, NewObjects};
use crate::{Oid, Repository, Result, is_reserved_reference};

/// File with the reasons why a push is rejected.
pub(super) const REFUSED: &str = "refused";
/// File with the updates that must be fast-forwards.
pub(super) const FORWARD: &str = "forward";
/// Pipe from the hook.
const READY: &str = "ready";
/// Pipe to the hook.
const DECISION: &str = "decision";
/// File with the input of the programs that list new commits.
const REVISIONS: &str = "revisions";
/// File with the input of the program that compares the commits of one update.
const UPDATE: &str = "update";
/// Lines that the hook writes to [`READY`]. They have the same length.
const READY_LINE: &[u8] = b"ready\n";
const ERROR_LINE: &[u8] = b"error\n";
/// Time limit of one decision. During this time, the push occupies a slot.
const DECISION_TIME_LIMIT: Duration = Duration::from_secs(30);
/// Reason for a push on which the server could not decide.
const NOT_DECIDED: &str = "The server could not check the rules of this project. Push again.";

/// Rules for the commands of a push. Git always rejects commands for reserved references, and applies the others.
#[derive(Debug, Clone, Default)]
pub struct PushRules {
    /// Full names of references that must not change, each with the reason shown to the pusher. A command
    /// for one of these references rejects the whole push.
    pub rejected: Vec<(String, String)>,
    /// Full names of references that allow only fast-forwards, each with the reason shown on rejection.
    pub fast_forward_only: Vec<(String, String)>,
}

/// Decision on a push: the rules for its commands, or the reason why it is rejected.
pub type PushDecision = std::result::Result<PushRules, String>;

/// Decides on a push, which adds the given objects. Called again for the same push if the rules require more checks than
/// before.
pub type PushDecider = Box<dyn Fn(NewObjects) -> BoxFuture<'static, PushDecision> + Send + Sync>;

/// Rules in the form that the hook reads, one line each.
pub(super) struct HookRules {
    rejected: String,
    forward: Vec<String>,
}

impl HookRules {
    /// Returns the rules that apply to `commands`.
    pub(super) fn new(commands: &[RefCommand], rules: &PushRules) -> Self {
        let rejected = by_reference(&rules.rejected);
        let fast_forward_only = by_reference(&rules.fast_forward_only);
        let mut lines = Self {
            rejected: String::new(),
            forward: Vec::new(),
        };
        for command in commands {
            let name = command.reference.as_str();
            if let Some(reason) = rejected.get(name) {
                lines.rejected.push_str(&one_line(reason));
            }
            if let Some(reason) = fast_forward_only.get(name)
                && let (Some(old), Some(new)) = (command.old, command.new)
            {
                lines.forward.push(format!("{old} {new} {}", one_line(reason)));
            }
        }
        lines
    }

    /// Returns the reasons for rejected commands.
    pub(super) fn rejected(&self) -> String {
        self.rejected.clone()
    }

    /// Returns the updates that must be fast-forwards.
    pub(super) fn forward(&self) -> String {
        self.forward.concat()
    }
}

fn by_reference(reasons: &[(String, String)]) -> HashMap<&str, &str> {
    let pairs = reasons
        .iter()
        .map(|(name, reason)| (name.as_str(), reason.as_str()));
    pairs.collect()
}

fn one_line(reason: &str) -> String {
    let mut line: String = reason
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    line.push('\n');
    line
}

/// The server's ends of the pipes. When they are dropped, a waiting hook rejects the push.
pub(super) struct DecisionPipes {
    directory: PathBuf,
    ready: pipe::Receiver,
    /// Without this writer, `ready` would be at its end until the hook opens it.
    _ready_writer: pipe::Sender,
    decision: pipe::Sender,
}

impl DecisionPipes {
    /// Creates the pipes in the directory of a push.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn create(directory: &Path) -> io::Result<()> {
        for name in [READY, DECISION] {
            mkfifoat(CWD, directory.join(name), Mode::RUSR | Mode::WUSR)?;
        }
        Ok(())
    }

    /// Opens the pipes without waiting for the hook.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let open = |name| {
            let path = directory.join(name);
            // A pipe can be opened for writing without waiting only while it has a reader.
            let reader = pipe::OpenOptions::new().open_receiver(&path)?;
            let writer = pipe::OpenOptions::new().open_sender(&path)?;
            Ok::<_, io::Error>((reader, writer))
        };
        let (ready, ready_writer) = open(READY)?;
        let (_, decision) = open(DECISION)?;
        Ok(Self {
            directory: directory.to_owned(),
            ready,
            _ready_writer: ready_writer,
            decision,
        })
    }

    /// Waits until the hook requests a decision. Returns whether its last program succeeded.
    async fn wait(&mut self) -> io::Result<bool> {
        let mut line = [0; READY_LINE.len()];
        self.ready.read_exact(&mut line).await?;
        match line == READY_LINE || line == ERROR_LINE {
            true => Ok(line == READY_LINE),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Answers the hook.
    async fn send(&mut self, answer: Answer) -> io::Result<()> {
        let (word, file) = match answer {
            Answer::Accept => ("accept\n", None),
            Answer::Check(lines) => ("check\n", Some((FORWARD, lines))),
            Answer::Reject(text) => ("reject\n", Some((REFUSED, text))),
        };
        if let Some((name, text)) = file {
            tokio::fs::write(self.directory.join(name), text).await?;
        }
        self.decision.write_all(word.as_bytes()).await
    }
}

/// Answer to the hook.
enum Answer {
    /// The references may move.
    Accept,
    /// These updates must also be fast-forwards.
    Check(String),
    /// The push is rejected for these reasons.
    Reject(String),
}

/// Reads the new commits of a push by its hook, while the push waits for its decision.
#[derive(Clone)]
pub(crate) struct PushInspector {
    pipes: Arc<Mutex<DecisionPipes>>,
    targets: Arc<[Oid]>,
}

impl PushInspector {
    /// Lets the hook write output of a program into a file and returns its path.
    ///
    /// # Errors
    /// [`crate::Error::LimitExceeded`] if the program failed or exceeded a limit. I/O errors.
    pub(crate) async fn list(&self, listing: Listing) -> Result<PathBuf> {
        let revisions = || (REVISIONS, new_commits::revisions(&self.targets));
        self.run(listing, (listing == Listing::Ids).then(revisions)).await
    }

    /// Lets the hook list the files that differ between two commits, and returns the path of the list.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub(crate) async fn list_changes(&self, old: Oid, new: Oid) -> Result<PathBuf> {
        let update = new_commits::compared(old, new);
        self.run(Listing::Changes, Some((UPDATE, update))).await
    }

    /// Writes the input of a program, if it is new, and lets the hook run the program.
    async fn run(&self, listing: Listing, input: Option<(&str, String)>) -> Result<PathBuf> {
        let mut pipes = self.pipes.lock().await;
        if let Some((name, text)) = input {
            tokio::fs::write(pipes.directory.join(name), text).await?;
        }
        let line = format!("{}\n", listing.word());
        pipes.decision.write_all(line.as_bytes()).await?;
        match pipes.wait().await? {
            true => Ok(pipes.directory.join(listing.word())),
            false => Err(new_commits::TOO_LARGE),
        }
    }
}

/// Answers the hook of one push when `complete` is canceled. The hook checks `known` before it requests a decision.
/// Returns after a final answer. If the future is dropped, the hook rejects the push.
pub(super) async fn answer(
    repository: &Repository,
    pipes: DecisionPipes,
    commands: &[RefCommand],
    known: HookRules,
    decider: &PushDecider,
    complete: &CancellationToken,
) {
    let mut checked: HashSet<String> = known.forward.into_iter().collect();
    let pipes = Arc::new(Mutex::new(pipes));
    let changed = commands
        .iter()
        .filter(|command| !is_reserved_reference(&command.reference));
    let inspector = PushInspector {
        pipes: Arc::clone(&pipes),
        targets: changed.filter_map(|command| command.new).collect(),
    };
    let decider = || decider(NewObjects::pushed(repository.clone(), inspector.clone()));
    let names: Vec<String> = commands.iter().map(|command| command.reference.clone()).collect();
    let deletes = commands.iter().any(|command| command.new.is_none());
    loop {
        let result = async {
            pipes.lock().await.wait().await?;
            complete.cancelled().await;
            // Before the decision, so that nothing delays the updates after it.
            repository.clear_stale_locks(names.clone(), deletes).await;
            let answer = decide(commands, &mut checked, &decider).await;
            let is_final = !matches!(answer, Answer::Check(_));
            pipes.lock().await.send(answer).await?;
            Ok::<_, io::Error>(is_final)
        };
        match result.await {
            Ok(false) => {}
            Ok(true) => return,
            Err(error) => {
                tracing::warn!(%error, "failed to answer the hook of a push");
                return;
            }
        }
    }
}

async fn decide(
    commands: &[RefCommand],
    checked: &mut HashSet<String>,
    decider: &impl Fn() -> BoxFuture<'static, PushDecision>,
) -> Answer {
    let Ok(decision) = tokio::time::timeout(DECISION_TIME_LIMIT, decider()).await else {
        tracing::warn!("failed to decide on a push in time");
        return Answer::Reject(one_line(NOT_DECIDED));
    };
    let rules = match decision {
        Ok(rules) => HookRules::new(commands, &rules),
        Err(reason) => return Answer::Reject(one_line(&reason)),
    };
    if !rules.rejected.is_empty() {
        return Answer::Reject(rules.rejected);
    }
    let mut unchecked = rules.forward;
    unchecked.retain(|line| checked.insert(line.clone()));
    match unchecked.is_empty() {
        true => Answer::Accept,
        false => Answer::Check(unchecked.concat()),
    }
}
