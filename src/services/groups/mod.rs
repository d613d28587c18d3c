//! Groups that hold projects and other groups.

mod attributes;
mod avatar;
mod create;
mod delete;
mod edit;
mod list;
mod read;
mod rules;
mod share;
mod transfer;

pub use attributes::custom_attributes;
pub use avatar::{avatar, set_avatar};
pub use create::{NewGroup, create};
pub(in crate::services) use create::{admit, make, make_below};
pub use delete::{delete, erase, restore};
pub use edit::{Change, edit};
pub use list::{Filter, Order, Sizes, Within, list};
pub use read::{Detail, read};
pub use rules::Settings;
pub(in crate::services) use rules::{DEEPEST, check_names, locked, may_unlock_sharing};
pub use share::{share, unshare};
pub use transfer::{take_in, transfer};

use storage::entities::namespaces;

/// A group with what is always shown of it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The group.
    pub group: namespaces::Model,
    /// The names of all groups above and of this one, separated by ` / `.
    pub full_name: String,
    /// The sizes of its projects, where they were asked for.
    pub sizes: Option<Sizes>,
}

/// The place that a group's token is encrypted for.
fn runners_token_place(group_id: i64) -> String {
    format!("namespaces.runners_token:{group_id}")
}
