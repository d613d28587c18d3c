//! What belongs to a project or to a group: labels, milestones, boards, numbers.

use sea_orm::{ColumnTrait, Condition, sea_query::Expr};

use super::namespace_ancestors;

/// A project or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A project, by its id.
    Project(i64),
    /// A group, by the id of its namespace.
    Group(i64),
}

impl Scope {
    /// The id of the project, if it is one.
    #[must_use]
    pub fn project_id(self) -> Option<i64> {
        match self {
            Self::Project(id) => Some(id),
            Self::Group(_) => None,
        }
    }

    /// The id of the group's namespace, if it is one.
    #[must_use]
    pub fn namespace_id(self) -> Option<i64> {
        match self {
            Self::Project(_) => None,
            Self::Group(id) => Some(id),
        }
    }

    /// The rows that belong to it, by the columns that name the project and the group of each.
    pub fn owns(self, project: impl ColumnTrait, namespace: impl ColumnTrait) -> Expr {
        match self {
            Self::Project(id) => project.eq(id),
            Self::Group(id) => namespace.eq(id),
        }
    }

    /// The rows that belong to it or to a group above, by the same columns. `namespace_id` is the group, or the namespace
    /// that the project lies in.
    pub fn sees(
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
