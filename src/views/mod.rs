//! Pure functions that convert rows and Git objects to the types of the contract, one file for each resource.

pub mod accounts;
pub mod activity;
pub mod code;
pub mod delivery;
pub mod discussion;
pub mod enums;
pub mod html;
pub mod identity;
pub mod instance;
pub mod links;
pub mod packages;
pub mod planning;
pub mod registry;
pub mod releases;
pub mod review;
pub mod security;
pub mod spaces;
pub mod transfers;
pub mod webhooks;

use contract::Message;

/// Returns the body of a response with the status 202.
#[must_use]
pub fn accepted() -> Message {
    Message {
        message: "202 Accepted".to_owned(),
    }
}
