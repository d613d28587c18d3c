//! Effects of ref updates on merge requests. A push to the source adds commits, its deletion closes the merge
//! request, and a target that contains the commits marks it as merged
//! (`docs/adr/0020-merge-with-git-merge-tree.md`).

use std::collections::{HashMap, HashSet};

use futures_util::future::BoxFuture;
use git::{CommitQuery, Oid, Repository};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};
use storage::database::Database;
use storage::entities::merge_requests::{self, Column, Entity, MergeRequestState, MergeStatus, Model};
use storage::entities::{approvals, merge_request_commits, merge_request_versions, now};
use storage::jobs;

use crate::activity::push_data::MAX_COUNTED_COMMITS;
use crate::code::push_events::{between, oid};
use crate::code::repository_access;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{PlannedEffect, RefChange, RefUpdate, RefUpdateListener, UpdatedRefs};
use crate::planning::issuables::events::{IssuableChange, publish};
use crate::planning::system_notes;
use crate::review::jobs::create_merge_request::CreateMergeRequest;
use crate::review::jobs::post_merge::PostMerge;
use crate::review::jobs::update_head_ref::UpdateHeadRef;
use crate::review::merge_requests::auto_merge::{self, ApprovedMerge};
use crate::review::merge_requests::push_creation;

/// Maximum number of branches in one statement.
const BATCH_SIZE: usize = 500;

/// Maximum number of new commits listed in a note.
const MAX_LISTED_COMMITS: usize = 100;

/// Maximum number of new commits of a target branch that are listed to find merged heads.
const MAX_SEARCHED_COMMITS: usize = 1_000;

/// The plan of a merge that is about to happen, stored in the row of the merge request meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MergePlan {
    /// The head that is merged. Later pushes are not part of the merge.
    pub head: String,
    /// The future head of the target branch.
    pub tip: String,
    /// The merge commit.
    pub merge_commit_sha: Option<String>,
    /// The squash commit.
    pub squash_commit_sha: Option<String>,
    /// Whether to delete the source branch after the merge.
    pub remove_source_branch: bool,
    /// The target branch. Absent in plans of earlier releases.
    #[serde(default)]
    pub target: Option<PlannedTarget>,
    /// The approved automatic merge of the merge request, which remains if this merge fails.
    #[serde(default)]
    pub approved: Option<ApprovedMerge>,
}

/// The target branch of a planned merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlannedTarget {
    /// The name of the branch.
    pub branch: String,
    /// The merge base.
    pub base: String,
    /// The head of the branch before the merge.
    pub start: String,
}

impl MergePlan {
    /// Returns the plan in the row of a merge request.
    pub fn of(merge_request: &Model) -> Option<Self> {
        Self::parse(merge_request.merge_params.as_deref())
    }

    fn parse(params: Option<&str>) -> Option<Self> {
        serde_json::from_str(params?).ok()
    }
}

/// Effects of ref updates on open merge requests, determined before they are recorded.
#[derive(Debug, Default)]
struct MergeRequestEffects {
    new_heads: Vec<NewHead>,
    orphaned: Vec<i64>,
    merged: Vec<(i64, Option<MergePlan>)>,
    /// Branches that are the target of open merge requests.
    targets: Vec<String>,
    /// Merge requests that the push requests.
    requested: Vec<CreateMergeRequest>,
}

/// A merge request whose source changed.
#[derive(Debug)]
struct NewHead {
    id: i64,
    new: String,
    /// The text of the note about the new commits.
    note: String,
}

/// Columns that are read: descriptions may be long and merge requests many.
type OpenMergeRequest = (i64, String, String, Option<String>);

/// Updates merge requests after ref updates.
pub struct MergeRequestUpdates;

impl RefUpdateListener for MergeRequestUpdates {
    fn plan<'a>(
        &'a self,
        database: &'a Database,
        refs: &'a UpdatedRefs<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn PlannedEffect>>> {
        Box::pin(async move {
            let mut planned = plan(database.read(), refs.project.id, refs.repository, refs.changes).await?;
            planned.requested = push_creation::requested(refs);
            let merges = refs.update.merges;
            if let Some(id) = merges.filter(|id| planned.merged.iter().all(|(merged, _)| merged != id)) {
                let merge = planned_merge(database.read(), refs, id).await?;
                planned.merged.extend(merge);
            }
            Ok(Box::new(planned) as Box<dyn PlannedEffect>)
        })
    }
}

impl PlannedEffect for MergeRequestEffects {
    fn apply<'a>(
        self: Box<Self>,
        transaction: &'a DatabaseTransaction,
        update: &'a RefUpdate,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { apply(transaction, update, &self).await })
    }
}

/// Determines the effects of ref updates of a project.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
async fn plan(
    db: &impl sea_orm::ConnectionTrait,
    project_id: i64,
    repository: &Repository,
    changes: &[RefChange],
) -> Result<MergeRequestEffects> {
    let branches: HashMap<&str, &RefChange> = changes
        .iter()
        .filter(|change| change.old != change.new)
        .filter_map(|change| Some((change.reference.strip_prefix("refs/heads/")?, change)))
        .collect();
    let names: Vec<&str> = branches.keys().copied().collect();
    let (source, target) = (Column::SourceProjectId, Column::TargetProjectId);
    let mut effects = MergeRequestEffects::default();
    // One branch may be the source of several merge requests.
    let (mut heads, mut notes) = (HashMap::new(), HashMap::<String, String>::new());
    for names in names.chunks(BATCH_SIZE) {
        for (id, branch, _, _) in find_open(db, source.eq(project_id), Column::SourceBranch, names).await? {
            let Some(change) = branches.get(branch.as_str()) else {
                continue;
            };
            match &change.new {
                None => effects.orphaned.push(id),
                Some(new) => {
                    heads.insert(id, new.clone());
                    let note = match notes.get(&branch) {
                        Some(note) => note.clone(),
                        None => commits_note(repository, change, new).await?,
                    };
                    notes.insert(branch, note.clone());
                    let new = new.clone();
                    effects.new_heads.push(NewHead { id, new, note });
                }
            }
        }
        let mut by_target: HashMap<String, Vec<OpenMergeRequest>> = HashMap::new();
        for merge_request in find_open(db, target.eq(project_id), Column::TargetBranch, names).await? {
            let branch = merge_request.1.clone();
            by_target.entry(branch).or_default().push(merge_request);
        }
        for (branch, merge_requests) in by_target {
            let merge_requests: Vec<(i64, String, Option<MergePlan>)> = merge_requests
                .into_iter()
                .map(|(id, _, head, plan)| {
                    let plan = MergePlan::parse(plan.as_deref());
                    (id, heads.get(&id).cloned().unwrap_or(head), plan)
                })
                .collect();
            let mut searched: Vec<Oid> = Vec::new();
            for (_, head, plan) in &merge_requests {
                searched.extend(oid(head));
                searched.extend(plan.as_ref().and_then(|plan| oid(&plan.tip)));
            }
            let added = match branches.get(branch.as_str()) {
                Some(change) => added_commits(repository, change, searched).await?,
                None => HashSet::new(),
            };
            let is_added = |id: &str| oid(id).is_some_and(|id| added.contains(&id));
            for (id, head, plan) in merge_requests {
                let plan = plan.filter(|plan| is_added(&plan.tip));
                if plan.is_some() || is_added(&head) {
                    effects.merged.push((id, plan));
                }
            }
            effects.targets.push(branch);
        }
    }
    Ok(effects)
}

/// Returns the merge that an update carries out, with its plan. After the plan was stored, the merge request may have
/// been closed or may have received another target branch.
async fn planned_merge(
    db: &impl sea_orm::ConnectionTrait,
    refs: &UpdatedRefs<'_>,
    id: i64,
) -> Result<Option<(i64, Option<MergePlan>)>> {
    let merge_request = Entity::find_by_id(id).one(db).await?;
    let plan = merge_request.as_ref().and_then(MergePlan::of);
    let tips: HashSet<&str> = refs
        .changes
        .iter()
        .filter_map(|change| change.new.as_deref())
        .collect();
    let plan = plan.filter(|plan| tips.contains(plan.tip.as_str()));
    Ok(plan.map(|plan| (id, Some(plan))))
}

/// Returns the open merge requests with one of these branches in a column.
async fn find_open(
    db: &impl sea_orm::ConnectionTrait,
    project: Expr,
    branch: Column,
    names: &[&str],
) -> Result<Vec<OpenMergeRequest>> {
    let rows = Entity::find()
        .select_only()
        .columns([Column::Id, branch, Column::HeadSha, Column::MergeParams])
        .filter(project)
        .filter(branch.is_in(names.iter().copied()))
        .filter(Column::State.eq(MergeRequestState::Opened))
        .order_by_asc(Column::Id);
    Ok(rows.into_tuple().all(db).await?)
}

/// Returns the commits that an update added to a branch: the new head contains them, and the former head does not.
/// If an update added many commits, only those of `searched` are returned. Empty for a new branch.
async fn added_commits(
    repository: &Repository,
    change: &RefChange,
    searched: Vec<Oid>,
) -> Result<HashSet<Oid>> {
    let commits = change
        .old
        .as_deref()
        .and_then(oid)
        .zip(change.new.as_deref().and_then(oid));
    let Some((old, new)) = commits else {
        return Ok(HashSet::new());
    };
    // The few commits of a usual push are listed faster than the history is searched for the oldest head.
    let listed = repository
        .list_commits(commits_between(old, new, MAX_SEARCHED_COMMITS))
        .await?;
    if listed.len() < MAX_SEARCHED_COMMITS {
        return Ok(listed.into_iter().collect());
    }
    // The repository may lack the head of a fork, which is fetched in a job.
    let existing = repository.existing_commits(searched).await?;
    let existing = existing.iter().map(|commit| commit.id).collect();
    let mut added = repository.merged_into(new, existing).await?;
    let former = repository
        .merged_into(old, added.iter().copied().collect())
        .await?;
    added.retain(|id| !former.contains(id));
    Ok(added)
}

fn commits_between(old: Oid, new: Oid, limit: usize) -> CommitQuery {
    CommitQuery {
        selection: between(Some(old), new),
        offset: 0,
        limit,
    }
}

/// Returns the note about new commits, oldest first.
///
/// # Errors
/// Returns an error if a Git operation fails.
pub(super) async fn commits_note(repository: &Repository, change: &RefChange, new: &str) -> Result<String> {
    let commits = change.old.as_deref().and_then(oid).zip(oid(new));
    let (commits, count) = match commits {
        Some((old, new)) => {
            let ids = repository
                .list_commits(commits_between(old, new, MAX_LISTED_COMMITS))
                .await?;
            let selection = between(Some(old), new);
            let count = match ids.len() {
                MAX_LISTED_COMMITS => repository.count_commits(selection, MAX_COUNTED_COMMITS).await?,
                count => count,
            };
            (
                repository_access::commits_of_limited_size(repository, ids).await?,
                count,
            )
        }
        None => (Vec::new(), 0),
    };
    let mut text = match count {
        1 => "added 1 commit\n".to_owned(),
        count => format!("added {count} commits\n"),
    };
    for commit in commits.iter().rev() {
        let id = commit.id.to_string();
        text.push_str(&format!("\n* {} - {}", &id[..8], commit.title()));
    }
    Ok(text)
}

/// Records the effects, in the transaction that records the ref updates.
///
/// # Errors
/// Returns an error if a database query fails.
async fn apply(
    transaction: &DatabaseTransaction,
    update: &RefUpdate,
    effects: &MergeRequestEffects,
) -> Result<()> {
    for new_head in &effects.new_heads {
        update_head(transaction, update, new_head).await?;
    }
    for id in &effects.orphaned {
        if let Some(before) = lock_open(transaction, *id).await? {
            close_orphaned(transaction, update.user_id, &before).await?;
        }
    }
    for request in &effects.requested {
        jobs::enqueue(transaction, request)
            .await
            .map_err(Error::internal)?;
    }
    for (id, plan) in &effects.merged {
        record_merge(transaction, update, *id, plan.as_ref()).await?;
    }
    for targets in effects.targets.chunks(BATCH_SIZE) {
        // Mergeability is recomputed on the next read.
        Entity::update_many()
            .col_expr(Column::MergeStatus, Expr::value(MergeStatus::Unchecked))
            .filter(Column::TargetProjectId.eq(update.project_id))
            .filter(Column::TargetBranch.is_in(targets.iter().map(String::as_str)))
            .filter(Column::State.eq(MergeRequestState::Opened))
            .filter(Column::MergeStatus.ne(MergeStatus::Unchecked))
            .exec(transaction)
            .await?;
    }
    Ok(())
}

async fn lock_open(transaction: &DatabaseTransaction, id: i64) -> Result<Option<Model>> {
    let found = merge_requests::lock(transaction, id).await?;
    Ok(found.filter(|row| row.state == MergeRequestState::Opened))
}

/// Closes an open merge request whose source branch was deleted. The row must be locked.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn close_orphaned(
    transaction: &DatabaseTransaction,
    user_id: Option<i64>,
    before: &Model,
) -> Result<Model> {
    let mut row = before.clone().into_active_model();
    row.state = Set(MergeRequestState::Closed);
    row.closed_at = Set(Some(now()));
    row.closed_by_id = Set(user_id);
    let mut notes = vec!["closed".to_owned()];
    if before.merge_when_pipeline_succeeds {
        auto_merge::clear(&mut row);
        notes.push(auto_merge::cancellation_note("the source branch was deleted"));
    }
    save(transaction, user_id, before, row, notes).await
}

/// Sets the new head of an open merge request, cancels its automatic merge and deletes its approvals. The row must be
/// locked.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn apply_new_head(
    transaction: &DatabaseTransaction,
    user_id: Option<i64>,
    before: &Model,
    head: &str,
    note: String,
) -> Result<Model> {
    let mut row = before.clone().into_active_model();
    row.head_sha = Set(head.to_owned());
    row.merge_status = Set(MergeStatus::Unchecked);
    row.merge_error = Set(None);
    let mut notes = vec![note];
    if before.merge_when_pipeline_succeeds {
        auto_merge::clear(&mut row);
        notes.push(auto_merge::cancellation_note("new commits were added"));
    }
    if approvals::reset(transaction, before).await? {
        notes.push("removed all approvals because new commits were added".to_owned());
    }
    let after = save(transaction, user_id, before, row, notes).await?;
    merge_request_versions::insert(transaction, &after, after.updated_at).await?;
    Ok(after)
}

async fn update_head(
    transaction: &DatabaseTransaction,
    update: &RefUpdate,
    new_head: &NewHead,
) -> Result<()> {
    let Some(before) = lock_open(transaction, new_head.id).await? else {
        return Ok(());
    };
    if before.head_sha == new_head.new {
        return Ok(());
    }
    apply_new_head(
        transaction,
        update.user_id,
        &before,
        &new_head.new,
        new_head.note.clone(),
    )
    .await?;
    let job = UpdateHeadRef {
        merge_request_id: new_head.id,
    };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

async fn record_merge(
    transaction: &DatabaseTransaction,
    update: &RefUpdate,
    id: i64,
    plan: Option<&MergePlan>,
) -> Result<()> {
    let found = merge_requests::lock(transaction, id).await?;
    let Some(before) = found.filter(|row| can_become_merged(row, plan)) else {
        return Ok(());
    };
    let mut row = before.clone().into_active_model();
    let mut notes = Vec::new();
    row.state = Set(MergeRequestState::Merged);
    row.closed_at = Set(None);
    row.closed_by_id = Set(None);
    if let Some(plan) = plan {
        row.head_sha = Set(plan.head.clone());
        notes.extend(restore_target(&mut row, &before, plan));
    }
    notes.push("merged".to_owned());
    row.merged_at = Set(Some(now()));
    row.merged_by_id = Set(update.user_id);
    row.merge_status = Set(MergeStatus::CanBeMerged);
    row.merge_error = Set(None);
    row.merge_params = Set(None);
    row.merge_when_pipeline_succeeds = Set(false);
    row.merge_commit_message = Set(None);
    row.squash_commit_message = Set(None);
    row.merge_commit_sha = Set(plan.and_then(|plan| plan.merge_commit_sha.clone()));
    row.squash_commit_sha = Set(plan.and_then(|plan| plan.squash_commit_sha.clone()));
    let after = save(transaction, update.user_id, &before, row, notes).await?;
    if after.head_sha != before.head_sha || after.target_branch != before.target_branch {
        // A push or another target branch came after the plan of the merge, and is not part of it.
        merge_request_versions::insert(transaction, &after, after.updated_at).await?;
    }
    let merges = after.merge_commit_sha.into_iter().chain(after.squash_commit_sha);
    merge_request_commits::add(transaction, id, &merges.collect::<Vec<_>>()).await?;
    let job = PostMerge {
        merge_request_id: id,
        user_id: update.user_id,
        remove_source_branch: plan.is_some_and(|plan| plan.remove_source_branch),
    };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Returns whether a merge request becomes merged. A closed one does if it was closed after the plan of the merge was
/// stored.
fn can_become_merged(merge_request: &Model, plan: Option<&MergePlan>) -> bool {
    match merge_request.state {
        MergeRequestState::Opened => true,
        MergeRequestState::Closed => plan.is_some_and(|plan| {
            let stored = MergePlan::of(merge_request);
            stored.is_some_and(|stored| stored.tip == plan.tip)
        }),
        MergeRequestState::Locked | MergeRequestState::Merged => false,
    }
}

/// Restores the commits and the target branch of the merge, if they changed after its plan was stored. Returns the note
/// about the target branch.
fn restore_target(row: &mut merge_requests::ActiveModel, before: &Model, plan: &MergePlan) -> Option<String> {
    let target = plan.target.as_ref()?;
    let has_other_target = target.branch != before.target_branch;
    if !has_other_target && plan.head == before.head_sha {
        return None;
    }
    row.target_branch = Set(target.branch.clone());
    row.base_sha = Set(target.base.clone());
    row.start_sha = Set(target.start.clone());
    has_other_target.then(|| system_notes::target_branch_changed(&before.target_branch, &target.branch))
}

/// Updates the row, publishes the change and returns the updated row.
async fn save(
    transaction: &DatabaseTransaction,
    user_id: Option<i64>,
    before: &Model,
    mut row: merge_requests::ActiveModel,
    notes: Vec<String>,
) -> Result<Model> {
    row.updated_at = Set(now());
    let after = row.update(transaction).await?;
    let change = IssuableChange {
        old_head: (before.head_sha != after.head_sha).then(|| before.head_sha.clone()),
        ..IssuableChange::updated(user_id, before, &after, notes)
    };
    publish(transaction, change).await?;
    Ok(after)
}
