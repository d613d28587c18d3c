//! Layout of archives, and limits of their content.

/// Version of the layout.
pub const VERSION: &str = "0.2.4";
/// File that contains the version.
pub const VERSION_FILE: &str = "VERSION";
/// Directory of all other files.
pub const GROUPS: &str = "tree/groups";
/// The list of all groups.
pub const ALL_FILE: &str = "tree/groups/_all.ndjson";
/// Maximum groups of an archive.
pub const MAX_GROUPS: usize = 1_000;
/// Maximum records of an archive.
pub const MAX_RECORDS: u64 = 200_000;
/// Maximum records of one group. They are imported in one transaction, which blocks other writers.
pub const MAX_RECORDS_PER_GROUP: u64 = 25_000;
/// Maximum uncompressed size of an archive, in bytes.
pub const MAX_BYTES: u64 = 512 << 20;
/// Maximum files and directories in an archive.
pub const MAX_ENTRIES: usize = 20_000;
/// Contents of a group in import order. Each relation may reference earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Milestones.
    Milestones,
    /// Labels.
    Labels,
    /// Badges.
    Badges,
    /// Members.
    Members,
    /// Boards.
    Boards,
    /// Epics.
    Epics,
}

impl Relation {
    /// All relations in import order.
    pub const ALL: [Self; 6] = [
        Self::Milestones,
        Self::Labels,
        Self::Badges,
        Self::Members,
        Self::Boards,
        Self::Epics,
    ];

    /// Returns the name of the relation's file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Milestones => "milestones",
            Self::Labels => "labels",
            Self::Badges => "badges",
            Self::Members => "members",
            Self::Boards => "boards",
            Self::Epics => "epics",
        }
    }

    /// Returns the relation of a name.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == word)
    }
}
