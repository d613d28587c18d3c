//! Issues, epics, labels, milestones, boards, and mentions in texts.

pub mod boards;
mod commit_messages;
pub mod epics;
pub mod issuables;
pub mod issues;
pub mod jobs;
pub mod labels;
pub mod mentions;
pub mod milestones;
mod promotion;
pub mod state_event;
pub mod system_notes;
pub(crate) mod todo_writer;
