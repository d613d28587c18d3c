//! Members. Each row has exactly one group or project.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{SelectStatement, SimpleExpr};
use sea_orm::{ExprTrait, PaginatorTrait, QueryOrder, QuerySelect, QueryTrait, SelectTwo};

use super::{AccessLevel, namespaces, unexpired};

/// Members. Each row has exactly one group or project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "members")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The group.
    pub namespace_id: Option<i64>,
    /// The project.
    pub project_id: Option<i64>,
    /// The role.
    pub access_level: AccessLevel,
    /// The date from which the membership grants no access.
    pub expires_at: Option<NaiveDate>,
    /// Whether directory synchronization created it.
    pub ldap: bool,
    /// Whether the role may differ from the directory's role.
    #[sea_orm(column_name = "override")]
    pub r#override: bool,
    /// The user who added the member.
    pub created_by_id: Option<i64>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
    /// The group.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::NamespaceId",
        to = "super::namespaces::Column::Id"
    )]
    Group,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl Related<namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Group.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The group or project of a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MembershipSource {
    /// A group, by the ID of its namespace.
    Group(i64),
    /// A project, by its ID.
    Project(i64),
}

impl MembershipSource {
    fn condition(self) -> SimpleExpr {
        match self {
            Self::Group(id) => Column::NamespaceId.eq(id),
            Self::Project(id) => Column::ProjectId.eq(id),
        }
    }
}

/// Selects the direct members of a group or project whose membership has not expired, with their users, in
/// creation order.
pub fn of(source: MembershipSource, today: NaiveDate) -> SelectTwo<Entity, super::users::Entity> {
    Entity::find()
        .filter(source.condition())
        .filter(unexpired((Entity, Column::ExpiresAt), today))
        .find_also_related(super::users::Entity)
        .order_by_asc(Column::Id)
}

/// Returns the direct membership of a user, even if expired.
///
/// # Errors
/// Any database error.
pub async fn direct(
    db: &impl ConnectionTrait,
    source: MembershipSource,
    user_id: i64,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(source.condition())
        .filter(Column::UserId.eq(user_id))
        .one(db)
        .await
}

/// Returns the number of active owners among the direct members of a group whose membership has not expired.
/// The last one must not be removed.
///
/// # Errors
/// Any database error.
pub async fn owners(db: &impl ConnectionTrait, namespace_id: i64, today: NaiveDate) -> Result<u64, DbErr> {
    acting_owners(today)
        .filter(Column::NamespaceId.eq(namespace_id))
        .count(db)
        .await
}

/// Selects the IDs of the groups of which a user is a direct Owner, for use in other statements.
pub fn owned_groups(user_id: i64, today: NaiveDate) -> SelectStatement {
    unexpired_owners(today)
        .select_only()
        .column(Column::NamespaceId)
        .filter(Column::UserId.eq(user_id))
        .into_query()
}

/// Returns a condition on namespaces that they have a direct Owner other than this user. If `acting` is true, blocked
/// Owners do not count.
pub fn has_other_owner(user_id: i64, acting: bool, today: NaiveDate) -> Expr {
    let owners = match acting {
        true => acting_owners(today),
        false => unexpired_owners(today),
    };
    let group = (namespaces::Entity, namespaces::Column::Id);
    let others = owners
        .select_only()
        .column(Column::Id)
        .filter(Column::UserId.ne(user_id))
        .filter(Expr::col((Entity, Column::NamespaceId)).eq(Expr::col(group)));
    Expr::exists(others.into_query())
}

/// Selects the direct Owners of groups whose membership has not expired.
fn unexpired_owners(today: NaiveDate) -> Select<Entity> {
    Entity::find()
        .filter(Column::NamespaceId.is_not_null())
        .filter(Column::AccessLevel.eq(AccessLevel::Owner))
        .filter(unexpired((Entity, Column::ExpiresAt), today))
}

/// Selects Owners of groups who are not blocked; deactivated ones count, because signing in reactivates them.
fn acting_owners(today: NaiveDate) -> Select<Entity> {
    use super::users::{self, UserState};

    unexpired_owners(today)
        .inner_join(users::Entity)
        .filter(users::Column::State.is_in([UserState::Active, UserState::Deactivated]))
        .filter(users::Column::DeletionStartedAt.is_null())
}

impl Model {
    /// Returns whether the membership has expired, as [`unexpired`] does for columns.
    #[must_use]
    pub fn has_ended(&self, today: NaiveDate) -> bool {
        self.expires_at.is_some_and(|day| day <= today)
    }

    /// Returns whether the group has no other active owner, in which case this one must stay. The caller has
    /// locked the group.
    ///
    /// # Errors
    /// Any database error.
    pub async fn is_last_owner(&self, db: &impl ConnectionTrait, today: NaiveDate) -> Result<bool, DbErr> {
        match self.namespace_id {
            Some(group) if self.access_level == AccessLevel::Owner && !self.has_ended(today) => {
                let others = acting_owners(today)
                    .filter(Column::NamespaceId.eq(group))
                    .filter(Column::UserId.ne(self.user_id));
                Ok(others.limit(1).one(db).await?.is_none())
            }
            _ => Ok(false),
        }
    }
}
