//! Members of groups and projects (specification 2.16): each row has exactly one of the two.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{PaginatorTrait, QueryOrder, QuerySelect, SelectTwo, sea_query::SimpleExpr};

use super::{AccessLevel, unexpired};

/// Members of groups and projects (specification 2.16): each row has exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "members")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Who is a member.
    pub user_id: i64,
    /// Of which group.
    pub namespace_id: Option<i64>,
    /// Of which project.
    pub project_id: Option<i64>,
    /// With which role.
    pub access_level: AccessLevel,
    /// The day the membership ends: from then on it grants nothing.
    pub expires_at: Option<NaiveDate>,
    /// Whether directory synchronisation made it.
    pub ldap: bool,
    /// Whether the role may differ from the one the directory says.
    #[sea_orm(column_name = "override")]
    pub r#override: bool,
    /// Who added the member.
    pub created_by_id: Option<i64>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Who is a member.
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
    /// Of which group.
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

impl Related<super::namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Group.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// What a membership is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A group, by the id of its namespace.
    Group(i64),
    /// A project, by its id.
    Project(i64),
}

impl Source {
    fn condition(self) -> SimpleExpr {
        match self {
            Self::Group(id) => Column::NamespaceId.eq(id),
            Self::Project(id) => Column::ProjectId.eq(id),
        }
    }
}

/// The direct members of a group or project whose membership has not ended, with their users, in the order the rows
/// were made.
pub fn of(source: Source, today: NaiveDate) -> SelectTwo<Entity, super::users::Entity> {
    Entity::find()
        .filter(source.condition())
        .filter(unexpired((Entity, Column::ExpiresAt), today))
        .find_also_related(super::users::Entity)
        .order_by_asc(Column::Id)
}

/// The direct membership of one user, ended or not.
///
/// # Errors
/// Whatever the database reports.
pub async fn direct(db: &impl ConnectionTrait, source: Source, user_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(source.condition())
        .filter(Column::UserId.eq(user_id))
        .one(db)
        .await
}

/// How many direct members of a group are owners who may act, and whose membership has not ended: the last must not go.
///
/// # Errors
/// Whatever the database reports.
pub async fn owners(db: &impl ConnectionTrait, namespace_id: i64, today: NaiveDate) -> Result<u64, DbErr> {
    acting_owners(namespace_id, today).count(db).await
}

/// Owners of a group who are not shut out; those put to rest need only sign in.
fn acting_owners(namespace_id: i64, today: NaiveDate) -> Select<Entity> {
    use super::users::{self, State};

    Entity::find()
        .inner_join(users::Entity)
        .filter(Column::NamespaceId.eq(namespace_id))
        .filter(Column::AccessLevel.eq(AccessLevel::Owner))
        .filter(unexpired((Entity, Column::ExpiresAt), today))
        .filter(users::Column::State.is_in([State::Active, State::Deactivated]))
        .filter(users::Column::DeletionStartedAt.is_null())
}

impl Model {
    /// Whether the membership has ended, as [`unexpired`] says of columns.
    #[must_use]
    pub fn has_ended(&self, today: NaiveDate) -> bool {
        self.expires_at.is_some_and(|day| day <= today)
    }

    /// Whether no other Owner of a group may act; nothing else keeps a group from being left to nobody. The caller has locked
    /// the group.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn is_last_owner(&self, db: &impl ConnectionTrait, today: NaiveDate) -> Result<bool, DbErr> {
        match self.namespace_id {
            Some(group) if self.access_level == AccessLevel::Owner && !self.has_ended(today) => {
                let others = acting_owners(group, today).filter(Column::UserId.ne(self.user_id));
                Ok(others.limit(1).one(db).await?.is_none())
            }
            _ => Ok(false),
        }
    }
}
