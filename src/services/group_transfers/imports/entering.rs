//! Entering an archive that was read: group by group, each in a transaction of its own, and each once.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QuerySelect,
};
use storage::database::Violation;
use storage::entities::imported_groups::{ActiveModel, Column, Entity};
use storage::entities::{AccessLevel, access, now};
use tokio::fs::File;

use super::opening::{EpicName, Opened, fault};
use super::report::Report;
use super::tree::Planted;
use super::{live, save_report};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::GroupAccess;
use crate::services::authentication::Caller;
use crate::services::places::Place;

/// An import under way.
pub struct Entering<'a> {
    pub(super) backend: &'a Backend,
    pub(super) caller: Caller,
    pub(super) import_id: i64,
    /// The group that was made for it.
    pub(super) root: i64,
    /// The group above that, which is none of the archive.
    pub(super) above: Option<i64>,
    /// Who imports.
    pub(super) importer: i64,
    /// The highest role that members may get; none where the importer has none to give.
    pub(super) highest: Option<AccessLevel>,
    /// The records.
    pub(super) file: File,
    pub(super) groups: Vec<Planted>,
    pub(super) epics: HashMap<i64, EpicName>,
    pub(super) strange: Vec<(i64, String)>,
    /// The users here by the numbers that the archive has for them.
    pub(super) people: HashMap<i64, i64>,
    /// The groups here by the numbers that the archive has for them.
    pub(super) planted: HashMap<i64, i64>,
    pub(super) report: Report,
}

impl<'a> Entering<'a> {
    /// An import that is to begin, or to go on.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn new(
        backend: &'a Backend,
        access: GroupAccess,
        import_id: i64,
        opened: Opened,
        report: Report,
    ) -> Result<Self> {
        let importer = access.caller.signed_in()?.id;
        Ok(Self {
            highest: highest(backend, &access, importer).await?,
            backend,
            caller: access.caller,
            import_id,
            root: access.group.id,
            above: access.group.parent_id,
            importer,
            file: File::from_std(opened.file),
            groups: opened.groups,
            epics: opened.epics,
            strange: opened.strange,
            people: HashMap::new(),
            planted: HashMap::new(),
            report,
        })
    }

    /// Enters what belongs to each group that has nothing of it yet.
    ///
    /// # Errors
    /// 400 for what was made there meanwhile and is in the way, and whatever the database or the disk reports.
    pub async fn enter(&mut self) -> Result<()> {
        let backend = self.backend;
        for at in 0..self.groups.len() {
            backend
                .database
                .transaction(async |transaction| self.enter_group(transaction, at).await)
                .await?;
        }
        Ok(())
    }

    /// Enters what belongs to a group, unless that was done before.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub(super) async fn enter_group(&mut self, transaction: &DatabaseTransaction, at: usize) -> Result<()> {
        let source_id = self.groups[at].draft.id;
        let waiting = Entity::find()
            .filter(Column::ImportId.eq(self.import_id))
            .filter(Column::SourceId.eq(source_id))
            .filter(Column::EnteredAt.is_null())
            .lock_exclusive()
            .one(transaction)
            .await?;
        // Done before this attempt, or removed with its group.
        let Some(waiting) = waiting else { return Ok(()) };
        let Some(group) = live(transaction, waiting.namespace_id).await? else {
            return Ok(());
        };
        let place = Place::from(GroupAccess {
            caller: self.caller.clone(),
            group,
            role: Some(AccessLevel::Owner),
            above: false,
        });
        self.enter_milestones(transaction, at, &place).await?;
        self.enter_labels(transaction, at, &place).await?;
        self.enter_badges(transaction, at, &place).await?;
        self.enter_members(transaction, at, place.namespace.id).await?;
        self.enter_boards(transaction, at, &place).await?;
        self.enter_epics(transaction, at, &place).await?;
        let done = ActiveModel {
            id: Set(waiting.id),
            entered_at: Set(Some(now())),
            ..Default::default()
        };
        done.update(transaction).await?;
        save_report(transaction, self.import_id, &self.report).await
    }
}

/// The highest role that who imports may give: every one at the top level, and their own below a group.
async fn highest(backend: &Backend, access: &GroupAccess, importer: i64) -> Result<Option<AccessLevel>> {
    match access.group.parent_id.filter(|_| !access.caller.is_admin()) {
        None => Ok(Some(AccessLevel::Owner)),
        Some(parent) => {
            let today = now().date_naive();
            Ok(access::group_level(backend.database.read(), importer, parent, today).await?)
        }
    }
}

/// Why rows of a kind were not entered: somebody has made one of the same meanwhile.
pub fn refused(what: &'static str) -> impl Fn(DbErr) -> Error {
    move |error| match Violation::of(&error) {
        Some(Violation::Unique(_)) => fault(format!(
            "The group already has {what} with the same IID or title as one in the archive"
        )),
        _ => error.into(),
    }
}
