//! OAuth applications.

use storage::entities::oauth_applications::Model;

use crate::views::identity::access_tokens::scopes;
use contract::Application;

/// Returns an application; the secret is given only on creation.
#[must_use]
pub fn application(row: Model, secret: Option<String>) -> Application {
    Application {
        scopes: scopes(row.scopes()),
        id: row.id,
        application_id: row.uid,
        application_name: row.name,
        callback_url: row.redirect_uri,
        confidential: row.confidential,
        secret,
    }
}
