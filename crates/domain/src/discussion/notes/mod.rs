//! Notes on issues, merge requests, snippets and epics.

mod changes;
mod listing;
mod removal;

pub use changes::{NewNote, Posted, create, delete, edit};
pub use listing::{Filter, Row, list, read, read_with};
pub use removal::remove_all_of;
