//! Import of the contents of an archive: one transaction per group, once per group.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QuerySelect,
};
use storage::database::Violation;
use storage::entities::imported_groups::{ActiveModel, Column, Entity};
use storage::entities::{AccessLevel, access, now};
use tokio::fs::File;

use super::report::ImportReport;
use super::tree::GroupNode;
use super::{lock_group, save_report};
use crate::identity::access::GroupAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::transfers::imports::archive::{EpicReference, ImportArchive, fault};

/// An import in progress.
pub struct Importer<'a> {
    pub(super) backend: &'a Backend,
    pub(super) caller: Caller,
    pub(super) import_id: i64,
    /// ID of the top group that was created for the import.
    pub(super) root: i64,
    /// ID of its parent, which is not part of the archive.
    pub(super) above: Option<i64>,
    /// ID of the importing user.
    pub(super) importer: i64,
    /// Maximum role of imported members; `None` if the importer cannot assign roles.
    pub(super) highest: Option<AccessLevel>,
    /// The records.
    pub(super) file: File,
    pub(super) groups: Vec<GroupNode>,
    pub(super) epics: HashMap<i64, EpicReference>,
    pub(super) unknown_files: Vec<(i64, String)>,
    /// IDs of local users by their IDs in the archive.
    pub(super) user_ids: HashMap<i64, i64>,
    /// IDs of local groups by their IDs in the archive.
    pub(super) nodes: HashMap<i64, i64>,
    pub(super) report: ImportReport,
}

impl<'a> Importer<'a> {
    /// Creates the state for starting or resuming an import.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn new(
        backend: &'a Backend,
        access: GroupAccess,
        import_id: i64,
        opened: ImportArchive,
        report: ImportReport,
    ) -> Result<Self> {
        let importer = access.caller.signed_in()?.id;
        Ok(Self {
            highest: max_role(backend, &access, importer).await?,
            backend,
            caller: access.caller,
            import_id,
            root: access.group.id,
            above: access.group.parent_id,
            importer,
            file: File::from_std(opened.file),
            groups: opened.groups,
            epics: opened.epics,
            unknown_files: opened.unknown_files,
            user_ids: HashMap::new(),
            nodes: HashMap::new(),
            report,
        })
    }

    /// Imports the contents of each group that has not been imported yet.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if a resource created meanwhile conflicts. Returns an error if the database
    /// or the disk fails.
    pub async fn run(&mut self) -> Result<()> {
        let backend = self.backend;
        for at in 0..self.groups.len() {
            backend
                .database
                .transaction(async |transaction| self.import_group(transaction, at).await)
                .await?;
        }
        Ok(())
    }

    /// Imports the contents of a group, unless an earlier attempt has done so.
    ///
    /// # Errors
    /// Fails like [`Self::enter`].
    pub(super) async fn import_group(&mut self, transaction: &DatabaseTransaction, at: usize) -> Result<()> {
        let source_id = self.groups[at].draft.id;
        let waiting = Entity::find()
            .filter(Column::ImportId.eq(self.import_id))
            .filter(Column::SourceId.eq(source_id))
            .filter(Column::EnteredAt.is_null())
            .lock_exclusive()
            .one(transaction)
            .await?;
        // Imported by an earlier attempt, or deleted with its group.
        let Some(waiting) = waiting else { return Ok(()) };
        let Some(group) = lock_group(transaction, waiting.namespace_id).await? else {
            return Ok(());
        };
        let space = SpaceAccess::from(GroupAccess {
            caller: self.caller.clone(),
            group,
            role: Some(AccessLevel::Owner),
            above: false,
        });
        self.import_milestones(transaction, at, &space).await?;
        self.import_labels(transaction, at, &space).await?;
        self.import_badges(transaction, at, &space).await?;
        self.import_members(transaction, at, &space.namespace).await?;
        self.import_boards(transaction, at, &space).await?;
        self.import_epics(transaction, at, &space).await?;
        let done = ActiveModel {
            id: Set(waiting.id),
            entered_at: Set(Some(now())),
            ..Default::default()
        };
        done.update(transaction).await?;
        save_report(transaction, self.import_id, &self.report).await
    }
}

/// Returns the maximum role that the importer may assign: any role at the top level, and the importer's own
/// role in the parent otherwise.
async fn max_role(backend: &Backend, access: &GroupAccess, importer: i64) -> Result<Option<AccessLevel>> {
    match access.group.parent_id.filter(|_| !access.caller.is_admin()) {
        None => Ok(Some(AccessLevel::Owner)),
        Some(parent) => {
            let today = now().date_naive();
            Ok(access::group_level(backend.database.read(), importer, parent, today).await?)
        }
    }
}

/// Maps a database error of an insert. A unique violation means that a conflicting row was created meanwhile.
pub fn map_insert_error(what: &'static str) -> impl Fn(DbErr) -> Error {
    move |error| match Violation::of(&error) {
        Some(Violation::Unique(_)) => fault(format!(
            "The group already has {what} with the same IID or title as one in the archive"
        )),
        _ => error.into(),
    }
}
