//! Provisioning of the members of a group by its identity provider with SCIM (RFC 7644, ADR 23).

mod addresses;
mod create;
mod filter;
mod list;
mod operations;
mod update;
mod usernames;

pub use crate::spaces::scim::create::{NewScimUser, create};
pub use crate::spaces::scim::list::{MAX_PER_PAGE, ScimUserPage, get, list};
pub use crate::spaces::scim::update::{deprovision, update};
pub use operations::{UserOperation, full_name};

use storage::entities::{scim_identities, users};

use crate::kernel::error::{Error, Result, ScimErrorType};

/// The schema of users.
pub const USER_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";

/// A provisioned user.
#[derive(Debug, Clone)]
pub struct ScimUser {
    /// The identity at the provider.
    pub identity: scim_identities::Model,
    /// The user.
    pub user: users::Model,
}

/// Path segment of queries by POST, which follows the collection in place of an ID (RFC 7644, section 3.4.3).
const SEARCH: &str = ".search";

/// Rejects an ID that would make the URL of the user ambiguous.
fn check_uid(uid: &str) -> Result<()> {
    if uid.eq_ignore_ascii_case(SEARCH) {
        let text = format!("externalId must not be {SEARCH}");
        return Err(Error::invalid_scim_request(ScimErrorType::Value, text));
    }
    Ok(())
}

/// Returns the error of a missing user.
fn not_found(extern_uid: &str) -> Error {
    Error::not_found(format!("Resource {extern_uid}"))
}
