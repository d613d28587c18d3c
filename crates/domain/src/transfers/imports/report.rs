//! Reports of imports: counts, and the items that could not be imported unchanged.

use serde::{Deserialize, Serialize};
use storage::entities::group_imports::ImportState;

/// Maximum items that are listed individually.
const MAX_ITEMS: usize = 100;
/// Maximum length of names in the report, in characters.
const MAX_NAME_LENGTH: usize = 255;

/// Result of an import.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImportReport {
    /// Number of groups in the archive; 0 until it is read.
    pub groups: u64,
    /// Number of items that were skipped or changed.
    pub unmapped_count: u64,
    /// The first of these items.
    pub unmapped: Vec<UnmappedItem>,
}

/// An item that was skipped or changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnmappedItem {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Path of its group within the archive.
    pub group: String,
    /// Name of the item.
    pub name: String,
    /// The difference and its reason.
    pub reason: String,
}

/// Kind of a skipped or changed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A skipped member.
    Member,
    /// The role of a member.
    Level,
    /// The visibility of a group.
    Visibility,
    /// A setting of a group.
    Setting,
    /// A milestone, or the milestone of a board.
    Milestone,
    /// A label.
    Label,
    /// An attribute of a board.
    Board,
    /// A list of a board.
    List,
    /// An epic, or an attribute of one.
    Epic,
    /// An unsupported relation.
    Relation,
}

/// Import status of a group.
#[derive(Debug, Clone)]
pub struct ImportStatus {
    /// The group.
    pub group_id: i64,
    /// The import, unless the group was created otherwise.
    pub import: Option<ImportProgress>,
}

/// Progress of an import.
#[derive(Debug, Clone)]
pub struct ImportProgress {
    /// State of the import.
    pub state: ImportState,
    /// Error that ended it.
    pub error: Option<String>,
    /// Time of the request.
    pub created_at: chrono::DateTime<chrono::Utc>,
    /// Number of completely imported groups.
    pub entered: u64,
    /// The report so far.
    pub report: ImportReport,
}

impl ImportReport {
    /// Adds a skipped or changed item.
    pub fn add(&mut self, kind: ItemKind, group: &str, name: &str, reason: impl Into<String>) {
        self.unmapped_count += 1;
        if self.unmapped.len() < MAX_ITEMS {
            let cut = |text: &str| text.chars().take(MAX_NAME_LENGTH).collect();
            self.unmapped.push(UnmappedItem {
                kind,
                group: cut(group),
                name: cut(name),
                reason: reason.into(),
            });
        }
    }
}
