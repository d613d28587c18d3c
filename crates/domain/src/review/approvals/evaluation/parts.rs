//! The parts of a statement with the approvals and rules of a merge request.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{
    ColumnRef, Expr, ExprTrait, Func, IntoColumnRef, IntoTableRef, Order, Query, SelectStatement, UnionType,
    WindowStatement,
};
use sea_orm::{ActiveEnum, ColumnTrait, Condition, DbErr};
use storage::entities::approval_rules::{self, ApprovalRuleType, RuleScope};
use storage::entities::merge_requests::Model;
use storage::entities::related_rows::{
    PartKey, RelatedPart, RelatedRow, RelatedRowSets, RelatedRows, bigint,
};
use storage::entities::users::{self, UserState, UserSummary};
use storage::entities::{
    AccessLevel, approval_rule_branches, approval_rule_groups, approval_rule_users, approvals, members, now,
    protected_branches, unexpired,
};

use super::owner_parts::OwnerParts;
use super::{AppliedRule, Approval, ApprovalState, has_rules};
use crate::code::branch_protection::TargetProtection;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::patterns::matches_pattern;
use crate::review::approvals::settings::ApprovalPolicy;
use crate::spaces::members::users_with_role;

/// Maximum number of eligible users of a rule that are read. It is larger than the number of approvals that a rule can
/// require.
pub const MAX_ELIGIBLE: u8 = 200;

/// Name of the rows with the users of rules.
const CANDIDATE: &str = "candidate";

/// The parts of a statement with the approvals and rules of a merge request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApprovalParts {
    approvals: PartKey,
    users: PartKey,
    rules: PartKey,
    branches: PartKey,
    eligible: PartKey,
    approving: PartKey,
    counted: PartKey,
    owners: OwnerParts,
}

/// A rule as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRule {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The kind.
    pub rule_type: ApprovalRuleType,
    /// Number of approvals that the rule requires.
    pub approvals_required: i32,
    /// Whether the rule applies to all protected branches, instead of its own branches.
    pub applies_to_all_protected_branches: bool,
    /// When the rule was last changed.
    pub updated_at: DateTime<Utc>,
    /// Whether the rule belongs to a merge request.
    pub is_own: bool,
    /// ID of the rule of the project that was copied for a merge request.
    pub source_rule_id: Option<i64>,
}

impl ApprovalParts {
    /// Adds the parts to a statement. On plans without approval rules, no rule is read.
    pub(crate) fn add(
        backend: &Backend,
        related: &mut RelatedRows,
        access: &ProjectAccess,
        merge_request: &Model,
        policy: &ApprovalPolicy,
    ) -> Self {
        let id = merge_request.id;
        let owners = OwnerParts::add(related, access, id, &policy.owners);
        let scope = scope_of(merge_request);
        let mut of_rules = |part: RelatedPart| related.add(has_rules(backend).then_some(part));
        Self {
            rules: of_rules(rules_part(scope)),
            branches: of_rules(branches_part(scope)),
            eligible: of_rules(eligible_part(access, scope)),
            approving: of_rules(approving_part(access, scope, id)),
            counted: of_rules(counted_part(access, id)),
            approvals: related.add(Some(approvals::part(id))),
            users: related.add(Some(users_part(id))),
            owners,
        }
    }

    /// Removes the rows of the parts and evaluates the rules. If the merge request has rules of its own, and the policy
    /// permits this, they replace those of the project. Rules of code owners come last and are never replaced.
    /// Approvals of excluded users do not count.
    ///
    /// # Errors
    /// Returns an error if a row is invalid.
    pub(crate) fn take(
        self,
        rows: &mut RelatedRowSets,
        merge_request: &Model,
        target: TargetProtection,
        policy: &ApprovalPolicy,
    ) -> Result<ApprovalState> {
        let times: HashMap<i64, _> = rows.take_by_id(self.approvals, |row| row.time.unwrap_or_default());
        let users = rows.take(self.users).into_iter().map(UserSummary::read);
        let mut approvals = Vec::new();
        for user in users {
            let user = user?;
            let at = times.get(&user.id).copied().unwrap_or_default();
            approvals.push(Approval { user, at });
        }
        let mut branches = rows.take_grouped(self.branches, |row| Ok(name_of(row)))?;
        let mut eligible = rows.take_grouped(self.eligible, UserSummary::read)?;
        let mut approving = rows.take_grouped(self.approving, |row| Ok(row.id))?;
        let counted: Vec<i64> = rows.take(self.counted).into_iter().map(|row| row.id).collect();
        let stored = rows.take(self.rules).into_iter().map(StoredRule::read);
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let is_overwritten = policy.has_rule_overrides && stored.iter().any(|rule| rule.is_own);
        let mut rules = Vec::new();
        for rule in stored.into_iter().filter(|rule| rule.is_own == is_overwritten) {
            let branches = branches.remove(&rule.id).unwrap_or_default();
            let applies = match rule.applies_to_all_protected_branches {
                true => target.is_protected,
                false => {
                    let target = &merge_request.target_branch;
                    branches.is_empty() || branches.iter().any(|name| matches_pattern(name, target))
                }
            };
            if !applies {
                continue;
            }
            let approved_by = match rule.rule_type {
                ApprovalRuleType::AnyApprover => counted.clone(),
                ApprovalRuleType::Regular => approving.remove(&rule.id).unwrap_or_default(),
            };
            rules.push(AppliedRule {
                id: rule.id,
                name: rule.name,
                rule_type: rule.rule_type,
                is_code_owner: false,
                section: None,
                approvals_required: rule.approvals_required,
                eligible: eligible.remove(&rule.id).unwrap_or_default(),
                approved_by,
            });
        }
        let owners = self.owners.take(rows)?;
        let of_owners = policy.owners.rules.iter();
        rules.extend(of_owners.map(|rule| owners.apply(rule, target.requires_code_owners, &counted)));
        for rule in &mut rules {
            rule.exclude(&policy.excluded);
        }
        Ok(ApprovalState {
            approvals,
            rules,
            is_overwritten,
        })
    }
}

impl StoredRule {
    /// Reads a row of [`rules_part`].
    ///
    /// # Errors
    /// Returns an error if the row has an unknown kind.
    pub(crate) fn read(row: RelatedRow) -> Result<Self, DbErr> {
        let [name, rule_type, applies, source] = row.texts;
        Ok(Self {
            id: row.id,
            name: name.unwrap_or_default(),
            rule_type: ApprovalRuleType::try_from_value(&rule_type.unwrap_or_default())?,
            approvals_required: row
                .number
                .and_then(|number| number.try_into().ok())
                .unwrap_or(i32::MAX),
            applies_to_all_protected_branches: applies.is_some(),
            updated_at: row.time.unwrap_or_default(),
            is_own: source.is_some(),
            source_rule_id: source.and_then(|id| id.parse().ok()),
        })
    }
}

fn name_of(row: RelatedRow) -> String {
    let [name, ..] = row.texts;
    name.unwrap_or_default()
}

/// Returns the scope of the rules that can apply to a merge request.
pub(crate) fn scope_of(merge_request: &Model) -> RuleScope {
    RuleScope::Both {
        project_id: merge_request.target_project_id,
        merge_request_id: merge_request.id,
    }
}

/// Returns the part with rules, oldest first.
pub(crate) fn rules_part(scope: RuleScope) -> RelatedPart {
    use approval_rules::{Column, Entity};
    let rows = Query::select().from(Entity).cond_where(scope.condition()).take();
    let applies = Expr::case(
        Column::AppliesToAllProtectedBranches.into_expr(),
        Expr::val("yes"),
    );
    // Rules of merge requests have a text, which is empty without a source.
    let source = Func::coalesce([Column::SourceRuleId.into_expr().cast_as("text"), Expr::val("")]);
    let source = Expr::case(Column::MergeRequestId.into_expr().is_null(), null_text()).finally(source);
    RelatedPart::new(rows, Column::ProjectId.into_expr())
        .sorted_by(Column::Id.into_expr())
        .with_id(Column::Id.into_expr())
        .with_number(bigint(Column::ApprovalsRequired.into_expr()))
        .with_time(Column::UpdatedAt.into_expr())
        .with_texts([
            Column::Name.into_expr(),
            Column::RuleType.into_expr(),
            applies.finally(null_text()).into(),
            source.into(),
        ])
}

fn null_text() -> Expr {
    Expr::cust("NULL").cast_as("text")
}

/// Selects the rows of a table with a column for the rule, for the rules of a scope.
pub(crate) fn of_rules(table: impl IntoTableRef, rule: Expr, scope: RuleScope) -> SelectStatement {
    let is_of_rule = rule.eq(approval_rules::Column::Id.into_expr());
    Query::select()
        .from(approval_rules::Entity)
        .cross_join(table)
        .cond_where(scope.condition())
        .and_where(is_of_rule)
        .take()
}

/// Returns the part with the IDs and names of the protected branches of rules.
pub(crate) fn branches_part(scope: RuleScope) -> RelatedPart {
    use approval_rule_branches::{Column, Entity};
    let mut rows = of_rules(Entity, Column::ApprovalRuleId.into_expr(), scope);
    let is_branch = protected_branches::Column::Id
        .into_expr()
        .eq(Column::ProtectedBranchId.into_expr());
    rows.cross_join(protected_branches::Entity).and_where(is_branch);
    RelatedPart::new(rows, Column::ApprovalRuleId.into_expr())
        .with_id(protected_branches::Column::Id.into_expr())
        .with_texts([protected_branches::Column::Name.into_expr()])
}

/// Selects the users of rules, and the direct members of their groups: `rule_id` and `user_id`.
fn candidates(scope: RuleScope) -> SelectStatement {
    let mut users = of_rules(
        approval_rule_users::Entity,
        approval_rule_users::Column::ApprovalRuleId.into_expr(),
        scope,
    );
    users
        .expr_as(approval_rule_users::Column::ApprovalRuleId.into_expr(), "rule_id")
        .expr_as(approval_rule_users::Column::UserId.into_expr(), "user_id");
    let mut groups = of_rules(
        approval_rule_groups::Entity,
        approval_rule_groups::Column::ApprovalRuleId.into_expr(),
        scope,
    );
    let is_member = members::Column::NamespaceId
        .into_expr()
        .eq(approval_rule_groups::Column::GroupId.into_expr());
    let today = now().date_naive();
    groups
        .cross_join(members::Entity)
        .and_where(is_member)
        .cond_where(unexpired((members::Entity, members::Column::ExpiresAt), today))
        .expr_as(
            approval_rule_groups::Column::ApprovalRuleId.into_expr(),
            "rule_id",
        )
        .expr_as(members::Column::UserId.into_expr(), "user_id");
    users.union(UnionType::Distinct, groups).take()
}

/// Returns a condition on `users` for active users.
fn is_active() -> Condition {
    Condition::all()
        .add(users::Column::State.eq(UserState::Active))
        .add(users::Column::DeletionStartedAt.is_null())
}

/// Returns a condition on `users` for users whose approvals can count for a rule with users or groups.
pub(super) fn can_approve(access: &ProjectAccess) -> Condition {
    is_active().add(users_with_role(access, AccessLevel::Developer))
}

/// Returns the part with the users of rules who can approve, at most [`MAX_ELIGIBLE`] of each rule, sorted
/// by ID.
pub(crate) fn eligible_part(access: &ProjectAccess, scope: RuleScope) -> RelatedPart {
    let group = (CANDIDATE, "rule_id").into_column_ref();
    let user = (CANDIDATE, "user_id").into_column_ref();
    first_users(eligible(access, scope), group, user)
}

/// Returns the part with the first [`MAX_ELIGIBLE`] users of each group of candidates, by ID.
pub(super) fn first_users(mut candidates: SelectStatement, group: ColumnRef, user: ColumnRef) -> RelatedPart {
    let window = WindowStatement::partition_by(group.clone())
        .order_by(user.clone(), Order::Asc)
        .take();
    let ranked = candidates
        .expr_as(Expr::col(group), "group_id")
        .expr_as(Expr::col(user), "user_id")
        .expr_window_as(Func::cust("ROW_NUMBER"), window, "place")
        .take();
    let is_user = users::Column::Id.into_expr().eq(Expr::col(("ranked", "user_id")));
    let rows = Query::select()
        .from_subquery(ranked, "ranked")
        .cross_join(users::Entity)
        .and_where(is_user)
        .and_where(Expr::col(("ranked", "place")).lte(i64::from(MAX_ELIGIBLE)))
        .take();
    let part = RelatedPart::new(rows, Expr::col(("ranked", "group_id")));
    UserSummary::columns(part.sorted_by(users::Column::Id.into_expr()))
}

/// Returns the part with the IDs of the users of each rule who can approve and have approved.
fn approving_part(access: &ProjectAccess, scope: RuleScope, merge_request_id: i64) -> RelatedPart {
    let has_approved = approvals::Column::UserId
        .into_expr()
        .eq(users::Column::Id.into_expr());
    let mut rows = eligible(access, scope);
    rows.cross_join(approvals::Entity)
        .and_where(has_approved)
        .and_where(approvals::Column::MergeRequestId.eq(merge_request_id));
    RelatedPart::new(rows, Expr::col((CANDIDATE, "rule_id")))
        .sorted_by(approvals::Column::Id.into_expr())
        .with_id(users::Column::Id.into_expr())
}

/// Returns the part with the IDs of the users whose approvals of a merge request count for a rule that all users
/// satisfy, oldest approval first. Users who were blocked or lost their role since do not count.
fn counted_part(access: &ProjectAccess, merge_request_id: i64) -> RelatedPart {
    let is_user = users::Column::Id
        .into_expr()
        .eq(approvals::Column::UserId.into_expr());
    // Administrators can approve without a role.
    let has_permission = Condition::any()
        .add(users::Column::Admin.eq(true))
        .add(users_with_role(access, AccessLevel::Developer));
    let rows = Query::select()
        .from(approvals::Entity)
        .cross_join(users::Entity)
        .and_where(is_user)
        .and_where(approvals::Column::MergeRequestId.eq(merge_request_id))
        .cond_where(is_active())
        .cond_where(has_permission)
        .take();
    RelatedPart::new(rows, approvals::Column::MergeRequestId.into_expr())
        .sorted_by(approvals::Column::Id.into_expr())
        .with_id(users::Column::Id.into_expr())
}

/// Selects the users of rules who can approve.
fn eligible(access: &ProjectAccess, scope: RuleScope) -> SelectStatement {
    let is_user = users::Column::Id
        .into_expr()
        .eq(Expr::col((CANDIDATE, "user_id")));
    Query::select()
        .from_subquery(candidates(scope), CANDIDATE)
        .cross_join(users::Entity)
        .and_where(is_user)
        .cond_where(can_approve(access))
        .take()
}

/// Returns the part with the users who approved a merge request, oldest approval first.
fn users_part(merge_request_id: i64) -> RelatedPart {
    let is_user = users::Column::Id
        .into_expr()
        .eq(approvals::Column::UserId.into_expr());
    let rows = Query::select()
        .from(approvals::Entity)
        .cross_join(users::Entity)
        .and_where(is_user)
        .and_where(approvals::Column::MergeRequestId.eq(merge_request_id))
        .take();
    let part = RelatedPart::new(rows, approvals::Column::MergeRequestId.into_expr());
    UserSummary::columns(part.sorted_by(approvals::Column::Id.into_expr()))
}
