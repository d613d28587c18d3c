//! Approval rules of projects and of merge requests.

mod auditing;
mod changes;
pub mod own_rules;
mod selection;

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::access::visible_groups;
use storage::entities::approval_rules::RuleScope;
use storage::entities::namespace_ancestors::names_part_of;
use storage::entities::ref_rules::{GrantFilter, RefRule, RefRuleOwner, RefRuleParts};
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows, bigint};
use storage::entities::users::{self, UserSummary};
use storage::entities::{approval_rule_groups, approval_rule_users, namespaces, now};

pub use changes::{ApprovalRuleUpdate, NewApprovalRule, create, delete, update};
pub use selection::ApproverSelection;

use super::evaluation::{StoredRule, branches_part, eligible_part, of_rules, rules_part};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::Role;
use crate::review::merge_requests;
use crate::spaces::groups::GroupSummary;
use crate::spaces::namespaces::joined_names;

/// Maximum number of rules of a project, and of a merge request.
pub const MAX_RULES: usize = 50;

/// A rule with its users, groups and branches.
#[derive(Debug, Clone)]
pub struct ApprovalRuleDetail {
    /// The rule.
    pub rule: StoredRule,
    /// The users, by ID.
    pub users: Vec<UserSummary>,
    /// The groups that are visible to the viewer, by ID.
    pub groups: Vec<GroupSummary>,
    /// IDs of the groups that are hidden from the viewer.
    pub hidden_groups: Vec<i64>,
    /// Users whose approvals count. If groups are hidden from a viewer without the Reporter role, only users of the rule.
    pub eligible: Vec<UserSummary>,
    /// The branches to which a rule of a project applies; empty for all.
    pub protected_branches: Vec<RefRule>,
}

/// Returns a page of the rules of a project, oldest first.
///
/// # Errors
/// Returns `Forbidden` if the caller cannot see the merge requests of the project.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<ApprovalRuleDetail>> {
    check_can_read(access)?;
    let rules = load(backend.database.read(), access, of_project(access)).await?;
    Ok(Page::from_all(page, rules))
}

/// Returns a rule of a project.
///
/// # Errors
/// Returns `Forbidden` if the caller cannot see the merge requests of the project, and `NotFound` if the project has no such
/// rule.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<ApprovalRuleDetail> {
    check_can_read(access)?;
    find(backend.database.read(), access, id).await
}

fn check_can_read(access: &ProjectAccess) -> Result<()> {
    match access.has_role(Role::Reporter) || merge_requests::is_enabled(access) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

fn of_project(access: &ProjectAccess) -> RuleScope {
    RuleScope::Project(access.project.id)
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<ApprovalRuleDetail> {
    let mut rules = load(db, access, of_project(access)).await?.into_iter();
    rules
        .find(|detail| detail.rule.id == id)
        .ok_or_else(|| Error::not_found(""))
}

/// Returns all rules of a scope in one statement, and in one more if a rule has a visible group.
async fn load(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    scope: RuleScope,
) -> Result<Vec<ApprovalRuleDetail>> {
    let mut related = RelatedRows::default();
    let parts = RuleDetailParts::add(&mut related, access, scope);
    let mut rows = related.load(db).await?;
    parts.take(db, &mut rows, access).await
}

/// The parts of a statement with rules and their users, groups and branches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleDetailParts {
    rules: PartKey,
    users: PartKey,
    groups: PartKey,
    names: PartKey,
    branches: PartKey,
    eligible: PartKey,
    /// Only for rules of a project, because other rules have no branches.
    protections: Option<RefRuleParts>,
}

impl RuleDetailParts {
    /// Adds the parts to a statement.
    pub(crate) fn add(related: &mut RelatedRows, access: &ProjectAccess, scope: RuleScope) -> Self {
        let owner = RefRuleOwner::ProjectBranches {
            project_id: access.project.id,
            namespace_id: access.project.namespace_id,
        };
        let grants = GrantFilter::All(access.caller.viewer());
        let has_branches = matches!(scope, RuleScope::Project(_));
        Self {
            rules: related.add(Some(rules_part(scope))),
            users: related.add(Some(users_part(scope))),
            groups: related.add(Some(groups_part(access, scope))),
            names: related.add(Some(names_part_of(group_ids(scope)))),
            branches: related.add(Some(branches_part(scope))),
            eligible: related.add(Some(eligible_part(access, scope))),
            protections: has_branches.then(|| RefRuleParts::add(related, owner, grants)),
        }
    }

    /// Removes the rules from the rows of the statement, oldest first. Runs a statement if a rule has a visible group.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub(crate) async fn take(
        self,
        db: &impl ConnectionTrait,
        rows: &mut RelatedRowSets,
        access: &ProjectAccess,
    ) -> Result<Vec<ApprovalRuleDetail>> {
        let protections = self.protections.map(|parts| parts.take(rows)).transpose()?;
        let protections = protections.unwrap_or_default();
        let mut users = rows.take_grouped(self.users, UserSummary::read)?;
        let mut eligible = rows.take_grouped(self.eligible, UserSummary::read)?;
        let branches = rows.take_grouped(self.branches, |row| Ok(row.id))?;
        let groups = rows.take_grouped(self.groups, |row| Ok((row.id, row.number == Some(1))))?;
        let visible = groups.values().flatten().filter(|(_, is_visible)| *is_visible);
        let visible: Vec<i64> = visible.map(|(id, _)| *id).collect();
        let summaries = summaries(db, visible, joined_names(rows.take(self.names))).await?;
        let can_see_members = access.has_role(Role::Reporter);
        let details = rows.take(self.rules).into_iter().map(|row| {
            let rule = StoredRule::read(row)?;
            let groups = groups.get(&rule.id).map(Vec::as_slice).unwrap_or_default();
            let hidden = groups.iter().filter(|(_, is_visible)| !is_visible);
            let hidden_groups: Vec<i64> = hidden.map(|(id, _)| *id).collect();
            let own = branches.get(&rule.id).map(Vec::as_slice).unwrap_or_default();
            let applies = |branch: &&RefRule| {
                rule.applies_to_all_protected_branches || (!branch.inherited && own.contains(&branch.id))
            };
            let users = users.remove(&rule.id).unwrap_or_default();
            let mut eligible = eligible.remove(&rule.id).unwrap_or_default();
            if !hidden_groups.is_empty() && !can_see_members {
                eligible.retain(|user| users.iter().any(|known| known.id == user.id));
            }
            Ok(ApprovalRuleDetail {
                users,
                groups: groups
                    .iter()
                    .filter_map(|(id, _)| summaries.get(id).cloned())
                    .collect(),
                hidden_groups,
                eligible,
                protected_branches: protections.iter().filter(applies).cloned().collect(),
                rule,
            })
        });
        details.collect()
    }
}

/// Returns groups by ID, with their full names.
async fn summaries(
    db: &impl ConnectionTrait,
    ids: Vec<i64>,
    mut names: HashMap<i64, String>,
) -> Result<HashMap<i64, GroupSummary>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let groups = namespaces::Entity::find().filter(namespaces::Column::Id.is_in(ids));
    let groups = groups.all(db).await?.into_iter().map(|group| {
        let full_name = names.remove(&group.id).unwrap_or_default();
        let summary = GroupSummary {
            full_name,
            group,
            sizes: None,
        };
        (summary.group.id, summary)
    });
    Ok(groups.collect())
}

fn users_part(scope: RuleScope) -> RelatedPart {
    use approval_rule_users::{Column, Entity};
    let mut rows = of_rules(Entity, Column::ApprovalRuleId.into_expr(), scope);
    let is_user = users::Column::Id.into_expr().eq(Column::UserId.into_expr());
    rows.cross_join(users::Entity)
        .and_where(is_user)
        .and_where(users::Column::DeletionStartedAt.is_null());
    let part = RelatedPart::new(rows, Column::ApprovalRuleId.into_expr());
    UserSummary::columns(part.sorted_by(users::Column::Id.into_expr()))
}

/// Returns the part with the IDs of the groups, and 1 for those that are visible to the caller.
fn groups_part(access: &ProjectAccess, scope: RuleScope) -> RelatedPart {
    use approval_rule_groups::{Column, Entity};
    let mut rows = of_rules(Entity, Column::ApprovalRuleId.into_expr(), scope);
    let is_group = namespaces::Column::Id.into_expr().eq(Column::GroupId.into_expr());
    rows.cross_join(namespaces::Entity).and_where(is_group);
    let is_visible = visible_groups(access.caller.viewer(), now().date_naive());
    let is_visible = Expr::case(is_visible, Expr::val(1)).finally(Expr::val(0));
    RelatedPart::new(rows, Column::ApprovalRuleId.into_expr())
        .sorted_by(Column::GroupId.into_expr())
        .with_id(Column::GroupId.into_expr())
        .with_number(bigint(is_visible))
}

/// Selects the IDs of the groups of rules.
fn group_ids(scope: RuleScope) -> sea_orm::sea_query::SelectStatement {
    use approval_rule_groups::{Column, Entity};
    of_rules(Entity, Column::ApprovalRuleId.into_expr(), scope)
        .expr(Column::GroupId.into_expr())
        .take()
}
