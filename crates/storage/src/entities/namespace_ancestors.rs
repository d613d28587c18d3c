//! Closure table of the namespace tree: one row for each pair of a namespace and an ancestor.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Query, SelectStatement};
use sea_orm::{
    ActiveValue::{NotSet, Set},
    DbBackend, ExprTrait, JoinType, QueryOrder,
};

use super::namespaces;
use super::related_rows::{RelatedPart, RelatedRow, RelatedRows, bigint};
use super::row_conditions::is_among;

/// Closure table of the namespace tree: one row for each pair of a namespace and an ancestor.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "namespace_ancestors")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The namespace.
    pub namespace_id: i64,
    /// An ancestor, or the namespace itself.
    pub ancestor_id: i64,
    /// Distance to the ancestor; 0 for the namespace itself.
    pub depth: i32,
}

/// Relations of the table.
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

impl Related<namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Ancestor.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Inserts the rows of a new namespace below its parent; must be called in the transaction that inserts it.
///
/// # Errors
/// Any database error; a unique violation if the rows exist.
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

/// Returns a namespace and its ancestors, nearest first.
///
/// # Errors
/// Any database error.
pub async fn of(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .order_by_asc(Column::Depth)
        .all(db)
        .await
}

/// Selects the IDs of a namespace and its descendants, for use in other statements.
pub fn at_or_below(namespace_id: i64) -> SelectStatement {
    Query::select()
        .column((Entity, Column::NamespaceId))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::AncestorId)).eq(namespace_id))
        .take()
}

/// Selects the IDs of several namespaces and their descendants, for use in other statements.
pub fn at_or_below_any(database: DbBackend, namespace_ids: &[i64]) -> SelectStatement {
    let ancestor = Expr::col((Entity, Column::AncestorId));
    Query::select()
        .column((Entity, Column::NamespaceId))
        .from(Entity)
        .and_where(is_among(database, ancestor, namespace_ids.iter().copied()))
        .take()
}

/// Selects the IDs of a namespace and its ancestors, for use in other statements.
pub fn at_or_above(namespace_id: i64) -> SelectStatement {
    Query::select()
        .column((Entity, Column::AncestorId))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::NamespaceId)).eq(namespace_id))
        .take()
}

/// Selects the IDs of the namespace of a project and its ancestors, for use in other statements.
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

/// Replaces the rows of a moved namespace and its descendants for its new parent. Must be called in the
/// transaction that moves it, under [`super::namespaces::lock_trees`].
///
/// # Errors
/// Any database error.
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
    // Each moved namespace, with the parent and each of its ancestors.
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

/// Returns the IDs of a namespace and its descendants, nearest first.
///
/// # Errors
/// Any database error.
pub async fn descendant_ids(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Vec<i64>, DbErr> {
    let rows = Entity::find()
        .filter(Column::AncestorId.eq(namespace_id))
        .order_by_asc(Column::Depth)
        .order_by_asc(Column::NamespaceId)
        .all(db)
        .await?;
    Ok(rows.into_iter().map(|row| row.namespace_id).collect())
}

/// Returns a part with the names of namespaces and their ancestors, the top-level group first; none without IDs.
#[must_use]
pub fn names_part(database: DbBackend, ids: &[i64]) -> Option<RelatedPart> {
    let owner_id = Column::NamespaceId.into_expr();
    RelatedPart::of_owners(database, with_ancestors(), owner_id, ids).map(sorted_names)
}

/// Returns the names of namespaces with those of their ancestors, separated by ` / `, in one statement.
///
/// # Errors
/// Any database error.
pub async fn full_names(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>, DbErr> {
    let ids: Vec<i64> = ids.into_iter().collect();
    let mut related = RelatedRows::default();
    let names = related.add(names_part(db.get_database_backend(), &ids));
    Ok(joined_names(related.load(db).await?.take(names)))
}

/// Joins the names of each namespace and its ancestors, from the rows of [`names_part`].
#[must_use]
pub fn joined_names(rows: Vec<RelatedRow>) -> HashMap<i64, String> {
    let mut names = HashMap::<i64, String>::new();
    for row in rows {
        let full = names.entry(row.owner_id).or_default();
        if !full.is_empty() {
            full.push_str(" / ");
        }
        let [name, ..] = row.texts;
        full.push_str(&name.unwrap_or_default());
    }
    names
}

/// Returns a part like [`names_part`], for the namespaces whose IDs a statement selects.
#[must_use]
pub fn names_part_of(ids: SelectStatement) -> RelatedPart {
    let owner_id = Column::NamespaceId.into_expr();
    let rows = with_ancestors()
        .and_where(owner_id.clone().in_subquery(ids))
        .take();
    sorted_names(RelatedPart::new(rows, owner_id))
}

fn with_ancestors() -> SelectStatement {
    let is_ancestor = namespaces::Column::Id
        .into_expr()
        .eq(Column::AncestorId.into_expr());
    Query::select()
        .from(Entity)
        .cross_join(namespaces::Entity)
        .and_where(is_ancestor)
        .take()
}

fn sorted_names(part: RelatedPart) -> RelatedPart {
    part.sorted_by(bigint(Column::Depth.into_expr().mul(-1)))
        .with_texts([namespaces::Column::Name.into_expr()])
}
