//! Mapping of archive users to local users. A user matches only by a confirmed email address.

use std::collections::{HashMap, HashSet};

use chrono::NaiveDate;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QuerySelect,
};
use storage::entities::members::ActiveModel;
use storage::entities::{AccessLevel, fold, members, namespaces, now, user_emails, users};

use super::report::ItemKind;
use crate::audit::{self, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::error::Result;
use crate::spaces::members::auditing::access_text;
use crate::spaces::members::inherited_levels;
use crate::transfers::imports::importer::Importer;
use crate::transfers::imports::record_reader::RecordReader;
use parsers::group_archive::layout::Relation;
use parsers::group_archive::records::{MemberRecord, UserRecord};

/// Returns the email addresses of an archive user, case-folded.
pub fn addresses(user: Option<&UserRecord>) -> impl Iterator<Item = String> + '_ {
    let all = user
        .into_iter()
        .flat_map(|user| [&user.email, &user.public_email])
        .flatten();
    all.map(|address| fold(address.trim()))
        .filter(|address| !address.is_empty())
}

/// Returns the users with these confirmed email addresses, by address. Addresses are case-folded, and bots
/// are excluded.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn users_by_email(
    db: &impl ConnectionTrait,
    addresses: &HashSet<String>,
) -> Result<HashMap<String, i64>> {
    let primary: Vec<(String, i64)> = users::not_deleted()
        .select_only()
        .columns([users::Column::EmailKey, users::Column::Id])
        .filter(users::Column::EmailKey.is_in(addresses.iter().map(String::as_str)))
        .filter(users::Column::ConfirmedAt.is_not_null())
        .filter(users::Column::Bot.eq(false))
        .into_tuple()
        .all(db)
        .await?;
    let further: Vec<(String, i64)> = user_emails::Entity::find()
        .select_only()
        .columns([user_emails::Column::EmailKey, user_emails::Column::UserId])
        .inner_join(users::Entity)
        .filter(user_emails::Column::EmailKey.is_in(addresses.iter().map(String::as_str)))
        .filter(user_emails::Column::ConfirmedAt.is_not_null())
        .filter(users::Column::DeletionStartedAt.is_null())
        .filter(users::Column::Bot.eq(false))
        .into_tuple()
        .all(db)
        .await?;
    Ok(primary.into_iter().chain(further).collect())
}

/// Returns the name of an archive user for the report.
fn display_name(user: Option<&UserRecord>) -> String {
    let Some(user) = user else {
        return "unknown".to_owned();
    };
    let addresses = [&user.email, &user.public_email].into_iter().flatten();
    let mut names = addresses.chain(&user.username).filter(|name| !name.is_empty());
    names.next().cloned().unwrap_or_else(|| user.id.to_string())
}

impl Importer<'_> {
    /// Maps the users of the archive to local users.
    ///
    /// # Errors
    /// Returns an error if the database or the disk fails.
    pub(super) async fn map_users(&mut self) -> Result<()> {
        let groups = self.groups.iter();
        let all: Vec<_> = groups
            .filter_map(|group| group.records(Relation::Members))
            .collect();
        for range in all {
            let mut records = RecordReader::<MemberRecord>::new(&mut self.file, range).await?;
            while let Some(batch) = records.next().await? {
                let emails = batch
                    .iter()
                    .flat_map(|member| addresses(member.user.as_ref()))
                    .collect();
                let known = users_by_email(self.backend.database.read(), &emails).await?;
                for user in batch.iter().filter_map(|member| member.user.as_ref()) {
                    let found = addresses(Some(user)).find_map(|address| known.get(&address).copied());
                    if let Some(user_id) = found {
                        self.user_ids.entry(user.id).or_insert(user_id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Imports the members of a group. Roles are limited to the highest role that the importer may assign. A
    /// member with a lower role than the inherited one is skipped.
    ///
    /// # Errors
    /// Returns an error if the database or the disk fails.
    pub(super) async fn import_members(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        namespace: &namespaces::Model,
    ) -> Result<()> {
        let group_id = namespace.id;
        let group = &self.groups[at];
        let Some(range) = group.records(Relation::Members) else {
            return Ok(());
        };
        let direct: Vec<i64> = members::Entity::find()
            .select_only()
            .column(members::Column::UserId)
            .filter(members::Column::NamespaceId.eq(group_id))
            .into_tuple()
            .all(transaction)
            .await?;
        let mut direct: HashSet<i64> = direct.into_iter().collect();
        let mut records = RecordReader::<MemberRecord>::new(&mut self.file, range).await?;
        while let Some(batch) = records.next().await? {
            let user_of = |member: &MemberRecord| self.user_ids.get(&member.user.as_ref()?.id).copied();
            let users = batch.iter().filter_map(user_of);
            let above = inherited_levels(transaction, group_id, users).await?;
            let mut rows = Vec::new();
            let mut audited = Vec::new();
            for member in batch {
                let found = user_of(&member);
                let bounds = RoleLimits {
                    highest: self.highest,
                    above: found.and_then(|user_id| above.get(&user_id).copied()),
                    is_member: found.is_some_and(|user_id| direct.contains(&user_id)),
                };
                let (requested, ends) = (AccessLevel::from_number(member.access_level), member.expires_at);
                let name = || display_name(member.user.as_ref());
                match (found, bounds.level(requested, ends)) {
                    (None, _) => {
                        let reason = "no user has confirmed this email address";
                        self.report
                            .add(ItemKind::Member, &group.full_path, &name(), reason);
                    }
                    // The importer owns the whole group already.
                    (Some(user_id), Err(_)) if user_id == self.importer => {}
                    (Some(_), Err(reason)) => {
                        self.report
                            .add(ItemKind::Member, &group.full_path, &name(), reason);
                    }
                    (Some(user_id), Ok(level)) => {
                        if let Some(requested) = requested.filter(|requested| level < *requested) {
                            let reason = format!(
                                "lowered from {} to {}, the highest role that the importing user can grant",
                                requested.name(),
                                level.name()
                            );
                            self.report
                                .add(ItemKind::Level, &group.full_path, &name(), reason);
                        }
                        direct.insert(user_id);
                        let target = AuditTarget::new("User", user_id, name());
                        let entity = AuditEntity::namespace(namespace);
                        let event = AuditEvent::new(AuditKind::MemberAdded, entity, target);
                        audited.push(event.to(access_text(level, ends)));
                        let at = now();
                        rows.push(ActiveModel {
                            user_id: Set(user_id),
                            namespace_id: Set(Some(group_id)),
                            access_level: Set(level),
                            expires_at: Set(ends),
                            created_by_id: Set(Some(self.importer)),
                            created_at: Set(at),
                            updated_at: Set(at),
                            ..Default::default()
                        });
                    }
                }
            }
            if !rows.is_empty() {
                members::Entity::insert_many(rows)
                    .exec_without_returning(transaction)
                    .await?;
            }
            audit::record_all(transaction, &self.caller, audited).await?;
        }
        Ok(())
    }
}

/// Limits of the role of a member.
struct RoleLimits {
    /// The maximum role that the importer may assign.
    highest: Option<AccessLevel>,
    /// The role inherited from ancestor groups.
    above: Option<AccessLevel>,
    /// Whether the user is a direct member already.
    is_member: bool,
}

impl RoleLimits {
    /// Returns the role of a member, or the reason why there is none.
    fn level(
        &self,
        requested: Option<AccessLevel>,
        ends: Option<NaiveDate>,
    ) -> Result<AccessLevel, &'static str> {
        let requested = requested.ok_or("the role is unknown")?;
        if ends.is_some_and(|day| day <= now().date_naive()) {
            return Err("the membership has expired");
        }
        if self.is_member {
            return Err("the user is already a member");
        }
        let level = requested.min(
            self.highest
                .ok_or("the importing user has no role in the parent group")?,
        );
        match self.above.filter(|above| *above > level) {
            Some(_) => Err("the user has a higher role through an ancestor group"),
            None => Ok(level),
        }
    }
}
