//! Provisioning of the members of a group by its identity provider with SCIM (RFC 7644, ADR 23).

mod addresses;
mod create;
mod list;
mod update;
mod usernames;

pub use crate::spaces::scim::create::{NewScimUser, create};
pub use crate::spaces::scim::list::{MAX_PER_PAGE, ScimUserPage, get, list};
pub use crate::spaces::scim::update::{deprovision, update};
pub use parsers::scim::{USER_SCHEMA, UserOperation, full_name};

use storage::entities::{scim_identities, users};

use crate::kernel::error::Error;

/// A provisioned user.
#[derive(Debug, Clone)]
pub struct ScimUser {
    /// The identity at the provider.
    pub identity: scim_identities::Model,
    /// The user.
    pub user: users::Model,
}

/// Returns the error of a missing user.
fn not_found(extern_uid: &str) -> Error {
    Error::not_found(format!("Resource {extern_uid}"))
}
