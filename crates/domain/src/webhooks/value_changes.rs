//! Changes of single custom headers and URL variables of webhooks.

use std::slice;

use sea_orm::IntoActiveModel;
use storage::entities::project_hooks::Model;
use storage::entities::{projects, row_changes};

use crate::audit::{self, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::instance::settings::allows_local_requests;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::webhooks::receiver_url::{ReceiverUrl, expand, has_placeholder};
use crate::webhooks::values::{KeyedValue, ValueKind, are_equal};
use crate::webhooks::{clear_secrets, event, find};

/// Change of one value.
#[derive(Debug, Clone)]
pub enum ValueChange {
    /// Adds or replaces a value.
    Set(KeyedValue),
    /// Removes the value with this key.
    Remove(String),
}

/// Changes one value of a webhook. If a URL variable changes the origin of the URL, all other secrets are removed.
///
/// # Errors
/// Returns `Error::NotFound` if the webhook or the value to remove does not exist. Returns `Error::Unprocessable` if
/// the key or value is invalid, the webhook has `MAX_VALUES` values already, its URL uses the variable to remove, or
/// the URL is invalid with the new value.
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
            let stored = kind.read(backend, &hook)?;
            let mut values = match &change {
                ValueChange::Set(value) => kind
                    .merge(&stored, slice::from_ref(value))
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
                check_removal(&hook, &change)?;
                let url = ReceiverUrl::parse(&hook.url, &values, local)?;
                if !url.has_origin_of(&expand(&hook.url, &stored)) {
                    clear_secrets(&mut row);
                    values = match change {
                        ValueChange::Set(value) => vec![value],
                        ValueChange::Remove(_) => Vec::new(),
                    };
                    ReceiverUrl::parse(&hook.url, &values, local)?;
                }
            }
            kind.write(&mut row, &encryptor, hook_id, &values)?;
            let changed = row_changes::update_if_changed(transaction, &hook, row).await?;
            let event = event(AuditKind::WebhookChanged, access, &changed);
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

/// Checks that the URL does not use a variable that is removed.
fn check_removal(hook: &Model, change: &ValueChange) -> Result<()> {
    match change {
        ValueChange::Remove(key) if has_placeholder(&hook.url, key) => Err(Error::Unprocessable(
            "The URL of the webhook uses this variable: change the URL first".into(),
        )),
        ValueChange::Remove(_) | ValueChange::Set(_) => Ok(()),
    }
}
