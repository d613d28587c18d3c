//! Approval rules: how many approvals of which users a merge request requires.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, Condition, IntoActiveModel};

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
    /// The merge request, if the rule applies only to it, instead of the rules of the project.
    pub merge_request_id: Option<i64>,
    /// The rule of the project that was copied for a merge request.
    pub source_rule_id: Option<i64>,
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

/// The owner of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleScope {
    /// Rules of a project, without those of its merge requests.
    Project(i64),
    /// Rules of a merge request.
    MergeRequest(i64),
    /// Rules of a merge request and of its project.
    Both {
        /// The project.
        project_id: i64,
        /// The merge request.
        merge_request_id: i64,
    },
}

impl RuleScope {
    /// Returns the condition for the rules.
    #[must_use]
    pub fn condition(self) -> Condition {
        let of_project = |id: i64| {
            Condition::all()
                .add(Column::ProjectId.eq(id))
                .add(Column::MergeRequestId.is_null())
        };
        match self {
            Self::Project(id) => of_project(id),
            Self::MergeRequest(id) => Condition::all().add(Column::MergeRequestId.eq(id)),
            Self::Both {
                project_id,
                merge_request_id,
            } => Condition::any()
                .add(of_project(project_id))
                .add(Column::MergeRequestId.eq(merge_request_id)),
        }
    }
}

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
        .filter(RuleScope::Project(project_id).condition())
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
