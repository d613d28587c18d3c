//! Lists of users for feature flags of projects (specification 2.11 and 4.10).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::feature_flag_user_lists::{self, ActiveModel, Column, Entity, Model};
use storage::entities::iid_counters::{self, Subject};
use storage::entities::{Scope, feature_flag_strategies, now};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::page_of;
use crate::services::preconditions;
use crate::services::projects;

/// How many lists a project may have.
const MOST: u64 = 200;

/// The longest id of a user, in characters.
const LONGEST_ID: usize = 256;

/// What is told of a text that names no users.
pub(in crate::services) const NO_USERS: &str =
    "must be a string of unique comma separated values each 256 characters or less";

/// What a caller says of a list; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// What it is called.
    pub name: Option<String>,
    /// The users, between commas.
    pub user_xids: Option<String>,
}

/// A page of a project's lists, the oldest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    let wanted = feature_flag_user_lists::of_project(access.project.id);
    page_of(backend.database.read(), wanted, page).await
}

/// One list of a project, by its number there.
///
/// # Errors
/// 404, also for one of another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Model> {
    let found = feature_flag_user_lists::of_project(access.project.id).filter(Column::Iid.eq(iid));
    found.one(backend.database.read()).await?.ok_or_else(missing)
}

/// Makes a list.
///
/// # Errors
/// 400 under each attribute that breaks a rule, for a name that another list has, and for more than a project may have.
pub async fn create(backend: &Backend, access: &ProjectAccess, change: Change) -> Result<Model> {
    let project_id = access.project.id;
    let mut row = ActiveModel {
        project_id: Set(project_id),
        created_at: Set(now()),
        ..Default::default()
    };
    apply(&mut row, change)?;
    backend
        .database
        .transaction(async |transaction| {
            // One at a time, so that two cannot both be the last.
            projects::hold(transaction, project_id).await?;
            let own = feature_flag_user_lists::of_project(project_id);
            if own.count(transaction).await? >= MOST {
                let text = format!("The maximum number of user lists ({MOST}) is reached");
                return Err(Error::Refused(text.into()));
            }
            let scope = Scope::Project(project_id);
            row.iid = Set(iid_counters::next(transaction, scope, Subject::FeatureFlagUserLists).await?);
            row.insert(transaction).await.map_err(refused)
        })
        .await
}

/// Changes what is said of a list.
///
/// # Errors
/// 404, and 400 as [`create`].
pub async fn update(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Model> {
    backend
        .database
        .transaction(async |transaction| {
            let mut row = lock(transaction, access, iid).await?.into_active_model();
            apply(&mut row, change)?;
            row.update(transaction).await.map_err(refused)
        })
        .await
}

/// Removes a list.
///
/// # Errors
/// 404, 409 while a strategy goes by it, and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            // Whoever lets a strategy go by it waits, or has done so and is seen here.
            let row = lock(transaction, access, iid).await?;
            preconditions::unmodified_since(unmodified_since, row.updated_at)?;
            let used = feature_flag_strategies::Entity::find()
                .filter(feature_flag_strategies::Column::UserListId.eq(row.id));
            if used.count(transaction).await? > 0 {
                return Err(Error::Conflict("User list is associated with a strategy".into()));
            }
            Entity::delete_by_id(row.id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Whether a text names users: each once, between single commas, with no blanks around and no breaks in them. An empty text
/// names none.
pub(in crate::services) fn names_users(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let mut seen = BTreeSet::new();
    text.split(',').all(|id| {
        let sound = !id.is_empty() && id.trim() == id && !id.contains(char::is_control);
        sound && id.chars().count() <= LONGEST_ID && seen.insert(id)
    })
}

/// Puts what is sent into a row, if all of it is sound.
fn apply(row: &mut ActiveModel, change: Change) -> Result<()> {
    let mut faults: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    match change.name {
        Some(name) if name.trim().is_empty() => {
            faults.insert("name".into(), vec!["can't be blank".into()]);
        }
        Some(name) => row.name = Set(name),
        None => {}
    }
    match change.user_xids {
        Some(ids) if !names_users(&ids) => {
            faults.insert("user_xids".into(), vec![NO_USERS.into()]);
        }
        Some(ids) => row.user_xids = Set(ids),
        None => {}
    }
    if !faults.is_empty() {
        return Err(Error::InvalidAttributes(faults));
    }
    row.updated_at = Set(now());
    Ok(())
}

/// A list of the project, locked until the transaction ends.
async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, iid: i64) -> Result<Model> {
    let found = feature_flag_user_lists::of_project(access.project.id).filter(Column::Iid.eq(iid));
    found.lock_exclusive().one(db).await?.ok_or_else(missing)
}

/// Why a row was not written.
fn refused(error: DbErr) -> Error {
    match Violation::is_unique(&error, "uq_feature_flag_user_lists_project_id_name") {
        true => Error::attribute("name", "has already been taken"),
        false => error.into(),
    }
}

fn missing() -> Error {
    Error::not_found("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_once_between_single_commas() {
        let long = "x".repeat(256);
        for good in ["", "a", "a,b", "a b,c", "1,2,3", "ä@example.com", &long] {
            assert!(names_users(good), "{good:?}");
        }
        let longer = "x".repeat(257);
        for bad in [
            ",", "a,", ",a", "a,,b", "a,a", "a, b", " a", "a ", "a\tb", "a\nb", "a,\r\n", " ", &longer,
        ] {
            assert!(!names_users(bad), "{bad:?}");
        }
    }
}
