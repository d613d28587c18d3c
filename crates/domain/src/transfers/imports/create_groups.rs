//! Creation of the groups of an archive with their settings, and of the contents of the top group, in one
//! transaction.

use std::collections::HashMap;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait, IntoActiveModel};
use storage::entities::imported_groups::{ActiveModel, Entity, of_import};
use storage::entities::{Visibility, namespace_ancestors, namespaces, now};

use super::checks::text_of;
use super::report::{ImportReport, ItemKind};
use super::save_report;
use crate::audit;
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::InstancePlan;
use crate::kernel::settings::InstanceSettings;
use crate::spaces::groups::auditing;
use crate::spaces::groups::{self, GroupSettings, MAX_DEPTH, NewGroup};
use crate::transfers::imports::archive::fault;
use crate::transfers::imports::importer::Importer;
use crate::transfers::imports::record_reader::RecordReader;
use crate::transfers::levels::{PROJECT_CREATION, SUBGROUP_CREATION, value_of, visibility_of};
use parsers::group_archive::records::GroupRecord;

impl Importer<'_> {
    /// Creates the subgroups, unless an earlier attempt has done so.
    ///
    /// # Errors
    /// Returns `Error::Rejected` or `Error::InvalidAttributes` if a group cannot be created. Returns
    /// `Error::NotFound` if the top group was deleted. Returns an error if the database or the disk fails.
    pub async fn create_groups(&mut self) -> Result<()> {
        let backend = self.backend;
        let created = of_import(backend.database.write(), self.import_id).await?;
        if created.is_empty() {
            self.report = ImportReport::default();
            let in_force = settings::get(backend).await?;
            return backend
                .database
                .transaction(async |transaction| self.create_all_groups(transaction, in_force).await)
                .await;
        }
        let created = created.into_iter().map(|row| (row.source_id, row.namespace_id));
        self.nodes = created.collect();
        Ok(())
    }

    async fn create_all_groups(
        &mut self,
        transaction: &DatabaseTransaction,
        in_force: InstanceSettings,
    ) -> Result<()> {
        namespaces::lock_trees_shared(transaction).await?;
        let root = groups::lock(transaction, self.root).await?;
        let above = namespace_ancestors::of(transaction, root.id).await?.len();
        if let Some(deep) = self.groups.iter().find(|group| above + group.depth > MAX_DEPTH) {
            return Err(fault(format!(
                "The group {:?} would be nested too deeply",
                deep.full_path
            )));
        }
        let parent = match root.parent_id {
            Some(id) => namespaces::Entity::find_by_id(id).one(transaction).await?,
            None => None,
        };
        let unlocks = groups::can_unlock_sharing(transaction, &self.caller, parent.as_ref()).await?;
        let mut created: HashMap<i64, namespaces::Model> = HashMap::new();
        let mut audited = Vec::new();
        for at in 0..self.groups.len() {
            let record = self.attributes(at).await?;
            let group = &self.groups[at];
            let mut settings = settings_of(&record);
            if settings.membership_lock == Some(true) && self.backend.instance.plan < InstancePlan::Starter {
                let reason = "the plan of this server does not include this feature";
                self.report
                    .add(ItemKind::Setting, &group.full_path, "membership_lock", reason);
            }
            if settings.share_with_group_lock == Some(false) && !unlocks {
                // Inherits the value of the parent group.
                settings.share_with_group_lock = None;
                let reason = "the parent group locks sharing, and the importing user is not its Owner";
                self.report.add(
                    ItemKind::Setting,
                    &group.full_path,
                    "share_with_group_lock",
                    reason,
                );
            }
            let model = match record
                .parent_id
                .and_then(|id| created.get(&id))
                .filter(|_| at > 0)
            {
                None => {
                    let mut row = root.clone().into_active_model();
                    settings.apply(self.backend, &mut row)?;
                    row.updated_at = Set(now());
                    let changed = row.update(transaction).await?;
                    audited.extend(auditing::changes(&root, &changed));
                    changed
                }
                Some(parent) => {
                    let requested = record.visibility_level.and_then(visibility_of);
                    let limited = requested.unwrap_or(parent.visibility).min(parent.visibility);
                    let visibility = in_force.closest_visibility(&self.caller, limited);
                    let new = NewGroup {
                        name: record.name,
                        path: record.path,
                        parent_id: Some(parent.id),
                        visibility: Some(visibility),
                        settings,
                    };
                    let created = groups::insert_subgroup(self.backend, transaction, parent, new).await;
                    let created =
                        created.map_err(|error| with_group_path(self.backend, &group.full_path, error))?;
                    audited.push(auditing::created(&created));
                    created
                }
            };
            report_visibility(
                &mut self.report,
                &group.full_path,
                record.visibility_level,
                model.visibility,
            );
            created.insert(record.id, model);
        }
        audit::record_all(transaction, &self.caller, audited).await?;
        self.report_unknown_files();
        self.report.groups = self.groups.len() as u64;
        self.nodes = created
            .into_iter()
            .map(|(source, group)| (source, group.id))
            .collect();
        let rows = self.nodes.iter().map(|(source_id, namespace_id)| ActiveModel {
            import_id: Set(self.import_id),
            source_id: Set(*source_id),
            namespace_id: Set(*namespace_id),
            ..Default::default()
        });
        Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
        save_report(transaction, self.import_id, &self.report).await?;
        // Users can see the top group already. Its contents are imported in the same transaction, so
        // conflicts with their changes show up here or never.
        self.import_group(transaction, 0).await
    }

    async fn attributes(&mut self, at: usize) -> Result<GroupRecord> {
        let missing = || Error::internal("an imported group has no attributes");
        let range = self.groups[at].draft.attributes.ok_or_else(missing)?;
        let records = RecordReader::<GroupRecord>::new(&mut self.file, range)
            .await?
            .next()
            .await?;
        records.into_iter().flatten().next().ok_or_else(missing)
    }

    fn report_unknown_files(&mut self) {
        let paths: HashMap<i64, &str> = self
            .groups
            .iter()
            .map(|group| (group.draft.id, group.full_path.as_str()))
            .collect();
        for (id, word) in &self.unknown_files {
            let path = paths.get(id).copied().unwrap_or_default();
            self.report.add(
                ItemKind::Relation,
                path,
                word,
                "this server does not support this kind of record",
            );
        }
    }
}

/// Adds the path of the group in the archive to an error.
fn with_group_path(backend: &Backend, path: &str, error: Error) -> Error {
    match text_of(&error, backend.stored_reason) {
        Some(text) => fault(format!("The group {path:?}: {text}")),
        None => error,
    }
}

fn report_visibility(report: &mut ImportReport, path: &str, requested: Option<i64>, actual: Visibility) {
    let requested = requested
        .and_then(visibility_of)
        .filter(|requested| *requested > actual);
    if let Some(requested) = requested {
        let word = |one: Visibility| one.as_str();
        let reason = format!("lowered from {} to {}", word(requested), word(actual));
        report.add(ItemKind::Visibility, path, path, reason);
    }
}

fn settings_of(record: &GroupRecord) -> GroupSettings {
    let nullable = |value: Option<bool>| value.map_or(Patch::Keep, Patch::Set);
    GroupSettings {
        description: Some(record.description.clone().unwrap_or_default()),
        share_with_group_lock: record.share_with_group_lock,
        membership_lock: record.membership_lock,
        require_two_factor_authentication: record.require_two_factor_authentication,
        two_factor_grace_period: record.two_factor_grace_period,
        project_creation_level: record
            .project_creation_level
            .and_then(|number| value_of(&PROJECT_CREATION, number)),
        subgroup_creation_level: record
            .subgroup_creation_level
            .and_then(|number| value_of(&SUBGROUP_CREATION, number)),
        auto_devops_enabled: nullable(record.auto_devops_enabled),
        emails_disabled: nullable(record.emails_disabled),
        mentions_disabled: nullable(record.mentions_disabled),
        lfs_enabled: record.lfs_enabled,
        default_branch_protection: record.default_branch_protection,
        default_branch: Patch::set_if_some(record.default_branch.clone()),
        request_access_enabled: record.request_access_enabled,
    }
}
