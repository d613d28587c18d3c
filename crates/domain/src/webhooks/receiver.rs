//! The context of the encrypted secrets of receivers.

use crate::secrets::{EncryptedColumn, EncryptionContext};

/// Returns the context to which the encryption of a webhook's password is bound.
pub(super) fn password_context(hook_id: i64) -> EncryptionContext {
    EncryptedColumn::WebhookPassword.context(&[&hook_id])
}

/// Returns the context to which the encryption of a webhook's signing token is bound.
pub(super) fn signing_context(hook_id: i64) -> EncryptionContext {
    EncryptedColumn::WebhookSigningToken.context(&[&hook_id])
}

/// Returns the context to which the encryption of a webhook's token is bound.
pub(super) fn token_context(hook_id: i64) -> EncryptionContext {
    EncryptedColumn::WebhookToken.context(&[&hook_id])
}
