//! To-do items: assignments, mentions and items that users add themselves. An action of a user on a target
//! completes the pending items for it.

mod create;
mod done;
mod list;
mod row;
mod targets;

pub use crate::discussion::todos::create::mark;
pub use crate::discussion::todos::targets::Thing;
pub use done::{finish, finish_all};
pub use list::{Filter, Subject, list};
pub use row::{Home, Row};
