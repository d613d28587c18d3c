//! To-do items: assignments, mentions and items that users add themselves. An action of a user on a target
//! completes the pending items for it.

mod create;
mod detail;
mod list;
mod mark_done;
mod targets;

pub use create::create;
pub use detail::{TodoDetail, TodoProject};
pub use list::{TodoFilter, TodoTargetKind, list};
pub use mark_done::{mark_all_done, mark_done};
pub use targets::TodoTargetDetail;
