//! Groups, which contain projects and other groups.

pub(crate) mod auditing;
mod avatar;
mod create;
pub(crate) mod edit;
mod list;
mod read;
pub(crate) mod rules;
mod share;

pub use create::{NewGroup, create};
pub(crate) use create::{check, insert_subgroup, insert_with};
pub use edit::{GroupUpdate, update};
pub use list::{GroupFilter, GroupOrder, HierarchyPart, StorageSizes, list};
pub use read::{GroupDetail, get};
pub use rules::GroupSettings;
pub(crate) use rules::{MAX_DEPTH, can_unlock_sharing, check_names, lock};
pub use share::{share, unshare};

use storage::entities::namespaces;

/// A group with the data of its short representation.
#[derive(Debug, Clone)]
pub struct GroupSummary {
    /// The group.
    pub group: namespaces::Model,
    /// Names of its ancestors and itself, separated by ` / `.
    pub full_name: String,
    /// Sizes of its projects, if requested.
    pub sizes: Option<StorageSizes>,
}

/// Returns the context to which the encryption of a group's runner token is bound.
fn runners_token_context(group_id: i64) -> crate::secrets::EncryptionContext {
    crate::secrets::EncryptedColumn::GroupRunnersToken.context(&[&group_id])
}
