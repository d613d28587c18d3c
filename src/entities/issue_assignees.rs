//! To whom issues are assigned.

use std::collections::HashMap;

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// To whom issues are assigned.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "issue_assignees")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue.
    pub issue_id: i64,
    /// The user.
    pub user_id: i64,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The issue.
    #[sea_orm(
        belongs_to = "super::issues::Entity",
        from = "Column::IssueId",
        to = "super::issues::Column::Id"
    )]
    Issue,
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<super::issues::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Issue.def()
    }
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Those that several issues are assigned to, in one statement, in the order they were assigned; issues without any are
/// absent.
///
/// # Errors
/// Whatever the database reports.
pub async fn of(
    db: &impl ConnectionTrait,
    issue_ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<super::users::Model>>, DbErr> {
    let rows = Entity::find()
        .find_also_related(super::users::Entity)
        .filter(Column::IssueId.is_in(issue_ids))
        .order_by_asc(Column::Id)
        .all(db)
        .await?;
    let mut assignees = HashMap::<i64, Vec<_>>::new();
    for (row, user) in rows {
        assignees.entry(row.issue_id).or_default().extend(user);
    }
    Ok(assignees)
}
