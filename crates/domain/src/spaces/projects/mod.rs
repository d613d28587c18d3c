//! Projects.

mod archive;
mod attributes;
mod avatar;
mod create;
mod delete;
mod edit;
pub mod forks;
mod hold;
mod list;
mod paths;
mod restore;
mod row;
mod settings;
pub mod shares;
pub mod stars;
mod statistics;
mod transfer;

pub use archive::set_archived;
pub use attributes::add_custom_attributes;
pub use avatar::{avatar, set_avatar};
pub use create::{NewProject, create, insert_bare};
pub(crate) use delete::delay as removal_delay;
pub use delete::{delete, erase, remove};
pub use edit::{Change, edit};
pub(crate) use hold::hold;
pub use list::{Filter, OfGroup, Order, list};
pub(crate) use paths::paths_of;
pub use restore::restore;
pub use row::{Row, decorate, read};
pub use settings::Settings;
pub use statistics::count_commits;
pub use transfer::{transfer, transfer_to};
