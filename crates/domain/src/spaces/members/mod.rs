//! Members of groups and projects.

pub(crate) mod auditing;
mod directory;
mod expiry;
mod identities;
mod inherited;
mod listing;
mod provisioning;
pub(crate) mod shares;

use chrono::NaiveDate;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, EntityTrait,
    IntoActiveModel, QueryFilter, QuerySelect, QueryTrait,
};

pub use directory::{SyncResult, set_override, synchronize};
pub use expiry::sweep_expired;
pub(crate) use inherited::inherited_levels;
pub use listing::{MemberFilter, get_any, get_direct, list, list_all};
pub(crate) use listing::{roles, users_with_role};
pub(crate) use provisioning::{add_provisioned, remove_provisioned};

use storage::database::Violation;
use storage::entities::members::{self, MembershipSource};
use storage::entities::{
    AccessLevel, namespace_ancestors, namespaces, now, project_bots, projects, row_changes, scim_identities,
    users,
};

use crate::activity::events::{self, EventAction, NewEvent};
use crate::audit::{self, AuditEntity, AuditEvent};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::InstancePlan;
use crate::kernel::preconditions::check_unmodified_since;

/// A user with a role.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The user.
    pub user: users::Model,
    /// The role.
    pub access_level: AccessLevel,
    /// The last day of the membership.
    pub expires_at: Option<NaiveDate>,
    /// For a directory member, whether the role may differ from the one in the directory.
    pub overridden: Option<bool>,
    /// The identity at the group's single sign-on, if it is visible to the caller.
    pub identity: Option<scim_identities::Model>,
}

impl Membership {
    fn new(row: members::Model, user: users::Model) -> Self {
        Self {
            user,
            access_level: row.access_level,
            expires_at: row.expires_at,
            overridden: row.ldap.then_some(row.r#override),
            identity: None,
        }
    }
}

/// The group or project whose members are accessed, with the caller's permissions.
#[derive(Debug, Clone)]
pub struct MemberSource {
    /// The group or project.
    pub source: MembershipSource,
    /// The group, or the namespace of the project.
    pub namespace: namespaces::Model,
    caller: Caller,
    manages: bool,
    entity: AuditEntity,
}

impl From<GroupAccess> for MemberSource {
    fn from(access: GroupAccess) -> Self {
        Self {
            source: MembershipSource::Group(access.group.id),
            entity: access.audit_entity(),
            manages: access.has_role(AccessLevel::Owner),
            namespace: access.group,
            caller: access.caller,
        }
    }
}

impl From<ProjectAccess> for MemberSource {
    fn from(access: ProjectAccess) -> Self {
        Self {
            source: MembershipSource::Project(access.project.id),
            entity: access.audit_entity(),
            manages: access.has_role(AccessLevel::Maintainer),
            namespace: access.namespace,
            caller: access.caller,
        }
    }
}

impl MemberSource {
    /// Returns the role with this access level, if members here may have it.
    fn level(&self, number: i64) -> Result<AccessLevel> {
        let highest = match self.source {
            MembershipSource::Group(_) => AccessLevel::Owner,
            MembershipSource::Project(_) => AccessLevel::Maintainer,
        };
        AccessLevel::from_number(number)
            .filter(|level| *level <= highest)
            .ok_or_else(|| Error::attribute("access_level", "is not included in the list"))
    }

    /// Returns whether the user owns the personal namespace of the project.
    fn is_owner_of_personal_project(&self, user_id: i64) -> bool {
        matches!(self.source, MembershipSource::Project(_)) && self.namespace.owner_id == Some(user_id)
    }
}

/// Adds a user as a direct member.
///
/// # Errors
/// Returns `Conflict` for a direct member, `NotFound` for an unknown user and a validation error for a role
/// that is invalid or too low. Returns `NotAllowed` if the group does not allow new members in its projects.
pub async fn add(
    backend: &Backend,
    member_source: &MemberSource,
    user_id: i64,
    level: i64,
    expires_at: Option<NaiveDate>,
) -> Result<Membership> {
    let locked = member_source.namespace.membership_lock && backend.instance.plan >= InstancePlan::Starter;
    if locked && matches!(member_source.source, MembershipSource::Project(_)) {
        return Err(Error::NotAllowed(None));
    }
    let creator = member_source.caller.signed_in()?.id;
    let added = backend
        .database
        .transaction(async |transaction| {
            match members::direct(transaction, member_source.source, user_id).await? {
                // An expired membership only waits for the sweep.
                Some(ended) if ended.has_ended(now().date_naive()) => {
                    members::Entity::delete_by_id(ended.id).exec(transaction).await?;
                    expiry::record_expired(transaction, std::slice::from_ref(&ended)).await?;
                }
                Some(_) => return Err(already_member()),
                None => {}
            }
            let user = users::not_deleted()
                .filter(users::Column::Id.eq(user_id))
                .one(transaction)
                .await?;
            let user = user.ok_or_else(|| Error::not_found("User"))?;
            check_bot_project(transaction, member_source.source, &user).await?;
            let level = member_source.level(level)?;
            inherited::check_not_below(transaction, member_source, user_id, level).await?;
            let (namespace_id, project_id) = match member_source.source {
                MembershipSource::Group(id) => (Some(id), None),
                MembershipSource::Project(id) => (None, Some(id)),
            };
            let at = now();
            let row = members::ActiveModel {
                user_id: Set(user_id),
                namespace_id: Set(namespace_id),
                project_id: Set(project_id),
                access_level: Set(level),
                expires_at: Set(expires_at),
                created_by_id: Set(Some(creator)),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let row = insert(transaction, row).await?;
            if let MembershipSource::Project(id) = member_source.source {
                events::record(transaction, NewEvent::new(id, user_id, EventAction::Joined)).await?;
            }
            let event = auditing::added(member_source.entity.clone(), &user, level, expires_at);
            audit::record(transaction, &member_source.caller, event).await?;
            Ok(Membership::new(row, user))
        })
        .await?;
    identities::with_identity(backend, member_source, added).await
}

/// Inserts a new member.
async fn insert(transaction: &DatabaseTransaction, row: members::ActiveModel) -> Result<members::Model> {
    row.insert(transaction)
        .await
        .map_err(|error| match Violation::of(&error) {
            Some(Violation::Unique(_)) => already_member(),
            // The user, group or project was deleted concurrently.
            Some(Violation::ForeignKey(_)) => Error::not_found("User"),
            _ => error.into(),
        })
}

/// Refuses project bots outside their own project.
async fn check_bot_project(
    transaction: &DatabaseTransaction,
    source: MembershipSource,
    user: &users::Model,
) -> Result<()> {
    let at_home = match source {
        MembershipSource::Project(id) => {
            user.bot && project_bots::is_bot_of(transaction, user.id, id).await?
        }
        MembershipSource::Group(_) => false,
    };
    if user.bot && !at_home {
        let text = "project bots cannot be added to other groups / projects";
        return Err(Error::attribute("user", text));
    }
    Ok(())
}

fn already_member() -> Error {
    Error::Conflict("Member already exists".into())
}

/// Updates the role and the last day of a direct member; `Undefined` leaves the day unchanged.
///
/// # Errors
/// Returns `NotFound` if the user is not a direct member, and a validation error as [`add`]. Returns
/// `Forbidden` for the last Owner of a group, the owner of a personal project and directory members.
pub async fn update(
    backend: &Backend,
    member_source: &MemberSource,
    user_id: i64,
    level: i64,
    expires_at: Patch<NaiveDate>,
) -> Result<Membership> {
    let changed = backend
        .database
        .transaction(async |transaction| {
            let (member, user) = lock_member(transaction, member_source, user_id).await?;
            let level = member_source.level(level)?;
            inherited::check_not_below(transaction, member_source, user_id, level).await?;
            check_replaceable(transaction, member_source, &member).await?;
            if member.ldap && !member.r#override {
                return Err(Error::forbidden());
            }
            let mut row = member.clone().into_active_model();
            row.access_level = Set(level);
            match expires_at {
                Patch::Keep => {}
                Patch::Clear => row.expires_at = Set(None),
                Patch::Set(day) => row.expires_at = Set(Some(day)),
            }
            let row = row_changes::update_if_changed(transaction, &member, row).await?;
            if row != member {
                let event = auditing::changed(member_source.entity.clone(), &user, &member, &row);
                audit::record(transaction, &member_source.caller, event).await?;
            }
            Ok(Membership::new(row, user))
        })
        .await?;
    identities::with_identity(backend, member_source, changed).await
}

/// Removes a direct member. For a group, the user's direct memberships in its subgroups and projects are
/// removed too.
///
/// # Errors
/// Returns `NotFound` if the user is not a direct member, and `PreconditionFailed` if the membership was
/// modified after the given date. Returns `Forbidden` without permission, for the last Owner of a group and
/// for the owner of a personal project.
pub async fn remove(
    backend: &Backend,
    member_source: &MemberSource,
    user_id: i64,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    let caller = member_source.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let (member, user) = lock_member(transaction, member_source, user_id).await?;
            if caller != user_id && !member_source.manages {
                return Err(Error::forbidden());
            }
            check_replaceable(transaction, member_source, &member).await?;
            check_unmodified_since(if_unmodified_since, member.updated_at)?;
            members::Entity::delete_by_id(member.id).exec(transaction).await?;
            let mut audited = vec![auditing::removed(member_source.entity.clone(), &user, &member)];
            match member_source.source {
                MembershipSource::Group(id) => {
                    provisioning::detach(transaction, id, user_id, caller == user_id).await?;
                    audited.extend(delete_below(transaction, id, &user).await?);
                }
                MembershipSource::Project(id) => {
                    events::record(transaction, NewEvent::new(id, user_id, EventAction::Left)).await?;
                }
            }
            audit::record_all(transaction, &member_source.caller, audited).await
        })
        .await
}

/// Returns a direct member and locks the group, so that two Owners cannot be removed at the same time.
async fn lock_member(
    transaction: &DatabaseTransaction,
    member_source: &MemberSource,
    user_id: i64,
) -> Result<(members::Model, users::Model)> {
    namespaces::lock(transaction, member_source.namespace.id).await?;
    let found = members::of(member_source.source, now().date_naive())
        .filter(members::Column::UserId.eq(user_id))
        .one(transaction)
        .await?;
    match found {
        Some((member, Some(user))) => Ok((member, user)),
        _ => Err(Error::not_found("")),
    }
}

/// Refuses changes to the last Owner of a group and to the owner of a personal project.
async fn check_replaceable(
    transaction: &DatabaseTransaction,
    member_source: &MemberSource,
    member: &members::Model,
) -> Result<()> {
    if member_source.is_owner_of_personal_project(member.user_id) {
        return Err(Error::forbidden());
    }
    match member.is_last_owner(transaction, now().date_naive()).await? {
        true => Err(Error::forbidden()),
        false => Ok(()),
    }
}

/// Deletes a user's direct memberships in a group, its subgroups and its projects, and returns their audit events.
async fn delete_below(
    transaction: &DatabaseTransaction,
    group: i64,
    user: &users::Model,
) -> Result<Vec<AuditEvent>> {
    let user_id = user.id;
    let below = || namespace_ancestors::at_or_below(group);
    let projects = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::NamespaceId.in_subquery(below()))
        .into_query();
    let ended = Condition::all().add(members::Column::UserId.eq(user_id)).add(
        Condition::any()
            .add(members::Column::NamespaceId.in_subquery(below()))
            .add(members::Column::ProjectId.in_subquery(projects)),
    );
    let deleted = members::Entity::delete_many()
        .filter(ended)
        .exec_with_returning(transaction)
        .await?;
    for project in deleted.iter().filter_map(|member| member.project_id) {
        events::record(transaction, NewEvent::new(project, user_id, EventAction::Left)).await?;
    }
    let sources: Vec<_> = deleted.iter().map(auditing::source).collect();
    let entities = auditing::entities(transaction, &sources).await?;
    let event = |member: &members::Model| {
        let entity = entities.get(&auditing::source(member))?.clone();
        Some(auditing::removed(entity, user, member))
    };
    Ok(deleted.iter().filter_map(event).collect())
}
