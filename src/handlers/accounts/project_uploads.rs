//! Files uploaded to projects.

use domain::accounts::uploads::{self, UploadedFile};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;

use crate::api::routes::ProjectUploadsApi;
use crate::app::App;
use crate::views::accounts::upload::upload;
use contract::Upload;

impl ProjectUploadsApi for App {
    async fn upload_project_file(&self, access: ProjectAccess, file: UploadedFile) -> Result<Upload> {
        let row = uploads::create(&self.backend, &access, file).await?;
        let project = format!("{}/{}", access.namespace.full_path, access.project.path);
        Ok(upload(&row, &project))
    }
}
