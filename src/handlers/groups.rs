//! Groups: listed, made, read.

use crate::api::contract::{
    CreateGroupRequest, GetGroupRequest, Group, GroupOrder, GroupsApi, ListGroupsRequest, SortDirection,
};
use crate::api::types::Page;
use crate::app::App;
use crate::error::Result;
use crate::services::access::{GroupAccess, InstanceAccess};
use crate::services::groups::{self, Filter, NewGroup, Order};
use crate::views::group::{detail, group};

impl GroupsApi for App {
    async fn list_groups(&self, access: InstanceAccess, request: ListGroupsRequest) -> Result<Page<Group>> {
        let filter = Filter {
            skip_groups: request.skip_groups.unwrap_or_default(),
            all_available: request.all_available,
            search: request.search,
            owned: request.owned,
            min_access_level: request.min_access_level,
            top_level_only: request.top_level_only,
            statistics: request.statistics,
            order: match request.order_by {
                None | Some(GroupOrder::Name) => Order::Name,
                Some(GroupOrder::Path) => Order::Path,
                Some(GroupOrder::Id) => Order::Id,
            },
            descending: request.sort == Some(SortDirection::Desc),
        };
        let attributes = request.with_custom_attributes && access.caller.is_admin();
        let page = groups::list(&self.backend, &access.caller, &filter, &request.page).await?;
        Ok(page.map(|row| group(&self.backend.instance, row, attributes)))
    }

    async fn create_group(&self, access: InstanceAccess, request: CreateGroupRequest) -> Result<Group> {
        let body = request.body;
        let new = NewGroup {
            name: body.name,
            path: body.path,
            parent_id: body.parent_id,
            description: body.description,
            visibility: body.visibility.map(Into::into),
            share_with_group_lock: body.share_with_group_lock,
            require_two_factor_authentication: body.require_two_factor_authentication,
            two_factor_grace_period: body.two_factor_grace_period,
            project_creation_level: body.project_creation_level.map(Into::into),
            subgroup_creation_level: body.subgroup_creation_level.map(Into::into),
            auto_devops_enabled: body.auto_devops_enabled.take(),
            emails_disabled: body.emails_disabled.take(),
            mentions_disabled: body.mentions_disabled.take(),
            lfs_enabled: body.lfs_enabled,
            default_branch_protection: body.default_branch_protection,
            request_access_enabled: body.request_access_enabled,
        };
        let made = groups::create(&self.backend, &access.caller, new).await?;
        let read = groups::read(&self.backend, made, true).await?;
        Ok(detail(&self.backend.instance, read, false))
    }

    async fn get_group(&self, access: GroupAccess, request: GetGroupRequest) -> Result<Group> {
        let attributes = request.with_custom_attributes && access.caller.is_admin();
        let read = groups::read(&self.backend, access, request.with_projects).await?;
        Ok(detail(&self.backend.instance, read, attributes))
    }
}
