//! Scope of resources that belong to a project or a group: labels, milestones, boards, counters.

use sea_orm::{ColumnTrait, Condition, sea_query::Expr};

use super::namespace_ancestors;

/// A project or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A project, by its ID.
    Project(i64),
    /// A group, by the ID of its namespace.
    Group(i64),
}

impl Scope {
    /// Returns the ID of the project, if it is one.
    #[must_use]
    pub fn project_id(self) -> Option<i64> {
        match self {
            Self::Project(id) => Some(id),
            Self::Group(_) => None,
        }
    }

    /// Returns the ID of the group's namespace, if it is one.
    #[must_use]
    pub fn namespace_id(self) -> Option<i64> {
        match self {
            Self::Project(_) => None,
            Self::Group(id) => Some(id),
        }
    }

    /// Returns a condition for rows of the scope, given their project and group columns.
    pub fn owns(self, project: impl ColumnTrait, namespace: impl ColumnTrait) -> Expr {
        match self {
            Self::Project(id) => project.eq(id),
            Self::Group(id) => namespace.eq(id),
        }
    }

    /// Returns a condition for rows of the scope or an ancestor group, given the same columns. `namespace_id`
    /// is the group, or the namespace of the project.
    pub fn owns_or_inherits(
        self,
        namespace_id: i64,
        project: impl ColumnTrait,
        namespace: impl ColumnTrait,
    ) -> Condition {
        let above = namespace_ancestors::at_or_above(namespace_id);
        Condition::any()
            .add_option(self.project_id().map(|id| project.eq(id)))
            .add(namespace.in_subquery(above))
    }
}
