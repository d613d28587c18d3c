//! Reachable addresses of receivers, and the context of their encrypted secrets.

use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::secrets::{EncryptedColumn, EncryptionContext};

/// Returns whether webhooks and mirrors may reach loopback and private addresses: if the operator or the current instance
/// settings allow it.
pub(crate) async fn can_be_local(backend: &Backend) -> Result<bool> {
    if backend.webhooks.is_local_allowed() {
        return Ok(true);
    }
    let in_force = settings::get(backend).await?;
    Ok(in_force.allow_local_requests_from_hooks_and_services)
}

/// Returns the context to which the encryption of a webhook's password is bound.
pub(super) fn password_context(hook_id: i64) -> EncryptionContext {
    EncryptedColumn::WebhookPassword.context(&[&hook_id])
}

/// Returns the context to which the encryption of a webhook's token is bound.
pub(super) fn token_context(hook_id: i64) -> EncryptionContext {
    EncryptedColumn::WebhookToken.context(&[&hook_id])
}
