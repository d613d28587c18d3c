//! Approval rules of projects.

mod auditing;
mod changes;
mod selection;

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::access::visible_groups;
use storage::entities::namespace_ancestors::names_part_of;
use storage::entities::ref_rules::{GrantFilter, RefRule, RefRuleOwner, RefRuleParts};
use storage::entities::related_rows::{RelatedPart, RelatedRows, bigint};
use storage::entities::users::{self, UserSummary};
use storage::entities::{approval_rule_groups, approval_rule_users, namespaces, now};

pub use changes::{ApprovalRuleUpdate, NewApprovalRule, create, delete, update};
pub use selection::ApproverSelection;

use super::evaluation::{StoredRule, branches_part, eligible_part, of_rules, rules_part};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::spaces::groups::GroupSummary;
use crate::spaces::namespaces::joined_names;

/// Maximum number of rules of a project.
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
    /// Users whose approvals count.
    pub eligible: Vec<UserSummary>,
    /// The branches to which the rule applies; empty for all.
    pub protected_branches: Vec<RefRule>,
}

/// Returns a page of the rules of a project, oldest first.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<ApprovalRuleDetail>> {
    Ok(Page::from_all(page, load(backend.database.read(), access).await?))
}

/// Returns a rule of a project.
///
/// # Errors
/// Returns `NotFound` if the project has no such rule.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<ApprovalRuleDetail> {
    find(backend.database.read(), access, id).await
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<ApprovalRuleDetail> {
    let mut rules = load(db, access).await?.into_iter();
    rules
        .find(|detail| detail.rule.id == id)
        .ok_or_else(|| Error::not_found(""))
}

/// Returns all rules of a project in one statement, and in one more if a rule has a visible group.
async fn load(db: &impl ConnectionTrait, access: &ProjectAccess) -> Result<Vec<ApprovalRuleDetail>> {
    let project_id = access.project.id;
    let owner = RefRuleOwner::ProjectBranches {
        project_id,
        namespace_id: access.project.namespace_id,
    };
    let mut related = RelatedRows::default();
    let rules = related.add(Some(rules_part(project_id)));
    let users = related.add(Some(users_part(project_id)));
    let groups = related.add(Some(groups_part(access)));
    let names = related.add(Some(names_part_of(group_ids(project_id))));
    let branches = related.add(Some(branches_part(project_id)));
    let eligible = related.add(Some(eligible_part(access)));
    let protections = RefRuleParts::add(&mut related, owner, GrantFilter::All(access.caller.viewer()));
    let mut rows = related.load(db).await?;
    let protections = protections.take(&mut rows)?;
    let mut users = rows.take_grouped(users, UserSummary::read)?;
    let mut eligible = rows.take_grouped(eligible, UserSummary::read)?;
    let branches = rows.take_grouped(branches, |row| Ok(row.id))?;
    let groups = rows.take_grouped(groups, |row| Ok((row.id, row.number == Some(1))))?;
    let visible = groups.values().flatten().filter(|(_, is_visible)| *is_visible);
    let visible: Vec<i64> = visible.map(|(id, _)| *id).collect();
    let summaries = summaries(db, visible, joined_names(rows.take(names))).await?;
    let details = rows.take(rules).into_iter().map(|row| {
        let rule = StoredRule::read(row)?;
        let groups = groups.get(&rule.id).map(Vec::as_slice).unwrap_or_default();
        let hidden = groups.iter().filter(|(_, is_visible)| !is_visible);
        let own = branches.get(&rule.id).map(Vec::as_slice).unwrap_or_default();
        let applies = |branch: &&RefRule| {
            rule.applies_to_all_protected_branches || (!branch.inherited && own.contains(&branch.id))
        };
        Ok(ApprovalRuleDetail {
            users: users.remove(&rule.id).unwrap_or_default(),
            groups: groups
                .iter()
                .filter_map(|(id, _)| summaries.get(id).cloned())
                .collect(),
            hidden_groups: hidden.map(|(id, _)| *id).collect(),
            eligible: eligible.remove(&rule.id).unwrap_or_default(),
            protected_branches: protections.iter().filter(applies).cloned().collect(),
            rule,
        })
    });
    details.collect()
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

fn users_part(project_id: i64) -> RelatedPart {
    use approval_rule_users::{Column, Entity};
    let mut rows = of_rules(Entity, Column::ApprovalRuleId.into_expr(), project_id);
    let is_user = users::Column::Id.into_expr().eq(Column::UserId.into_expr());
    rows.cross_join(users::Entity)
        .and_where(is_user)
        .and_where(users::Column::DeletionStartedAt.is_null());
    let part = RelatedPart::new(rows, Column::ApprovalRuleId.into_expr());
    UserSummary::columns(part.sorted_by(users::Column::Id.into_expr()))
}

/// Returns the part with the IDs of the groups, and 1 for those that are visible to the caller.
fn groups_part(access: &ProjectAccess) -> RelatedPart {
    use approval_rule_groups::{Column, Entity};
    let mut rows = of_rules(Entity, Column::ApprovalRuleId.into_expr(), access.project.id);
    let is_group = namespaces::Column::Id.into_expr().eq(Column::GroupId.into_expr());
    rows.cross_join(namespaces::Entity).and_where(is_group);
    let is_visible = visible_groups(access.caller.viewer(), now().date_naive());
    let is_visible = Expr::case(is_visible, Expr::val(1)).finally(Expr::val(0));
    RelatedPart::new(rows, Column::ApprovalRuleId.into_expr())
        .sorted_by(Column::GroupId.into_expr())
        .with_id(Column::GroupId.into_expr())
        .with_number(bigint(is_visible))
}

/// Selects the IDs of the groups of the rules of a project.
fn group_ids(project_id: i64) -> sea_orm::sea_query::SelectStatement {
    use approval_rule_groups::{Column, Entity};
    of_rules(Entity, Column::ApprovalRuleId.into_expr(), project_id)
        .expr(Column::GroupId.into_expr())
        .take()
}
