//! Custom attributes: keys and values that administrators attach to projects, groups and users.

use std::collections::{BTreeMap, HashMap};

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use storage::database::Violation;

use crate::kernel::page::{Page, PageRequest};
pub use storage::entities::custom_attributes::AttributeOwner;
use storage::entities::custom_attributes::{self, Column, Model};
use storage::entities::now;

use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::page_of;

/// Maximum attributes of one owner.
const MAX_ATTRIBUTES: u64 = 100;

/// Maximum number of attributes in a filter.
const MAX_FILTERED: usize = 50;

/// Checks the number of attributes in a filter of a list.
///
/// # Errors
/// Returns a validation error for too many attributes.
pub(crate) fn check_filter(filter: &BTreeMap<String, String>) -> Result<()> {
    match filter.len() > MAX_FILTERED {
        true => Err(Error::parameter("custom_attributes is invalid")),
        false => Ok(()),
    }
}

/// Returns the condition that a resource has all of these attributes, or none without attributes. `id` is the column of
/// its ID, and `owner` is the column that references it.
pub(crate) fn has_all(
    filter: &BTreeMap<String, String>,
    id: impl ColumnTrait,
    owner: Column,
) -> Option<Condition> {
    let owners =
        |(key, value): (&String, &String)| id.in_subquery(custom_attributes::owners_with(owner, key, value));
    let conditions = filter.iter().map(owners);
    (!filter.is_empty()).then(|| conditions.fold(Condition::all(), Condition::add))
}

/// Returns the attributes of users, by user ID, in one statement. Returns `None` if the caller may not see them.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_users(
    backend: &Backend,
    caller: &Caller,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Option<HashMap<i64, Vec<Model>>>> {
    of_owners(backend, caller, (Column::UserId, |row| row.user_id), ids).await
}

/// Returns the attributes of groups, as [`of_users`] does.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_groups(
    backend: &Backend,
    caller: &Caller,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Option<HashMap<i64, Vec<Model>>>> {
    of_owners(
        backend,
        caller,
        (Column::NamespaceId, |row| row.namespace_id),
        ids,
    )
    .await
}

/// Returns the attributes of projects, as [`of_users`] does.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_projects(
    backend: &Backend,
    caller: &Caller,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Option<HashMap<i64, Vec<Model>>>> {
    of_owners(backend, caller, (Column::ProjectId, |row| row.project_id), ids).await
}

async fn of_owners(
    backend: &Backend,
    caller: &Caller,
    (column, owner): (Column, fn(&Model) -> Option<i64>),
    ids: impl IntoIterator<Item = i64>,
) -> Result<Option<HashMap<i64, Vec<Model>>>> {
    if !caller.is_admin() {
        return Ok(None);
    }
    let mut found: HashMap<i64, Vec<Model>> = HashMap::new();
    for row in custom_attributes::of_owners(backend.database.read(), column, ids).await? {
        if let Some(id) = owner(&row) {
            found.entry(id).or_default().push(row);
        }
    }
    Ok(Some(found))
}

/// Returns a page of the attributes of an owner, by key.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(backend: &Backend, owner: AttributeOwner, page: &PageRequest) -> Result<Page<Model>> {
    let attributes = custom_attributes::by_key(backend.database.backend(), custom_attributes::of(owner));
    page_of(backend.database.read(), attributes, page).await
}

/// Returns one attribute.
///
/// # Errors
/// Returns `Error::NotFound` if no attribute has this key.
pub async fn get(backend: &Backend, owner: AttributeOwner, key: &str) -> Result<Model> {
    let found = custom_attributes::of(owner)
        .filter(Column::Key.eq(key))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(not_found)
}

/// Sets an attribute.
///
/// # Errors
/// Returns `Error::Rejected` if the owner has `MAX_ATTRIBUTES` attributes already.
pub async fn set(backend: &Backend, owner: AttributeOwner, key: &str, value: &str) -> Result<Model> {
    loop {
        let attempt = backend
            .database
            .transaction(async |transaction| upsert(transaction, owner, key, value).await);
        match attempt.await {
            // A concurrent request inserted it, so the next attempt updates it.
            Err(Error::Conflict(_)) => {}
            outcome => return outcome,
        }
    }
}

async fn upsert(
    transaction: &DatabaseTransaction,
    owner: AttributeOwner,
    key: &str,
    value: &str,
) -> Result<Model> {
    let found = custom_attributes::of(owner).filter(Column::Key.eq(key));
    if let Some(found) = found.one(transaction).await?
        && found.value == value
    {
        return Ok(found);
    }
    let changed = custom_attributes::Entity::update_many()
        .col_expr(Column::Value, Expr::value(value))
        .col_expr(Column::UpdatedAt, Expr::value(now()))
        .filter(owner.column().eq(owner.id()))
        .filter(Column::Key.eq(key))
        .exec(transaction)
        .await?;
    if changed.rows_affected > 0 {
        let found = custom_attributes::of(owner).filter(Column::Key.eq(key));
        return found.one(transaction).await?.ok_or_else(not_found);
    }
    if custom_attributes::of(owner).count(transaction).await? >= MAX_ATTRIBUTES {
        let text = format!("The maximum number of custom attributes ({MAX_ATTRIBUTES}) is reached");
        return Err(Error::Rejected(text.into()));
    }
    let (project_id, namespace_id, user_id) = match owner {
        AttributeOwner::Project(id) => (Some(id), None, None),
        AttributeOwner::Group(id) => (None, Some(id), None),
        AttributeOwner::User(id) => (None, None, Some(id)),
    };
    let at = now();
    let row = custom_attributes::ActiveModel {
        project_id: Set(project_id),
        namespace_id: Set(namespace_id),
        user_id: Set(user_id),
        key: Set(key.to_owned()),
        value: Set(value.to_owned()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    row.insert(transaction)
        .await
        .map_err(|error| match Violation::of(&error) {
            Some(Violation::Unique(_)) => Error::Conflict("".into()),
            // The owner was deleted meanwhile.
            Some(Violation::ForeignKey(_)) => not_found(),
            _ => error.into(),
        })
}

/// Deletes an attribute.
///
/// # Errors
/// Returns `Error::NotFound` if no attribute has this key.
pub async fn delete(backend: &Backend, owner: AttributeOwner, key: &str) -> Result<()> {
    let removed = custom_attributes::Entity::delete_many()
        .filter(owner.column().eq(owner.id()))
        .filter(Column::Key.eq(key))
        .exec(backend.database.write())
        .await?;
    match removed.rows_affected {
        0 => Err(not_found()),
        _ => Ok(()),
    }
}

fn not_found() -> Error {
    Error::not_found("Custom Attribute")
}
