//! Groups, which contain projects and other groups.

mod attributes;
mod avatar;
mod create;
pub(crate) mod edit;
mod list;
mod read;
pub(crate) mod rules;
mod share;

pub use attributes::custom_attributes;
pub use create::{NewGroup, create};
pub(crate) use create::{admit, make, make_below};
pub use edit::{Change, edit};
pub use list::{Filter, Order, Sizes, Within, list};
pub use read::{Detail, read};
pub use rules::Settings;
pub(crate) use rules::{DEEPEST, check_names, locked, may_unlock_sharing};
pub use share::{share, unshare};

use storage::entities::namespaces;

/// A group with the data of its short representation.
#[derive(Debug, Clone)]
pub struct Row {
    /// The group.
    pub group: namespaces::Model,
    /// Names of its ancestors and itself, separated by ` / `.
    pub full_name: String,
    /// Sizes of its projects, if requested.
    pub sizes: Option<Sizes>,
}

/// Returns the context to which the encryption of a group's runner token is bound.
fn runners_token_place(group_id: i64) -> String {
    format!("namespaces.runners_token:{group_id}")
}
