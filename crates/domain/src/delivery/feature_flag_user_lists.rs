//! User lists of a project's feature flags.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::feature_flag_user_lists::{self, ActiveModel, Column, Entity, Model};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::{Scope, feature_flag_strategies, now, row_changes};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::page_with_texts;
use crate::spaces::projects;

/// Maximum user lists of a project.
const MAX_USER_LISTS: u64 = 200;

/// Maximum length of a user ID, in characters.
const MAX_ID_LENGTH: usize = 256;

/// Error for a text that is not a list of user IDs.
pub(crate) const INVALID_USER_LIST: &str =
    "must be a string of unique comma separated values each 256 characters or less";

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct UserListUpdate {
    /// Name of the list.
    pub name: Option<String>,
    /// Comma-separated user IDs.
    pub user_xids: Option<String>,
}

/// Returns a page of a project's user lists, oldest first.
///
/// # Errors
/// Returns `Error::Forbidden` if the feature flags are not available to the caller. Returns `Error::Overloaded` if too
/// little memory is left for the user IDs.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    access.check_feature_flags()?;
    let query = feature_flag_user_lists::of_project(access.project.id);
    page_with_texts(backend.database.read(), &access.caller, query, page).await
}

/// Returns one user list of a project, by IID.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project.
/// Fails like [`list`] if the feature flags are not available to the caller.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Model> {
    access.check_feature_flags()?;
    let found = feature_flag_user_lists::of_project(access.project.id).filter(Column::Iid.eq(iid));
    found.one(backend.database.read()).await?.ok_or_else(not_found)
}

/// Creates a user list.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if an attribute is invalid or the name is taken. Returns
/// `Error::Rejected` if the project has `MAX_USER_LISTS` user lists already. Otherwise fails like [`list`].
pub async fn create(backend: &Backend, access: &ProjectAccess, change: UserListUpdate) -> Result<Model> {
    access.check_feature_flags()?;
    let project_id = access.project.id;
    let at = now();
    let mut row = ActiveModel {
        project_id: Set(project_id),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    apply(&mut row, change)?;
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            projects::lock_for_insert(transaction, project_id).await?;
            let own = feature_flag_user_lists::of_project(project_id);
            if own.count(transaction).await? >= MAX_USER_LISTS {
                let text = format!("The maximum number of user lists ({MAX_USER_LISTS}) is reached");
                return Err(Error::Rejected(text.into()));
            }
            let scope = Scope::Project(project_id);
            row.iid = Set(iid_counters::next(transaction, scope, IidKind::FeatureFlagUserLists).await?);
            row.insert(transaction).await.map_err(map_insert_error)
        })
        .await
}

/// Updates a user list.
///
/// # Errors
/// Returns `Error::NotFound` if the list does not exist. Otherwise fails like [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    change: UserListUpdate,
) -> Result<Model> {
    access.check_feature_flags()?;
    backend
        .database
        .transaction(async |transaction| {
            let former = lock(transaction, access, iid).await?;
            let mut row = former.clone().into_active_model();
            apply(&mut row, change)?;
            let changed = row_changes::update_if_changed(transaction, &former, row).await;
            changed.map_err(map_insert_error)
        })
        .await
}

/// Deletes a user list.
///
/// # Errors
/// Returns `Error::NotFound` if the list does not exist. Returns `Error::Conflict` if a strategy uses it.
/// Returns `Error::PreconditionFailed` if it changed after `unmodified_since`. Otherwise fails like [`list`].
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    access.check_feature_flags()?;
    backend
        .database
        .transaction(async |transaction| {
            // Strategies lock the list before they use it, so they either wait or are visible here.
            let row = lock(transaction, access, iid).await?;
            preconditions::check_unmodified_since(unmodified_since, row.updated_at)?;
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

/// Returns whether a text is a list of user IDs. IDs are unique, separated by single commas, and contain
/// neither outer whitespace nor control characters. An empty text has no IDs.
pub(crate) fn is_user_list(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let mut seen = BTreeSet::new();
    text.split(',').all(|id| {
        let sound = !id.is_empty() && id.trim() == id && !id.contains(char::is_control);
        sound && id.chars().count() <= MAX_ID_LENGTH && seen.insert(id)
    })
}

/// Applies the attributes to a row if all of them are valid.
fn apply(row: &mut ActiveModel, change: UserListUpdate) -> Result<()> {
    let mut errors: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    match change.name {
        Some(name) if name.trim().is_empty() => {
            errors.insert("name".into(), vec!["can't be blank".into()]);
        }
        Some(name) => row.name = Set(name),
        None => {}
    }
    match change.user_xids {
        Some(ids) if !is_user_list(&ids) => {
            errors.insert("user_xids".into(), vec![INVALID_USER_LIST.into()]);
        }
        Some(ids) => row.user_xids = Set(ids),
        None => {}
    }
    if !errors.is_empty() {
        return Err(Error::InvalidAttributes(errors));
    }
    Ok(())
}

/// Locks a list of the project until the transaction ends.
async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, iid: i64) -> Result<Model> {
    let found = feature_flag_user_lists::of_project(access.project.id).filter(Column::Iid.eq(iid));
    found.lock_exclusive().one(db).await?.ok_or_else(not_found)
}

/// Maps a database error of an insert or update.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::is_unique(&error, "uq_feature_flag_user_lists_project_id_name") {
        true => Error::attribute("name", "has already been taken"),
        false => error.into(),
    }
}

fn not_found() -> Error {
    Error::not_found("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_list_requires_unique_ids_separated_by_commas() {
        let long = "x".repeat(256);
        for good in ["", "a", "a,b", "a b,c", "1,2,3", "ä@example.com", &long] {
            assert!(is_user_list(good), "{good:?}");
        }
        let longer = "x".repeat(257);
        for bad in [
            ",", "a,", ",a", "a,,b", "a,a", "a, b", " a", "a ", "a\tb", "a\nb", "a,\r\n", " ", &longer,
        ] {
            assert!(!is_user_list(bad), "{bad:?}");
        }
    }
}
