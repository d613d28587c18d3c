//! Notes on issues, merge requests, snippets and epics.

mod changes;
mod listing;
mod removal;

pub use changes::{NewNote, NoteOrAwardEmoji, create, delete, update};
pub use listing::{NoteDetail, NoteSort, get, get_with_noteable, list};
pub use removal::delete_all_of_user;
