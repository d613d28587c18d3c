//! Issues of epics. An issue is in at most one epic.

use sea_orm::entity::prelude::*;
use sea_orm::{DatabaseTransaction, Order, QueryOrder};

use super::{epics, namespace_ancestors};

/// Issues of epics. An issue is in at most one epic.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "epic_issues")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The epic.
    pub epic_id: i64,
    /// The issue.
    pub issue_id: i64,
    /// The position in the epic, ascending.
    pub relative_position: Option<i64>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The issue.
    #[sea_orm(
        belongs_to = "super::issues::Entity",
        from = "Column::IssueId",
        to = "super::issues::Column::Id"
    )]
    Issue,
}

impl Related<super::issues::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Issue.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the issues of an epic in their order.
pub fn of(epic_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::EpicId.eq(epic_id))
        .order_by(Column::RelativePosition, Order::Asc)
        .order_by(Column::Id, Order::Asc)
}

/// Replaces an issue by its moved copy in the epic, if the namespace of the copy is in the group of the epic. The
/// original leaves the epic in any case.
///
/// # Errors
/// Any database error.
pub async fn reassign(
    transaction: &DatabaseTransaction,
    namespace_id: i64,
    old: i64,
    new: i64,
) -> Result<(), DbErr> {
    let former = Entity::find()
        .filter(Column::IssueId.eq(old))
        .one(transaction)
        .await?;
    let Some(former) = former else {
        return Ok(());
    };
    let above = namespace_ancestors::at_or_above(namespace_id);
    let epic = epics::Entity::find_by_id(former.epic_id)
        .filter(epics::Column::NamespaceId.in_subquery(above))
        .one(transaction)
        .await?;
    match epic {
        Some(_) => {
            Entity::update_many()
                .col_expr(Column::IssueId, Expr::value(new))
                .filter(Column::Id.eq(former.id))
                .exec(transaction)
                .await?;
        }
        None => {
            Entity::delete_by_id(former.id).exec(transaction).await?;
        }
    }
    Ok(())
}
