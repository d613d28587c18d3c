//! Approval rules: how many approvals of which users a merge request requires.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, IntoActiveModel};

use super::{now, row_changes};

/// Name of the rule that a number of required approvals creates.
pub const ALL_MEMBERS: &str = "All Members";

/// Kind of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ApprovalRuleType {
    /// Approvals of all users count. A project has at most one rule of this kind.
    AnyApprover,
    /// Approvals of the users and groups of the rule count.
    Regular,
}

/// Approval rules.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "approval_rules")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name.
    pub name: String,
    /// The kind.
    pub rule_type: ApprovalRuleType,
    /// Number of approvals that the rule requires. For a rule of the kind [`ApprovalRuleType::AnyApprover`],
    /// `approvals_before_merge` of the project has the same value.
    pub approvals_required: i32,
    /// Whether the rule applies to all protected branches, instead of its own branches.
    pub applies_to_all_protected_branches: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Sets the number of approvals of the rule for all users, and creates the rule if there is none. The project must be
/// locked.
///
/// # Errors
/// Any database error.
pub async fn require_any(
    db: &impl ConnectionTrait,
    project_id: i64,
    approvals_required: i32,
) -> Result<(), DbErr> {
    let found = Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::RuleType.eq(ApprovalRuleType::AnyApprover))
        .one(db)
        .await?;
    if let Some(rule) = found {
        let mut row = rule.clone().into_active_model();
        row.approvals_required = Set(approvals_required);
        row_changes::update_if_changed(db, &rule, row).await?;
        return Ok(());
    }
    if approvals_required == 0 {
        return Ok(());
    }
    let at = now();
    let row = ActiveModel {
        project_id: Set(project_id),
        name: Set(ALL_MEMBERS.to_owned()),
        rule_type: Set(ApprovalRuleType::AnyApprover),
        approvals_required: Set(approvals_required),
        applies_to_all_protected_branches: Set(false),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    row.insert(db).await?;
    Ok(())
}
