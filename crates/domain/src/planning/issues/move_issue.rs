//! Moves issues to other projects.

use sea_orm::{
    ActiveModelTrait,
    ActiveValue::{NotSet, Set},
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
    sea_query::LockType,
};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issuables::{assignees_of, label_titles_of};
use storage::entities::{
    Scope, award_emoji, epic_issues, issue_links, issues, merge_requests, milestones, namespace_ancestors,
    notes, now, projects,
};

use super::row::{self, IssueDetail};
use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::text::references::{self, LargestIids};
use crate::kernel::urls;
use crate::planning::issuables::events::IssuableChange;
use crate::planning::issuables::{IssuableKind, PreparedMetadata, assignable_users};
use crate::planning::issues::events::publish;
use crate::planning::labels::lock_by_title;
use crate::planning::system_notes::{self, NoteableId};

/// Number of notes or award emoji that are copied per statement.
const BATCH_SIZE: usize = 500;

/// Closes an issue and continues it as a copy in another project.
///
/// # Errors
/// Returns `Error::NotFound` if the issue or the other project is not visible to the caller. Returns
/// `Error::Rejected` if the projects are the same, the caller may not move the issue there, or it was moved
/// before. Returns `Error::Contention` if its assignees or its milestone changed concurrently.
pub async fn move_to(backend: &Backend, access: &ProjectAccess, iid: i64, to: i64) -> Result<IssueDetail> {
    let author = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let target = ProjectAccess::find(backend, access.caller.clone(), &to.to_string()).await?;
    if target.project.id == access.project.id {
        return Err(rejected("Cannot move issue to project it originates from!"));
    }
    let is_available = target
        .effective_access()
        .has_feature(target.project.issues_access_level)
        && !target.project.archived;
    if !is_available || !target.has_role(Role::Reporter) {
        return Err(rejected("Cannot move issue due to insufficient permissions!"));
    }
    let known_assignee_ids = assignee_ids(backend.database.read(), found.id).await?;
    // Assignees who cannot see the new project are dropped.
    let assignees = assignable_users(backend, &target, IssuableKind::Issue, &known_assignee_ids).await?;
    let issue = backend
        .database
        .transaction(async |transaction| {
            let space = SpaceAccess::from(target.clone())
                .lock_location(transaction)
                .await?;
            // Referenced rows are locked before the issue.
            let milestone = lock_milestone(transaction, &space, found.milestone_id).await?;
            let known_titles = label_titles(transaction, found.id).await?;
            let mut labels = lock_labels(transaction, &space, &known_titles).await?;
            let old = lock(transaction, access, iid).await?;
            let titles = label_titles(transaction, old.id).await?;
            if titles != known_titles {
                // The labels were changed meanwhile.
                labels = lock_labels(transaction, &space, &titles).await?;
            }
            let has_known_milestone = old.milestone_id == found.milestone_id;
            if !has_known_milestone || assignee_ids(transaction, old.id).await? != known_assignee_ids {
                return Err(Error::Contention);
            }
            lock_projects(transaction, [access.project.id, target.project.id]).await?;
            if old.moved_to_id.is_some() {
                return Err(rejected("Cannot move issue that was moved already!"));
            }
            let texts = SourceTexts::of(transaction, access).await?;
            let new = copy_issue(transaction, &target, &old, milestone.as_ref(), &texts).await?;
            PreparedMetadata::for_move(assignees, labels)
                .link(transaction, &target, (IssuableKind::Issue, new.id), true)
                .await?;
            copy_notes(transaction, old.id, new.id, &texts).await?;
            copy_awards(transaction, old.id, new.id).await?;
            epic_issues::reassign(transaction, space.namespace.id, old.id, new.id).await?;
            issue_links::reassign(transaction, old.id, new.id).await?;
            let new = lock_copy(transaction, new.id).await?;
            let at = now();
            let mut row = old.clone().into_active_model();
            row.moved_to_id = Set(Some(new.id));
            row.updated_at = Set(at);
            if old.state == issues::IssueState::Opened {
                row.state = Set(issues::IssueState::Closed);
                row.closed_at = Set(Some(at));
                row.closed_by_id = Set(Some(author));
            }
            let closed = row.update(transaction).await?;
            let closing = IssuableChange::updated(Some(author), &old, &closed, Vec::new());
            publish(transaction, closing).await?;
            publish(transaction, IssuableChange::created(author, &new)).await?;
            let (new_id, old_id) = (NoteableId::Issue(new.id), NoteableId::Issue(old.id));
            let moved_to = format!("moved to {}", reference(&target, new.iid));
            let moved_from = format!("moved from {}", reference(access, old.iid));
            let notes = [
                system_notes::cross_reference(old_id, new_id, Some(author), moved_to),
                system_notes::cross_reference(new_id, old_id, Some(author), moved_from),
            ];
            notes::Entity::insert_many(notes)
                .exec_without_returning(transaction)
                .await?;
            Ok::<_, Error>(new)
        })
        .await?;
    row::load_written(backend, &access.caller, issue).await
}

/// Locks both projects, whose issue counts change, in order of their IDs, so that concurrent moves in
/// opposite directions do not deadlock.
async fn lock_projects(transaction: &DatabaseTransaction, ids: [i64; 2]) -> Result<()> {
    let locked = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::Id.is_in(ids))
        .order_by_asc(projects::Column::Id)
        .lock(LockType::NoKeyUpdate);
    locked.into_tuple::<i64>().all(transaction).await?;
    Ok(())
}

/// Returns the issue with everything that was copied.
async fn lock_copy(transaction: &DatabaseTransaction, id: i64) -> Result<issues::Model> {
    let found = issues::lock(transaction, id).await?;
    found.ok_or_else(|| Error::internal(format!("issue {id} was not found")))
}

fn rejected(text: &'static str) -> Error {
    Error::Rejected(text.into())
}

fn reference(access: &ProjectAccess, iid: i64) -> String {
    format!("{}#{iid}", urls::project_path(&access.namespace, &access.project))
}

/// Texts of the former project, which are copied to the new one.
struct SourceTexts {
    /// Full path of the former project.
    path: String,
    largest: LargestIids,
}

impl SourceTexts {
    async fn of(transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<Self> {
        use merge_requests::Column as MergeRequest;

        let project_id = access.project.id;
        let issue: Option<Option<i64>> = issues::Entity::find()
            .select_only()
            .column_as(issues::Column::Iid.max(), "iid")
            .filter(issues::Column::ProjectId.eq(project_id))
            .into_tuple()
            .one(transaction)
            .await?;
        let merge_request: Option<Option<i64>> = merge_requests::Entity::find()
            .select_only()
            .column_as(MergeRequest::Iid.max(), "iid")
            .filter(MergeRequest::TargetProjectId.eq(project_id))
            .into_tuple()
            .one(transaction)
            .await?;
        Ok(Self {
            path: urls::project_path(&access.namespace, &access.project),
            largest: LargestIids {
                issue: issue.flatten().unwrap_or_default(),
                merge_request: merge_request.flatten().unwrap_or_default(),
            },
        })
    }

    /// Returns a text whose short references still belong to the former project.
    fn qualify(&self, text: &str) -> String {
        references::qualify(text, &self.path, self.largest)
    }
}

/// Inserts the row of the issue in its new project, without references to the old one.
async fn copy_issue(
    transaction: &DatabaseTransaction,
    target: &ProjectAccess,
    old: &issues::Model,
    milestone: Option<&milestones::Model>,
    texts: &SourceTexts,
) -> Result<issues::Model> {
    let project_id = target.project.id;
    let iid = iid_counters::next(transaction, Scope::Project(project_id), IidKind::Issues).await?;
    let row = issues::ActiveModel {
        id: NotSet,
        project_id: Set(project_id),
        iid: Set(iid),
        description: Set(old.description.as_deref().map(|text| texts.qualify(text))),
        milestone_id: Set(milestone.map(|milestone| milestone.id)),
        milestone_due_on: Set(milestone.and_then(|milestone| milestone.due_date)),
        label_priority: Set(None),
        relative_position: Set(None),
        merge_requests_count: Set(0),
        updated_at: Set(now()),
        ..old.clone().into_active_model().reset_all()
    };
    Ok(row.insert(transaction).await?)
}

/// Returns the titles of the labels of an issue.
async fn label_titles(transaction: &DatabaseTransaction, issue_id: i64) -> Result<Vec<String>> {
    let labels = label_titles_of(transaction, IssuableKind::Issue, issue_id).await?;
    Ok(labels.into_iter().map(|(_, title)| title).collect())
}

/// Locks the existing labels with these titles until the transaction ends.
async fn lock_labels(
    transaction: &DatabaseTransaction,
    target: &SpaceAccess,
    titles: &[String],
) -> Result<Vec<i64>> {
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    lock_by_title(transaction, target, &titles).await
}

/// Returns the IDs of the assignees of an issue in order of assignment.
async fn assignee_ids(db: &impl ConnectionTrait, issue_id: i64) -> Result<Vec<i64>> {
    let assignees = assignees_of(db, IssuableKind::Issue, [issue_id]).await?;
    Ok(assignees.into_values().flatten().map(|user| user.id).collect())
}

/// Returns the milestone of the new project with the title of the former one: its own one, or else that of the nearest
/// group. Locks all milestones with this title until the transaction ends.
async fn lock_milestone(
    transaction: &DatabaseTransaction,
    target: &SpaceAccess,
    former: Option<i64>,
) -> Result<Option<milestones::Model>> {
    let Some(id) = former else {
        return Ok(None);
    };
    let Some(former) = milestones::Entity::find_by_id(id).one(transaction).await? else {
        return Ok(None);
    };
    let same_title = milestones::available(target.scope(), target.namespace.id)
        .filter(milestones::Column::Title.eq(former.title))
        .order_by_asc(milestones::Column::Id)
        .lock(LockType::KeyShare)
        .all(transaction)
        .await?;
    let ancestors = namespace_ancestors::of(transaction, target.namespace.id).await?;
    // The milestone of a project has no distance, which sorts first.
    let distance = |milestone: &milestones::Model| {
        let mut ancestors = ancestors.iter();
        ancestors.position(|row| Some(row.ancestor_id) == milestone.namespace_id)
    };
    Ok(same_title.into_iter().min_by_key(distance))
}

/// Copies the notes in batches, oldest first.
async fn copy_notes(
    transaction: &DatabaseTransaction,
    old: i64,
    new: i64,
    texts: &SourceTexts,
) -> Result<()> {
    let mut last = 0;
    loop {
        let batch = notes::Entity::find()
            .filter(notes::Column::IssueId.eq(old))
            .filter(notes::Column::Id.gt(last))
            .order_by_asc(notes::Column::Id)
            .limit(BATCH_SIZE as u64)
            .all(transaction)
            .await?;
        let Some(note) = batch.last() else {
            return Ok(());
        };
        last = note.id;
        let rows = batch.into_iter().map(|note| notes::ActiveModel {
            id: NotSet,
            issue_id: Set(Some(new)),
            body: Set(texts.qualify(&note.body)),
            ..note.into_active_model().reset_all()
        });
        notes::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
}

async fn copy_awards(transaction: &DatabaseTransaction, old: i64, new: i64) -> Result<()> {
    let awards = award_emoji::Entity::find()
        .filter(award_emoji::Column::IssueId.eq(old))
        .order_by_asc(award_emoji::Column::Id)
        .all(transaction)
        .await?;
    for batch in awards.chunks(BATCH_SIZE) {
        let rows = batch.iter().map(|award| award_emoji::ActiveModel {
            id: NotSet,
            issue_id: Set(Some(new)),
            ..award.clone().into_active_model().reset_all()
        });
        award_emoji::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(())
}
