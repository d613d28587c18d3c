//! What an import tells of itself: how much there was, and what could not be mapped.

use serde::{Deserialize, Serialize};
use storage::entities::group_imports::State;

/// How many things that could not be mapped are told one by one.
const MOST: usize = 100;
/// How much of what they are called is told, in characters.
const LONGEST_NAME: usize = 255;

/// What came of an import.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// How many groups the archive has; 0 until it is read.
    pub groups: u64,
    /// How much could not be mapped.
    pub unmapped_count: u64,
    /// The first of it.
    pub unmapped: Vec<Unmapped>,
}

/// Something that is not in the group, or not as it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Unmapped {
    /// What kind of thing it is.
    pub kind: Kind,
    /// The path of its group within the archive.
    pub group: String,
    /// What it is called.
    pub name: String,
    /// What is otherwise and why.
    pub reason: String,
}

/// Kinds of things that may be otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A member who is none.
    Member,
    /// The role of a member.
    Level,
    /// The visibility of a group.
    Visibility,
    /// A setting of a group.
    Setting,
    /// A milestone, or one that a board names.
    Milestone,
    /// A label.
    Label,
    /// Something that boards have.
    Board,
    /// A list of a board.
    List,
    /// Epics, or something of one.
    Epic,
    /// A kind of records.
    Relation,
}

/// How far the import of a group is, for whoever asks.
#[derive(Debug, Clone)]
pub struct Status {
    /// The group.
    pub group_id: i64,
    /// The import; none where the group was not made by one.
    pub import: Option<Progress>,
}

/// How far an import is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Whether it waits, runs or has ended.
    pub state: State,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: chrono::DateTime<chrono::Utc>,
    /// How many groups are entered with all that belongs to them.
    pub entered: u64,
    /// The rest.
    pub report: Report,
}

impl Report {
    /// Notes that something is not in a group, or not as it was.
    pub fn add(&mut self, kind: Kind, group: &str, name: &str, reason: impl Into<String>) {
        self.unmapped_count += 1;
        if self.unmapped.len() < MOST {
            let cut = |text: &str| text.chars().take(LONGEST_NAME).collect();
            self.unmapped.push(Unmapped {
                kind,
                group: cut(group),
                name: cut(name),
                reason: reason.into(),
            });
        }
    }
}
