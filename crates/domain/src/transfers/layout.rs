//! Layout of archives, and limits of their content.

/// Version of the layout.
pub(super) const VERSION: &str = "0.2.4";
/// File that contains the version.
pub(super) const VERSION_FILE: &str = "VERSION";
/// Directory of all other files.
pub(super) const GROUPS: &str = "tree/groups";
/// The list of all groups.
pub(super) const ALL_FILE: &str = "tree/groups/_all.ndjson";
/// Maximum groups of an archive.
pub(super) const MAX_GROUPS: usize = 1_000;
/// Maximum records of an archive.
pub(super) const MAX_RECORDS: u64 = 200_000;
/// Maximum records of one group. They are imported in one transaction, which blocks other writers.
pub(super) const MAX_RECORDS_PER_GROUP: u64 = 25_000;
/// Contents of a group in import order. Each relation may reference earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Milestones,
    Labels,
    Badges,
    Members,
    Boards,
    Epics,
}

impl Relation {
    pub(super) const ALL: [Self; 6] = [
        Self::Milestones,
        Self::Labels,
        Self::Badges,
        Self::Members,
        Self::Boards,
        Self::Epics,
    ];

    /// Returns the name of the relation's file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Milestones => "milestones",
            Self::Labels => "labels",
            Self::Badges => "badges",
            Self::Members => "members",
            Self::Boards => "boards",
            Self::Epics => "epics",
        }
    }

    pub(super) fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == word)
    }
}
