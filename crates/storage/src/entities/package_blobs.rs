//! Stored objects with the contents of package files. Objects that belong to neither a file nor an upload are garbage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// Stored objects with the contents of package files.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "package_blobs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The file; none before it exists and after it was deleted.
    pub file_id: Option<i64>,
    /// The key in the object storage.
    pub key: String,
    /// When it was attached to its file, or condemned. Before, it belongs to an upload.
    pub attached_at: Option<DateTime<Utc>>,
    /// When the row was created, before anything was stored.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The file.
    #[sea_orm(
        belongs_to = "super::package_files::Entity",
        from = "Column::FileId",
        to = "super::package_files::Column::Id"
    )]
    File,
}

impl Related<super::package_files::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::File.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Attaches an object to a file, or condemns it without a file. Returns false if it was attached or condemned before.
///
/// # Errors
/// Any database error.
pub async fn attach(db: &impl ConnectionTrait, id: i64, file_id: Option<i64>) -> Result<bool, DbErr> {
    let attached = Entity::update_many()
        .col_expr(Column::FileId, Expr::value(file_id))
        .col_expr(Column::AttachedAt, Expr::value(super::now()))
        .filter(Column::Id.eq(id))
        .filter(Column::AttachedAt.is_null())
        .exec(db)
        .await?;
    Ok(attached.rows_affected > 0)
}

/// Returns objects without a file with IDs above `after`, at most `limit`: those of deleted files, condemned ones, and
/// those of uploads that started before `begun_before`, which cannot be in progress any more.
///
/// # Errors
/// Any database error.
pub async fn garbage(
    db: &impl ConnectionTrait,
    begun_before: DateTime<Utc>,
    after: i64,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let over = Condition::any()
        .add(Column::AttachedAt.is_not_null())
        .add(Column::CreatedAt.lt(begun_before));
    Entity::find()
        .filter(Column::FileId.is_null())
        .filter(Column::Id.gt(after))
        .filter(over)
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}
