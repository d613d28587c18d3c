//! Checks of the commits and files that a ref update adds.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use git::{NewCommitList, NewObjects, Oid};
use storage::entities::{fold, user_emails};

use super::compiled::{CompiledRule, Pusher, author_fault};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Maximum time to compare the commits and files with expressions.
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Reason for commits that take too long.
const TOO_SLOW: &str = "the expressions take too long to evaluate";

/// How commits are added to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOrigin {
    /// By a push.
    Push,
    /// By a request of the API, which creates them for the caller. The server does not sign commits.
    Api,
    /// By a merge. The caller merges commits of other users.
    Merge,
}

/// Returns why the new objects cannot be added by the caller, if they violate the rule or are too many to check.
///
/// # Errors
/// Returns an error if the database or the repository fails.
pub async fn find_violation(
    backend: &Backend,
    access: &ProjectAccess,
    rule: CompiledRule,
    objects: &NewObjects,
    origin: CommitOrigin,
) -> Result<Option<String>> {
    let inspection = Inspection {
        backend,
        access,
        rule: Arc::new(rule),
        origin,
        deadline: Instant::now() + TIME_LIMIT,
    };
    match inspection.run(objects).await {
        Err(InspectionError::Git(git::Error::LimitExceeded(reason))) => Ok(Some(format!(
            "The push rules of the project cannot be checked: {reason}. Push fewer commits at once."
        ))),
        Err(InspectionError::Git(error)) => Err(error.into()),
        Err(InspectionError::Other(error)) => Err(error),
        Ok(found) => Ok(found),
    }
}

enum InspectionError {
    Git(git::Error),
    Other(crate::kernel::error::Error),
}

impl From<git::Error> for InspectionError {
    fn from(error: git::Error) -> Self {
        Self::Git(error)
    }
}

impl From<crate::kernel::error::Error> for InspectionError {
    fn from(error: crate::kernel::error::Error) -> Self {
        Self::Other(error)
    }
}

type Found = std::result::Result<Option<String>, InspectionError>;

/// Reason why a visit of commits or files ended.
enum Stop {
    Violation(String),
    TooSlow,
}

struct Inspection<'a> {
    backend: &'a Backend,
    access: &'a ProjectAccess,
    rule: Arc<CompiledRule>,
    origin: CommitOrigin,
    deadline: Instant,
}

impl Inspection<'_> {
    async fn run(&self, objects: &NewObjects) -> Found {
        let rule = &self.rule;
        let max_bytes = rule.max_file_bytes();
        if !rule.has_commit_conditions() && !rule.has_path_conditions() && max_bytes.is_none() {
            return Ok(None);
        }
        let list = objects.list().await?;
        if rule.has_commit_conditions()
            && let Some(text) = self.commit_violation(&list).await?
        {
            return Ok(Some(text));
        }
        let large = match max_bytes {
            Some(bytes) => list.blobs_above(bytes).await?,
            None => HashSet::new(),
        };
        if rule.has_path_conditions() || !large.is_empty() {
            return self.file_violation(&list, large).await;
        }
        Ok(None)
    }

    async fn commit_violation(&self, list: &NewCommitList) -> Found {
        if list.is_empty() {
            return Ok(None);
        }
        let pusher = self.pusher().await?;
        let authors: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let (rule, origin, deadline, seen) = (
            Arc::clone(&self.rule),
            self.origin,
            self.deadline,
            Arc::clone(&authors),
        );
        let stopped = list.commits(move |new| {
            let committer = || rule.committer_fault(&new.commit, pusher.as_ref()?);
            let signature = || {
                (origin == CommitOrigin::Push)
                    .then(|| rule.signature_fault(&new))
                    .flatten()
            };
            let fault = rule
                .commit_fault(&new.commit)
                .or_else(committer)
                .or_else(signature);
            if let Some(text) = fault {
                return ControlFlow::Break(Stop::Violation(text));
            }
            if rule.row.member_check {
                let email = new.commit.author.email;
                let mut authors = seen.lock().unwrap_or_else(PoisonError::into_inner);
                authors.entry(fold(&email)).or_insert(email);
            }
            in_time(deadline)
        });
        if let Some(text) = text_of(stopped.await?)? {
            return Ok(Some(text));
        }
        let authors = std::mem::take(&mut *authors.lock().unwrap_or_else(PoisonError::into_inner));
        let keys: Vec<String> = authors.keys().cloned().collect();
        let db = self.backend.database.read();
        let known = user_emails::confirmed(db, keys).await;
        let known = known.map_err(crate::kernel::error::Error::from)?;
        let stranger = authors.into_iter().find(|(key, _)| !known.contains(key));
        Ok(stranger.map(|(_, email)| author_fault(&email)))
    }

    /// Returns the user who adds the commits, if the rule compares the committers with the user.
    async fn pusher(&self) -> Result<Option<Pusher>> {
        let row = &self.rule.row;
        let is_compared = row.commit_committer_check || row.commit_committer_name_check;
        let Some(user) = self.access.caller.as_user() else {
            return Ok(None);
        };
        if !is_compared || self.origin == CommitOrigin::Merge {
            return Ok(None);
        }
        let mut pusher = Pusher {
            name: user.name.clone(),
            confirmed: HashSet::new(),
            unconfirmed: HashSet::new(),
        };
        let mut add = |key: String, is_confirmed: bool| match is_confirmed {
            true => pusher.confirmed.insert(key),
            false => pusher.unconfirmed.insert(key),
        };
        add(user.email_key.clone(), user.confirmed_at.is_some());
        if row.commit_committer_check {
            for email in user_emails::of_user(user.id)
                .all(self.backend.database.read())
                .await?
            {
                add(email.email_key, email.confirmed_at.is_some());
            }
        }
        Ok(Some(pusher))
    }

    async fn file_violation(&self, list: &NewCommitList, large: HashSet<Oid>) -> Found {
        let (rule, deadline) = (Arc::clone(&self.rule), self.deadline);
        let unnamed = large.iter().next().copied();
        let stopped = list.files(move |file| {
            let size = || large.contains(&file.id).then(|| rule.size_fault(&file.path));
            match rule.path_fault(&file).or_else(size) {
                Some(text) => ControlFlow::Break(Stop::Violation(text)),
                None => in_time(deadline),
            }
        });
        if let Some(text) = text_of(stopped.await?)? {
            return Ok(Some(text));
        }
        // A blob without a path, such as the target of a tag.
        Ok(unnamed.map(|id| self.rule.size_fault(&id.to_string())))
    }
}

fn in_time(deadline: Instant) -> ControlFlow<Stop> {
    match Instant::now() < deadline {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(Stop::TooSlow),
    }
}

fn text_of(stopped: Option<Stop>) -> std::result::Result<Option<String>, git::Error> {
    match stopped {
        None => Ok(None),
        Some(Stop::Violation(text)) => Ok(Some(text)),
        Some(Stop::TooSlow) => Err(git::Error::LimitExceeded(TOO_SLOW)),
    }
}
