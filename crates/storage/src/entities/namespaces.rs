//! Namespaces: groups, and the personal ones of users.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::sea_query::{BinOper, Func};
use sea_orm::{ActiveValue::Set, DbBackend, ExprTrait, QuerySelect, Statement, entity::prelude::*};
use serde::{Deserialize, Serialize};

use super::{Visibility, fold, namespace_ancestors as ancestors, numeric_id};

/// What kind of namespace it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The personal namespace of a user.
    User,
    /// A group.
    Group,
}

/// Who may create projects in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ProjectCreation {
    /// Nobody.
    Noone,
    /// Maintainers and owners.
    Maintainer,
    /// Developers and above.
    Developer,
}

/// Who may create groups in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SubgroupCreation {
    /// Owners.
    Owner,
    /// Maintainers and owners.
    Maintainer,
}

/// Namespaces: groups, and the personal ones of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "namespaces")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Whether it is a group.
    pub kind: Kind,
    /// The group it lies in.
    pub parent_id: Option<i64>,
    /// The user whose personal namespace it is.
    pub owner_id: Option<i64>,
    /// The name that is shown; unique among siblings.
    pub name: String,
    /// The name folded.
    pub name_key: String,
    /// The last part of the path.
    pub path: String,
    /// The last part of the path folded, for searching and ordering.
    pub path_key: String,
    /// The whole path, with slashes.
    pub full_path: String,
    /// The whole path folded; unique.
    pub full_path_key: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// The file name of the picture.
    pub avatar: Option<String>,
    /// Whether its projects may not be shared with other groups.
    pub share_with_group_lock: bool,
    /// Whether its projects take no members of their own.
    pub membership_lock: bool,
    /// Whether members must use a second factor.
    pub require_two_factor_authentication: bool,
    /// How long they may do without, in hours.
    pub two_factor_grace_period: i32,
    /// Who may create projects in it.
    pub project_creation_level: ProjectCreation,
    /// Who may create groups in it.
    pub subgroup_creation_level: SubgroupCreation,
    /// Whether pipelines are made up for projects that define none; inherited when absent.
    pub auto_devops_enabled: Option<bool>,
    /// Whether mail is off; inherited when absent.
    pub emails_disabled: Option<bool>,
    /// Whether it can be mentioned as a whole; inherited when absent.
    pub mentions_disabled: Option<bool>,
    /// Whether large files may be kept apart.
    pub lfs_enabled: bool,
    /// How default branches of new projects are protected: 0 not, 1 in part, 2 fully.
    pub default_branch_protection: i32,
    /// Whether users may ask to join.
    pub request_access_enabled: bool,
    /// The directory group it is kept in step with.
    pub ldap_cn: Option<String>,
    /// The role that members from the directory get.
    pub ldap_access: Option<i32>,
    /// Minutes of shared runners a month.
    pub shared_runners_minutes_limit: Option<i32>,
    /// Minutes that were bought on top.
    pub extra_shared_runners_minutes_limit: Option<i32>,
    /// The project that holds file templates; no foreign key.
    pub file_template_project_id: Option<i64>,
    /// The token runners register with, encrypted.
    pub runners_token_encrypted: Option<String>,
    /// The day deletion was asked for, where it is delayed.
    pub marked_for_deletion_on: Option<NaiveDate>,
    /// When its removal began; from then on it is invisible.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user whose personal namespace it is.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::OwnerId",
        to = "super::users::Column::Id"
    )]
    Owner,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Owner.def()
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Keeps the folded last part of the path in step with the path.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(path) = &self.path {
            self.path_key = Set(fold(path));
        }
        Ok(self)
    }
}

/// A namespace of either kind by its whole path, without regard to case; not one that is being removed.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_full_path(db: &impl ConnectionTrait, full_path: &str) -> Result<Option<Model>, DbErr> {
    live()
        .filter(Column::FullPathKey.eq(fold(full_path)))
        .one(db)
        .await
}

/// A group by id or whole path, which may be a single word; digits are always an id (specification 2.0).
///
/// # Errors
/// Whatever the database reports.
pub async fn group_by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Model>, DbErr> {
    live()
        .filter(Column::Kind.eq(Kind::Group))
        .filter(named(reference))
        .one(db)
        .await
}

/// What an id or a whole path names; digits are always an id (specification 2.0).
pub fn named(reference: &str) -> Expr {
    match numeric_id(reference) {
        Some(id) => Column::Id.eq(id),
        None => Column::FullPathKey.eq(fold(reference)),
    }
}

/// A namespace of either kind by id or whole path.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Model>, DbErr> {
    live().filter(named(reference)).one(db).await
}

/// The personal namespace of a user.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_user(db: &impl ConnectionTrait, user_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(Column::OwnerId.eq(user_id)).one(db).await
}

/// Locks a namespace until the transaction ends. Whoever makes, moves or renames something below it locks it
/// first: groups and projects share their paths, and no constraint of one table can see the other.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(db).await
}

/// Any number will do, as long as no other lock has it and it stays.
const SHAPE_LOCK: i64 = 0x6e61_6d65_7370_6163;

/// Locks the shape of all trees until the transaction ends: no group is moved, renamed, made or removed by anybody else.
/// Whoever changes the place or path of what may hold other things, or needs more than one namespace locked, comes here
/// before [`lock`]: in whatever order they go on then, they do not wait for each other in a circle.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock_shape(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    advise(db, "SELECT pg_advisory_xact_lock($1)").await
}

/// Keeps others from [`lock_shape`] until the transaction ends. Whoever adds to a tree comes here before [`lock`]: what
/// is added refers to all that is above it, and to paths that must not change meanwhile.
///
/// # Errors
/// Whatever the database reports.
pub async fn keep_shape(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    advise(db, "SELECT pg_advisory_xact_lock_shared($1)").await
}

async fn advise(db: &impl ConnectionTrait, sql: &str) -> Result<(), DbErr> {
    // SQLite has one writer at a time anyway.
    if db.get_database_backend() == DbBackend::Postgres {
        let lock = Statement::from_sql_and_values(DbBackend::Postgres, sql, [SHAPE_LOCK.into()]);
        db.execute_raw(lock).await?;
    }
    Ok(())
}

/// Gives everything below a namespace, whose row has its new path already, the paths that follow from it; to be called
/// under [`lock_shape`].
///
/// # Errors
/// Whatever the database reports.
pub async fn rename_below(db: &impl ConnectionTrait, former: &Model, full_path: &str) -> Result<(), DbErr> {
    let moved = |column: Column, from: &str, to: &str| {
        // Counted from 1, and in 32 bits, which is what `substr` takes.
        let rest = i32::try_from(from.chars().count() + 1).unwrap_or(i32::MAX);
        let rest = Func::cust("substr").arg(Expr::col(column)).arg(rest);
        Expr::val(to).binary(BinOper::Custom("||"), rest)
    };
    Entity::update_many()
        .col_expr(
            Column::FullPath,
            moved(Column::FullPath, &former.full_path, full_path),
        )
        .col_expr(
            Column::FullPathKey,
            moved(Column::FullPathKey, &former.full_path_key, &fold(full_path)),
        )
        .filter(Column::Id.in_subquery(ancestors::at_or_below(former.id)))
        .filter(Column::Id.ne(former.id))
        .exec(db)
        .await?;
    Ok(())
}

/// Takes a project that is being removed from the groups at or above a namespace that have it for their templates.
///
/// # Errors
/// Whatever the database reports.
pub async fn forget_file_templates(
    db: &impl ConnectionTrait,
    namespace_id: i64,
    project_id: i64,
) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::FileTemplateProjectId, Expr::value(None::<i64>))
        .filter(Column::Id.in_subquery(ancestors::at_or_above(namespace_id)))
        .filter(Column::FileTemplateProjectId.eq(project_id))
        .exec(db)
        .await?;
    Ok(())
}

/// Whether a namespace or a project has this path, without regard to case; also one that is being removed,
/// which keeps its path until it is gone.
///
/// # Errors
/// Whatever the database reports.
pub async fn path_taken(db: &impl ConnectionTrait, full_path: &str) -> Result<bool, DbErr> {
    let key = fold(full_path);
    if Entity::find()
        .filter(Column::FullPathKey.eq(key.as_str()))
        .exists(db)
        .await?
    {
        return Ok(true);
    }
    let Some((above, path)) = key.rsplit_once('/') else {
        return Ok(false);
    };
    super::projects::Entity::find()
        .inner_join(Entity)
        .filter(super::projects::Column::PathKey.eq(path))
        .filter(Column::FullPathKey.eq(above))
        .exists(db)
        .await
}

/// All namespaces that are not being removed.
pub fn live() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}
