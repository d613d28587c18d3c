//! Stars of projects.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::spaces::projects::stars;

use crate::api::routes::ProjectStarsApi;
use crate::app::App;
use crate::views::accounts::users::starrer;
use contract::{ListProjectStarrersRequest, Project, Starrer};

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
