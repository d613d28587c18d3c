//! Moves issues to other projects.

use sea_orm::{
    ActiveModelTrait,
    ActiveValue::{NotSet, Set},
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
    sea_query::LockType,
};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issuables::{assignees_of, labels_of};
use storage::entities::{Scope, award_emoji, epic_issues, issues, milestones, notes, now, projects};

use super::row::{self, Row};
use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::urls;
use crate::planning::issuables::{IssuableKind, Prepared, assignable, require};
use crate::planning::issues::events::{Told, tell};
use crate::planning::labels::lock_by_title;
use crate::planning::system_notes::{self, NoteableId};

/// Notes copied per statement.
const AT_ONCE: usize = 500;

/// Closes an issue and continues it as a copy in another project.
///
/// # Errors
/// Returns `Error::NotFound` if the issue or the other project is not visible to the caller. Returns
/// `Error::Rejected` if the projects are the same, the caller may not move the issue there, or it was moved
/// before. Returns `Error::Contention` if its assignees changed concurrently.
pub async fn move_to(backend: &Backend, access: &ProjectAccess, iid: i64, to: i64) -> Result<Row> {
    let author = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let target = ProjectAccess::find(backend, access.caller.clone(), &to.to_string()).await?;
    if target.project.id == access.project.id {
        return Err(refused("Cannot move issue to project it originates from!"));
    }
    let open = target
        .effective_access()
        .has_feature(target.project.issues_access_level)
        && !target.project.archived;
    if !open || require(&target, Role::Reporter).is_err() {
        return Err(refused("Cannot move issue due to insufficient permissions!"));
    }
    let assigned_before = assigned(backend.database.read(), found.id).await?;
    // Assignees who cannot see the new project are dropped.
    let assignees = assignable(backend, &target, IssuableKind::Issue, &assigned_before).await?;
    let issue = backend
        .database
        .transaction(async |transaction| {
            let known = titles(transaction, found.id).await?;
            let mut labels = labels(transaction, &target, &known).await?;
            let old = lock(transaction, access, iid).await?;
            let carried = titles(transaction, old.id).await?;
            if carried != known {
                // The labels were changed meanwhile.
                labels = self::labels(transaction, &target, &carried).await?;
            }
            if assigned(transaction, old.id).await? != assigned_before {
                return Err(Error::Contention);
            }
            lock_projects(transaction, [access.project.id, target.project.id]).await?;
            if old.moved_to_id.is_some() {
                return Err(refused("Cannot move issue that was moved already!"));
            }
            let new = copy(transaction, &target, &old).await?;
            Prepared::brought(assignees, labels)
                .attach(transaction, &target, (IssuableKind::Issue, new.id), true)
                .await?;
            replan(transaction, &target, &old, &new).await?;
            copy_notes(transaction, old.id, new.id).await?;
            copy_awards(transaction, old.id, new.id).await?;
            epic_issues::reassign(transaction, target.namespace.id, old.id, new.id).await?;
            let new = lock_again(transaction, new.id).await?;
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
            let left = Told {
                access,
                author,
                before: Some(&old),
                after: &closed,
            };
            tell(transaction, left, Vec::new()).await?;
            let arrived = Told {
                access: &target,
                author,
                before: None,
                after: &new,
            };
            tell(transaction, arrived, Vec::new()).await?;
            let (there, here) = (NoteableId::Issue(new.id), NoteableId::Issue(old.id));
            let gone = format!("moved to {}", reference(&target, new.iid));
            let come = format!("moved from {}", reference(access, old.iid));
            let notes = [
                system_notes::naming(here, there, Some(author), gone),
                system_notes::naming(there, here, Some(author), come),
            ];
            notes::Entity::insert_many(notes)
                .exec_without_returning(transaction)
                .await?;
            Ok::<_, Error>(new)
        })
        .await?;
    row::of_one(backend, &access.caller, issue).await
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
async fn lock_again(transaction: &DatabaseTransaction, id: i64) -> Result<issues::Model> {
    let found = issues::lock(transaction, id).await?;
    found.ok_or_else(|| Error::internal(format!("issue {id} was not found")))
}

fn refused(text: &'static str) -> Error {
    Error::Rejected(text.into())
}

fn reference(access: &ProjectAccess, iid: i64) -> String {
    format!("{}#{iid}", urls::project_path(&access.namespace, &access.project))
}

/// Inserts the row of the issue in its new project, without references to the old one.
async fn copy(
    transaction: &DatabaseTransaction,
    target: &ProjectAccess,
    old: &issues::Model,
) -> Result<issues::Model> {
    let project_id = target.project.id;
    let iid = iid_counters::next(transaction, Scope::Project(project_id), IidKind::Issues).await?;
    let row = issues::ActiveModel {
        id: NotSet,
        project_id: Set(project_id),
        iid: Set(iid),
        milestone_id: Set(None),
        milestone_due_on: Set(None),
        label_priority: Set(None),
        relative_position: Set(None),
        merge_requests_count: Set(0),
        updated_at: Set(now()),
        ..old.clone().into_active_model().reset_all()
    };
    Ok(row.insert(transaction).await?)
}

/// Returns the titles of the labels of an issue.
async fn titles(transaction: &DatabaseTransaction, issue_id: i64) -> Result<Vec<String>> {
    let carried = labels_of(transaction, IssuableKind::Issue, [issue_id]).await?;
    let titles = carried.into_values().flatten().map(|label| label.title);
    Ok(titles.collect())
}

/// Locks the existing labels with these titles until the transaction ends.
async fn labels(
    transaction: &DatabaseTransaction,
    target: &ProjectAccess,
    titles: &[String],
) -> Result<Vec<i64>> {
    let wanted: Vec<&str> = titles.iter().map(String::as_str).collect();
    lock_by_title(transaction, &SpaceAccess::from(target.clone()), &wanted).await
}

/// Returns the IDs of the assignees of an issue in order of assignment.
async fn assigned(db: &impl ConnectionTrait, issue_id: i64) -> Result<Vec<i64>> {
    let found = assignees_of(db, IssuableKind::Issue, [issue_id]).await?;
    Ok(found.into_values().flatten().map(|user| user.id).collect())
}

/// Assigns the milestone with the same title, if there is one.
async fn replan(
    transaction: &DatabaseTransaction,
    target: &ProjectAccess,
    old: &issues::Model,
    new: &issues::Model,
) -> Result<()> {
    let Some(id) = old.milestone_id else {
        return Ok(());
    };
    let Some(former) = milestones::Entity::find_by_id(id).one(transaction).await? else {
        return Ok(());
    };
    let place = SpaceAccess::from(target.clone());
    let alike = milestones::available(place.scope(), place.namespace.id)
        .filter(milestones::Column::Title.eq(former.title))
        .one(transaction)
        .await?;
    if let Some(milestone) = alike {
        let row = issues::ActiveModel {
            id: Set(new.id),
            milestone_id: Set(Some(milestone.id)),
            milestone_due_on: Set(milestone.due_date),
            ..Default::default()
        };
        row.update(transaction).await?;
    }
    Ok(())
}

/// Copies the notes in batches, oldest first.
async fn copy_notes(transaction: &DatabaseTransaction, old: i64, new: i64) -> Result<()> {
    let mut last = 0;
    loop {
        let some = notes::Entity::find()
            .filter(notes::Column::IssueId.eq(old))
            .filter(notes::Column::Id.gt(last))
            .order_by_asc(notes::Column::Id)
            .limit(AT_ONCE as u64)
            .all(transaction)
            .await?;
        let Some(end) = some.last() else {
            return Ok(());
        };
        last = end.id;
        let rows = some.into_iter().map(|note| notes::ActiveModel {
            id: NotSet,
            issue_id: Set(Some(new)),
            ..note.into_active_model().reset_all()
        });
        notes::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
}

async fn copy_awards(transaction: &DatabaseTransaction, old: i64, new: i64) -> Result<()> {
    let awarded = award_emoji::Entity::find()
        .filter(award_emoji::Column::IssueId.eq(old))
        .order_by_asc(award_emoji::Column::Id)
        .all(transaction)
        .await?;
    for some in awarded.chunks(AT_ONCE) {
        let rows = some.iter().map(|award| award_emoji::ActiveModel {
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
