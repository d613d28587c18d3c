//! Groups whose members' approvals count for approval rules.

use sea_orm::entity::prelude::*;

/// Groups whose members' approvals count for approval rules.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "approval_rule_groups")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The approval rule.
    pub approval_rule_id: i64,
    /// The group.
    pub group_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
