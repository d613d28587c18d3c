//! Members from directory synchronization, whose role can be overridden.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::entities::members::{self, MembershipSource};
use storage::entities::{AccessLevel, fold, namespaces, now, users};

use super::inherited::at_least_inherited;
use super::{MemberSource, Membership, auditing, delete_below, identities, lock_member};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;

/// Maximum number of users that a directory may list for a group.
const MAX_LISTED: usize = 10_000;

/// Sets or clears the override of a member's directory role.
///
/// # Errors
/// Returns `NotFound` if the user is not a direct member, or `Forbidden` if the membership does not come from
/// the directory.
pub async fn set_override(
    backend: &Backend,
    member_source: &MemberSource,
    user_id: i64,
    overridden: bool,
) -> Result<Membership> {
    let changed = backend
        .database
        .transaction(async |transaction| {
            let (member, user) = lock_member(transaction, member_source, user_id).await?;
            if !member.ldap {
                return Err(Error::forbidden());
            }
            if member.r#override == overridden {
                return Ok(Membership::new(member, user));
            }
            let former = member.r#override;
            let mut row = member.into_active_model();
            row.r#override = Set(overridden);
            row.updated_at = Set(now());
            let row = row.update(transaction).await?;
            let (entity, target) = (member_source.entity.clone(), AuditTarget::user(&user));
            let event = AuditEvent::new(AuditKind::MemberOverrideChanged, entity, target);
            audit::record(
                transaction,
                &member_source.caller,
                event.from(former).to(overridden),
            )
            .await?;
            Ok(Membership::new(row, user))
        })
        .await?;
    identities::with_identity(backend, member_source, changed).await
}

/// Result of synchronizing a group with a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// Number of users who became members.
    pub joined: u64,
    /// Number of members whose role changed or who are now managed by the directory.
    pub changed: u64,
    /// Number of directory members who were removed.
    pub left: u64,
    /// Users who were skipped, by user name, with the reason.
    pub passed_over: Vec<(String, String)>,
}

/// Synchronizes the direct members of a group with a directory, which lists users by name with their roles.
/// If a user is listed with several roles, the highest one applies. Every listed user becomes a directory
/// member, including existing members. Directory members who are not listed are removed; members that others
/// added remain. An overridden role is unchanged.
///
/// # Errors
/// Returns `NotFound` for an unknown group. Returns a validation error if the plan lacks synchronization or
/// the list is too long.
pub async fn synchronize(
    backend: &Backend,
    group: &str,
    listed: &[(String, AccessLevel)],
) -> Result<SyncResult> {
    if backend.instance.plan < InstancePlan::Starter {
        return Err(Error::Rejected(
            "the plan of this server does not include directory synchronization".into(),
        ));
    }
    if listed.len() > MAX_LISTED {
        let text = format!("the directory has too many users (maximum is {MAX_LISTED})");
        return Err(Error::Rejected(text.into()));
    }
    backend
        .database
        .transaction(async |transaction| {
            let group = namespaces::group_by_reference(transaction, group)
                .await?
                .ok_or_else(|| Error::not_found("Group"))?;
            namespaces::lock(transaction, group.id).await?;
            let mut step = DirectorySync {
                transaction,
                group_id: group.id,
                entity: AuditEntity::namespace(&group),
                done: SyncResult::default(),
                audited: Vec::new(),
            };
            step.run(listed).await?;
            audit::record_all(transaction, Actor::command_line(), step.audited).await?;
            Ok(step.done)
        })
        .await
}

/// A synchronization in progress.
struct DirectorySync<'a> {
    transaction: &'a DatabaseTransaction,
    group_id: i64,
    entity: AuditEntity,
    done: SyncResult,
    audited: Vec<AuditEvent>,
}

impl DirectorySync<'_> {
    async fn run(&mut self, listed: &[(String, AccessLevel)]) -> Result<()> {
        let mut levels: BTreeMap<String, AccessLevel> = BTreeMap::new();
        for (username, level) in listed {
            let highest = levels.entry(fold(username)).or_insert(*level);
            *highest = (*highest).max(*level);
        }
        // New Owners first, so that no former Owner is the last one.
        let mut levels: Vec<_> = levels.into_iter().collect();
        levels.sort_by_key(|(_, level)| std::cmp::Reverse(*level));
        let mut met = BTreeSet::new();
        for (username, level) in levels {
            match users::by_username(self.transaction, &username).await? {
                Some(user) if user.bot => self.skip(username, "is a bot"),
                Some(user) => {
                    met.insert(user.id);
                    self.apply_role(&user, level).await?;
                }
                None => self.skip(username, "does not exist"),
            }
        }
        let known = members::of(MembershipSource::Group(self.group_id), now().date_naive())
            .filter(members::Column::Ldap.eq(true))
            .all(self.transaction)
            .await?;
        for (member, user) in known {
            if met.contains(&member.user_id) {
                continue;
            }
            if self.is_last_owner(&member).await? {
                let name = user.map_or_else(String::new, |user| user.username);
                self.skip(name, "remains the last owner of the group");
                continue;
            }
            members::Entity::delete_by_id(member.id)
                .exec(self.transaction)
                .await?;
            if let Some(user) = &user {
                self.audited
                    .push(auditing::removed(self.entity.clone(), user, &member));
                let below = delete_below(self.transaction, self.group_id, user).await?;
                self.audited.extend(below);
            }
            self.done.left += 1;
        }
        Ok(())
    }

    fn skip(&mut self, username: String, why: &str) {
        self.done.passed_over.push((username, why.to_owned()));
    }

    /// Applies the role of a listed user.
    async fn apply_role(&mut self, user: &users::Model, level: AccessLevel) -> Result<()> {
        let source = MembershipSource::Group(self.group_id);
        let level = at_least_inherited(self.transaction, self.group_id, user.id, level).await?;
        let Some(member) = members::direct(self.transaction, source, user.id).await? else {
            let at = now();
            let row = members::ActiveModel {
                user_id: Set(user.id),
                namespace_id: Set(Some(self.group_id)),
                access_level: Set(level),
                ldap: Set(true),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            row.insert(self.transaction).await?;
            self.audited
                .push(auditing::added(self.entity.clone(), user, level, None));
            self.done.joined += 1;
            return Ok(());
        };
        let ended = member.has_ended(now().date_naive());
        let level = match member.r#override && !ended {
            true => member.access_level,
            false => level,
        };
        let settled = (level, true, None);
        if (member.access_level, member.ldap, member.expires_at) == settled {
            return Ok(());
        }
        if level < AccessLevel::Owner && self.is_last_owner(&member).await? {
            self.skip(user.username.clone(), "remains the last owner of the group");
            return Ok(());
        }
        let overridden = member.r#override && !ended;
        let mut row = member.clone().into_active_model();
        row.access_level = Set(level);
        row.ldap = Set(true);
        row.r#override = Set(overridden);
        row.expires_at = Set(None);
        row.updated_at = Set(now());
        let row = row.update(self.transaction).await?;
        if ended {
            self.audited
                .push(auditing::added(self.entity.clone(), user, level, None));
            self.done.joined += 1;
        } else {
            self.audited
                .push(auditing::changed(self.entity.clone(), user, &member, &row));
            self.done.changed += 1;
        }
        Ok(())
    }

    async fn is_last_owner(&self, member: &members::Model) -> Result<bool> {
        Ok(member.is_last_owner(self.transaction, now().date_naive()).await?)
    }
}
