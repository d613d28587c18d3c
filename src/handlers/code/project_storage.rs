//! Storage of the repositories of projects.

use domain::identity::access::ProjectAccess;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::operations::project_storage;

use crate::api::routes::ProjectStorageApi;
use crate::app::App;
use crate::views::code::snapshot as view;
use contract::{HousekeepingTask, ProjectStorage, StartHousekeepingRequest};

/// Name of the only storage.
const STORAGE: &str = "default";

impl ProjectStorageApi for App {
    async fn start_housekeeping(
        &self,
        access: ProjectAccess,
        request: StartHousekeepingRequest,
    ) -> Result<()> {
        let task = match request.body.task {
            None | Some(HousekeepingTask::Eager) => project_storage::HousekeepingTask::Eager,
            Some(HousekeepingTask::Prune) => project_storage::HousekeepingTask::Prune,
        };
        project_storage::start_housekeeping(&self.backend, &access, task).await
    }

    async fn update_repository_size(&self, access: ProjectAccess) -> Result<()> {
        project_storage::update_repository_size(&self.backend, &access).await
    }

    async fn get_project_snapshot(&self, access: ProjectAccess) -> Result<Download> {
        let stream = project_storage::snapshot(&self.backend, &access).await?;
        Ok(view::download(&access.project.path, stream))
    }

    async fn get_project_storage(&self, access: ProjectAccess) -> Result<ProjectStorage> {
        Ok(ProjectStorage {
            project_id: access.project.id,
            disk_path: project_storage::disk_path(&access),
            created_at: access.project.created_at.into(),
            repository_storage: STORAGE.to_owned(),
        })
    }
}
