//! To-do items: what waits for users because somebody assigned or mentioned them, or because they said so themselves (facts of
//! the interface). Whoever does something with a thing has done what waited there.

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
