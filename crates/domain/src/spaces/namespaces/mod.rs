//! Operations that groups and personal namespaces share.

mod listing;
mod taken_paths;

pub(crate) use listing::with_text;
pub use listing::{NamespaceDetail, NamespaceFilter, get, list};
pub(crate) use storage::entities::namespace_ancestors::{full_names, joined_names};
pub use taken_paths::{TakenPath, find_taken_path};
