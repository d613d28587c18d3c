//! What belongs to a project or to a group: labels, milestones, boards, numbers.

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
}
