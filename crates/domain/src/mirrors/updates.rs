//! Updates of mirrors: a job pushes the branches and tags of a project to the remote repository and records the result.
//!
//! A job runs at least once, and can be interrupted at any point: each update compares the refs again, and the remote
//! repository changes a ref only if it has the target of the comparison.

use std::collections::HashMap;
use std::iter;
use std::time::Duration;

use chrono::{DateTime, Utc};
use git::{Oid, PackRequest, RefCommand, Repository, RepositoryId};
use parsers::receive_pack::Advertisement;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::ref_rules::RefRule;
use storage::entities::remote_mirrors::{ActiveModel, Column, Entity, MirrorStatus, Model};
use storage::entities::{now, projects};
use storage::jobs::{JobAttempt, JobFailure};

use super::credentials_context;
use super::jobs::update_remote_mirror::UpdateRemoteMirror;
use super::plan::{self, Refs};
use crate::code::branch_protection;
use crate::instance::settings::allows_local_requests;
use crate::integrations::git_remotes::{MirrorUpdate, RemoteFailure, RemoteRepository, UpdateDirection};
use crate::integrations::work_shares::WorkShare;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum duration of an update.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Number of ref updates in one push. Servers limit the number.
const MAX_COMMANDS: usize = 1000;
/// Maximum length of a recorded error in characters.
pub(super) const MAX_ERROR_CHARS: usize = 1000;
/// Reason why an update runs later.
const OTHERS_RUN: &str = "other updates of the project or of its user are running";
/// Number of refs that an error names.
const MAX_NAMED_REFS: usize = 10;

/// Result of an update.
enum UpdateResult {
    Finished,
    Failed(String),
    Retry(String),
}

impl From<RemoteFailure> for UpdateResult {
    fn from(failure: RemoteFailure) -> Self {
        match failure.is_temporary {
            true => Self::Retry(failure.text),
            false => Self::Failed(failure.text),
        }
    }
}

impl From<Error> for UpdateResult {
    fn from(error: Error) -> Self {
        tracing::warn!(%error, "failed to update a remote mirror");
        Self::Retry("the server failed to read the repository".to_owned())
    }
}

impl From<git::Error> for UpdateResult {
    fn from(error: git::Error) -> Self {
        match error {
            git::Error::LimitExceeded(text) => Self::Failed(text.to_owned()),
            error => Error::from(error).into(),
        }
    }
}

/// Takes the share of an update, until the share is dropped.
///
/// # Errors
/// Postpones the job if too many updates of the project or of the user run.
pub(super) fn take_share(
    backend: &Backend,
    direction: UpdateDirection,
    project_id: i64,
    user_id: Option<i64>,
) -> Result<WorkShare, JobFailure> {
    let running = MirrorUpdate {
        direction,
        project_id,
        user_id,
    };
    let share = backend.git_remotes.take_share(running);
    share.map_err(|exceeded| JobFailure::postponed(exceeded.delay, OTHERS_RUN))
}

/// Runs the job. A failure that a later attempt can resolve is tried again with the delays of jobs; the last one is
/// recorded in the mirror, and is no failure of the job.
///
/// # Errors
/// Returns an error if the update is tried again, or runs later because other updates of the project or of its user
/// run.
pub async fn run_job(
    backend: Backend,
    job: UpdateRemoteMirror,
    attempt: JobAttempt,
) -> Result<(), JobFailure> {
    let db = backend.database.read();
    let Some(mirror) = Entity::find_by_id(job.mirror_id).one(db).await? else {
        return Ok(());
    };
    let project = projects::Entity::find_by_id(mirror.project_id).one(db).await?;
    let Some(project) = project.filter(|project| project.deletion_started_at.is_none()) else {
        return Ok(());
    };
    let _share = take_share(&backend, UpdateDirection::Push, project.id, project.creator_id)?;
    let started_at = now();
    if !start(&backend, &mirror, started_at).await? {
        return Ok(());
    }
    let update = async {
        match project.archived {
            // Nothing was pushed since the project was archived, so only scheduled updates get here.
            true => UpdateResult::Failed("the project is archived".to_owned()),
            false => update(&backend, &mirror, &project)
                .await
                .unwrap_or_else(|result| result),
        }
    };
    let result = match tokio::time::timeout(TIME_LIMIT, update).await {
        Ok(result) => result,
        Err(_) => UpdateResult::Failed("the update took too long".to_owned()),
    };
    let result = match result {
        UpdateResult::Retry(text) if attempt.is_last() => UpdateResult::Failed(text),
        result => result,
    };
    record(&backend, mirror.id, started_at, &result).await?;
    match result {
        UpdateResult::Retry(_) => Err(JobFailure::transient("the remote mirror could not be updated")),
        UpdateResult::Finished | UpdateResult::Failed(_) => Ok(()),
    }
}

/// Records the start of an update. Returns false if the mirror was disabled or deleted.
async fn start(backend: &Backend, mirror: &Model, started_at: DateTime<Utc>) -> Result<bool> {
    let row = ActiveModel {
        update_status: Set(MirrorStatus::Started),
        last_update_started_at: Set(Some(started_at)),
        ..Default::default()
    };
    let started = Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(mirror.id))
        .filter(Column::Enabled.eq(true))
        .exec(backend.database.write())
        .await?;
    if started.rows_affected == 0 {
        // An update that was scheduled before the mirror was disabled no longer waits.
        let row = ActiveModel {
            update_status: Set(MirrorStatus::None),
            ..Default::default()
        };
        Entity::update_many()
            .set(row)
            .filter(Column::Id.eq(mirror.id))
            .filter(Column::UpdateStatus.ne(MirrorStatus::Failed))
            .filter(Column::UpdateStatus.ne(MirrorStatus::Finished))
            .exec(backend.database.write())
            .await?;
    }
    Ok(started.rows_affected > 0)
}

/// Records the result of an update, unless another update has started.
async fn record(
    backend: &Backend,
    mirror_id: i64,
    started_at: DateTime<Utc>,
    result: &UpdateResult,
) -> Result<()> {
    let ended_at = now();
    let (status, error) = match result {
        UpdateResult::Finished => (MirrorStatus::Finished, None),
        UpdateResult::Failed(text) => (MirrorStatus::Failed, Some(text)),
        UpdateResult::Retry(text) => (MirrorStatus::ToRetry, Some(text)),
    };
    let mut row = ActiveModel {
        update_status: Set(status),
        last_update_at: Set(Some(ended_at)),
        last_error: Set(error.map(|text| text.chars().take(MAX_ERROR_CHARS).collect())),
        ..Default::default()
    };
    if status == MirrorStatus::Finished {
        row.last_successful_update_at = Set(Some(ended_at));
    }
    Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(mirror_id))
        .filter(Column::LastUpdateStartedAt.eq(started_at))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Compares the refs and pushes the differences.
async fn update(
    backend: &Backend,
    mirror: &Model,
    project: &projects::Model,
) -> Result<UpdateResult, UpdateResult> {
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(project.id));
    let local: Refs = match repository.branches_and_tags().await {
        Err(git::Error::RepositoryMissing) => Refs::new(),
        found => found?.into_iter().collect(),
    };
    // A mirror of an empty repository would delete all branches and tags of the remote repository.
    if local.is_empty() {
        return Ok(UpdateResult::Finished);
    }
    let rules = match mirror.only_protected_branches {
        true => Some(branch_protection::rules_of(backend.database.read(), project).await?),
        false => None,
    };
    let remote = remote_repository(backend, mirror).await?;
    let advertisement = backend.git_remotes.list(&remote).await?;
    let targets = remote_targets(&advertisement);
    let commands = plan::differences(&local, &targets, |name| is_selected(rules.as_deref(), name));
    let (commands, diverged) = match mirror.keep_divergent_refs {
        true => without_diverged(&repository, commands).await?,
        false => (commands, Vec::new()),
    };
    let push = MirrorPush {
        backend,
        repository: &repository,
        remote: &remote,
        advertisement: &advertisement,
    };
    let rejected = push.run(&commands, known_objects(&advertisement)).await?;
    Ok(result(&diverged, &rejected))
}

/// Returns whether a branch or tag is mirrored. `rules` are those of protected branches if only these are mirrored.
pub(super) fn is_selected(rules: Option<&[RefRule]>, reference: &str) -> bool {
    match (rules, reference.strip_prefix("refs/heads/")) {
        (Some(rules), Some(branch)) => branch_protection::is_protected(rules, branch),
        _ => true,
    }
}

async fn remote_repository(backend: &Backend, mirror: &Model) -> Result<RemoteRepository, UpdateResult> {
    let local = allows_local_requests(backend).await?;
    let encrypted = mirror.credentials_encrypted.as_deref();
    let credentials = encrypted
        .map(|encrypted| {
            backend
                .keyring
                .decrypt(encrypted, &credentials_context(mirror.id))
        })
        .transpose();
    let credentials = credentials.map_err(|error| {
        tracing::error!(%error, mirror = mirror.id, "failed to decrypt the credentials of a remote mirror");
        UpdateResult::Failed("the server failed to decrypt the credentials".to_owned())
    })?;
    Ok(RemoteRepository {
        url: mirror.url.clone(),
        credentials,
        local,
    })
}

fn remote_targets(advertisement: &Advertisement) -> Refs {
    let targets = advertisement.refs.iter();
    targets
        .filter_map(|found| Some((found.name.clone(), found.id.parse().ok()?)))
        .collect()
}

/// Returns the objects that the remote repository has.
fn known_objects(advertisement: &Advertisement) -> Vec<Oid> {
    let targets = advertisement.refs.iter().map(|found| &found.id);
    let mut known: Vec<Oid> = targets
        .chain(&advertisement.others)
        .filter_map(|id| id.parse().ok())
        .collect();
    known.sort_unstable();
    known.dedup();
    known
}

/// Separates the updates of refs that were changed in the remote repository, and returns their names. A branch diverged
/// if its update is no fast-forward, and a tag if it has another target. A ref that was deleted here diverged if this
/// repository does not have its target.
async fn without_diverged(
    repository: &Repository,
    commands: Vec<RefCommand>,
) -> Result<(Vec<RefCommand>, Vec<String>), UpdateResult> {
    let old: Vec<Oid> = commands.iter().filter_map(|command| command.old).collect();
    let known = repository.existing_objects(old).await?;
    let known: std::collections::HashSet<Oid> = known.into_iter().collect();
    let (mut kept, mut diverged) = (Vec::new(), Vec::new());
    for command in commands {
        let is_tag = command.reference.starts_with("refs/tags/");
        let follows = match (command.old, command.new) {
            (None, _) => true,
            (Some(old), None) => known.contains(&old),
            (Some(old), Some(new)) if !is_tag && known.contains(&old) => {
                match repository.is_ancestor(old, new).await {
                    // The remote branch points to another kind of object.
                    Err(git::Error::ObjectNotFound) => false,
                    follows => follows?,
                }
            }
            (Some(_), Some(_)) => false,
        };
        match follows {
            true => kept.push(command),
            false => diverged.push(command.reference),
        }
    }
    Ok((kept, diverged))
}

/// Pushes of one update.
struct MirrorPush<'a> {
    backend: &'a Backend,
    repository: &'a Repository,
    remote: &'a RemoteRepository,
    advertisement: &'a Advertisement,
}

impl MirrorPush<'_> {
    /// Pushes all commands, and returns the refs that the remote repository refused, with the reasons.
    async fn run(
        &self,
        commands: &[RefCommand],
        mut known: Vec<Oid>,
    ) -> Result<Vec<(String, String)>, UpdateResult> {
        let mut rejected = Vec::new();
        let can_delete = self.advertisement.has("delete-refs");
        let (commands, undeletable): (Vec<&RefCommand>, Vec<&RefCommand>) = commands
            .iter()
            .partition(|command| can_delete || command.new.is_some());
        rejected.extend(undeletable.into_iter().map(|command| {
            let reason = "the remote repository does not support deletions";
            (command.reference.clone(), reason.to_owned())
        }));
        for batch in commands.chunks(MAX_COMMANDS) {
            let batch: Vec<RefCommand> = batch.iter().map(|command| (*command).clone()).collect();
            let wanted: Vec<Oid> = batch.iter().filter_map(|command| command.new).collect();
            let pack = match wanted.is_empty() {
                true => None,
                false => {
                    let present = self.repository.existing_objects(known.clone()).await?;
                    let request = PackRequest {
                        wanted: wanted.clone(),
                        present,
                        offset_deltas: self.advertisement.has("ofs-delta"),
                    };
                    Some(self.repository.pack(request).await?)
                }
            };
            let remotes = &self.backend.git_remotes;
            let report = remotes
                .push(self.remote, self.advertisement, &batch, pack)
                .await?;
            known.extend(accepted_targets(&batch, &report.accepted));
            rejected.extend(report.rejected);
        }
        Ok(rejected)
    }
}

/// Returns the new targets of the accepted refs.
fn accepted_targets(batch: &[RefCommand], accepted: &[String]) -> Vec<Oid> {
    let targets: HashMap<&str, Oid> = batch
        .iter()
        .filter_map(|command| Some((command.reference.as_str(), command.new?)))
        .collect();
    let accepted = accepted.iter();
    accepted
        .filter_map(|name| targets.get(name.as_str()).copied())
        .collect()
}

/// Returns the result of an update after the pushes.
fn result(diverged: &[String], rejected: &[(String, String)]) -> UpdateResult {
    let lists = [
        (
            "Some refs have diverged and have not been updated on the remote:",
            diverged.to_vec(),
        ),
        ("Some refs were rejected by the remote:", with_reasons(rejected)),
    ];
    match omitted_refs(lists) {
        None => UpdateResult::Finished,
        Some(text) => UpdateResult::Failed(text),
    }
}

/// Returns a text with the refs that an update omitted: lists with their headings. Returns `None` if all lists are
/// empty.
pub(super) fn omitted_refs(lists: [(&str, Vec<String>); 2]) -> Option<String> {
    let lists = lists.into_iter().filter(|(_, refs)| !refs.is_empty());
    let lines =
        lists.flat_map(|(heading, refs)| iter::once(heading.to_owned()).chain(named(refs.into_iter())));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns a line for each ref with the reason why it was omitted.
pub(super) fn with_reasons(refs: &[(String, String)]) -> Vec<String> {
    refs.iter()
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect()
}

/// Returns the first lines of a list, and a line with the number of the others.
fn named(lines: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let others = lines.len().saturating_sub(MAX_NAMED_REFS);
    let mut named: Vec<String> = lines.take(MAX_NAMED_REFS).collect();
    if others > 0 {
        named.push(format!("and {others} more"));
    }
    named
}
