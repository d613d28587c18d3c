//! Details of push events.

use serde::{Deserialize, Serialize};

/// Maximum number of commits that are counted in a push, because the client waits.
pub const MAX_COUNTED_COMMITS: usize = 10_001;

/// Change of a ref in a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PushAction {
    /// The ref was created.
    Created,
    /// The ref was deleted.
    Removed,
    /// The ref was updated.
    Pushed,
}

/// Kind of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefType {
    /// A branch.
    Branch,
    /// A tag.
    Tag,
}

/// Details of a push event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushData {
    /// Number of pushed commits, at most [`MAX_COUNTED_COMMITS`].
    pub commit_count: usize,
    /// Change of the ref.
    pub action: PushAction,
    /// Kind of the ref.
    pub ref_type: RefType,
    /// ID of the previous object; absent for a new ref.
    pub commit_from: Option<String>,
    /// ID of the new object; absent for a deleted ref.
    pub commit_to: Option<String>,
    /// Short name of the ref; absent for an event about several refs.
    #[serde(rename = "ref")]
    pub name: Option<String>,
    /// Title of the newest commit.
    pub commit_title: Option<String>,
    /// Number of refs, for an event about several refs.
    pub ref_count: Option<usize>,
    /// The commit whose history is not counted: the previous head, or for a new branch the head of the
    /// default branch.
    pub base: Option<String>,
}
