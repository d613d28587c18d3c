//! Namespaces: groups and personal namespaces of users.

use domain::identity::access::InstanceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::spaces::namespaces::{self, NamespaceFilter};

use crate::api::routes::NamespacesApi;
use crate::app::App;
use crate::views::spaces::namespace::namespace;
use contract::{
    CheckNamespaceExistsRequest, GetNamespaceRequest, ListNamespacesRequest, NamespaceExistence,
    ProjectNamespace,
};

impl NamespacesApi for App {
    async fn list_namespaces(
        &self,
        access: InstanceAccess,
        request: ListNamespacesRequest,
        page: PageRequest,
    ) -> Result<Page<ProjectNamespace>> {
        let filter = NamespaceFilter {
            search: request.search,
            owned_only: request.owned_only,
            top_level_only: request.top_level_only,
        };
        let page = namespaces::list(&self.backend, &access.caller, &filter, &page).await?;
        let base = &self.backend.instance.base_url;
        Ok(page.map(|found| namespace(base, &found.namespace, found.owner.as_ref())))
    }

    async fn get_namespace(
        &self,
        access: InstanceAccess,
        request: GetNamespaceRequest,
    ) -> Result<ProjectNamespace> {
        let found = namespaces::get(&self.backend, &access.caller, &request.id).await?;
        let base = &self.backend.instance.base_url;
        Ok(namespace(base, &found.namespace, found.owner.as_ref()))
    }

    async fn check_namespace_exists(
        &self,
        access: InstanceAccess,
        request: CheckNamespaceExistsRequest,
    ) -> Result<NamespaceExistence> {
        let (path, parent) = (&request.id, request.parent_id);
        let found = namespaces::find_taken_path(&self.backend, &access.caller, path, parent).await?;
        Ok(NamespaceExistence {
            exists: found.is_some(),
            suggests: found.and_then(|taken| taken.available).into_iter().collect(),
        })
    }
}
