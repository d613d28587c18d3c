//! Promotion of labels and milestones of projects to a group.

use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::{namespace_ancestors, projects};

use crate::kernel::error::Result;

/// Selects the IDs of the projects in a group and its subgroups.
pub(super) fn projects_in(group_id: i64) -> SelectStatement {
    projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group_id)))
        .into_query()
}

/// Replaces references to former rows in a column of a table by references to the promoted row.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn replace_references(
    transaction: &DatabaseTransaction,
    (table, column): (&'static str, &'static str),
    former: SelectStatement,
    promoted: i64,
) -> Result<()> {
    let update = Query::update()
        .table(table)
        .value(column, promoted)
        .and_where(Expr::col(column).in_subquery(former))
        .take();
    transaction.execute(&update).await?;
    Ok(())
}
