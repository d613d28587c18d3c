//! Protected branches to which approval rules apply.

use sea_orm::entity::prelude::*;

/// Protected branches to which approval rules apply.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "approval_rule_branches")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The approval rule.
    pub approval_rule_id: i64,
    /// The protected branch.
    pub protected_branch_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
