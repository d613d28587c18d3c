//! Changes of single custom headers and URL variables of webhooks.

use std::slice;

use sea_orm::IntoActiveModel;
use storage::entities::{projects, row_changes};

use crate::audit::{self, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::instance::settings::allows_local_requests;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::webhooks::receiver_url::{check_stored, expand, has_placeholder, has_same_origin};
use crate::webhooks::values::{KeyedValue, ValueKind, are_equal};
use crate::webhooks::{clear_secrets, event, find};

/// Text if the URL uses the variable to remove.
const IN_USE: &str = "The URL of the webhook uses this variable: change the URL first";

/// Change of one value.
#[derive(Debug, Clone)]
pub enum ValueChange {
    /// Adds or replaces a value.
    Set(KeyedValue),
    /// Removes the value with this key.
    Remove(String),
}

/// Changes one value of a webhook. If a URL variable changes the origin of the URL, all other secrets are removed.
/// A stored value that cannot be decrypted is replaced if it is the only one.
///
/// # Errors
/// Returns `Error::NotFound` if the webhook or the value to remove does not exist. Returns `Error::Unprocessable` if
/// the key or value is invalid, the webhook has `MAX_VALUES` values already, its URL uses the variable to remove, the
/// change would lose stored values that cannot be decrypted, or the URL is invalid with the new value.
pub async fn change(
    backend: &Backend,
    access: &ProjectAccess,
    hook_id: i64,
    kind: ValueKind,
    change: ValueChange,
) -> Result<()> {
    let local = allows_local_requests(backend).await?;
    backend
        .database
        .transaction(async |transaction| {
            // As in updates of the webhook.
            projects::lock(transaction, access.project.id).await?;
            let hook = find(transaction, access, hook_id).await?;
            let sent: &[KeyedValue] = match &change {
                ValueChange::Set(value) => slice::from_ref(value),
                ValueChange::Remove(_) => &[],
            };
            let stored = kind.read_for_change(backend, &hook, sent)?;
            let mut values = match &change {
                ValueChange::Set(_) => kind
                    .merge(&stored, sent)
                    .map_err(|_| Error::Unprocessable("Illegal key or value".into()))?,
                ValueChange::Remove(key) => {
                    let mut values = stored.clone();
                    values.retain(|one| !kind.is_same(&one.key, key));
                    if values.len() == stored.len() {
                        return Err(Error::not_found(kind.name()));
                    }
                    values
                }
            };
            if are_equal(&stored, &values) {
                return Ok(());
            }
            let mut row = hook.clone().into_active_model();
            let encryptor = backend.keyring.encryptor(transaction).await?;
            if kind == ValueKind::UrlVariables {
                match &change {
                    ValueChange::Set(value) if has_placeholder(&hook.url, &value.key) => {
                        let former_url = expand(&hook.url, &stored);
                        if !has_same_origin(&expand(&hook.url, &values), &former_url) {
                            clear_secrets(&mut row);
                            values = vec![value.clone()];
                        }
                        check_stored(&hook.url, &kind.keys(&hook), &values, local)?;
                    }
                    ValueChange::Remove(key) if has_placeholder(&hook.url, key) => {
                        return Err(Error::Unprocessable(IN_USE.into()));
                    }
                    // The URL does not use the variable.
                    ValueChange::Set(_) | ValueChange::Remove(_) => {}
                }
            }
            kind.write(&mut row, &encryptor, hook_id, &values)?;
            let changed = row_changes::update_if_changed(transaction, &hook, row).await?;
            let event = event(AuditKind::WebhookChanged, access, &changed);
            audit::record(transaction, &access.caller, event).await
        })
        .await
}
