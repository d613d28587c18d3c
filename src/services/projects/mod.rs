//! Projects (specification 2.6, 3.2, 3.3 and 4.5).

mod archive;
mod create;
mod delete;
mod edit;
mod list;
mod row;
mod settings;

pub use archive::set_archived;
pub use create::{NewProject, create, ensure_repository, insert_bare};
pub use delete::{delete, erase, remove};
pub use edit::{Change, edit};
pub use list::{Filter, Order, list};
pub use row::{Row, decorate, read};
pub use settings::Settings;
