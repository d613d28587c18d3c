//! Milestones of releases: those of the project and, on the Premium plan and above, those of its ancestor groups.

use std::collections::BTreeSet;

use sea_orm::sea_query::LockType;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use storage::entities::{Scope, milestones, release_milestones};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;

/// Maximum milestones of a release.
pub const MAX_MILESTONES: usize = 100;

/// The milestones of a release as a request names them.
#[derive(Debug, Clone)]
pub enum MilestoneSelection {
    /// By title.
    Titles(Vec<String>),
    /// By ID.
    Ids(Vec<i64>),
}

impl MilestoneSelection {
    /// Returns the selection of a request. Both lists together are an error.
    ///
    /// # Errors
    /// Returns `Error::InvalidParameters` if the request contains both lists.
    pub fn of(titles: Option<Vec<String>>, ids: Option<Vec<i64>>) -> Result<Option<Self>> {
        match (titles, ids) {
            (Some(_), Some(_)) => Err(Error::parameter(
                "Cannot specify milestones and milestone_ids at the same time",
            )),
            (Some(titles), None) => Ok(Some(Self::Titles(titles))),
            (None, Some(ids)) => Ok(Some(Self::Ids(ids))),
            (None, None) => Ok(None),
        }
    }
}

/// Returns the IDs of the selected milestones.
///
/// # Errors
/// Returns `Error::Rejected` if a milestone is not available in the project, or if there are too many.
pub(super) async fn resolve(
    backend: &Backend,
    access: &ProjectAccess,
    selection: &MilestoneSelection,
) -> Result<BTreeSet<i64>> {
    let count = match selection {
        MilestoneSelection::Titles(titles) => titles.len(),
        MilestoneSelection::Ids(ids) => ids.len(),
    };
    if count > MAX_MILESTONES {
        let text = format!("A release has too many milestones (maximum is {MAX_MILESTONES})");
        return Err(Error::Rejected(text.into()));
    }
    let scope = Scope::Project(access.project.id);
    let available = match backend.instance.plan < InstancePlan::Premium {
        true => milestones::within(scope),
        false => milestones::available(scope, access.namespace.id),
    };
    let db = backend.database.read();
    match selection {
        MilestoneSelection::Titles(titles) => {
            let titles: Vec<&str> = titles.iter().map(|title| title.trim()).collect();
            let found = available.filter(milestones::Column::Title.is_in(titles.iter().copied()));
            let found = found.all(db).await?;
            let known = |title: &str| found.iter().any(|milestone| milestone.title == title);
            let missing = titles
                .into_iter()
                .filter(|title| !known(title))
                .map(str::to_owned);
            check_missing("Milestone(s)", missing)?;
            Ok(found.into_iter().map(|milestone| milestone.id).collect())
        }
        MilestoneSelection::Ids(ids) => {
            let found = available.filter(milestones::Column::Id.is_in(ids.iter().copied()));
            let found: BTreeSet<i64> = found.all(db).await?.iter().map(|one| one.id).collect();
            let missing = ids.iter().filter(|id| !found.contains(id)).map(i64::to_string);
            check_missing("Milestone id(s)", missing)?;
            Ok(found)
        }
    }
}

fn check_missing(kind: &str, missing: impl Iterator<Item = String>) -> Result<()> {
    let missing: Vec<String> = missing.collect();
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let text = format!("{kind} not found: {}", missing.join(", "));
            Err(Error::Rejected(text.into()))
        }
    }
}

/// Locks milestones until the transaction ends, so that they cannot be deleted meanwhile. Milestones that were deleted
/// since they were found are omitted from the result.
pub(super) async fn lock(transaction: &DatabaseTransaction, ids: &BTreeSet<i64>) -> Result<BTreeSet<i64>> {
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows = milestones::Entity::find()
        .filter(milestones::Column::Id.is_in(ids.iter().copied()))
        .order_by_asc(milestones::Column::Id)
        .lock(LockType::KeyShare);
    Ok(rows.all(transaction).await?.iter().map(|row| row.id).collect())
}

/// Replaces the milestones of a release. The caller has locked them and the release. Returns whether they changed.
pub(super) async fn replace(
    transaction: &DatabaseTransaction,
    release_id: i64,
    ids: &BTreeSet<i64>,
) -> Result<bool> {
    let former = ids_of(transaction, release_id).await?;
    if former == *ids {
        return Ok(false);
    }
    release_milestones::Entity::delete_many()
        .filter(release_milestones::Column::ReleaseId.eq(release_id))
        .filter(release_milestones::Column::MilestoneId.is_not_in(ids.iter().copied()))
        .exec(transaction)
        .await?;
    let rows = ids.difference(&former).map(|id| release_milestones::ActiveModel {
        release_id: Set(release_id),
        milestone_id: Set(*id),
        ..Default::default()
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        release_milestones::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(true)
}

async fn ids_of(db: &impl ConnectionTrait, release_id: i64) -> Result<BTreeSet<i64>> {
    let rows = release_milestones::Entity::find()
        .filter(release_milestones::Column::ReleaseId.eq(release_id))
        .all(db)
        .await?;
    Ok(rows.into_iter().map(|row| row.milestone_id).collect())
}
