//! Jobs of a new project: the repair of its repository, and the import.

use sea_orm::DatabaseTransaction;
use storage::clock::scheduling_time;
use storage::jobs;

use crate::code::jobs::create_repository::CreateRepository;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::jobs::import_repository::ImportRepository;

/// The jobs that continue the creation of a project if the server is killed.
pub(super) struct CreationJobs {
    /// Creates the repository.
    pub(super) repair: CreateRepository,
    import: Option<ImportRepository>,
}

impl CreationJobs {
    /// Enqueues the jobs for the time after which the request has created the repository, unless the server was killed.
    pub(super) async fn schedule(
        transaction: &DatabaseTransaction,
        project_id: i64,
        default_branch: String,
        imports: bool,
    ) -> Result<Self> {
        let at = scheduling_time() + CreateRepository::GRACE_PERIOD;
        let import = imports.then(|| ImportRepository {
            project_id,
            default_branch: default_branch.clone(),
        });
        let repair = CreateRepository {
            project_id,
            default_branch,
        };
        jobs::enqueue_at(transaction, &repair, at)
            .await
            .map_err(Error::internal)?;
        if let Some(import) = &import {
            jobs::enqueue_at(transaction, import, at)
                .await
                .map_err(Error::internal)?;
        }
        Ok(Self { repair, import })
    }

    /// Cancels the repair of a repository that exists now, and starts the import.
    pub(super) async fn continue_now(&self, backend: &Backend) -> Result<()> {
        backend
            .database
            .transaction(async |transaction| {
                jobs::cancel(transaction, &self.repair).await?;
                match &self.import {
                    Some(import) => jobs::enqueue(transaction, import).await.map_err(Error::internal),
                    None => Ok(()),
                }
            })
            .await
    }

    /// Cancels the jobs of a project that is deleted.
    pub(super) async fn cancel(&self, transaction: &DatabaseTransaction) -> Result<()> {
        jobs::cancel(transaction, &self.repair).await?;
        if let Some(import) = &self.import {
            jobs::cancel(transaction, import).await?;
        }
        Ok(())
    }
}
