//! The users, groups and branches that a request selects for a rule.

use std::collections::BTreeSet;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};
use storage::database::Violation;
use storage::entities::access::visible_groups;
use storage::entities::approval_rules::ApprovalRuleType;
use storage::entities::{fold, namespaces, now, protected_branches, users};

use super::ApprovalRuleDetail;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::{IssuableKind, assignable_users};

/// Maximum number of users of a rule.
const MAX_USERS: usize = 100;

/// Maximum number of groups of a rule.
const MAX_GROUPS: usize = 20;

/// Users, groups and branches of a request; absent ones stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApproverSelection {
    /// IDs of users. Users who cannot see the project are ignored.
    pub user_ids: Option<Vec<i64>>,
    /// Usernames of more users.
    pub usernames: Option<Vec<String>>,
    /// IDs of groups. Groups that the caller cannot see are ignored.
    pub group_ids: Option<Vec<i64>>,
    /// IDs of protected branches of the project; empty for all branches.
    pub protected_branch_ids: Option<Vec<i64>>,
}

/// IDs that replace those of a rule; absent ones stay.
#[derive(Debug, Clone, Default)]
pub(super) struct ResolvedSelection {
    pub(super) users: Option<BTreeSet<i64>>,
    pub(super) groups: Option<BTreeSet<i64>>,
    pub(super) branches: Option<BTreeSet<i64>>,
}

impl ApproverSelection {
    /// Returns the type of a new rule with this selection.
    pub(super) fn rule_type(&self) -> ApprovalRuleType {
        let names = self.usernames.as_ref().map(Vec::len);
        let lists = [&self.user_ids, &self.group_ids].map(|ids| ids.as_ref().map(Vec::len));
        match lists
            .into_iter()
            .chain([names])
            .flatten()
            .any(|number| number > 0)
        {
            true => ApprovalRuleType::Regular,
            false => ApprovalRuleType::AnyApprover,
        }
    }

    /// Looks up the users, groups and branches.
    ///
    /// # Errors
    /// Returns `InvalidAttributes` for too many users or groups, and for an ID of no protected branch of the project.
    pub(super) async fn resolve(
        &self,
        backend: &Backend,
        access: &ProjectAccess,
    ) -> Result<ResolvedSelection> {
        Ok(ResolvedSelection {
            users: self.users(backend, access).await?,
            groups: self.groups(backend, access).await?,
            branches: self.branches(backend.database.read(), access).await?,
        })
    }

    async fn users(&self, backend: &Backend, access: &ProjectAccess) -> Result<Option<BTreeSet<i64>>> {
        if self.user_ids.is_none() && self.usernames.is_none() {
            return Ok(None);
        }
        let mut ids: BTreeSet<i64> = self.user_ids.iter().flatten().copied().collect();
        if let Some(names) = self.usernames.as_ref().filter(|names| !names.is_empty()) {
            let found = users::not_deleted()
                .select_only()
                .column(users::Column::Id)
                .filter(users::Column::UsernameKey.is_in(names.iter().map(|name| fold(name))));
            let found: Vec<i64> = found.into_tuple().all(backend.database.read()).await?;
            ids.extend(found);
        }
        check_number("user_ids", ids.len(), MAX_USERS)?;
        let ids: Vec<i64> = ids.into_iter().collect();
        let users = assignable_users(backend, access, IssuableKind::MergeRequest, &ids).await?;
        Ok(Some(users.into_iter().map(|user| user.id).collect()))
    }

    async fn groups(&self, backend: &Backend, access: &ProjectAccess) -> Result<Option<BTreeSet<i64>>> {
        let Some(ids) = &self.group_ids else {
            return Ok(None);
        };
        let ids: BTreeSet<i64> = ids.iter().copied().collect();
        check_number("group_ids", ids.len(), MAX_GROUPS)?;
        let visible = namespaces::Entity::find()
            .select_only()
            .column(namespaces::Column::Id)
            .filter(namespaces::Column::Id.is_in(ids))
            .filter(visible_groups(access.caller.viewer(), now().date_naive()));
        let visible: Vec<i64> = visible.into_tuple().all(backend.database.read()).await?;
        Ok(Some(visible.into_iter().collect()))
    }

    async fn branches(
        &self,
        db: &impl ConnectionTrait,
        access: &ProjectAccess,
    ) -> Result<Option<BTreeSet<i64>>> {
        let Some(ids) = &self.protected_branch_ids else {
            return Ok(None);
        };
        let ids: BTreeSet<i64> = ids.iter().copied().collect();
        let found = protected_branches::Entity::find()
            .select_only()
            .column(protected_branches::Column::Id)
            .filter(protected_branches::Column::ProjectId.eq(access.project.id))
            .filter(protected_branches::Column::Id.is_in(ids.iter().copied()));
        let found: Vec<i64> = found.into_tuple().all(db).await?;
        // An ID that is ignored would make the rule apply to all branches.
        match found.len() == ids.len() {
            true => Ok(Some(ids)),
            false => Err(Error::attribute(
                "protected_branch_ids",
                "must be IDs of protected branches of the project",
            )),
        }
    }
}

fn check_number(attribute: &'static str, number: usize, max: usize) -> Result<()> {
    match number <= max {
        true => Ok(()),
        false => Err(Error::attribute(
            attribute,
            format!("has too many entries (maximum is {max})"),
        )),
    }
}

impl ResolvedSelection {
    /// Adds the users and groups of a rule, unless the request contains others.
    pub(super) fn or_approvers_of(mut self, detail: &ApprovalRuleDetail) -> Self {
        self.users.get_or_insert_with(|| user_ids(detail));
        self.groups.get_or_insert_with(|| group_ids(detail));
        self
    }

    /// Keeps the groups of a rule that are hidden from the caller, who cannot send their IDs.
    pub(super) fn keep_hidden_groups(&mut self, detail: &ApprovalRuleDetail) {
        if let Some(groups) = &mut self.groups {
            groups.extend(&detail.hidden_groups);
        }
    }

    /// Stores the selection. `former` is the rule before the change, if it existed. Returns whether an ID changed.
    pub(super) async fn save(
        &self,
        db: &impl ConnectionTrait,
        rule_id: i64,
        former: Option<&ApprovalRuleDetail>,
    ) -> Result<bool> {
        let mut is_changed = false;
        for (table, column, new, old) in [
            (
                "approval_rule_users",
                "user_id",
                &self.users,
                former.map(user_ids).unwrap_or_default(),
            ),
            (
                "approval_rule_groups",
                "group_id",
                &self.groups,
                former.map(group_ids).unwrap_or_default(),
            ),
            (
                "approval_rule_branches",
                "protected_branch_id",
                &self.branches,
                former.map(branch_ids).unwrap_or_default(),
            ),
        ] {
            if let Some(new) = new {
                is_changed |= replace(db, (table, column), rule_id, &old, new).await?;
            }
        }
        Ok(is_changed)
    }
}

pub(super) fn user_ids(detail: &ApprovalRuleDetail) -> BTreeSet<i64> {
    detail.users.iter().map(|user| user.id).collect()
}

pub(super) fn group_ids(detail: &ApprovalRuleDetail) -> BTreeSet<i64> {
    let visible = detail.groups.iter().map(|row| row.group.id);
    visible.chain(detail.hidden_groups.iter().copied()).collect()
}

/// Returns the IDs of the own branches of a rule.
pub(super) fn branch_ids(detail: &ApprovalRuleDetail) -> BTreeSet<i64> {
    match detail.rule.applies_to_all_protected_branches {
        true => BTreeSet::new(),
        false => detail.protected_branches.iter().map(|rule| rule.id).collect(),
    }
}

/// Replaces the IDs in the table of one kind.
async fn replace(
    db: &impl ConnectionTrait,
    (table, column): (&'static str, &'static str),
    rule_id: i64,
    old: &BTreeSet<i64>,
    new: &BTreeSet<i64>,
) -> Result<bool> {
    let removed: Vec<i64> = old.difference(new).copied().collect();
    let added: Vec<i64> = new.difference(old).copied().collect();
    if !removed.is_empty() {
        let delete = Query::delete()
            .from_table(table)
            .and_where(Expr::col("approval_rule_id").eq(rule_id))
            .and_where(Expr::col(column).is_in(removed.iter().copied()))
            .take();
        db.execute(&delete).await?;
    }
    if !added.is_empty() {
        let mut insert = Query::insert();
        insert.into_table(table).columns(["approval_rule_id", column]);
        for id in &added {
            let values = [Expr::val(rule_id), Expr::val(*id)];
            insert.values(values).map_err(Error::internal)?;
        }
        db.execute(&insert).await.map_err(insert_error)?;
    }
    Ok(!removed.is_empty() || !added.is_empty())
}

/// Maps a database error of an insert: the user, group, branch or source may be deleted at the same time.
pub(super) fn insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::ForeignKey(_)) => {
            Error::Rejected("A user, group, protected branch or source of the rule was deleted".into())
        }
        _ => error.into(),
    }
}
