//! Notes, award emoji and to-do items.

pub mod award_emoji;
mod note_lookup;
pub mod noteable;
pub mod notes;
pub mod todos;
