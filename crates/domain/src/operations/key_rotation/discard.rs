//! Removal of values that no key can decrypt.

use sea_orm::{ConnectionTrait, Statement};

use super::values::UnreadableValue;
use crate::identity::two_factor::enrollment;
use crate::kernel::Backend;
use crate::kernel::error::Result;
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
        EncryptedColumn::CiVariableValue => "the CI/CD variables are deleted",
        EncryptedColumn::ScheduleVariableValue => "the variables of pipeline schedules are deleted",
        EncryptedColumn::PipelineVariableValue => "the variables of pipelines are deleted",
        EncryptedColumn::TriggerToken => "the pipeline triggers are deleted",
        EncryptedColumn::ClusterToken => "the clusters are deleted",
        EncryptedColumn::TwoFactorSecret => {
            "two-factor authentication of the users is disabled, and their sessions end"
        }
    }
}

/// Removes a value, or the row that is useless without it. Returns `false` if the value was changed in the meantime.
pub(super) async fn discard(backend: &Backend, unreadable: &UnreadableValue) -> Result<bool> {
    let column = unreadable.column;
    let (table, name) = (column.table(), column.column());
    let sql = match column {
        EncryptedColumn::ProjectRunnersToken
        | EncryptedColumn::ProjectImportUrl
        | EncryptedColumn::GroupRunnersToken
        | EncryptedColumn::WebhookToken
        | EncryptedColumn::WebhookPassword => {
            format!("UPDATE {table} SET {name} = NULL WHERE id = $1 AND {name} = $2")
        }
        EncryptedColumn::CiVariableValue
        | EncryptedColumn::ScheduleVariableValue
        | EncryptedColumn::PipelineVariableValue
        | EncryptedColumn::TriggerToken => format!("DELETE FROM {table} WHERE id = $1 AND {name} = $2"),
        // The row of the column is deleted with its cluster.
        EncryptedColumn::ClusterToken => {
            format!(
                "DELETE FROM clusters WHERE id = (SELECT cluster_id FROM {table} WHERE id = $1 AND {name} = $2)"
            )
        }
        EncryptedColumn::TwoFactorSecret => {
            return enrollment::discard_secret(backend, unreadable.id, &unreadable.stored).await;
        }
    };
    let db = backend.database.write();
    let values = [unreadable.id.into(), unreadable.stored.clone().into()];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    Ok(db.execute_raw(statement).await?.rows_affected() > 0)
}
