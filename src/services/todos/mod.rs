//! To-do items: assignments, mentions and items that users add themselves. An action of a user on a target
//! completes the pending items for it.

mod done;
mod list;
mod making;
mod row;
mod things;

pub(in crate::services) use done::settle;
pub use done::{finish, finish_all};
pub use list::{Filter, Subject, list};
pub use making::mark;
pub(in crate::services) use making::{Because, make};
pub use row::{Home, Row};
pub use things::Thing;
