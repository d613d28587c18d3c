//! Stars of projects.

use crate::api::contract::{ListProjectStarrersRequest, Project, ProjectStarsApi, Starrer};
use crate::app::App;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::projects::stars;
use crate::views::users::starrer;

impl ProjectStarsApi for App {
    async fn star_project(&self, access: ProjectAccess) -> Result<Project> {
        let starred = stars::star(&self.backend, access).await?;
        self.changed(starred, false).await
    }

    async fn unstar_project(&self, access: ProjectAccess) -> Result<Project> {
        let unstarred = stars::unstar(&self.backend, access).await?;
        self.changed(unstarred, false).await
    }

    async fn list_project_starrers(
        &self,
        access: ProjectAccess,
        request: ListProjectStarrersRequest,
        page: PageRequest,
    ) -> Result<Page<Starrer>> {
        let search = request.search.as_deref();
        let page = stars::starrers(&self.backend, &access, search, &page).await?;
        Ok(page.map(|found| starrer(&self.backend.instance.base_url, &found)))
    }
}
