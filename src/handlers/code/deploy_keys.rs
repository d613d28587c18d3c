//! Deploy keys of projects.

use domain::code::deploy_keys;
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::DeployKeysApi;
use crate::app::App;
use crate::views::code::deploy_key::{deploy_key, project_deploy_key};
use contract::{
    CreateDeployKeyRequest, CreatePublicDeployKeyRequest, DeleteDeployKeyRequest, DeployKey,
    EnableDeployKeyRequest, GetDeployKeyRequest, ProjectDeployKey, UpdateDeployKeyRequest,
};

impl DeployKeysApi for App {
    async fn list_deploy_keys(&self, _: InstanceAccess, page: PageRequest) -> Result<Page<DeployKey>> {
        let page = deploy_keys::list_all(&self.backend, &page).await?;
        Ok(page.map(deploy_key))
    }

    async fn create_public_deploy_key(
        &self,
        access: InstanceAccess,
        request: CreatePublicDeployKeyRequest,
    ) -> Result<DeployKey> {
        let body = request.body;
        let key = deploy_keys::create_public(&self.backend, &access.caller, body.title, &body.key).await?;
        Ok(deploy_key(key))
    }

    async fn list_project_deploy_keys(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<ProjectDeployKey>> {
        let page = deploy_keys::list(&self.backend, &access, &page).await?;
        Ok(page.map(project_deploy_key))
    }

    async fn create_deploy_key(
        &self,
        access: ProjectAccess,
        request: CreateDeployKeyRequest,
    ) -> Result<ProjectDeployKey> {
        let body = request.body;
        let detail =
            deploy_keys::create(&self.backend, &access, body.title, &body.key, body.can_push).await?;
        Ok(project_deploy_key(detail))
    }

    async fn get_deploy_key(
        &self,
        access: ProjectAccess,
        request: GetDeployKeyRequest,
    ) -> Result<ProjectDeployKey> {
        let detail = deploy_keys::get(&self.backend, &access, request.key_id).await?;
        Ok(project_deploy_key(detail))
    }

    async fn update_deploy_key(
        &self,
        access: ProjectAccess,
        request: UpdateDeployKeyRequest,
    ) -> Result<ProjectDeployKey> {
        let (id, body) = (request.key_id, request.body);
        let detail = deploy_keys::update(&self.backend, &access, id, body.title, body.can_push).await?;
        Ok(project_deploy_key(detail))
    }

    async fn delete_deploy_key(&self, access: ProjectAccess, request: DeleteDeployKeyRequest) -> Result<()> {
        let (id, since) = (request.key_id, request.if_unmodified_since);
        deploy_keys::remove(&self.backend, &access, id, since.as_deref()).await
    }

    async fn enable_deploy_key(
        &self,
        access: ProjectAccess,
        request: EnableDeployKeyRequest,
    ) -> Result<DeployKey> {
        let key = deploy_keys::enable(&self.backend, &access, request.key_id).await?;
        Ok(deploy_key(key))
    }
}
