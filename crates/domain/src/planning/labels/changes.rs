//! Creates, updates and deletes labels.

use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::labels::{self, ActiveModel, Column, Entity};
use storage::entities::{Scope, fold, label_priorities, now};

use super::{Row, find, lock_own, row, rules};
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

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone)]
pub struct Change {
    /// New title.
    pub title: Option<String>,
    /// New color, as sent by the caller.
    pub color: Option<String>,
    /// Description of the label.
    pub description: Patch<String>,
    /// Priority in the project; ignored in groups.
    pub priority: Patch<i64>,
}

impl Change {
    /// Returns whether the label itself stays unchanged.
    fn spares_label(&self) -> bool {
        self.title.is_none() && self.color.is_none() && self.description.is_keep()
    }
}

/// Creates a label.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title or color is invalid. Returns `Error::InvalidParameters` if
/// the priority is out of range. Returns `Error::Conflict` if a label of the project, group or an ancestor
/// has the title.
pub async fn create(backend: &Backend, place: &SpaceAccess, new: NewLabel) -> Result<Row> {
    place.check_planning()?;
    let priority = rank(new.priority)?;
    let made = checked(place.scope(), new)?;
    backend
        .database
        .transaction(async |transaction| {
            refuse_taken(transaction, place, made.title.as_ref()).await?;
            let label = made.insert(transaction).await.map_err(refused)?;
            if priority.is_some() {
                set_priority(transaction, place, label.id, priority).await?;
            }
            row(transaction, place, label).await
        })
        .await
}

/// Returns the row of a valid label.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title or color is invalid.
pub(crate) fn checked(scope: Scope, new: NewLabel) -> Result<ActiveModel> {
    let title = new.title.trim().to_owned();
    rules::title(&title)?;
    let at = now();
    Ok(ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        title_key: Set(fold(&title)),
        title: Set(title),
        color: Set(rules::color(&new.color)?),
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
pub async fn update(backend: &Backend, place: &SpaceAccess, reference: &str, change: Change) -> Result<Row> {
    place.check_planning()?;
    let (ranks, spares) = (
        place.project.is_some() && !change.priority.is_keep(),
        change.spares_label(),
    );
    if spares && !ranks {
        let known = match place.project {
            Some(_) => &["new_name", "color", "description", "priority"][..],
            None => &["new_name", "color", "description"],
        };
        return Err(Error::no_parameters(known));
    }
    let title = change.title.map(|title| title.trim().to_owned());
    title.as_deref().map_or(Ok(()), rules::title)?;
    let color = change.color.as_deref().map(rules::color).transpose()?;
    let priority = rank(change.priority.value().copied())?;
    backend
        .database
        .transaction(async |transaction| {
            let mut label = match spares {
                true => find(transaction, place, reference).await?,
                false => lock_own(transaction, place, reference).await?,
            };
            if !spares {
                let title = title.filter(|title| *title != label.title);
                let mut changed = label.into_active_model();
                if let Some(title) = title {
                    refuse_taken(transaction, place, &title).await?;
                    changed.title = Set(title);
                }
                if let Some(color) = color {
                    changed.color = Set(color);
                }
                if !change.description.is_keep() {
                    let text = change.description.into_value().filter(|text| !text.is_empty());
                    changed.description = Set(text);
                }
                changed.updated_at = Set(now());
                label = changed.update(transaction).await.map_err(refused)?;
            }
            if ranks {
                set_priority(transaction, place, label.id, priority).await?;
            }
            row(transaction, place, label).await
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
    place: &SpaceAccess,
    reference: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    place.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            // The label is locked first, as in the assignment of labels, so that it cannot be assigned from
            // here on.
            let label = lock_own(transaction, place, reference).await?;
            preconditions::check_unmodified_since(unmodified_since, label.updated_at)?;
            // Done while the rows with the label are still known.
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
async fn refuse_taken(transaction: &DatabaseTransaction, place: &SpaceAccess, title: &str) -> Result<()> {
    let same = labels::available(place.scope(), place.namespace.id).filter(Column::Title.eq(title));
    match same.count(transaction).await? {
        0 => Ok(()),
        _ => Err(taken()),
    }
}

fn taken() -> Error {
    Error::Conflict("Label already exists".into())
}

/// Maps a database error of an insert or update.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request created it.
        Some(Violation::Unique(_)) => taken(),
        // The project or group was deleted meanwhile.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}

/// Returns the priority as it is stored.
fn rank(priority: Option<i64>) -> Result<Option<i32>> {
    let kept = priority.map(i32::try_from).transpose();
    kept.map_err(|_| Error::parameter("priority is invalid"))
}

/// Sets or removes the priority of a label in the project, and updates the sort columns that depend on it.
async fn set_priority(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    label_id: i64,
    priority: Option<i32>,
) -> Result<()> {
    use label_priorities::{Column, Entity, LabeledItems, refresh};

    let Some(project) = &place.project else {
        return Ok(());
    };
    match priority {
        Some(priority) => {
            let ranked = label_priorities::ActiveModel {
                project_id: Set(project.id),
                label_id: Set(label_id),
                priority: Set(priority),
                ..Default::default()
            };
            let again = OnConflict::columns([Column::ProjectId, Column::LabelId])
                .update_column(Column::Priority)
                .to_owned();
            let ranked = Entity::insert(ranked).on_conflict(again);
            ranked
                .exec_without_returning(transaction)
                .await
                .map_err(refused)?;
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
