//! Labels of epics.

use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::epic_labels::{self, ActiveModel, Column, Entity};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::Result;
use crate::kernel::patch::Patch;
use crate::planning::labels::{ids_by_title, resolve_or_create};

/// Changes of the labels of an epic, by title. Labels belong to the group or its ancestors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpicLabelUpdate {
    /// All labels; replaces the present ones.
    pub all: Patch<Vec<String>>,
    /// Labels to add.
    pub add: Option<Vec<String>>,
    /// Labels to remove.
    pub remove: Option<Vec<String>>,
}

impl EpicLabelUpdate {
    /// Applies the changes, and returns whether the labels of the epic changed. An unknown title creates a label
    /// if the caller may create labels, and is ignored otherwise.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if a label is invalid. Returns an error if the database fails.
    pub(super) async fn save(
        &self,
        transaction: &DatabaseTransaction,
        space: &SpaceAccess,
        epic_id: i64,
    ) -> Result<bool> {
        if *self == Self::default() {
            return Ok(false);
        }
        let before = epic_labels::ids_of(transaction, epic_id).await?;
        let mut after = match self.all.is_keep() {
            true => before.clone(),
            false => Vec::new(),
        };
        let titles = self
            .all
            .value()
            .into_iter()
            .flatten()
            .chain(self.add.iter().flatten());
        let titles: Vec<&str> = titles.map(String::as_str).collect();
        after.extend(resolve_or_create(transaction, space, &titles).await?);
        let removed: Vec<&str> = self.remove.iter().flatten().map(|title| title.trim()).collect();
        let removed = ids_by_title(transaction, space, &removed).await?;
        after.retain(|id| !removed.values().any(|removed| removed == id));
        after.sort_unstable();
        after.dedup();
        let removed: Vec<i64> = before.iter().copied().filter(|id| !after.contains(id)).collect();
        let mut is_changed = !removed.is_empty();
        if is_changed {
            Entity::delete_many()
                .filter(Column::EpicId.eq(epic_id))
                .filter(Column::LabelId.is_in(removed))
                .exec(transaction)
                .await?;
        }
        let added: Vec<ActiveModel> = after
            .into_iter()
            .filter(|id| !before.contains(id))
            .map(|label_id| ActiveModel {
                epic_id: Set(epic_id),
                label_id: Set(label_id),
                ..Default::default()
            })
            .collect();
        if !added.is_empty() {
            is_changed = true;
            Entity::insert_many(added)
                .exec_without_returning(transaction)
                .await?;
        }
        Ok(is_changed)
    }
}
