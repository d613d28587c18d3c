//! Numbers of visibilities and permissions in archives.

use storage::entities::Visibility;
use storage::entities::namespaces::{ProjectCreation, SubgroupCreation};

/// Returns the number of a visibility in the layout.
pub fn level_of(visibility: Visibility) -> i64 {
    match visibility {
        Visibility::Private => 0,
        Visibility::Internal => 10,
        Visibility::Public => 20,
    }
}

/// Returns the visibility of a number in the layout.
pub fn visibility_of(level: i64) -> Option<Visibility> {
    let all = [Visibility::Private, Visibility::Internal, Visibility::Public];
    all.into_iter().find(|one| level_of(*one) == level)
}

/// Values for project creation, indexed by their numbers in the layout.
pub const PROJECT_CREATION: [ProjectCreation; 3] = [
    ProjectCreation::Noone,
    ProjectCreation::Maintainer,
    ProjectCreation::Developer,
];

/// Values for subgroup creation, indexed by their numbers in the layout.
pub const SUBGROUP_CREATION: [SubgroupCreation; 2] = [SubgroupCreation::Owner, SubgroupCreation::Maintainer];

/// Returns the number of a value in such a table.
pub fn number_of<T: PartialEq>(all: &[T], value: &T) -> Option<i64> {
    let at = all.iter().position(|one| one == value);
    at.and_then(|at| i64::try_from(at).ok())
}

/// Returns the value of a number in such a table.
pub fn value_of<T: Copy>(all: &[T], number: i64) -> Option<T> {
    usize::try_from(number).ok().and_then(|at| all.get(at).copied())
}
