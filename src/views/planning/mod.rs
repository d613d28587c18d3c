//! Views of issues, epics, labels, milestones and boards.

pub mod board;
pub mod epic;
pub mod issue;
pub mod issue_link;
pub mod label;
pub mod milestone;
pub mod resource_event;
