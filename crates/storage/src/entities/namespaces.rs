//! Namespaces: groups and personal namespaces of users.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::sea_query::{BinOper, Func, Query};
use sea_orm::{
    ActiveValue::Set, DatabaseTransaction, DbBackend, ExprTrait, JoinType, QueryOrder, QuerySelect,
    Statement, entity::prelude::*,
};
use serde::{Deserialize, Serialize};

use super::related_rows::RelatedPart;
use super::{Visibility, fold, namespace_ancestors as ancestors, now, numeric_id, projects};

/// Kind of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum NamespaceKind {
    /// The personal namespace of a user.
    User,
    /// A group.
    Group,
}

/// Role required to create projects in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ProjectCreation {
    /// No role.
    Noone,
    /// Maintainer or above.
    Maintainer,
    /// Developer or above.
    Developer,
}

/// Role required to create subgroups in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SubgroupCreation {
    /// Owner.
    Owner,
    /// Maintainer or above.
    Maintainer,
}

/// Namespaces: groups and personal namespaces of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "namespaces")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The kind.
    pub kind: NamespaceKind,
    /// The parent group.
    pub parent_id: Option<i64>,
    /// The owner of a personal namespace.
    pub owner_id: Option<i64>,
    /// The display name; unique among siblings.
    pub name: String,
    /// The name folded.
    pub name_key: String,
    /// The last component of the path.
    pub path: String,
    /// The folded last component of the path, for searching and sorting.
    pub path_key: String,
    /// The full path.
    pub full_path: String,
    /// The folded full path; unique.
    pub full_path_key: String,
    /// The description; may be empty.
    pub description: String,
    /// The visibility.
    pub visibility: Visibility,
    /// The file name of the avatar.
    pub avatar: Option<String>,
    /// Whether its projects cannot be shared with other groups.
    pub share_with_group_lock: bool,
    /// Whether its projects cannot have direct members.
    pub membership_lock: bool,
    /// Whether members must use two-factor authentication.
    pub require_two_factor_authentication: bool,
    /// Grace period for two-factor authentication, in hours.
    pub two_factor_grace_period: i32,
    /// The role required to create projects.
    pub project_creation_level: ProjectCreation,
    /// The role required to create subgroups.
    pub subgroup_creation_level: SubgroupCreation,
    /// Whether projects without a pipeline definition use Auto DevOps; inherited if absent.
    pub auto_devops_enabled: Option<bool>,
    /// Whether email is disabled; inherited if absent.
    pub emails_disabled: Option<bool>,
    /// Whether mentions of the group are disabled; inherited if absent.
    pub mentions_disabled: Option<bool>,
    /// Whether Git LFS is enabled.
    pub lfs_enabled: bool,
    /// Default branch protection of new projects: 0 none, 1 partial, 2 full.
    pub default_branch_protection: i32,
    /// The default branch of new projects; inherited if absent.
    pub default_branch: Option<String>,
    /// Whether users may request access.
    pub request_access_enabled: bool,
    /// The directory group for synchronization.
    pub ldap_cn: Option<String>,
    /// Whether authors can approve their merge requests; false locks the setting of all projects in the group.
    pub allow_author_approval: bool,
    /// Whether committers can approve their merge requests; false locks the setting of all projects in the group.
    pub allow_committer_approval: bool,
    /// Whether merge requests can have approval rules of their own; false locks the setting of all projects in the
    /// group.
    pub allow_approval_rule_overrides: bool,
    /// Whether approvals stay after new commits; false locks the setting of all projects in the group.
    pub retain_approvals_on_push: bool,
    /// The role of members from the directory.
    pub ldap_access: Option<i32>,
    /// Monthly minutes of shared runners.
    pub shared_runners_minutes_limit: Option<i32>,
    /// Additional purchased minutes.
    pub extra_shared_runners_minutes_limit: Option<i32>,
    /// The project with file templates; no foreign key.
    pub file_template_project_id: Option<i64>,
    /// The registration token of runners, encrypted.
    pub runners_token_encrypted: Option<String>,
    /// The date of a delayed deletion request.
    pub marked_for_deletion_on: Option<NaiveDate>,
    /// When its deletion started; from then on it is invisible.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The owner of a personal namespace.
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
    /// Updates the folded last component when the path changes.
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

/// Returns a namespace by full path, ignoring case, unless it is being deleted.
///
/// # Errors
/// Any database error.
pub async fn by_full_path(db: &impl ConnectionTrait, full_path: &str) -> Result<Option<Model>, DbErr> {
    not_deleted()
        .filter(Column::FullPathKey.eq(fold(full_path)))
        .one(db)
        .await
}

/// Returns a group by ID or full path; digits are always an ID.
///
/// # Errors
/// Any database error.
pub async fn group_by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Model>, DbErr> {
    group_named(reference).one(db).await
}

/// Selects a group by ID or full path; digits are always an ID.
pub(super) fn group_named(reference: &str) -> Select<Entity> {
    not_deleted()
        .filter(Column::Kind.eq(NamespaceKind::Group))
        .filter(named(reference))
}

/// Returns a condition for an ID or full path; digits are always an ID.
pub fn named(reference: &str) -> Expr {
    match numeric_id(reference) {
        Some(id) => Column::Id.eq(id),
        None => Column::FullPathKey.eq(fold(reference)),
    }
}

/// Returns a namespace by ID or full path.
///
/// # Errors
/// Any database error.
pub async fn by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Model>, DbErr> {
    not_deleted().filter(named(reference)).one(db).await
}

/// Returns the personal namespace of a user.
///
/// # Errors
/// Any database error.
pub async fn of_user(db: &impl ConnectionTrait, user_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(Column::OwnerId.eq(user_id)).one(db).await
}

/// Returns the default branch of new projects that the nearest group at or above a namespace names.
///
/// # Errors
/// Any database error.
pub async fn default_branch(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Option<String>, DbErr> {
    let nearest = Entity::find()
        .select_only()
        .column(Column::DefaultBranch)
        .join(JoinType::InnerJoin, ancestors::Relation::Ancestor.def().rev())
        .filter(ancestors::Column::NamespaceId.eq(namespace_id))
        .filter(Column::DefaultBranch.is_not_null())
        .order_by_asc(ancestors::Column::Depth)
        .limit(1);
    nearest.into_tuple().one(db).await
}

/// Locks a namespace until the transaction ends. Code that creates, moves or renames a group or project below
/// it must lock it first. Groups and projects share paths, and a constraint of one table cannot check the
/// other.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(db).await
}

/// Arbitrary but must stay unique and never change.
const SHAPE_LOCK: i64 = 0x6e61_6d65_7370_6163;

/// Locks the shape of all namespace trees until the transaction ends: no other transaction can move, rename,
/// create or delete a group. Code that changes the parent or path of a group, or locks several namespaces,
/// must call this before [`lock`]. Then locks in any order cannot deadlock.
///
/// # Errors
/// Any database error.
pub async fn lock_trees(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    advise(db, "SELECT pg_advisory_xact_lock($1)").await
}

/// Blocks [`lock_trees`] of other transactions until the transaction ends. Code that adds to a tree must call
/// this before [`lock`], because new rows refer to all ancestors and to paths that must not change.
///
/// # Errors
/// Any database error.
pub async fn lock_trees_shared(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    advise(db, "SELECT pg_advisory_xact_lock_shared($1)").await
}

async fn advise(db: &impl ConnectionTrait, sql: &str) -> Result<(), DbErr> {
    // SQLite has a single writer.
    if db.get_database_backend() == DbBackend::Postgres {
        let lock = Statement::from_sql_and_values(DbBackend::Postgres, sql, [SHAPE_LOCK.into()]);
        db.execute_raw(lock).await?;
    }
    Ok(())
}

/// Updates the paths of all descendants after a change of a namespace's path; must be called under
/// [`lock_trees`].
///
/// # Errors
/// Any database error.
pub async fn rename_below(db: &impl ConnectionTrait, former: &Model, full_path: &str) -> Result<(), DbErr> {
    let moved = |column: Column, from: &str, to: &str| {
        // `substr` counts from 1 and takes 32 bits.
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

/// Clears the template project of all groups that name a project that is being deleted. The project may have left their
/// groups.
///
/// # Errors
/// Any database error.
pub async fn clear_file_template_project(db: &impl ConnectionTrait, project_id: i64) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::FileTemplateProjectId, Expr::value(None::<i64>))
        .filter(Column::FileTemplateProjectId.eq(project_id))
        .exec(db)
        .await?;
    Ok(())
}

/// Returns whether a namespace or project has this path, ignoring case. Includes those that are being
/// deleted, which occupy their path until they are gone.
///
/// # Errors
/// Any database error.
pub async fn is_path_taken(db: &impl ConnectionTrait, full_path: &str) -> Result<bool, DbErr> {
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
    projects::Entity::find()
        .inner_join(Entity)
        .filter(projects::Column::PathKey.eq(path))
        .filter(Column::FullPathKey.eq(above))
        .exists(db)
        .await
}

/// Selects all namespaces that are not being deleted.
pub fn not_deleted() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}

/// Hides a namespace, its subgroups and their projects. Returns false if it was hidden already.
///
/// # Errors
/// Any database error.
pub async fn hide(transaction: &DatabaseTransaction, root: i64) -> Result<bool, DbErr> {
    hide_all(transaction, &[root]).await
}

/// Hides several namespaces, their subgroups and their projects, with the same number of statements for any number of
/// namespaces. Returns false if they were hidden already.
///
/// # Errors
/// Any database error.
pub async fn hide_all(transaction: &DatabaseTransaction, roots: &[i64]) -> Result<bool, DbErr> {
    lock_trees(transaction).await?;
    let below = ancestors::at_or_below_any(transaction.get_database_backend(), roots);
    let hidden = Entity::update_many()
        .col_expr(Column::DeletionStartedAt, Expr::value(now()))
        .filter(Column::Id.in_subquery(below.clone()))
        .filter(Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    projects::Entity::update_many()
        .col_expr(projects::Column::DeletionStartedAt, Expr::value(now()))
        .filter(projects::Column::NamespaceId.in_subquery(below))
        .filter(projects::Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    Ok(hidden.rows_affected > 0)
}

/// Returns a part with the full paths of namespaces as the first text; none without IDs.
#[must_use]
pub fn full_paths_part(database: DbBackend, ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select().from(Entity).take();
    let part = RelatedPart::of_owners(database, rows, Column::Id.into_expr(), ids)?;
    Some(part.with_texts([Column::FullPath.into_expr()]))
}

/// Returns a part with the ID of the personal namespace of each user; none without IDs.
#[must_use]
pub fn personal_part(database: DbBackend, user_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select().from(Entity).take();
    let part = RelatedPart::of_owners(database, rows, Column::OwnerId.into_expr(), user_ids)?;
    Some(part.with_id(Column::Id.into_expr()))
}
