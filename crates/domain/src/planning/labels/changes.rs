//! Creates, updates and deletes labels.

use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::labels::{self, ActiveModel, Column, Entity};
use storage::entities::{Scope, fold, label_priorities, now, row_changes};

use super::{LabelDetail, detail, find, lock_own, rules};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::preconditions;

/// Attributes of a new label.
#[derive(Debug, Clone)]
pub struct NewLabel {
    /// Title of the label.
    pub title: String,
    /// Color, as sent by the caller.
    pub color: String,
    /// Description of the label.
    pub description: Option<String>,
    /// Priority in the project; ignored in groups.
    pub priority: Option<i64>,
}

/// Attributes to update in a label. Absent attributes do not change.
#[derive(Debug, Clone)]
pub struct LabelUpdate {
    /// New title.
    pub title: Option<String>,
    /// New color, as sent by the caller.
    pub color: Option<String>,
    /// Description of the label.
    pub description: Patch<String>,
    /// Priority in the project; ignored in groups.
    pub priority: Patch<i64>,
}

impl LabelUpdate {
    /// Returns whether the row of the label changes.
    fn changes_label(&self) -> bool {
        self.title.is_some() || self.color.is_some() || !self.description.is_keep()
    }
}

/// Creates a label.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title or color is invalid. Returns `Error::InvalidParameters` if
/// the priority is out of range. Returns `Error::Conflict` if a label of the project, group or an ancestor
/// has the title.
pub async fn create(backend: &Backend, space: &SpaceAccess, new: NewLabel) -> Result<LabelDetail> {
    space.check_planning()?;
    let priority = stored_priority(new.priority)?;
    let row = valid_row(space.scope(), new)?;
    backend
        .database
        .transaction(async |transaction| {
            check_title_available(transaction, space, row.title.as_ref()).await?;
            let label = row.insert(transaction).await.map_err(map_violation)?;
            if priority.is_some() {
                set_priority(transaction, space, label.id, priority).await?;
            }
            detail(transaction, space, label).await
        })
        .await
}

/// Validates the attributes of a label and returns its row.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title or color is invalid.
pub(crate) fn valid_row(scope: Scope, new: NewLabel) -> Result<ActiveModel> {
    let title = new.title.trim().to_owned();
    rules::check_title(&title)?;
    let at = now();
    Ok(ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        title_key: Set(fold(&title)),
        title: Set(title),
        color: Set(rules::parse_color(&new.color)?),
        description: Set(new.description.filter(|text| !text.is_empty())),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    })
}

/// Updates a label of the project or group, or the priority of an ancestor's label in a project.
///
/// # Errors
/// Returns `Error::NotFound` if the label does not exist. Returns `Error::InvalidParameters` if no attribute
/// is given. Otherwise fails like [`create`].
pub async fn update(
    backend: &Backend,
    space: &SpaceAccess,
    reference: &str,
    update: LabelUpdate,
) -> Result<LabelDetail> {
    space.check_planning()?;
    let (changes_priority, changes_label) = (
        space.project.is_some() && !update.priority.is_keep(),
        update.changes_label(),
    );
    if !changes_label && !changes_priority {
        let attributes = match space.project {
            Some(_) => &["new_name", "color", "description", "priority"][..],
            None => &["new_name", "color", "description"],
        };
        return Err(Error::no_parameters(attributes));
    }
    let title = update.title.map(|title| title.trim().to_owned());
    title.as_deref().map_or(Ok(()), rules::check_title)?;
    let color = update.color.as_deref().map(rules::parse_color).transpose()?;
    let priority = stored_priority(update.priority.value().copied())?;
    backend
        .database
        .transaction(async |transaction| {
            let mut label = match changes_label {
                true => lock_own(transaction, space, reference).await?,
                false => find(transaction, space, reference).await?,
            };
            if changes_label {
                let title = title.filter(|title| *title != label.title);
                let mut row = label.clone().into_active_model();
                if let Some(title) = title {
                    check_title_available(transaction, space, &title).await?;
                    row.title = Set(title);
                }
                if let Some(color) = color {
                    row.color = Set(color);
                }
                if !update.description.is_keep() {
                    let text = update.description.into_value().filter(|text| !text.is_empty());
                    row.description = Set(text);
                }
                let changed = row_changes::update_if_changed(transaction, &label, row).await;
                label = changed.map_err(map_violation)?;
            }
            if changes_priority {
                set_priority(transaction, space, label.id, priority).await?;
            }
            detail(transaction, space, label).await
        })
        .await
}

/// Deletes a label of the project or group, and removes it from everything that has it.
///
/// # Errors
/// Returns `Error::NotFound` if the label does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    reference: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    space.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            // The label is locked first, as in the assignment of labels, so that it cannot be assigned from
            // here on.
            let label = lock_own(transaction, space, reference).await?;
            preconditions::check_unmodified_since(unmodified_since, label.updated_at)?;
            // The refresh needs the rows that assign the label, so it precedes the deletion.
            label_priorities::Entity::delete_many()
                .filter(label_priorities::Column::LabelId.eq(label.id))
                .exec(transaction)
                .await?;
            label_priorities::refresh(transaction, label_priorities::LabeledItems::With(label.id)).await?;
            Entity::delete_by_id(label.id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Rejects a title that a label of the project, group or an ancestor has.
async fn check_title_available(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    title: &str,
) -> Result<()> {
    let labels = labels::available(space.scope(), space.namespace.id).filter(Column::Title.eq(title));
    match labels.count(transaction).await? {
        0 => Ok(()),
        _ => Err(title_taken()),
    }
}

fn title_taken() -> Error {
    Error::Conflict("Label already exists".into())
}

/// Maps the database error of an insert or update to the error of its cause.
fn map_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request created the same label.
        Some(Violation::Unique(_)) => title_taken(),
        // The project or group was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}

/// Returns the priority as it is stored.
fn stored_priority(priority: Option<i64>) -> Result<Option<i32>> {
    let stored = priority.map(i32::try_from).transpose();
    stored.map_err(|_| Error::parameter("priority is invalid"))
}

/// Sets or removes the priority of a label in the project, and updates the sort columns that depend on it.
async fn set_priority(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    label_id: i64,
    priority: Option<i32>,
) -> Result<()> {
    use label_priorities::{Column, Entity, LabeledItems, refresh};

    let Some(project) = &space.project else {
        return Ok(());
    };
    match priority {
        Some(priority) => {
            let row = label_priorities::ActiveModel {
                project_id: Set(project.id),
                label_id: Set(label_id),
                priority: Set(priority),
                ..Default::default()
            };
            let on_conflict = OnConflict::columns([Column::ProjectId, Column::LabelId])
                .update_column(Column::Priority)
                .to_owned();
            let insert = Entity::insert(row).on_conflict(on_conflict);
            insert
                .exec_without_returning(transaction)
                .await
                .map_err(map_violation)?;
        }
        None => {
            Entity::delete_many()
                .filter(Column::ProjectId.eq(project.id))
                .filter(Column::LabelId.eq(label_id))
                .exec(transaction)
                .await?;
        }
    }
    refresh(transaction, LabeledItems::With(label_id)).await?;
    Ok(())
}
