//! The URL from which a new project is imported, and the status of the import. `mirrors` runs the import.

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::projects::{ActiveModel, Column, Entity, ImportStatus, Model};

use crate::instance::settings::{allows_local_requests, rejected_remote};
use crate::integrations::git_remotes::RemoteUrl;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};

/// The statuses of an import that has not ended.
pub(crate) const WAITING: [ImportStatus; 2] = [ImportStatus::Scheduled, ImportStatus::Started];

/// Returns the URL of an import without surrounding spaces, or `None` if nothing is imported.
///
/// # Errors
/// Returns a validation error if the URL is not allowed, or if the project also receives an initial commit.
pub(super) async fn checked_url(
    backend: &Backend,
    url: Option<Secret<String>>,
    with_readme: bool,
) -> Result<Option<Secret<String>>> {
    let url = url.map(|url| url.expose().trim().to_owned());
    let Some(url) = url.filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    if with_readme {
        return Err(Error::attribute(
            "initialize_with_readme",
            "must be false if import_url is sent",
        ));
    }
    let local = allows_local_requests(backend).await?;
    RemoteUrl::parse(&url, local).map_err(|rejected| rejected_remote("import_url", rejected))?;
    Ok(Some(Secret::new(url)))
}

/// Stores the URL of the import of a new project, which is scheduled.
///
/// # Errors
/// Returns an error if the URL cannot be encrypted or the database fails.
pub(super) async fn store(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    project_id: i64,
    url: &Secret<String>,
) -> Result<()> {
    let encryptor = backend.keyring.encryptor(transaction).await?;
    let row = ActiveModel {
        import_url_encrypted: Set(Some(encryptor.encrypt(url.expose(), &context(project_id))?)),
        import_status: Set(ImportStatus::Scheduled),
        ..Default::default()
    };
    Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(project_id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns the URL of the import of a project. `None` if it cannot be decrypted.
pub(crate) fn url(backend: &Backend, project: &Model) -> Option<Secret<String>> {
    let encrypted = project.import_url_encrypted.as_deref()?;
    match backend.keyring.decrypt(encrypted, &context(project.id)) {
        Ok(url) => Some(url),
        Err(error) => {
            tracing::error!(%error, project = project.id, "failed to decrypt the URL of an import");
            None
        }
    }
}

/// Records that an import runs. Returns false if it has ended, for example because another job of the project ran.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn start(db: &impl ConnectionTrait, project_id: i64) -> Result<bool> {
    let started = Entity::update_many()
        .col_expr(Column::ImportStatus, Expr::value(ImportStatus::Started))
        .col_expr(Column::ImportError, Expr::value(None::<String>))
        .filter(Column::Id.eq(project_id))
        .filter(Column::ImportStatus.is_in(WAITING));
    Ok(started.exec(db).await?.rows_affected > 0)
}

/// Records the result of an import that has not ended, and deletes the credentials in its URL. `shown` is the URL
/// without them.
///
/// # Errors
/// Returns an error if the URL cannot be encrypted or the database fails.
pub(crate) async fn end(
    backend: &Backend,
    project_id: i64,
    shown: Option<&str>,
    error: Option<&str>,
) -> Result<()> {
    let status = match error {
        None => ImportStatus::Finished,
        Some(_) => ImportStatus::Failed,
    };
    backend
        .database
        .transaction(async |transaction| {
            let mut row = ActiveModel {
                import_status: Set(status),
                import_error: Set(error.map(str::to_owned)),
                ..Default::default()
            };
            if let Some(shown) = shown {
                let encryptor = backend.keyring.encryptor(transaction).await?;
                row.import_url_encrypted = Set(Some(encryptor.encrypt(shown, &context(project_id))?));
            }
            Entity::update_many()
                .set(row)
                .filter(Column::Id.eq(project_id))
                .filter(Column::ImportStatus.is_in(WAITING))
                .exec(transaction)
                .await?;
            Ok::<_, Error>(())
        })
        .await
}

/// Sets the status of an import or fork, and the reason of a failure.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn set_status(
    db: &impl ConnectionTrait,
    project_id: i64,
    status: ImportStatus,
    error: Option<&str>,
) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::ImportStatus, Expr::value(status))
        .col_expr(Column::ImportError, Expr::value(error))
        .filter(Column::Id.eq(project_id))
        .exec(db)
        .await?;
    Ok(())
}

fn context(project_id: i64) -> EncryptionContext {
    EncryptedColumn::ProjectImportUrl.context(&[&project_id])
}
