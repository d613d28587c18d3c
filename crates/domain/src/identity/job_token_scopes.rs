//! Job token scopes of projects: whether only the jobs of the project and of its allowlist can use the project with
//! their job tokens. [`ProjectAccess::find`] enforces them.

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};
use storage::database::Violation;
use storage::entities::access::visible_groups;
use storage::entities::job_token_allowlist_entries::{ActiveModel, Column, Entity, Model};
use storage::entities::{Scope, namespaces, now, projects};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::identity::space_access;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::page_of;

/// Maximum number of projects, and of groups, in the allowlist of a project.
const MAX_ENTRIES: u64 = 200;

/// Sets whether the project accepts only the job tokens of its own jobs and of the allowlist.
///
/// # Errors
/// Returns `NotFound` if the project was deleted.
pub async fn update(backend: &Backend, access: &ProjectAccess, enabled: bool) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let changed = projects::Entity::update_many()
                .col_expr(projects::Column::JobTokenScopeEnabled, Expr::value(enabled))
                .filter(projects::Column::Id.eq(access.project.id))
                .filter(projects::Column::JobTokenScopeEnabled.ne(enabled))
                .exec(transaction)
                .await?;
            if changed.rows_affected == 0 {
                return Ok(());
            }
            let entity = access.audit_entity();
            let target = AuditTarget::from(&entity);
            let event = AuditEvent::new(AuditKind::JobTokenScopeChanged, entity, target)
                .from((!enabled).to_string())
                .to(enabled.to_string());
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

/// Adds a project to the allowlist and returns its ID.
///
/// # Errors
/// Returns `NotFound` if the caller cannot see the project. Returns `Rejected` if the allowlist contains it, or is full.
pub async fn add_project(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<i64> {
    let allowed = ProjectAccess::find(backend, access.caller.clone(), &id.to_string()).await?;
    // The jobs of the project itself need no entry.
    if allowed.project.id == access.project.id {
        return Err(already_added("project"));
    }
    let row = ActiveModel {
        allowed_project_id: Set(Some(allowed.project.id)),
        ..new_entry(access)
    };
    let target = AuditTarget::from(&allowed.audit_entity());
    add(backend, access, row, target, Column::AllowedProjectId).await?;
    Ok(allowed.project.id)
}

/// Adds a group to the allowlist and returns its ID.
///
/// # Errors
/// Returns `NotFound` if the caller cannot see the group. Returns `Rejected` if the allowlist contains it, or is full.
pub async fn add_group(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<i64> {
    let allowed = GroupAccess::find(backend, access.caller.clone(), &id.to_string()).await?;
    let row = ActiveModel {
        allowed_namespace_id: Set(Some(allowed.group.id)),
        ..new_entry(access)
    };
    let target = AuditTarget::from(&allowed.audit_entity());
    add(backend, access, row, target, Column::AllowedNamespaceId).await?;
    Ok(allowed.group.id)
}

/// Removes a project from the allowlist.
///
/// # Errors
/// Returns `NotFound` if the allowlist does not contain the project. Returns `PreconditionFailed` if it was added after
/// `unmodified_since`.
pub async fn remove_project(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    remove(backend, access, Column::AllowedProjectId, id, unmodified_since).await
}

/// Removes a group from the allowlist.
///
/// # Errors
/// As for [`remove_project`].
pub async fn remove_group(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    remove(backend, access, Column::AllowedNamespaceId, id, unmodified_since).await
}

/// Returns a page of the groups in the allowlist that the caller can see, by ID.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_groups(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<namespaces::Model>> {
    let allowed = entries(access)
        .select_only()
        .column(Column::AllowedNamespaceId)
        .filter(Column::AllowedNamespaceId.is_not_null());
    let groups = namespaces::Entity::find()
        .filter(namespaces::Column::Id.in_subquery(allowed.into_query()))
        .filter(visible_groups(access.caller.viewer(), now().date_naive()))
        .order_by_asc(namespaces::Column::Id);
    page_of(backend.database.read(), groups, page).await
}

fn new_entry(access: &ProjectAccess) -> ActiveModel {
    ActiveModel {
        project_id: Set(access.project.id),
        created_at: Set(now()),
        ..Default::default()
    }
}

fn entries(access: &ProjectAccess) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(access.project.id))
}

/// Adds an entry for `target`, whose ID is in `column`.
async fn add(
    backend: &Backend,
    access: &ProjectAccess,
    row: ActiveModel,
    target: AuditTarget,
    column: Column,
) -> Result<()> {
    let kind = kind_of(column);
    let event = AuditEvent::new(AuditKind::JobTokenScopeEntryAdded, access.audit_entity(), target);
    backend
        .database
        .transaction(async |transaction| {
            // Concurrent additions wait.
            space_access::lock(transaction, Scope::Project(access.project.id)).await?;
            let same_kind = entries(access).filter(column.is_not_null());
            if same_kind.count(transaction).await? >= MAX_ENTRIES {
                let text = format!(
                    "The allowlist has the maximum number of {kind}s ({MAX_ENTRIES}); remove a {kind} first"
                );
                return Err(Error::Rejected(text.into()));
            }
            row.insert(transaction)
                .await
                .map_err(|error| match Violation::of(&error) {
                    Some(Violation::Unique(_)) => already_added(kind),
                    // The project or group was deleted concurrently.
                    Some(Violation::ForeignKey(_)) => Error::not_found(""),
                    _ => error.into(),
                })?;
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

async fn remove(
    backend: &Backend,
    access: &ProjectAccess,
    column: Column,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let missing = || Error::not_found("");
    backend
        .database
        .transaction(async |transaction| {
            let found = entries(access).filter(column.eq(id)).one(transaction).await?;
            let entry = found.ok_or_else(missing)?;
            check_unmodified_since(unmodified_since, entry.created_at)?;
            let deleted = Entity::delete_by_id(entry.id).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Err(missing());
            }
            let target = removed_target(transaction, &entry).await?.ok_or_else(missing)?;
            let event = AuditEvent::new(
                AuditKind::JobTokenScopeEntryRemoved,
                access.audit_entity(),
                target,
            );
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

/// Returns the project or group of an entry, or `None` if it was deleted.
async fn removed_target(db: &impl ConnectionTrait, entry: &Model) -> Result<Option<AuditTarget>> {
    if let Some(id) = entry.allowed_namespace_id {
        let group = namespaces::Entity::find_by_id(id).one(db).await?;
        return Ok(group.as_ref().map(AuditTarget::group));
    }
    let project = projects::Entity::find_by_id(entry.allowed_project_id.unwrap_or_default())
        .find_also_related(namespaces::Entity)
        .one(db)
        .await?;
    Ok(project.and_then(|(project, namespace)| {
        let entity = audit::AuditEntity::project(&namespace?, &project);
        Some(AuditTarget::from(&entity))
    }))
}

/// Returns the noun for the things whose IDs are in a column.
fn kind_of(column: Column) -> &'static str {
    match column {
        Column::AllowedNamespaceId => "group",
        _ => "project",
    }
}

fn already_added(kind: &str) -> Error {
    Error::Rejected(format!("Target {kind} is already in the job token scope").into())
}
