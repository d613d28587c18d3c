//! Promotion of labels and milestones of projects to a group.

use sea_orm::sea_query::{DeleteStatement, Expr, ExprTrait, LockType, Order, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::{namespace_ancestors, namespaces, projects};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Tables and rules of a kind of item that can be promoted.
pub(super) struct Promotion {
    /// Table of the items.
    pub table: &'static str,
    /// Column of other tables that references an item.
    pub reference: &'static str,
    /// Tables with the reference.
    pub referencing: &'static [ReferencingTable],
    /// Role in the group that the caller needs.
    pub minimum_role: Role,
    /// Text of the error for a project that is not in a group.
    pub no_group: &'static str,
}

/// A table that references promoted items.
pub(super) struct ReferencingTable {
    /// Name of the table.
    pub name: &'static str,
    /// Column of the row to which an item can be assigned only once. `None` if no assignment can be repeated.
    pub owner: Option<&'static str>,
}

impl Promotion {
    /// Returns the group to which items of the project are promoted, and locks it until the transaction ends.
    /// The lock serializes promotions, so that concurrent ones do not create the same item. Must run before an item is
    /// locked: another promotion to the group locks the items of all projects.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if the project is not in a group. Returns `Error::Forbidden` if the caller
    /// does not have the minimum role in the group.
    pub async fn lock_group(
        &self,
        transaction: &DatabaseTransaction,
        space: &SpaceAccess,
    ) -> Result<SpaceAccess> {
        let group = space.promotion_target(transaction, self.minimum_role).await?;
        let group = group.ok_or_else(|| Error::Rejected(self.no_group.into()))?;
        namespaces::lock(transaction, group.namespace.id).await?;
        Ok(group)
    }

    /// Selects the IDs of the items with this title in all projects of a group and its subgroups.
    pub fn project_items(&self, group_id: i64, title: &str) -> SelectStatement {
        Query::select()
            .column((self.table, "id"))
            .from(self.table)
            .and_where(Expr::col((self.table, "title")).eq(title))
            .and_where(Expr::col((self.table, "project_id")).in_subquery(projects_below(group_id)))
            .take()
    }

    /// Locks the `former` items in ascending order until the transaction ends. The lock conflicts with the lock of an
    /// assignment, which could otherwise add a reference after the references were replaced and before the items are
    /// deleted.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn lock_former(
        &self,
        transaction: &DatabaseTransaction,
        former: &SelectStatement,
    ) -> Result<()> {
        let locked = Query::select()
            .column("id")
            .from(self.table)
            .and_where(Expr::col("id").in_subquery(former.clone()))
            .order_by("id", Order::Asc)
            .lock(LockType::Update)
            .take();
        transaction.query_all(&locked).await?;
        Ok(())
    }

    /// Replaces all references to `former` items by references to the promoted item.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn replace_references(
        &self,
        transaction: &DatabaseTransaction,
        former: &SelectStatement,
        promoted: i64,
    ) -> Result<()> {
        for table in self.referencing {
            if let Some(owner) = table.owner {
                let delete = self.delete_duplicates((table.name, owner), former, promoted);
                transaction.execute(&delete).await?;
            }
            let update = Query::update()
                .table(table.name)
                .value(self.reference, promoted)
                .and_where(Expr::col(self.reference).in_subquery(former.clone()))
                .take();
            transaction.execute(&update).await?;
        }
        Ok(())
    }

    /// Deletes rows of a table that would be duplicates after the replacement of the references.
    fn delete_duplicates(
        &self,
        (table, owner): (&'static str, &'static str),
        former: &SelectStatement,
        promoted: i64,
    ) -> DeleteStatement {
        const OTHER: &str = "other";
        let other = |column: &'static str| Expr::col((OTHER, column));
        let earlier = other(self.reference)
            .in_subquery(former.clone())
            .and(other("id").lt(Expr::col((table, "id"))));
        let duplicate = Query::select()
            .expr(Expr::val(1))
            .from_as(table, OTHER)
            .and_where(other(owner).eq(Expr::col((table, owner))))
            .and_where(other(self.reference).eq(promoted).or(earlier))
            .take();
        Query::delete()
            .from_table(table)
            .and_where(Expr::col((table, self.reference)).in_subquery(former.clone()))
            .and_where(Expr::exists(duplicate))
            .take()
    }

    /// Deletes the `former` items.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn delete_former(
        &self,
        transaction: &DatabaseTransaction,
        former: SelectStatement,
    ) -> Result<()> {
        let delete = Query::delete()
            .from_table(self.table)
            .and_where(Expr::col((self.table, "id")).in_subquery(former))
            .take();
        transaction.execute(&delete).await?;
        Ok(())
    }
}

/// Selects the IDs of the projects in a group and its subgroups.
fn projects_below(group_id: i64) -> SelectStatement {
    projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group_id)))
        .into_query()
}
