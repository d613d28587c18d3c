//! User lists for feature flags of projects.

use domain::delivery::feature_flag_user_lists as lists;
use domain::delivery::feature_flag_user_lists::UserListUpdate;
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::FeatureFlagUserListsApi;
use crate::app::App;
use crate::views::delivery::feature_flag::user_list;
use contract::{
    CreateFeatureFlagUserListRequest, DeleteFeatureFlagUserListRequest, FeatureFlagUserList,
    GetFeatureFlagUserListRequest, UpdateFeatureFlagUserListRequest,
};

impl FeatureFlagUserListsApi for App {
    async fn list_feature_flag_user_lists(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<FeatureFlagUserList>> {
        let page = lists::list(&self.backend, &access, &page).await?;
        Ok(page.map(user_list))
    }

    async fn create_feature_flag_user_list(
        &self,
        access: ProjectAccess,
        request: CreateFeatureFlagUserListRequest,
    ) -> Result<FeatureFlagUserList> {
        let body = request.body;
        let new = UserListUpdate {
            name: Some(body.name),
            user_xids: Some(body.user_xids),
        };
        let created = lists::create(&self.backend, &access, new).await?;
        Ok(user_list(created))
    }

    async fn get_feature_flag_user_list(
        &self,
        access: ProjectAccess,
        request: GetFeatureFlagUserListRequest,
    ) -> Result<FeatureFlagUserList> {
        let found = lists::get(&self.backend, &access, request.iid).await?;
        Ok(user_list(found))
    }

    async fn update_feature_flag_user_list(
        &self,
        access: ProjectAccess,
        request: UpdateFeatureFlagUserListRequest,
    ) -> Result<FeatureFlagUserList> {
        let change = UserListUpdate {
            name: request.body.name,
            user_xids: request.body.user_xids,
        };
        let changed = lists::update(&self.backend, &access, request.iid, change).await?;
        Ok(user_list(changed))
    }

    async fn delete_feature_flag_user_list(
        &self,
        access: ProjectAccess,
        request: DeleteFeatureFlagUserListRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        lists::delete(&self.backend, &access, request.iid, since.as_deref()).await
    }
}
