//! People and bots who may sign in.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use super::{fold, numeric_id};

/// Whether a user may act; the words are those of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// May sign in and act.
    Active,
    /// Was shut out by an admin.
    Blocked,
    /// Was put to rest; signing in wakes them.
    Deactivated,
    /// Was shut out by the directory.
    LdapBlocked,
}

/// People and bots who may sign in.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The name in paths, as it was chosen.
    pub username: String,
    /// The user name folded; unique.
    pub username_key: String,
    /// The name that is shown.
    pub name: String,
    /// The name folded, for searching and ordering.
    pub name_key: String,
    /// The address for mail, as it was given.
    pub email: String,
    /// The address folded; unique.
    pub email_key: String,
    /// The argon2id hash of the password, in PHC form; none when the user cannot sign in with one.
    pub password_hash: Option<String>,
    /// Whether the user runs the instance.
    pub admin: bool,
    /// Whether the user may act.
    pub state: State,
    /// Whether the user is a machine, such as the holder of a project access token.
    pub bot: bool,
    /// Whether the user sees internal projects only as a member.
    pub external: bool,
    /// Whether activity and stars are hidden from others.
    pub private_profile: bool,
    /// How many projects the personal namespace may hold.
    pub projects_limit: i32,
    /// Whether the user may create groups at the top level.
    pub can_create_group: bool,
    /// What the user tells of themself.
    pub bio: Option<String>,
    /// Where the user lives.
    pub location: Option<String>,
    /// The address that others may see.
    pub public_email: Option<String>,
    /// A contact; empty when not given, never absent (clients need a string).
    pub skype: String,
    /// A contact; empty when not given.
    pub linkedin: String,
    /// A contact; empty when not given.
    pub twitter: String,
    /// A web site; empty when not given.
    pub website_url: String,
    /// The employer.
    pub organization: Option<String>,
    /// The role at the employer.
    pub job_title: Option<String>,
    /// The file name of the picture.
    pub avatar: Option<String>,
    /// The colour theme of the interface.
    pub theme_id: i32,
    /// The colour scheme of code.
    pub color_scheme_id: i32,
    /// A note that admins keep about the user.
    pub note: Option<String>,
    /// Whether the password must be changed at the next sign-in.
    pub password_change_required: bool,
    /// When the address was confirmed.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// When the user signed in the time before the last.
    pub last_sign_in_at: Option<DateTime<Utc>>,
    /// When the user signed in last.
    pub current_sign_in_at: Option<DateTime<Utc>>,
    /// The last day the user did anything.
    pub last_activity_on: Option<NaiveDate>,
    /// When its removal began; from then on it is invisible.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// The admin who made the user.
    pub created_by_id: Option<i64>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Keeps the folded name in step with the name.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(name) = &self.name {
            self.name_key = Set(fold(name));
        }
        Ok(self)
    }
}

/// A user by name, without regard to case.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_username(db: &impl ConnectionTrait, username: &str) -> Result<Option<Model>, DbErr> {
    live()
        .filter(Column::UsernameKey.eq(fold(username)))
        .one(db)
        .await
}

/// A user by the address for mail, without regard to case.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_email(db: &impl ConnectionTrait, email: &str) -> Result<Option<Model>, DbErr> {
    live().filter(Column::EmailKey.eq(fold(email))).one(db).await
}

/// The one row that belongs to a user, and the user; none where either is missing.
///
/// # Errors
/// Whatever the database reports.
pub async fn one_beside<E: EntityTrait + Related<Entity>>(
    db: &impl ConnectionTrait,
    rows: Select<E>,
) -> Result<Option<(E::Model, Model)>, DbErr> {
    let found = rows.find_also_related(Entity).one(db).await?;
    Ok(found.and_then(|(row, user)| Some((row, user?))))
}

/// A user by id or name; digits are always an id.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Model>, DbErr> {
    match numeric_id(reference) {
        Some(id) => live().filter(Column::Id.eq(id)).one(db).await,
        None => by_username(db, reference).await,
    }
}

/// The administrator who was there first, of those who may act.
///
/// # Errors
/// Whatever the database reports.
pub async fn first_administrator(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    live()
        .filter(Column::Admin.eq(true))
        .filter(Column::State.eq(State::Active))
        .order_by_asc(Column::Id)
        .one(db)
        .await
}

/// Locks a user until the transaction ends; none when there is none.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    live().filter(Column::Id.eq(id)).lock_exclusive().one(db).await
}

/// All users that are not being removed.
pub fn live() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}
