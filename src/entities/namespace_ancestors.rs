//! The closure of the tree of namespaces: one row for each namespace and each of its ancestors.

use sea_orm::entity::prelude::*;
use sea_orm::{
    ActiveValue::{NotSet, Set},
    QueryOrder,
};

/// The closure of the tree of namespaces: one row for each namespace and each of its ancestors.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "namespace_ancestors")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The namespace.
    pub namespace_id: i64,
    /// One of its ancestors, or itself.
    pub ancestor_id: i64,
    /// How many steps up the ancestor stands; 0 is itself.
    pub depth: i32,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The ancestor.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::AncestorId",
        to = "super::namespaces::Column::Id"
    )]
    Ancestor,
}

impl Related<super::namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Ancestor.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Enters a new namespace below its parent; to be called in the transaction that inserts it.
///
/// # Errors
/// Whatever the database reports; a unique violation if it was entered before.
pub async fn insert(
    db: &impl ConnectionTrait,
    namespace_id: i64,
    parent_id: Option<i64>,
) -> Result<(), DbErr> {
    let above = match parent_id {
        Some(parent) => of(db, parent).await?,
        None => Vec::new(),
    };
    let itself = Model {
        id: 0,
        namespace_id,
        ancestor_id: namespace_id,
        depth: 0,
    };
    let rows = std::iter::once(itself).chain(above).map(|row| ActiveModel {
        id: NotSet,
        namespace_id: Set(namespace_id),
        ancestor_id: Set(row.ancestor_id),
        depth: Set(if row.ancestor_id == namespace_id {
            0
        } else {
            row.depth + 1
        }),
    });
    Entity::insert_many(rows).exec_without_returning(db).await?;
    Ok(())
}

/// A namespace and its ancestors, nearest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn of(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .order_by_asc(Column::Depth)
        .all(db)
        .await
}

/// The ids of a namespace and of everything below it, nearest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn descendant_ids(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Vec<i64>, DbErr> {
    let rows = Entity::find()
        .filter(Column::AncestorId.eq(namespace_id))
        .order_by_asc(Column::Depth)
        .order_by_asc(Column::NamespaceId)
        .all(db)
        .await?;
    Ok(rows.into_iter().map(|row| row.namespace_id).collect())
}
