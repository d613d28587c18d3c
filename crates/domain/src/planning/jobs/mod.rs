//! Background jobs of this area.

pub mod process_commit_messages;
