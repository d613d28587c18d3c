//! Branches of a repository and their protection.

use domain::code::branches::{self, ProtectionUpdate};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::BranchesApi;
use crate::app::App;
use crate::views;
use contract::{
    Branch, CheckBranchRequest, CreateBranchRequest, DeleteBranchRequest, GetBranchRequest,
    ListBranchesRequest, Message, ProtectBranchRequest, UnprotectBranchRequest,
};

impl BranchesApi for App {
    async fn list_branches(
        &self,
        access: ProjectAccess,
        request: ListBranchesRequest,
        page: PageRequest,
    ) -> Result<Page<Branch>> {
        let search = request.search.as_deref();
        let page = branches::list(&self.backend, &access, search, &page).await?;
        let url = self.project_url(&access);
        Ok(page.map(|detail| views::code::branch::branch(detail, &url)))
    }

    async fn create_branch(&self, access: ProjectAccess, request: CreateBranchRequest) -> Result<Branch> {
        let body = request.body;
        let detail = branches::create(&self.backend, &access, body.branch, body.r#ref).await?;
        Ok(views::code::branch::branch(detail, &self.project_url(&access)))
    }

    async fn get_branch(&self, access: ProjectAccess, request: GetBranchRequest) -> Result<Branch> {
        let detail = branches::get(&self.backend, &access, &request.branch).await?;
        Ok(views::code::branch::branch(detail, &self.project_url(&access)))
    }

    async fn check_branch(&self, access: ProjectAccess, request: CheckBranchRequest) -> Result<()> {
        branches::check_exists(&self.backend, &access, &request.branch).await
    }

    async fn delete_branch(&self, access: ProjectAccess, request: DeleteBranchRequest) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        branches::delete(&self.backend, &access, &request.branch, condition).await
    }

    async fn protect_branch(&self, access: ProjectAccess, request: ProtectBranchRequest) -> Result<Branch> {
        let update = ProtectionUpdate {
            developers_can_push: request.body.developers_can_push,
            developers_can_merge: request.body.developers_can_merge,
        };
        let detail = branches::protect(&self.backend, &access, &request.branch, update).await?;
        Ok(views::code::branch::branch(detail, &self.project_url(&access)))
    }

    async fn unprotect_branch(
        &self,
        access: ProjectAccess,
        request: UnprotectBranchRequest,
    ) -> Result<Branch> {
        let detail = branches::unprotect(&self.backend, &access, &request.branch).await?;
        Ok(views::code::branch::branch(detail, &self.project_url(&access)))
    }

    async fn delete_merged_branches(&self, access: ProjectAccess) -> Result<Message> {
        branches::delete_merged(&self.backend, &access).await?;
        Ok(views::accepted())
    }
}
