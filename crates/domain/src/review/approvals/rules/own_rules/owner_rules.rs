//! Details of the rules of code owners.

use std::collections::{BTreeSet, HashMap};

use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait, ConnectionTrait};
use storage::entities::access::visible_groups;
use storage::entities::merge_requests::Model;
use storage::entities::namespace_ancestors::names_part_of;
use storage::entities::related_rows::{RelatedPart, RelatedRows, bigint};
use storage::entities::{namespaces, now};

use super::OwnRuleDetail;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;
use crate::review::approvals::evaluation::{self, AppliedRule, ApprovalState, StoredRule};
use crate::review::approvals::owner_rules::{OwnerApprovers, OwnerRule, OwnerRules};
use crate::review::approvals::rules::{ApprovalRuleDetail, summaries};
use crate::review::merge_requests::approval_policy;
use crate::spaces::groups::GroupSummary;
use crate::spaces::namespaces::joined_names;

/// Returns the rules of code owners for a merge request.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn load(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
) -> Result<Vec<OwnRuleDetail>> {
    let policy = approval_policy::load(backend, access, merge_request).await?;
    if policy.owners.rules.is_empty() {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    let state = evaluation::load(backend, db, access, merge_request, &policy).await?;
    details(db, access, merge_request, &policy.owners, &state).await
}

/// Returns the details of the evaluated rules of code owners. Runs two statements if the rules have groups.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn details(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    merge_request: &Model,
    owners: &OwnerRules,
    state: &ApprovalState,
) -> Result<Vec<OwnRuleDetail>> {
    let groups = visible(db, access, &owners.group_ids()).await?;
    let details = owners.rules.iter().filter_map(|rule| {
        let applied = state.rules.iter().find(|applied| applied.id == rule.id)?;
        Some(detail(access, merge_request, rule, applied, &groups))
    });
    Ok(details.collect())
}

/// Returns those of the groups that are visible to the caller.
async fn visible(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    ids: &BTreeSet<i64>,
) -> Result<HashMap<i64, GroupSummary>> {
    use namespaces::{Column, Entity};
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let of_ids = || {
        Query::select()
            .from(Entity)
            .and_where(Column::Id.is_in(ids.iter().copied()))
            .take()
    };
    let mut rows = of_ids();
    rows.cond_where(visible_groups(access.caller.viewer(), now().date_naive()));
    let part = RelatedPart::new(rows, bigint(0)).with_id(Column::Id.into_expr());
    let mut names = of_ids();
    names.expr(Column::Id.into_expr());
    let mut related = RelatedRows::default();
    let (part, names) = (related.add(Some(part)), related.add(Some(names_part_of(names))));
    let mut rows = related.load(db).await?;
    let ids = rows.take(part).into_iter().map(|row| row.id).collect();
    summaries(db, ids, joined_names(rows.take(names))).await
}

fn detail(
    access: &ProjectAccess,
    merge_request: &Model,
    rule: &OwnerRule,
    applied: &AppliedRule,
    visible: &HashMap<i64, GroupSummary>,
) -> OwnRuleDetail {
    let empty = BTreeSet::new();
    let (user_ids, group_ids) = match &rule.approvers {
        OwnerApprovers::All => (&empty, &empty),
        OwnerApprovers::Of { user_ids, group_ids } => (user_ids, group_ids),
    };
    let mut eligible = applied.eligible.clone();
    // Only users who can approve, so that a file does not reveal who has an email address.
    let users: Vec<_> = eligible
        .iter()
        .filter(|user| user_ids.contains(&user.id))
        .cloned()
        .collect();
    let hidden = group_ids.iter().filter(|id| !visible.contains_key(id));
    let hidden_groups: Vec<i64> = hidden.copied().collect();
    if !hidden_groups.is_empty() && !access.has_role(Role::Reporter) {
        eligible.clone_from(&users);
    }
    OwnRuleDetail {
        detail: ApprovalRuleDetail {
            rule: StoredRule {
                id: rule.id,
                name: rule.name.clone(),
                rule_type: applied.rule_type,
                approvals_required: applied.approvals_required,
                applies_to_all_protected_branches: false,
                updated_at: merge_request.updated_at,
                is_own: true,
                source_rule_id: None,
            },
            users,
            groups: group_ids
                .iter()
                .filter_map(|id| visible.get(id).cloned())
                .collect(),
            hidden_groups,
            eligible,
            protected_branches: Vec::new(),
        },
        source: None,
        is_overridden: false,
        section: rule.section.clone(),
        is_code_owner: true,
    }
}
