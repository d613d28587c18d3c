//! Removal of values that no key can decrypt.

use sea_orm::{ConnectionTrait, DatabaseTransaction, Statement};

use super::values::{BATCH, UnreadableValue};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::two_factor::enrollment;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::EncryptedColumn;

/// Returns the consequence of the removal of values of a column.
#[must_use]
pub fn consequence(column: EncryptedColumn) -> &'static str {
    match column {
        EncryptedColumn::ProjectRunnersToken => "the projects have no registration token for runners",
        EncryptedColumn::ProjectImportUrl => "the projects have no import URL",
        EncryptedColumn::GroupRunnersToken => "the groups have no registration token for runners",
        EncryptedColumn::WebhookToken => "the webhooks are sent without a token",
        EncryptedColumn::WebhookPassword => "the webhooks are sent without the password of their URL",
        EncryptedColumn::WebhookCustomHeaders => "the webhooks are sent without custom headers",
        EncryptedColumn::WebhookSigningToken => "the webhooks are sent without a signature",
        EncryptedColumn::WebhookUrlVariables => "the placeholders in the URLs of the webhooks have no values",
        EncryptedColumn::StatusCheckSharedSecret => "requests to the external status checks are not signed",
        EncryptedColumn::RemoteMirrorCredentials => "the remote mirrors are updated without credentials",
        EncryptedColumn::PullMirrorCredentials => "the pull mirrors are updated without credentials",
        EncryptedColumn::CiVariableValue => "the CI/CD variables are deleted",
        EncryptedColumn::ScheduleVariableValue => "the variables of pipeline schedules are deleted",
        EncryptedColumn::PipelineVariableValue => "the variables of pipelines are deleted",
        EncryptedColumn::TriggerToken => "the pipeline triggers are deleted",
        EncryptedColumn::FeatureFlagsInstanceId => {
            "clients of feature flags of the projects need a new instance ID"
        }
        EncryptedColumn::ClusterToken => "the clusters are deleted",
        EncryptedColumn::TwoFactorSecret => {
            "two-factor authentication of the users is disabled, and their sessions end"
        }
    }
}

/// Removes the values of a column, or the rows that are useless without them. Values that were changed in the meantime
/// remain. Returns the number of removed values.
///
/// Each transaction records one audit event with the number of its values and their rows, and for second factors one
/// event of each user.
pub(super) async fn discard_all(
    backend: &Backend,
    column: EncryptedColumn,
    unreadable: &[UnreadableValue],
) -> Result<u64> {
    let mut discarded = 0;
    if column == EncryptedColumn::TwoFactorSecret {
        for value in unreadable {
            let is_removed = enrollment::discard_secret(backend, value.id, &value.stored).await?;
            discarded += u64::from(is_removed);
        }
        return Ok(discarded);
    }
    for batch in unreadable.chunks(BATCH) {
        discarded += backend
            .database
            .transaction(async |transaction| discard_batch(transaction, column, batch).await)
            .await?;
    }
    Ok(discarded)
}

async fn discard_batch(
    transaction: &DatabaseTransaction,
    column: EncryptedColumn,
    batch: &[UnreadableValue],
) -> Result<u64> {
    let sql = removal(column);
    let mut rows = Vec::new();
    for value in batch {
        let values = [value.id.into(), value.stored.clone().into()];
        let statement = Statement::from_sql_and_values(transaction.get_database_backend(), &sql, values);
        if transaction.execute_raw(statement).await?.rows_affected() > 0 {
            rows.push(value.id.to_string());
        }
    }
    if !rows.is_empty() {
        let name = format!("{}.{}", column.table(), column.column());
        let target = AuditTarget::named("EncryptedColumn", name);
        let event = AuditEvent::new(AuditKind::EncryptedValuesRemoved, AuditEntity::instance(), target);
        let text = format!("{} values in the rows {}", rows.len(), rows.join(", "));
        audit::record(transaction, Actor::command_line(), event.from(text)).await?;
    }
    Ok::<_, Error>(rows.len() as u64)
}

/// Returns the statement that removes a value, given by the ID of its row and its text.
fn removal(column: EncryptedColumn) -> String {
    let (table, name) = (column.table(), column.column());
    match column {
        EncryptedColumn::ProjectRunnersToken
        | EncryptedColumn::ProjectImportUrl
        | EncryptedColumn::GroupRunnersToken
        | EncryptedColumn::WebhookToken
        | EncryptedColumn::WebhookPassword
        | EncryptedColumn::WebhookSigningToken
        | EncryptedColumn::StatusCheckSharedSecret
        | EncryptedColumn::RemoteMirrorCredentials
        | EncryptedColumn::PullMirrorCredentials => {
            format!("UPDATE {table} SET {name} = NULL WHERE id = $1 AND {name} = $2")
        }
        EncryptedColumn::WebhookCustomHeaders => {
            format!("UPDATE {table} SET {name} = NULL, custom_header_keys = NULL WHERE id = $1 AND {name} = $2")
        }
        EncryptedColumn::WebhookUrlVariables => {
            format!("UPDATE {table} SET {name} = NULL, url_variable_keys = NULL WHERE id = $1 AND {name} = $2")
        }
        EncryptedColumn::CiVariableValue
        | EncryptedColumn::ScheduleVariableValue
        | EncryptedColumn::PipelineVariableValue
        | EncryptedColumn::TriggerToken
        | EncryptedColumn::FeatureFlagsInstanceId
        // `discard_all` also deletes what depends on the second factor.
        | EncryptedColumn::TwoFactorSecret => format!("DELETE FROM {table} WHERE id = $1 AND {name} = $2"),
        // The row of the column is deleted with its cluster.
        EncryptedColumn::ClusterToken => {
            format!(
                "DELETE FROM clusters WHERE id = (SELECT cluster_id FROM {table} WHERE id = $1 AND {name} = $2)"
            )
        }
    }
}
