//! The parts of a statement with the code owners who can approve a merge request.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sea_orm::ColumnTrait;
use sea_orm::sea_query::{Expr, ExprTrait, IntoColumnRef, Query, SelectStatement};
use storage::entities::approval_rules::ApprovalRuleType;
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows, bigint};
use storage::entities::users::{self, UserSummary};
use storage::entities::{approvals, members, now, unexpired};

use super::AppliedRule;
use super::parts::{MAX_ELIGIBLE, can_approve, first_users};
use crate::identity::access::ProjectAccess;
use crate::kernel::error::Result;
use crate::review::approvals::owner_rules::{OwnerApprovers, OwnerRule, OwnerRules};

/// The parts of a statement with code owners.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnerParts {
    users: PartKey,
    members: PartKey,
    approving: PartKey,
}

/// Code owners who can approve a merge request.
pub(super) struct LoadedOwners {
    users: BTreeMap<i64, UserSummary>,
    /// Members of groups, at most [`MAX_ELIGIBLE`] of each.
    members: HashMap<i64, Vec<UserSummary>>,
    /// IDs of the members who approved, by group.
    approving: HashMap<i64, Vec<i64>>,
}

impl OwnerParts {
    /// Adds the parts to a statement.
    pub(super) fn add(
        related: &mut RelatedRows,
        access: &ProjectAccess,
        merge_request_id: i64,
        owners: &OwnerRules,
    ) -> Self {
        let (user_ids, group_ids) = (owners.user_ids(), owners.group_ids());
        let of_groups = !group_ids.is_empty();
        Self {
            users: related.add((!user_ids.is_empty()).then(|| users_part(access, &user_ids))),
            members: related.add(of_groups.then(|| members_part(access, &group_ids))),
            approving: related.add(of_groups.then(|| approving_part(access, &group_ids, merge_request_id))),
        }
    }

    /// Removes the rows of the parts.
    ///
    /// # Errors
    /// Returns an error if a row is invalid.
    pub(super) fn take(self, rows: &mut RelatedRowSets) -> Result<LoadedOwners> {
        let users = rows.take(self.users).into_iter().map(UserSummary::read);
        let users = users.map(|user| user.map(|user| (user.id, user)));
        Ok(LoadedOwners {
            users: users.collect::<Result<_, _>>()?,
            members: rows.take_grouped(self.members, UserSummary::read)?,
            approving: rows.take_grouped(self.approving, |row| Ok(row.id))?,
        })
    }
}

impl LoadedOwners {
    /// Returns a rule with the users who can satisfy it. Unless code owners are required, the rule requires nothing.
    /// `counted` are the IDs of all users who can approve and have approved, oldest approval first.
    pub(super) fn apply(&self, rule: &OwnerRule, is_required: bool, counted: &[i64]) -> AppliedRule {
        let approved = counted.iter().copied();
        let (rule_type, eligible, approved_by) = match &rule.approvers {
            OwnerApprovers::All => (ApprovalRuleType::AnyApprover, Vec::new(), approved.collect()),
            OwnerApprovers::Of { user_ids, group_ids } => {
                let users = user_ids.iter().filter_map(|id| self.users.get(id));
                let members = group_ids.iter().filter_map(|id| self.members.get(id)).flatten();
                let eligible: BTreeMap<i64, &UserSummary> =
                    users.chain(members).map(|user| (user.id, user)).collect();
                let approving: BTreeSet<i64> = group_ids
                    .iter()
                    .filter_map(|id| self.approving.get(id))
                    .flatten()
                    .copied()
                    .collect();
                let counts = |id: &i64| approving.contains(id) || eligible.contains_key(id);
                let approved_by = approved.filter(counts).collect();
                let eligible = eligible.into_values().take(usize::from(MAX_ELIGIBLE)).cloned();
                (ApprovalRuleType::Regular, eligible.collect(), approved_by)
            }
        };
        AppliedRule {
            id: rule.id,
            name: rule.name.clone(),
            rule_type,
            is_code_owner: true,
            section: rule.section.clone(),
            approvals_required: if is_required { rule.approvals.into() } else { 0 },
            eligible,
            approved_by,
        }
    }
}

fn users_part(access: &ProjectAccess, ids: &BTreeSet<i64>) -> RelatedPart {
    let rows = Query::select()
        .from(users::Entity)
        .and_where(users::Column::Id.is_in(ids.iter().copied()))
        .cond_where(can_approve(access))
        .take();
    let part = RelatedPart::new(rows, bigint(Expr::Constant(0.into())));
    UserSummary::columns(part.sorted_by(users::Column::Id.into_expr()))
}

/// Selects the direct members of groups who can approve.
fn eligible_members(access: &ProjectAccess, group_ids: &BTreeSet<i64>) -> SelectStatement {
    use members::{Column, Entity};
    let is_user = users::Column::Id.into_expr().eq(Column::UserId.into_expr());
    Query::select()
        .from(Entity)
        .cross_join(users::Entity)
        .and_where(Column::NamespaceId.is_in(group_ids.iter().copied()))
        .and_where(is_user)
        .cond_where(unexpired((Entity, Column::ExpiresAt), now().date_naive()))
        .cond_where(can_approve(access))
        .take()
}

fn members_part(access: &ProjectAccess, group_ids: &BTreeSet<i64>) -> RelatedPart {
    use members::{Column, Entity};
    let group = (Entity, Column::NamespaceId).into_column_ref();
    let user = (Entity, Column::UserId).into_column_ref();
    first_users(eligible_members(access, group_ids), group, user)
}

fn approving_part(access: &ProjectAccess, group_ids: &BTreeSet<i64>, merge_request_id: i64) -> RelatedPart {
    let has_approved = approvals::Column::UserId
        .into_expr()
        .eq(users::Column::Id.into_expr());
    let mut rows = eligible_members(access, group_ids);
    rows.cross_join(approvals::Entity)
        .and_where(has_approved)
        .and_where(approvals::Column::MergeRequestId.eq(merge_request_id));
    RelatedPart::new(rows, members::Column::NamespaceId.into_expr())
        .sorted_by(approvals::Column::Id.into_expr())
        .with_id(users::Column::Id.into_expr())
}
