//! Who the users of an archive are here: those who have confirmed one of the addresses that it tells of them, and nobody else.

use std::collections::{HashMap, HashSet};

use chrono::NaiveDate;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QuerySelect,
};
use storage::entities::members::ActiveModel;
use storage::entities::{AccessLevel, fold, members, now, user_emails, users};

use super::super::Relation;
use super::super::records::{Member, User};
use super::entering::Entering;
use super::report::Kind;
use super::spooled::Records;
use crate::error::Result;
use crate::services::members::levels_above;

/// The addresses that an archive tells of a user, folded.
pub fn addresses(user: Option<&User>) -> impl Iterator<Item = String> + '_ {
    let all = user
        .into_iter()
        .flat_map(|user| [&user.email, &user.public_email])
        .flatten();
    all.map(|address| fold(address.trim()))
        .filter(|address| !address.is_empty())
}

/// The users who have confirmed these addresses, which are folded, by the address. Bots have none that is theirs.
///
/// # Errors
/// Whatever the database reports.
pub async fn known(db: &impl ConnectionTrait, addresses: &HashSet<String>) -> Result<HashMap<String, i64>> {
    let primary: Vec<(String, i64)> = users::live()
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

/// What a user of an archive is called, for whoever is told that nobody is found.
fn called(user: Option<&User>) -> String {
    let Some(user) = user else {
        return "unknown".to_owned();
    };
    let addresses = [&user.email, &user.public_email].into_iter().flatten();
    let mut names = addresses.chain(&user.username).filter(|name| !name.is_empty());
    names.next().cloned().unwrap_or_else(|| user.id.to_string())
}

impl Entering<'_> {
    /// Finds out who the users of the archive are.
    ///
    /// # Errors
    /// Whatever the database or the disk reports.
    pub(super) async fn find_people(&mut self) -> Result<()> {
        let groups = self.groups.iter();
        let all: Vec<_> = groups
            .filter_map(|group| group.records(Relation::Members))
            .collect();
        for stretch in all {
            let mut records = Records::<Member>::new(&mut self.file, stretch).await?;
            while let Some(batch) = records.next().await? {
                let wanted = batch
                    .iter()
                    .flat_map(|member| addresses(member.user.as_ref()))
                    .collect();
                let known = known(self.backend.database.read(), &wanted).await?;
                for user in batch.iter().filter_map(|member| member.user.as_ref()) {
                    let found = addresses(Some(user)).find_map(|address| known.get(&address).copied());
                    if let Some(user_id) = found {
                        self.people.entry(user.id).or_insert(user_id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Enters the members of a group. Nobody gets a higher role than who imports may give, and nobody one below that which they
    /// inherit.
    ///
    /// # Errors
    /// Whatever the database or the disk reports.
    pub(super) async fn enter_members(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        group_id: i64,
    ) -> Result<()> {
        let group = &self.groups[at];
        let Some(stretch) = group.records(Relation::Members) else {
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
        let mut records = Records::<Member>::new(&mut self.file, stretch).await?;
        while let Some(batch) = records.next().await? {
            let user_of = |member: &Member| self.people.get(&member.user.as_ref()?.id).copied();
            let users = batch.iter().filter_map(user_of);
            let above = levels_above(transaction, group_id, users).await?;
            let mut rows = Vec::new();
            for member in batch {
                let found = user_of(&member);
                let bounds = Bounds {
                    highest: self.highest,
                    above: found.and_then(|user_id| above.get(&user_id).copied()),
                    there: found.is_some_and(|user_id| direct.contains(&user_id)),
                };
                let (said, ends) = (AccessLevel::of_number(member.access_level), member.expires_at);
                let name = || called(member.user.as_ref());
                match (found, bounds.level(said, ends)) {
                    (None, _) => {
                        let reason = "no user has confirmed this email address";
                        self.report.add(Kind::Member, &group.full_path, &name(), reason);
                    }
                    // Who is Owner of the whole has no need of less.
                    (Some(user_id), Err(_)) if user_id == self.importer => {}
                    (Some(_), Err(reason)) => {
                        self.report.add(Kind::Member, &group.full_path, &name(), reason);
                    }
                    (Some(user_id), Ok(level)) => {
                        if let Some(said) = said.filter(|said| level < *said) {
                            let reason = format!(
                                "lowered from {} to {}, the highest role that the importing user can grant",
                                said.word(),
                                level.word()
                            );
                            self.report.add(Kind::Level, &group.full_path, &name(), reason);
                        }
                        direct.insert(user_id);
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
        }
        Ok(())
    }
}

/// What decides on the role of a member.
struct Bounds {
    /// The highest that who imports may give.
    highest: Option<AccessLevel>,
    /// What the user has from groups above.
    above: Option<AccessLevel>,
    /// The user is a member of the group already.
    there: bool,
}

impl Bounds {
    /// The role that a member gets, or why there is none.
    fn level(&self, said: Option<AccessLevel>, ends: Option<NaiveDate>) -> Result<AccessLevel, &'static str> {
        let said = said.ok_or("the role is unknown")?;
        if ends.is_some_and(|day| day <= now().date_naive()) {
            return Err("the membership has expired");
        }
        if self.there {
            return Err("the user is already a member");
        }
        let level = said.min(
            self.highest
                .ok_or("the importing user has no role in the parent group")?,
        );
        match self.above.filter(|above| *above > level) {
            Some(_) => Err("the user has a higher role through an ancestor group"),
            None => Ok(level),
        }
    }
}
