//! Protected tags of projects.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{self, GrantFilter, RefRule, RefRuleOwner};
use storage::entities::{now, projects, protected_tags};

use super::access_lists::{AccessList, NewAccessList};
use super::auditing::{tag_event, tag_text};
use super::grantees::{self, GrantOwner};
use super::{DEFAULT_LEVEL, MAX_RULES, check_name, not_found, too_many};
use crate::audit::{self, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;

/// A new protected tag.
#[derive(Debug, Clone, Default)]
pub struct NewTagRule {
    /// The name or pattern.
    pub name: String,
    /// Callers who may create tags.
    pub create: NewAccessList,
}

fn owner(access: &ProjectAccess) -> RefRuleOwner {
    RefRuleOwner::ProjectTags {
        project_id: access.project.id,
        namespace_id: access.project.namespace_id,
    }
}

/// Returns a page of the protected tags of a project, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    search: Option<&str>,
    page: &PageRequest,
) -> Result<Page<RefRule>> {
    super::list(backend, &access.caller, owner(access), search, page).await
}

/// Returns the protected tag with exactly this name or pattern.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist.
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<RefRule> {
    super::get(backend, &access.caller, owner(access), name).await
}

/// Protects the tags that match a name or pattern.
///
/// # Errors
/// Returns `Error::Unprocessable` if the name is protected already, or if the access list is invalid. Returns
/// `Error::InvalidAttributes` if no tag can have the name, and `Error::Rejected` if there are [`MAX_RULES`] rules already.
/// Returns `Error::InvalidParameters` if the access list is invalid.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewTagRule) -> Result<RefRule> {
    check_name(&new.name)?;
    let list = AccessList::new(RefAction::Create, new.create, DEFAULT_LEVEL.into())?;
    let lists = [list];
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            let project = projects::lock_for_insert(transaction, project_id).await?;
            let project = project.ok_or_else(|| Error::not_found("Project"))?;
            let known = protected_tags::named(project_id, &new.name);
            if known.count(transaction).await? > 0 {
                return Err(Error::Unprocessable("Name has already been taken".into()));
            }
            let own = protected_tags::Entity::find().filter(protected_tags::Column::ProjectId.eq(project_id));
            if own.count(transaction).await? >= MAX_RULES {
                return Err(too_many("tags"));
            }
            grantees::check_added(transaction, &project, &lists).await?;
            let [list] = &lists;
            let at = now();
            let row = protected_tags::ActiveModel {
                project_id: Set(project_id),
                name: Set(new.name.clone()),
                create_access_level: Set(list.level),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let id = row.insert(transaction).await?.id;
            grantees::save(transaction, GrantOwner::Tag(id), None, &lists).await?;
            let filter = GrantFilter::All(access.caller.viewer());
            let rules = ref_rules::load(transaction, owner(access), filter).await?;
            let rule = rules.into_iter().find(|rule| rule.id == id);
            let rule = rule.ok_or_else(not_found)?;
            let event = tag_event(access.audit_entity(), AuditKind::TagProtected, &rule);
            audit::record(transaction, &access.caller, event.to(tag_text(&rule))).await?;
            Ok(rule)
        })
        .await
}

/// Removes a protected tag, without the tags that match it.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such rule, and `Error::PreconditionFailed` if the rule changed after
/// `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, access.project.id).await?;
            let filter = GrantFilter::All(access.caller.viewer());
            let rules = ref_rules::load(transaction, owner(access), filter).await?;
            let rule = rules.into_iter().find(|rule| rule.name == name);
            let rule = rule.ok_or_else(not_found)?;
            if let Some(changed) = rule.updated_at {
                preconditions::check_unmodified_since(unmodified_since, changed)?;
            }
            protected_tags::Entity::delete_by_id(rule.id)
                .exec(transaction)
                .await?;
            let event = tag_event(access.audit_entity(), AuditKind::TagUnprotected, &rule);
            audit::record(transaction, &access.caller, event.from(tag_text(&rule))).await
        })
        .await
}
