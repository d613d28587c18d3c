//! Variables for the pipelines of a schedule. Their values are encrypted at rest.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::ci_variables::VariableKind;
use storage::entities::pipeline_schedule_variables as rows;
use storage::entities::pipeline_schedule_variables::{ActiveModel, Column, Entity, Model};
use storage::entities::{now, row_changes};

use super::lock;
use crate::delivery::access::check_can_create;
use crate::delivery::pipelines::{MAX_VARIABLES, Variable, check_variable, decrypt};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};

/// Returns all variables of a schedule, oldest first. The number is limited.
pub(super) async fn all(backend: &Backend, schedule_id: i64) -> Result<Vec<Variable>> {
    let found = rows::of_schedule(schedule_id)
        .all(backend.database.read())
        .await?;
    found.into_iter().map(|row| decrypt_row(backend, row)).collect()
}

/// Creates a variable of a schedule.
///
/// # Errors
/// Returns `NotFound` if the schedule does not exist, and `Forbidden` unless the caller is its owner or a
/// Maintainer. Returns a validation error for an invalid or duplicate attribute, and beyond the maximum
/// number of variables.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    schedule_id: i64,
    new: Variable,
) -> Result<Variable> {
    check_can_create(access)?;
    check_variable(Some(&new.key), &new.value)?;
    let at = now();
    let mut row = ActiveModel {
        schedule_id: Set(schedule_id),
        key: Set(new.key.clone()),
        kind: Set(new.kind),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, access, schedule_id).await?;
            if rows::of_schedule(schedule_id).count(transaction).await? >= MAX_VARIABLES {
                let text = format!("Maximum number of schedule variables ({MAX_VARIABLES}) exceeded");
                return Err(Error::attribute("base", text));
            }
            let encryptor = backend.keyring.encryptor(transaction).await?;
            let context = value_context(schedule_id, &new.key);
            row.value_encrypted = Set(encryptor.encrypt(new.value.expose(), &context)?);
            let result = row.insert(transaction).await;
            result.map_err(|error| match Violation::of(&error) {
                Some(Violation::Unique(_)) => Error::attribute("key", "has already been taken"),
                _ => error.into(),
            })?;
            Ok::<_, Error>(())
        })
        .await?;
    Ok(new)
}

/// Updates a variable of a schedule. Does nothing if no value differs.
///
/// # Errors
/// Returns the errors of [`create`], and `NotFound` if the variable does not exist.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    schedule_id: i64,
    key: &str,
    value: Secret<String>,
    kind: Option<VariableKind>,
) -> Result<Variable> {
    check_can_create(access)?;
    check_variable(None, &value)?;
    let changed = backend
        .database
        .transaction(async |transaction| {
            let found = find(transaction, access, schedule_id, key).await?;
            let mut row = found.clone().into_active_model();
            // A value that no key decrypts can be replaced.
            let stored = decrypt_row(backend, found.clone());
            if !stored.is_ok_and(|stored| stored.value.expose() == value.expose()) {
                let encryptor = backend.keyring.encryptor(transaction).await?;
                let context = value_context(schedule_id, key);
                row.value_encrypted = Set(encryptor.encrypt(value.expose(), &context)?);
            }
            if let Some(kind) = kind {
                row.kind = Set(kind);
            }
            Ok::<_, Error>(row_changes::update_if_changed(transaction, &found, row).await?)
        })
        .await?;
    decrypt_row(backend, changed)
}

/// Deletes a variable of a schedule, and returns it.
///
/// # Errors
/// Returns `NotFound` if the variable does not exist, `Forbidden` as [`create`], and `PreconditionFailed` if
/// it was modified after the given date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    schedule_id: i64,
    key: &str,
    unmodified_since: Option<&str>,
) -> Result<Variable> {
    check_can_create(access)?;
    let was = backend
        .database
        .transaction(async |transaction| {
            let found = find(transaction, access, schedule_id, key).await?;
            preconditions::check_unmodified_since(unmodified_since, found.updated_at)?;
            Entity::delete_by_id(found.id).exec(transaction).await?;
            Ok::<_, Error>(found)
        })
        .await?;
    decrypt_row(backend, was)
}

/// Returns a variable of a schedule that the caller may change; the schedule is locked until the transaction
/// ends.
async fn find(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    schedule_id: i64,
    key: &str,
) -> Result<Model> {
    lock(transaction, access, schedule_id).await?;
    let found = rows::of_schedule(schedule_id).filter(Column::Key.eq(key));
    let found = found.one(transaction).await?;
    found.ok_or_else(|| Error::not_found("Pipeline Schedule Variable"))
}

fn decrypt_row(backend: &Backend, row: Model) -> Result<Variable> {
    Ok(Variable {
        value: decrypt(
            backend,
            &row.value_encrypted,
            &value_context(row.schedule_id, &row.key),
        )?,
        key: row.key,
        kind: row.kind,
    })
}

/// Returns the context that an encrypted value is bound to.
fn value_context(schedule_id: i64, key: &str) -> EncryptionContext {
    EncryptedColumn::ScheduleVariableValue.context(&[&schedule_id, &key])
}
