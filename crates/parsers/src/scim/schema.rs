//! Values of the user schema.

use super::error::{ScimError, ScimErrorType};

/// The schema of users.
pub const USER_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";

/// Path segment of queries by POST, which follows the collection in place of an ID (RFC 7644, section 3.4.3).
const SEARCH: &str = ".search";
/// Text that no ID may contain, because bulk requests refer to new resources by it (RFC 7643, section 3.1).
const BULK_ID: &str = "bulkId";
/// Maximum length of a name, an address or an ID, in characters.
pub(super) const MAX_LENGTH: usize = 255;

/// Rejects an ID that would make the URL of the user ambiguous, and an ID with a reserved text.
///
/// # Errors
/// Returns a [`ScimError`] of a value.
pub fn check_uid(uid: &str) -> Result<(), ScimError> {
    if uid.eq_ignore_ascii_case(SEARCH) {
        let text = format!("externalId must not be {SEARCH}");
        return Err(ScimError::new(ScimErrorType::Value, text));
    }
    if uid.contains(BULK_ID) {
        let text = format!("externalId must not contain {BULK_ID}");
        return Err(ScimError::new(ScimErrorType::Value, text));
    }
    Ok(())
}
