//! The closure of the tree of namespaces: one row for each namespace and each of its ancestors.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Query, SelectStatement};
use sea_orm::{
    ActiveValue::{NotSet, Set},
    ExprTrait, JoinType, QueryOrder,
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

/// The ids of a namespace and of everything below it, as a statement to use in others.
pub fn at_or_below(namespace_id: i64) -> SelectStatement {
    Query::select()
        .column((Entity, Column::NamespaceId))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::AncestorId)).eq(namespace_id))
        .take()
}

/// The ids of a namespace and of everything above it, as a statement to use in others.
pub fn at_or_above(namespace_id: i64) -> SelectStatement {
    Query::select()
        .column((Entity, Column::AncestorId))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::NamespaceId)).eq(namespace_id))
        .take()
}

/// The ids of the groups around a project, or of its owner's namespace, as a statement to use in others.
pub fn around_project(project_id: i64) -> SelectStatement {
    let its = Query::select()
        .column(super::projects::Column::NamespaceId)
        .from(super::projects::Entity)
        .and_where(super::projects::Column::Id.eq(project_id))
        .take();
    Query::select()
        .column((Entity, Column::AncestorId))
        .from(Entity)
        .and_where(Column::NamespaceId.in_subquery(its))
        .take()
}

/// Enters a namespace that has moved, with all below it, under its new parent; to be called in the transaction that
/// moves it, under [`super::namespaces::lock_shape`].
///
/// # Errors
/// Whatever the database reports.
pub async fn relink(
    db: &impl ConnectionTrait,
    namespace_id: i64,
    parent_id: Option<i64>,
) -> Result<(), DbErr> {
    let former = of(db, namespace_id).await?;
    let former = former.into_iter().filter(|row| row.depth > 0);
    Entity::delete_many()
        .filter(Column::NamespaceId.in_subquery(at_or_below(namespace_id)))
        .filter(Column::AncestorId.is_in(former.map(|row| row.ancestor_id)))
        .exec(db)
        .await?;
    let Some(parent_id) = parent_id else {
        return Ok(());
    };
    const BELOW: &str = "below";
    const ABOVE: &str = "above";
    // Each namespace that has moved, with each at or above the parent.
    let pairs = Query::select()
        .column((BELOW, Column::NamespaceId))
        .column((ABOVE, Column::AncestorId))
        .expr(
            Expr::col((BELOW, Column::Depth))
                .add(Expr::col((ABOVE, Column::Depth)))
                .add(1),
        )
        .from_as(Entity, BELOW)
        .join_as(
            JoinType::InnerJoin,
            Entity,
            ABOVE,
            Expr::col((ABOVE, Column::NamespaceId)).eq(parent_id),
        )
        .and_where(Expr::col((BELOW, Column::AncestorId)).eq(namespace_id))
        .take();
    let mut insert = Query::insert();
    insert
        .into_table(Entity)
        .columns([Column::NamespaceId, Column::AncestorId, Column::Depth]);
    insert
        .select_from(pairs)
        .map_err(|error| DbErr::Custom(error.to_string()))?;
    db.execute(&insert).await?;
    Ok(())
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
