//! Tests of notes, award emoji and to-do items.

pub mod award_emoji;
pub mod notes;
pub mod todos;
