//! Which approval settings the groups above a namespace permit.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr};

use super::{namespace_ancestors, namespaces};

/// What groups permit. A value that a group does not permit is locked for all subgroups and projects in the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedApprovals {
    /// Whether authors can approve their merge requests.
    pub by_authors: bool,
    /// Whether committers can approve their merge requests.
    pub by_committers: bool,
    /// Whether merge requests can have approval rules of their own.
    pub rule_overrides: bool,
    /// Whether approvals stay after new commits.
    pub retention: bool,
}

impl Default for PermittedApprovals {
    /// Returns the values without a group.
    fn default() -> Self {
        Self {
            by_authors: true,
            by_committers: true,
            rule_overrides: true,
            retention: true,
        }
    }
}

impl PermittedApprovals {
    /// Returns what a group permits by its own settings.
    #[must_use]
    pub fn of(group: &namespaces::Model) -> Self {
        Self {
            by_authors: group.allow_author_approval,
            by_committers: group.allow_committer_approval,
            rule_overrides: group.allow_approval_rule_overrides,
            retention: group.retain_approvals_on_push,
        }
    }

    /// Returns what both permit.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            by_authors: self.by_authors && other.by_authors,
            by_committers: self.by_committers && other.by_committers,
            rule_overrides: self.rule_overrides && other.rule_overrides,
            retention: self.retention && other.retention,
        }
    }
}

/// Returns what a namespace and all groups above it permit.
///
/// # Errors
/// Any database error.
pub async fn permitted(db: &impl ConnectionTrait, namespace_id: i64) -> Result<PermittedApprovals, DbErr> {
    use namespaces::Column;
    let is_above = Column::Id
        .into_expr()
        .eq(namespace_ancestors::Column::AncestorId.into_expr());
    let columns = [
        Column::AllowAuthorApproval,
        Column::AllowCommitterApproval,
        Column::AllowApprovalRuleOverrides,
        Column::RetainApprovalsOnPush,
    ];
    let mut rows = Query::select();
    rows.from(namespace_ancestors::Entity)
        .inner_join(namespaces::Entity, is_above)
        .and_where(namespace_ancestors::Column::NamespaceId.eq(namespace_id));
    for column in columns {
        rows.expr(Expr::col((namespaces::Entity, column)));
    }
    let mut permitted = PermittedApprovals::default();
    for row in db.query_all(&rows).await? {
        permitted = permitted.and(PermittedApprovals {
            by_authors: row.try_get_by_index(0)?,
            by_committers: row.try_get_by_index(1)?,
            rule_overrides: row.try_get_by_index(2)?,
            retention: row.try_get_by_index(3)?,
        });
    }
    Ok(permitted)
}
