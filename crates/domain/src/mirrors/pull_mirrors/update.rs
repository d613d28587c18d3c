//! Updates of pull mirrors: a job fetches the branches and tags of the remote repository, pushes them to the project on
//! behalf of the user of the mirror, and records the result.
//!
//! A job runs at least once, and can be interrupted at any point: each update compares the refs again.

use std::collections::HashSet;
use std::io::Cursor;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use git::{Oid, RefCommand, Repository};
use parsers::upload_pack::RemoteRefs;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::pull_mirrors::{ActiveModel, Column, Entity, Model};
use storage::entities::remote_mirrors::MirrorStatus;
use storage::entities::{now, projects, pull_mirror_refs, pull_mirrors, users};
use storage::jobs::JobFailure;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use tokio_util::io::StreamReader;

use super::plan::{self, ComparedRefs};
use super::{schedule, stored_url};
use crate::code::mirrored_push::{self, MirroredPush};
use crate::code::push_decision::{self, ProposedUpdate, Verdict};
use crate::code::{branch_protection, repository_access};
use crate::identity::access::ProjectAccess;
use crate::identity::git_access;
use crate::instance::settings::allows_local_requests;
use crate::integrations::git_remotes::{
    FetchRequest, PackFailure, RemoteFailure, RemoteRepository, UpdateDirection, push_commands,
};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;
use crate::mirrors::jobs::update_pull_mirror::UpdatePullMirror;
use crate::mirrors::plan::Refs;
use crate::mirrors::updates::{
    MAX_ERROR_CHARS, TIME_LIMIT, is_selected, omitted_refs, take_share, with_reasons,
};

/// Number of ref updates in one push.
const MAX_COMMANDS: usize = 1000;
/// Maximum number of objects that a fetch names as present.
const MAX_PRESENT: usize = 20_000;
/// A pack without objects.
const EMPTY_PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

/// Text if the URL of the mirror changes during an update. Its result is not recorded, unless the URL changes back.
const URL_CHANGED: &str = "the URL of the mirror has changed during the update";

/// Text if too many Git transfers are in progress.
const BUSY: &str = "too many Git transfers are in progress";

/// Result of an update.
pub(in crate::mirrors) enum UpdateResult {
    /// The update succeeded.
    Finished,
    /// The update succeeded, but these refs did not move.
    Incomplete(String),
    /// The update failed.
    Failed(String),
    /// Too many Git transfers are in progress.
    Busy,
}

impl From<RemoteFailure> for UpdateResult {
    fn from(failure: RemoteFailure) -> Self {
        Self::Failed(failure.text)
    }
}

impl From<Error> for UpdateResult {
    fn from(error: Error) -> Self {
        match error {
            Error::Rejected(text) => Self::Failed(text.into_owned()),
            Error::Busy => Self::Busy,
            error => {
                tracing::warn!(%error, "failed to fetch a remote repository");
                Self::Failed("the server failed to update the repository".to_owned())
            }
        }
    }
}

impl From<git::Error> for UpdateResult {
    fn from(error: git::Error) -> Self {
        Error::from(error).into()
    }
}

/// Runs the job. A failure is recorded in the mirror, and is no failure of the job: a later update tries again.
///
/// # Errors
/// Returns an error if the database fails, or if the update runs later because other updates of the project or of its
/// user run.
pub async fn run_job(backend: Backend, job: UpdatePullMirror) -> Result<(), JobFailure> {
    let db = backend.database.read();
    let Some(mirror) = Entity::find_by_id(job.mirror_id).one(db).await? else {
        return Ok(());
    };
    let project = projects::not_deleted().filter(projects::Column::Id.eq(mirror.project_id));
    let Some(project) = project.one(db).await? else {
        return Ok(());
    };
    let is_updated = project.mirror
        && !project.archived
        && project.marked_for_deletion_on.is_none()
        && backend.instance.plan >= InstancePlan::Starter;
    if !is_updated {
        return Ok(cancel(&backend, mirror.id).await?);
    }
    let _share = take_share(
        &backend,
        UpdateDirection::Pull,
        project.id,
        project.mirror_user_id,
    )?;
    let started_at = now();
    let row = ActiveModel {
        update_status: Set(MirrorStatus::Started),
        last_update_started_at: Set(Some(started_at)),
        ..Default::default()
    };
    let started = Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(mirror.id))
        .filter(Column::Url.eq(mirror.url.as_str()))
        .exec(backend.database.write())
        .await?;
    if started.rows_affected == 0 {
        // The change of the URL has scheduled another update.
        return Ok(());
    }
    let deadline = Instant::now() + TIME_LIMIT;
    let updating = update(&backend, &mirror, &project, deadline);
    let result = match tokio::time::timeout_at(deadline, updating).await {
        Ok(result) => result.unwrap_or_else(|result| result),
        Err(_) => UpdateResult::Failed("the update took too long".to_owned()),
    };
    Ok(record(&backend, &mirror, started_at, &result).await?)
}

/// Ends an update that was scheduled before the mirror was disabled, or the project was archived.
async fn cancel(backend: &Backend, mirror_id: i64) -> Result<()> {
    let row = ActiveModel {
        update_status: Set(MirrorStatus::None),
        ..Default::default()
    };
    Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(mirror_id))
        .filter(Column::UpdateStatus.is_in([MirrorStatus::Scheduled, MirrorStatus::Started]))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Records the result of an update, unless another update has started or the URL of the mirror has changed.
async fn record(
    backend: &Backend,
    mirror: &Model,
    started_at: DateTime<Utc>,
    result: &UpdateResult,
) -> Result<()> {
    let ended_at = now();
    let more_failures = mirror.failures.saturating_add(1);
    let (status, error, failures) = match result {
        UpdateResult::Finished => (MirrorStatus::Finished, None, 0),
        UpdateResult::Incomplete(text) => (MirrorStatus::Failed, Some(text.as_str()), 0),
        UpdateResult::Failed(text) => (MirrorStatus::Failed, Some(text.as_str()), more_failures),
        UpdateResult::Busy => (MirrorStatus::Failed, Some(BUSY), more_failures),
    };
    let mut row = ActiveModel {
        update_status: Set(status),
        failures: Set(failures),
        next_update_at: Set(schedule::next_update(backend, failures)),
        last_update_at: Set(Some(ended_at)),
        last_error: Set(error.map(|text| text.chars().take(MAX_ERROR_CHARS).collect())),
        ..Default::default()
    };
    if status == MirrorStatus::Finished {
        row.last_successful_update_at = Set(Some(ended_at));
    }
    Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(mirror.id))
        .filter(Column::Url.eq(mirror.url.as_str()))
        .filter(Column::LastUpdateStartedAt.eq(started_at))
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Fetches the differences and pushes them to the project.
async fn update(
    backend: &Backend,
    mirror: &Model,
    project: &projects::Model,
    deadline: Instant,
) -> Result<UpdateResult, UpdateResult> {
    let access = push_access(backend, project.id, project.mirror_user_id, &MIRROR_USER).await?;
    let url = stored_url(backend, mirror);
    let remote = RemoteRepository {
        url: url.shown,
        credentials: url.credentials,
        local: allows_local_requests(backend).await?,
    };
    pull(backend, &access, &remote, Some(mirror), deadline).await
}

/// Fetches the differences from a remote repository and pushes them to a project. Without a mirror, for an import, all
/// branches and tags are fetched, none is deleted, and no targets are recorded.
pub(in crate::mirrors) async fn pull(
    backend: &Backend,
    access: &ProjectAccess,
    remote: &RemoteRepository,
    mirror: Option<&Model>,
    deadline: Instant,
) -> Result<UpdateResult, UpdateResult> {
    let project = &access.project;
    let refs = backend.git_remotes.remote_refs(remote).await?;
    let targets: Refs = parsed(refs.refs.iter().map(|found| (&found.name, &found.id)));
    // Without this, an accident in the remote repository would delete the copy too.
    if targets.is_empty() {
        return Ok(UpdateResult::Finished);
    }
    let db = backend.database.read();
    let rules = match mirror.is_some() && project.only_mirror_protected_branches {
        true => Some(branch_protection::rules_of(db, project).await?),
        false => None,
    };
    let is_selected = |name: &String| is_selected(rules.as_deref(), name);
    let selected: Refs = targets
        .into_iter()
        .filter(|(name, _)| is_selected(name))
        .collect();
    let mut recorded = Refs::new();
    if let Some(mirror) = mirror {
        let found = pull_mirror_refs::of_mirror(db, mirror.id).await;
        recorded = parsed(found.map_err(Error::from)?.iter());
    }
    recorded.retain(|name, _| is_selected(name));
    let repository = repository_access::open(backend, access);
    let local: Refs = repository.branches_and_tags().await?.into_iter().collect();
    let compared = ComparedRefs {
        local: &local,
        remote: &selected,
        recorded: &recorded,
        overwrites: mirror.is_some() && project.mirror_overwrites_diverged_branches,
    };
    let plan = plan::compare(&compared, refs.head.as_deref());
    let equal = plan
        .unrecorded
        .iter()
        .filter_map(|name| Some((name, selected.get(name)?)));
    let equal: Vec<(String, String)> = equal.map(|(name, id)| (name.clone(), id.to_string())).collect();
    record_targets(backend, mirror, &equal, &plan.forgotten).await?;
    let mut work = RemotePull {
        backend,
        mirror,
        access,
        repository: &repository,
        remote,
        refs: &refs,
        deadline,
        present: local.values().copied().collect(),
        fetched: recorded.values().copied().collect(),
        diverged: plan.diverged,
        refused: Vec::new(),
    };
    let (commands, forward) = work.permitted(plan.commands).await?;
    if local.keys().all(|name| !name.starts_with("refs/heads/")) {
        work.set_head(&commands).await?;
    }
    for batch in commands.chunks(MAX_COMMANDS) {
        check_url(backend, mirror).await?;
        work.push(batch, &forward).await?;
    }
    Ok(result(&work.diverged, &work.refused))
}

/// Checks that the URL of a mirror has not changed since the start of an update.
async fn check_url(backend: &Backend, mirror: Option<&Model>) -> Result<(), UpdateResult> {
    let Some(mirror) = mirror else {
        return Ok(());
    };
    let found = pull_mirrors::of_project(mirror.project_id)
        .one(backend.database.read())
        .await
        .map_err(Error::from)?;
    match is_same_remote(found.as_ref(), mirror) {
        true => Ok(()),
        false => Err(UpdateResult::Failed(URL_CHANGED.to_owned())),
    }
}

/// Records the targets of branches and tags, and deletes the records of other names. After a change of the URL, all
/// branches and tags are those of the project, so nothing is recorded: the next update would otherwise delete these
/// branches and tags.
async fn record_targets(
    backend: &Backend,
    mirror: Option<&Model>,
    targets: &[(String, String)],
    deleted: &[String],
) -> Result<(), UpdateResult> {
    let Some(mirror) = mirror else {
        return Ok(());
    };
    if targets.is_empty() && deleted.is_empty() {
        return Ok(());
    }
    let is_recorded = backend
        .database
        .transaction(async |transaction| {
            let found = pull_mirrors::lock(transaction, mirror.project_id).await?;
            let is_same = is_same_remote(found.as_ref(), mirror);
            if is_same {
                pull_mirror_refs::record(transaction, mirror.id, targets).await?;
                pull_mirror_refs::forget(transaction, mirror.id, deleted).await?;
            }
            Ok::<_, Error>(is_same)
        })
        .await?;
    match is_recorded {
        true => Ok(()),
        false => Err(UpdateResult::Failed(URL_CHANGED.to_owned())),
    }
}

/// Returns whether a mirror still exists with the URL that it had at the start of an update.
fn is_same_remote(found: Option<&Model>, mirror: &Model) -> bool {
    found.is_some_and(|found| found.id == mirror.id && found.url == mirror.url)
}

/// Texts about the user on whose behalf a remote repository is fetched.
pub(in crate::mirrors) struct PushUserTexts {
    /// The user does not exist.
    pub(in crate::mirrors) missing: &'static str,
    /// The user cannot push.
    pub(in crate::mirrors) forbidden: &'static str,
}

const MIRROR_USER: PushUserTexts = PushUserTexts {
    missing: "the user of the mirror does not exist; save the mirror as another user",
    forbidden: "the user of the mirror cannot push to the project",
};

/// Returns the access of a user, who is authorized as for a push.
pub(in crate::mirrors) async fn push_access(
    backend: &Backend,
    project_id: i64,
    user_id: Option<i64>,
    texts: &PushUserTexts,
) -> Result<ProjectAccess, UpdateResult> {
    let user = match user_id {
        Some(id) => {
            let found = users::Entity::find_by_id(id).one(backend.database.read()).await;
            found.map_err(Error::from)?
        }
        None => None,
    };
    let Some(user) = user else {
        return Err(UpdateResult::Failed(texts.missing.to_owned()));
    };
    let authorizing = async {
        let access = ProjectAccess::find(backend, Caller::user(user), &project_id.to_string()).await?;
        git_access::authorize_push_again(backend, &access).await
    };
    authorizing.await.map_err(|error| match error {
        Error::Unauthorized | Error::Forbidden(_) | Error::NotFound(_) => {
            UpdateResult::Failed(texts.forbidden.to_owned())
        }
        error => error.into(),
    })
}

fn parsed<'a>(refs: impl Iterator<Item = (&'a String, &'a String)>) -> Refs {
    refs.filter_map(|(name, id)| Some((name.clone(), id.parse().ok()?)))
        .collect()
}

/// The pushes of one update.
struct RemotePull<'a> {
    backend: &'a Backend,
    /// The mirror; none in an import.
    mirror: Option<&'a Model>,
    access: &'a ProjectAccess,
    repository: &'a Repository,
    remote: &'a RemoteRepository,
    refs: &'a RemoteRefs,
    deadline: Instant,
    /// Targets of the branches and tags of the project.
    present: HashSet<Oid>,
    /// Objects that were fetched before. The project may have lost them.
    fetched: HashSet<Oid>,
    /// Names of the refs that have diverged.
    diverged: Vec<String>,
    /// Refs that did not move for another reason, with the reason.
    refused: Vec<(String, String)>,
}

impl RemotePull<'_> {
    /// Returns the commands that the user of the mirror may execute, and the branches among them that require a
    /// fast-forward.
    async fn permitted(
        &mut self,
        commands: Vec<RefCommand>,
    ) -> Result<(Vec<RefCommand>, HashSet<String>), UpdateResult> {
        let updates: Vec<ProposedUpdate> = commands.iter().map(ProposedUpdate::from).collect();
        let verdicts = push_decision::verdicts(self.backend, self.access, &updates).await?;
        let overwrites = self.mirror.is_some() && self.access.project.mirror_overwrites_diverged_branches;
        let targets = commands.iter().filter_map(|command| command.new).collect();
        let known: HashSet<Oid> = self
            .repository
            .existing_objects(targets)
            .await?
            .into_iter()
            .collect();
        let (mut permitted, mut forward) = (Vec::new(), HashSet::new());
        for (command, verdict) in commands.into_iter().zip(verdicts) {
            let name = command.reference.clone();
            let is_forward = match verdict {
                Verdict::Rejected(text) | Verdict::Violation(text) => {
                    self.refused.push((name, text));
                    continue;
                }
                Verdict::Reserved => continue,
                Verdict::FastForwardOnly(_) => true,
                Verdict::Accepted => !overwrites && name.starts_with("refs/heads/"),
            };
            if let (true, Some(old), Some(new)) = (is_forward, command.old, command.new) {
                // A branch that remains diverged needs no fetch at each update.
                if known.contains(&new) && self.is_diverged(old, new).await? {
                    self.diverged.push(name);
                    continue;
                }
                forward.insert(name);
            }
            permitted.push(command);
        }
        Ok((permitted, forward))
    }

    async fn is_diverged(&self, old: Oid, new: Oid) -> Result<bool, UpdateResult> {
        match self.repository.is_ancestor(old, new).await {
            Ok(follows) => Ok(!follows),
            // The history of an object that no ref leads to may be incomplete.
            Err(git::Error::ObjectNotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Points `HEAD` of an empty repository to the branch of the remote `HEAD`, which becomes the default branch.
    async fn set_head(&self, commands: &[RefCommand]) -> Result<(), UpdateResult> {
        let Some(head) = self.refs.head.as_deref() else {
            return Ok(());
        };
        let branch = head.strip_prefix("refs/heads/").unwrap_or_default();
        if !commands.iter().any(|command| command.reference == head) {
            return Ok(());
        }
        match self.repository.set_default_branch(branch).await {
            // A push has created a branch meanwhile.
            Ok(()) | Err(git::Error::BranchNotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Executes commands, with the objects that they need.
    async fn push(&mut self, batch: &[RefCommand], forward: &HashSet<String>) -> Result<(), UpdateResult> {
        let head = Bytes::from(push_commands(batch, "report-status"));
        let new = batch.iter().filter_map(|command| command.new);
        let wanted: HashSet<Oid> = new.filter(|id| !self.present.contains(id)).collect();
        let names: HashSet<String> = batch
            .iter()
            .filter(|command| forward.contains(&command.reference))
            .map(|command| command.reference.clone())
            .collect();
        let received = if wanted.is_empty() {
            let pack: &[u8] = match batch.iter().all(|command| command.new.is_none()) {
                true => &[],
                false => EMPTY_PACK,
            };
            let push = self
                .repository
                .open_push(Cursor::new(head).chain(pack), false)
                .await?;
            mirrored_push::receive(self.backend, self.access, push, names).await?
        } else {
            let request = FetchRequest {
                wanted: wanted.into_iter().collect(),
                present: self.present_objects().await?,
                max_bytes: self.backend.instance.max_push_bytes,
                deadline: Some(self.deadline),
            };
            let pack = self
                .backend
                .git_remotes
                .fetch(self.remote, self.refs, &request)
                .await?;
            let failure = pack.failure;
            let body = Cursor::new(head).chain(StreamReader::new(pack.bytes));
            let push = self.repository.open_push(body, false).await?;
            let received = mirrored_push::receive(self.backend, self.access, push, names).await;
            received.map_err(|error| remote_failure(&failure, error))?
        };
        self.record(received).await
    }

    /// Returns the objects that the project has, of which the remote repository may have some.
    async fn present_objects(&self) -> Result<Vec<Oid>, UpdateResult> {
        // The remote repository had the objects that were fetched.
        let fetched = self
            .repository
            .existing_objects(self.fetched.iter().copied().collect());
        let mut present = fetched.await?;
        let known: HashSet<Oid> = present.iter().copied().collect();
        present.extend(self.present.iter().filter(|id| !known.contains(id)));
        present.truncate(MAX_PRESENT);
        Ok(present)
    }

    async fn record(&mut self, received: MirroredPush) -> Result<(), UpdateResult> {
        let (mut set, mut deleted) = (Vec::new(), Vec::new());
        for command in received.applied {
            match command.new {
                Some(id) => {
                    self.present.insert(id);
                    set.push((command.reference, id.to_string()));
                }
                None => deleted.push(command.reference),
            }
        }
        record_targets(self.backend, self.mirror, &set, &deleted).await?;
        self.diverged.extend(received.diverged);
        self.refused.extend(received.refused);
        match received.failure {
            Some(text) => Err(UpdateResult::Failed(text)),
            None => Ok(()),
        }
    }
}

/// Returns the reason why a push with a fetched pack failed.
fn remote_failure(failure: &PackFailure, error: Error) -> UpdateResult {
    match failure.get() {
        Some(failure) => failure.into(),
        None => error.into(),
    }
}

/// Returns the result of an update after the pushes.
fn result(diverged: &[String], refused: &[(String, String)]) -> UpdateResult {
    let lists = [
        (
            "Some refs have diverged and have not been updated:",
            diverged.to_vec(),
        ),
        ("Some refs have not been updated:", with_reasons(refused)),
    ];
    match omitted_refs(lists) {
        None => UpdateResult::Finished,
        Some(text) => UpdateResult::Incomplete(text),
    }
}

#[cfg(test)]
mod tests {
    use sha1::{Digest, Sha1};

    use super::*;

    #[test]
    fn empty_pack_has_a_valid_checksum() {
        let (content, checksum) = EMPTY_PACK.split_at(EMPTY_PACK.len() - 20);
        assert_eq!(Sha1::digest(content).to_vec(), checksum);
    }
}
