//! Projects.

mod archive;
mod attributes;
pub(crate) mod auditing;
mod avatar;
pub(crate) mod create;
mod creation_jobs;
mod edit;
mod expiration_policy;
pub mod forks;
mod groups;
pub mod imports;
mod list;
mod lock_for_insert;
mod push_creation;
mod row;
mod settings;
pub mod shares;
pub mod stars;
mod statistics;

pub use archive::set_archived;
pub use attributes::add_custom_attributes;
pub use create::{NewProject, create, create_for_user, insert_bare};
pub use edit::{ProjectUpdate, update};
pub use expiration_policy::ExpirationPolicyChange;
pub use groups::{ProjectGroup, ProjectGroupFilter, list_groups};
pub use list::{GroupProjects, ProjectFilter, ProjectOrder, list};
pub(crate) use lock_for_insert::lock_for_insert;
pub use push_creation::create_for_push;
pub use row::{ProjectDetail, get, load_details};
pub use settings::ProjectSettings;
pub use statistics::{load_commit_count, load_packages_sizes};
