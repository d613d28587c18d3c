//! Updates groups.

use super::auditing;
use crate::audit;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::{
    Visibility, fold, former_paths, namespace_ancestors, namespaces, projects, row_changes,
};

use super::rules::{self, GroupSettings, visibility_name};
use crate::identity::access::GroupAccess;
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::InstancePlan;
use crate::kernel::settings::InstanceSettings;

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct GroupUpdate {
    /// Name of the group.
    pub name: Option<String>,
    /// Last part of the path.
    pub path: Option<String>,
    /// Visibility of the group.
    pub visibility: Option<Visibility>,
    /// ID of the project that provides file templates for the group, if the plan has the feature.
    pub file_template_project_id: Patch<i64>,
    /// Other settings.
    pub settings: GroupSettings,
}

/// Updates a group. A new path changes the full paths of its contents.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if an attribute is invalid. Returns `Error::NotFound` if the group is
/// being deleted.
pub async fn update(backend: &Backend, access: GroupAccess, change: GroupUpdate) -> Result<GroupAccess> {
    let GroupAccess {
        caller,
        group,
        role,
        above,
    } = access;
    let group_id = group.id;
    let settings = settings::get(backend).await?;
    let group = backend
        .database
        .transaction(async |transaction| {
            namespaces::lock_trees(transaction).await?;
            // The parent is read under the lock, because another request may have moved the group meanwhile.
            let current = namespaces::not_deleted()
                .filter(namespaces::Column::Id.eq(group_id))
                .one(transaction)
                .await?;
            let parent_id = current.ok_or_else(|| Error::not_found("Group"))?.parent_id;
            let parent = match parent_id {
                Some(id) => Some(rules::lock(transaction, id).await?),
                None => None,
            };
            let current = rules::lock(transaction, group_id).await?;
            changed(
                backend,
                transaction,
                &settings,
                &caller,
                parent.as_ref(),
                current,
                change,
            )
            .await
        })
        .await?;
    Ok(GroupAccess {
        caller,
        group,
        role,
        above,
    })
}

async fn changed(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    settings: &InstanceSettings,
    caller: &Caller,
    parent: Option<&namespaces::Model>,
    current: namespaces::Model,
    change: GroupUpdate,
) -> Result<namespaces::Model> {
    rules::check_names(change.name.as_deref(), change.path.as_deref(), parent.is_none())?;
    let mut row = current.clone().into_active_model();
    if let Some(visibility) = change
        .visibility
        .filter(|new_visibility| *new_visibility != current.visibility)
    {
        settings.check_visibility(caller, visibility)?;
        rules::check_visibility(parent, visibility)?;
        check_contents_visibility(transaction, current.id, visibility).await?;
        row.visibility = Set(visibility);
    }
    if let Some(name) = change.name.filter(|name| *name != current.name) {
        let key = fold(&name);
        if key != current.name_key {
            rules::check_name_available(transaction, current.parent_id, &key).await?;
        }
        row.name = Set(name);
        row.name_key = Set(key);
    }
    let moved = change.path.filter(|path| *path != current.path);
    if let Some(path) = &moved {
        let full_path = rules::full_path(parent, path);
        if fold(&full_path) != current.full_path_key {
            rules::check_path_available(transaction, &full_path).await?;
        }
        row.path = Set(path.clone());
        row.full_path_key = Set(fold(&full_path));
        row.full_path = Set(full_path);
    }
    match change.settings.share_with_group_lock {
        Some(true) if !current.share_with_group_lock => lock_sharing_below(transaction, current.id).await?,
        Some(false) if current.share_with_group_lock => {
            rules::check_unlock_sharing(transaction, caller, parent).await?;
        }
        _ => {}
    }
    if backend.instance.plan >= InstancePlan::Premium {
        match change.file_template_project_id {
            Patch::Keep => {}
            Patch::Clear => row.file_template_project_id = Set(None),
            Patch::Set(id) => {
                check_template_project(transaction, current.id, id).await?;
                row.file_template_project_id = Set(Some(id));
            }
        }
    }
    change.settings.apply(backend, &mut row)?;
    let group = row_changes::update_if_changed(transaction, &current, row)
        .await
        .map_err(rules::map_unique_violation)?;
    audit::record_all(transaction, caller, auditing::changes(&current, &group)).await?;
    if moved.is_some() {
        namespaces::rename_below(transaction, &current, &group.full_path).await?;
    }
    if group.full_path_key != current.full_path_key {
        former_paths::record_namespace(transaction, current.parent_id, &current.path, group.id).await?;
    }
    Ok(group)
}

/// Rejects a visibility lower than that of a subgroup or project in the group.
async fn check_contents_visibility(
    db: &impl ConnectionTrait,
    group_id: i64,
    new_visibility: Visibility,
) -> Result<()> {
    let wider = || {
        [Visibility::Private, Visibility::Internal, Visibility::Public]
            .into_iter()
            .filter(|visibility| *visibility > new_visibility)
    };
    let rejection = |inside: &str| {
        let text = format!(
            "{} is not allowed since {inside} with higher visibility.",
            visibility_name(new_visibility)
        );
        Err(Error::attribute("visibility_level", text))
    };
    let groups = namespaces::not_deleted()
        .filter(namespaces::Column::ParentId.eq(group_id))
        .filter(namespaces::Column::Visibility.is_in(wider()));
    if groups.count(db).await? > 0 {
        return rejection("there are sub-groups");
    }
    let projects_above = projects::not_deleted()
        .filter(projects::Column::NamespaceId.eq(group_id))
        .filter(projects::Column::Visibility.is_in(wider()));
    if projects_above.count(db).await? > 0 {
        return rejection("this group contains projects");
    }
    Ok(())
}

/// Rejects a template project outside of the group and its subgroups.
async fn check_template_project(db: &impl ConnectionTrait, group_id: i64, project_id: i64) -> Result<()> {
    let inside = projects::not_deleted()
        .filter(projects::Column::Id.eq(project_id))
        .filter(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group_id)));
    match inside.count(db).await? {
        0 => Err(Error::attribute(
            "file_template_project_id",
            "must be a project of the group",
        )),
        _ => Ok(()),
    }
}

/// Sets the share lock on all descendants of a group.
pub(crate) async fn lock_sharing_below(db: &impl ConnectionTrait, group_id: i64) -> Result<()> {
    namespaces::Entity::update_many()
        .col_expr(namespaces::Column::ShareWithGroupLock, Expr::value(true))
        .filter(namespaces::Column::Id.in_subquery(namespace_ancestors::at_or_below(group_id)))
        .exec(db)
        .await?;
    Ok(())
}
