//! Users, including bots.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{LockType, Query};
use sea_orm::{ActiveEnum, ActiveValue::Set, DbBackend, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use super::related_rows::{RelatedPart, RelatedRow};
use super::{fold, numeric_id};

/// State of a user, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum UserState {
    /// Can sign in and act.
    Active,
    /// Blocked by an administrator.
    Blocked,
    /// Deactivated; signing in reactivates the user.
    Deactivated,
    /// Blocked by the directory.
    LdapBlocked,
}

impl UserState {
    /// Returns the name of the state.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Blocked => "blocked",
            Self::Deactivated => "deactivated",
            Self::LdapBlocked => "ldap_blocked",
        }
    }
}

/// Users, including bots.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "users")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user name, as chosen.
    pub username: String,
    /// The folded user name; unique.
    pub username_key: String,
    /// The display name.
    pub name: String,
    /// The folded name, for searching and sorting.
    pub name_key: String,
    /// The primary email address, as given.
    pub email: String,
    /// The folded address; unique.
    pub email_key: String,
    /// The argon2id hash of the password in PHC format; none if the user cannot sign in with a password.
    pub password_hash: Option<String>,
    /// Whether the user is an administrator.
    pub admin: bool,
    /// The state.
    pub state: UserState,
    /// Whether the user is a bot, such as the user of a project access token.
    pub bot: bool,
    /// Whether the user is external and sees internal projects only as a member.
    pub external: bool,
    /// Whether activity and stars are hidden from other users.
    pub private_profile: bool,
    /// Maximum number of projects in the personal namespace.
    pub projects_limit: i32,
    /// Whether the user can create top-level groups.
    pub can_create_group: bool,
    /// The biography.
    pub bio: Option<String>,
    /// The location.
    pub location: Option<String>,
    /// The email address shown to other users.
    pub public_email: Option<String>,
    /// A contact; empty if not set, never absent (clients need a string).
    pub skype: String,
    /// A contact; empty if not set.
    pub linkedin: String,
    /// A contact; empty if not set.
    pub twitter: String,
    /// A website; empty if not set.
    pub website_url: String,
    /// The employer.
    pub organization: Option<String>,
    /// The job title.
    pub job_title: Option<String>,
    /// The file name of the avatar.
    pub avatar: Option<String>,
    /// The color theme of the user interface.
    pub theme_id: i32,
    /// The color scheme of code.
    pub color_scheme_id: i32,
    /// A note of administrators about the user.
    pub note: Option<String>,
    /// Whether the password must be changed at the next sign-in.
    pub password_change_required: bool,
    /// When the address was confirmed.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// When the user signed in before the last time.
    pub last_sign_in_at: Option<DateTime<Utc>>,
    /// When the user last signed in.
    pub current_sign_in_at: Option<DateTime<Utc>>,
    /// The date of the last activity.
    pub last_activity_on: Option<NaiveDate>,
    /// When its deletion started; from then on it is invisible.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// The administrator who created the user.
    pub created_by_id: Option<i64>,
    /// Whether the identity provider of a group created the user.
    pub provisioned: bool,
    /// Whether signing in requires a second factor, which the user set up.
    pub two_factor_enabled: bool,
    /// When the user, without a second factor, first used a password or session while one was required.
    pub two_factor_grace_started_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

/// The part of a user that other resources show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSummary {
    /// The ID.
    pub id: i64,
    /// The user name.
    pub username: String,
    /// The display name.
    pub name: String,
    /// The state.
    pub state: UserState,
    /// The file name of the avatar.
    pub avatar: Option<String>,
    /// When the user was created.
    pub created_at: DateTime<Utc>,
}

impl UserSummary {
    /// Adds the columns of a user to a part that selects from `users`.
    #[must_use]
    pub fn columns(part: RelatedPart) -> RelatedPart {
        let texts = [Column::Username, Column::Name, Column::State, Column::Avatar];
        part.with_id(Column::Id.into_expr())
            .with_time(Column::CreatedAt.into_expr())
            .with_texts(texts.map(ColumnTrait::into_expr))
    }

    /// Returns a part with these users, each as its own owner; none without IDs.
    pub fn part(database: DbBackend, ids: impl IntoIterator<Item = i64>) -> Option<RelatedPart> {
        let ids: Vec<i64> = ids.into_iter().collect();
        let rows = Query::select().from(Entity).take();
        RelatedPart::of_owners(database, rows, Column::Id.into_expr(), &ids).map(Self::columns)
    }

    /// Reads a row with the columns of a user.
    ///
    /// # Errors
    /// An error if a column has another type.
    pub fn read(row: RelatedRow) -> Result<Self, DbErr> {
        let [username, name, state, avatar] = row.texts;
        Ok(Self {
            id: row.id,
            username: username.unwrap_or_default(),
            name: name.unwrap_or_default(),
            state: UserState::try_from_value(&state.unwrap_or_default())?,
            avatar,
            created_at: row.time.unwrap_or_default(),
        })
    }
}

impl From<Model> for UserSummary {
    fn from(user: Model) -> Self {
        Self {
            id: user.id,
            username: user.username,
            name: user.name,
            state: user.state,
            avatar: user.avatar,
            created_at: user.created_at,
        }
    }
}

impl From<&Model> for UserSummary {
    fn from(user: &Model) -> Self {
        Self {
            id: user.id,
            username: user.username.clone(),
            name: user.name.clone(),
            state: user.state,
            avatar: user.avatar.clone(),
            created_at: user.created_at,
        }
    }
}

impl From<&UserSummary> for UserSummary {
    fn from(user: &UserSummary) -> Self {
        user.clone()
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Updates the folded name when the name changes.
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

/// Returns whether both databases can store a text. PostgreSQL rejects NUL, also in a query.
fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

/// Returns a user by user name, ignoring case.
///
/// # Errors
/// Any database error.
pub async fn by_username(db: &impl ConnectionTrait, username: &str) -> Result<Option<Model>, DbErr> {
    if !is_storable(username) {
        return Ok(None);
    }
    not_deleted()
        .filter(Column::UsernameKey.eq(fold(username)))
        .one(db)
        .await
}

/// Returns a user by primary email address, ignoring case.
///
/// # Errors
/// Any database error.
pub async fn by_email(db: &impl ConnectionTrait, email: &str) -> Result<Option<Model>, DbErr> {
    if !is_storable(email) {
        return Ok(None);
    }
    not_deleted()
        .filter(Column::EmailKey.eq(fold(email)))
        .one(db)
        .await
}

/// Returns the only selected row and its user; none if either is missing or the user is being deleted. So a
/// credential that was stored while its user was deleted authenticates no caller.
///
/// # Errors
/// Any database error.
pub async fn find_with_user<E: EntityTrait + Related<Entity>>(
    db: &impl ConnectionTrait,
    rows: Select<E>,
) -> Result<Option<(E::Model, Model)>, DbErr> {
    let visible = rows
        .find_also_related(Entity)
        .filter(Column::DeletionStartedAt.is_null());
    let found = visible.one(db).await?;
    Ok(found.and_then(|(row, user)| Some((row, user?))))
}

/// Returns a user by ID or user name; digits are always an ID.
///
/// # Errors
/// Any database error.
pub async fn by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Model>, DbErr> {
    match numeric_id(reference) {
        Some(id) => not_deleted().filter(Column::Id.eq(id)).one(db).await,
        None => by_username(db, reference).await,
    }
}

/// Returns the active administrator with the lowest ID.
///
/// # Errors
/// Any database error.
pub async fn first_administrator(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    active_administrators().one(db).await
}

/// Locks a user until the transaction ends and returns the current row; returns none if it does not exist.
/// Other transactions can insert rows that refer to the user, but not change or delete the user.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    not_deleted()
        .filter(Column::Id.eq(id))
        .lock(LockType::NoKeyUpdate)
        .one(db)
        .await
}

/// Locks the active administrators, in the order of their IDs, until the transaction ends.
///
/// # Errors
/// Any database error.
pub async fn lock_administrators(db: &impl ConnectionTrait) -> Result<Vec<Model>, DbErr> {
    active_administrators().lock(LockType::NoKeyUpdate).all(db).await
}

/// Records that a user was active on a day, at most once a day, so that reads rarely write. Does not record activity of
/// bots and of users who are blocked or deactivated.
///
/// # Errors
/// Any database error.
pub async fn record_activity(db: &impl ConnectionTrait, user: &Model, today: NaiveDate) -> Result<(), DbErr> {
    let is_recorded = user.last_activity_on.is_some_and(|day| day >= today);
    if is_recorded || user.bot || user.state != UserState::Active {
        return Ok(());
    }
    Entity::update_many()
        .col_expr(Column::LastActivityOn, Expr::value(today))
        .filter(Column::Id.eq(user.id))
        .exec(db)
        .await?;
    Ok(())
}

/// Selects the active administrators, ordered by ID.
fn active_administrators() -> Select<Entity> {
    not_deleted()
        .filter(Column::Admin.eq(true))
        .filter(Column::State.eq(UserState::Active))
        .order_by_asc(Column::Id)
}

/// Selects all users that are not being deleted.
pub fn not_deleted() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}
