//! Shares of projects with groups.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::spaces::projects::shares;

use crate::api::routes::ProjectSharesApi;
use crate::app::App;
use crate::views::spaces::share::share;
use contract::MaybeUndefined;
use contract::{ProjectShare, ShareProjectRequest, UnshareProjectRequest};

impl ProjectSharesApi for App {
    async fn share_project(
        &self,
        access: ProjectAccess,
        request: ShareProjectRequest,
    ) -> Result<ProjectShare> {
        let body = request.body;
        let expires_at = match body.expires_at {
            MaybeUndefined::Value(day) => Some(day),
            MaybeUndefined::Undefined | MaybeUndefined::Null => None,
        };
        let (group_id, level) = (body.group_id, body.group_access);
        let created = shares::share(&self.backend, &access, group_id, level, expires_at).await?;
        Ok(share(&created))
    }

    async fn unshare_project(&self, access: ProjectAccess, request: UnshareProjectRequest) -> Result<()> {
        let condition = request.if_unmodified_since;
        shares::unshare(&self.backend, &access, request.group_id, condition.as_deref()).await
    }
}
