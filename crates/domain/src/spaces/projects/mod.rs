//! Projects.

mod archive;
mod attributes;
mod avatar;
pub(crate) mod create;
mod edit;
pub mod forks;
mod hold;
mod list;
mod paths;
mod row;
mod settings;
pub mod shares;
pub mod stars;
mod statistics;

pub use archive::set_archived;
pub use attributes::add_custom_attributes;
pub use create::{NewProject, create, insert_bare};
pub use edit::{Change, edit};
pub(crate) use hold::hold;
pub use list::{Filter, OfGroup, Order, list};
pub(crate) use paths::paths_of;
pub use row::{Row, decorate, read};
pub use settings::Settings;
pub use statistics::count_commits;
