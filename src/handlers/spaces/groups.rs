//! Groups: list, create, get, update, transfer, share and delete.

use domain::accounts::uploads::UploadedFile;
use domain::accounts::{avatars, custom_attributes};
use domain::identity::access::{GroupAccess, InstanceAccess};
use domain::kernel::caller::Caller;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::lifecycle::{deletion, transfer};
use domain::spaces::groups::{self, GroupUpdate, HierarchyPart, NewGroup};
use domain::spaces::projects::{self, GroupProjects};

use crate::api::routes::GroupsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views;
use crate::views::enums::Convert;
use crate::views::spaces::group::{detail, group};
use crate::views::spaces::project::ProjectViewOptions;
use contract::{
    CreateGroupRequest, DeleteGroupRequest, GetGroupRequest, Group, GroupFilter, GroupOrder,
    GroupProjectFilter, GroupSettings, ListDescendantGroupsRequest, ListDescendantsRequest,
    ListGroupProjectsRequest, ListGroupSharedProjectsRequest, ListGroupsRequest, ListSubgroupsRequest,
    Message, Project, ShareGroupRequest, SortDirection, TransferGroupRequest, TransferProjectToGroupRequest,
    UnshareGroupRequest, UpdateGroupRequest,
};

/// Returns the filter of a list.
fn group_filter(filter: GroupFilter, within: HierarchyPart) -> groups::GroupFilter {
    groups::GroupFilter {
        within,
        skip_groups: filter.skip_groups.unwrap_or_default(),
        all_available: filter.all_available,
        search: filter.search,
        owned: filter.owned,
        min_access_level: filter.min_access_level,
        top_level_only: false,
        custom_attributes: filter.custom_attributes.unwrap_or_default().into_iter().collect(),
        statistics: filter.statistics,
        order: match filter.order_by {
            None | Some(GroupOrder::Name) => groups::GroupOrder::Name,
            Some(GroupOrder::Path) => groups::GroupOrder::Path,
            Some(GroupOrder::Id) => groups::GroupOrder::Id,
        },
        descending: filter.sort == Some(SortDirection::Desc),
    }
}

/// Returns the filter and the additional attributes of a list of projects of a group.
fn project_filter(
    group: GroupProjects,
    filter: GroupProjectFilter,
) -> (projects::ProjectFilter, ProjectViewOptions) {
    let parts = ProjectViewOptions {
        simple: filter.simple,
        custom_attributes: filter.with_custom_attributes,
        ..ProjectViewOptions::default()
    };
    let filter = projects::ProjectFilter {
        of_group: Some(group),
        archived: filter.archived,
        visibility: filter.visibility.map(Convert::convert),
        search: filter.search,
        owned: filter.owned,
        starred: filter.starred,
        topics: filter.topic.unwrap_or_default(),
        with_issues_enabled: filter.with_issues_enabled,
        with_merge_requests_enabled: filter.with_merge_requests_enabled,
        min_access_level: filter.min_access_level,
        order: crate::handlers::spaces::projects::order(filter.order_by),
        ascending: filter.sort == Some(SortDirection::Asc),
        ..projects::ProjectFilter::default()
    };
    (filter, parts)
}

/// Returns the settings in a body.
fn group_settings(description: Option<String>, settings: GroupSettings) -> groups::GroupSettings {
    groups::GroupSettings {
        description,
        share_with_group_lock: settings.share_with_group_lock,
        membership_lock: settings.membership_lock,
        require_two_factor_authentication: settings.require_two_factor_authentication,
        two_factor_grace_period: settings.two_factor_grace_period,
        project_creation_level: settings.project_creation_level.map(Convert::convert),
        subgroup_creation_level: settings.subgroup_creation_level.map(Convert::convert),
        auto_devops_enabled: settings.auto_devops_enabled.into_patch(),
        emails_disabled: settings.emails_disabled.into_patch(),
        mentions_disabled: settings.mentions_disabled.into_patch(),
        lfs_enabled: settings.lfs_enabled,
        default_branch_protection: settings.default_branch_protection,
        default_branch: settings.default_branch.into_patch(),
        request_access_enabled: settings.request_access_enabled,
    }
}

impl App {
    async fn groups(
        &self,
        caller: &Caller,
        filter: groups::GroupFilter,
        page: PageRequest,
        attributes: bool,
    ) -> Result<Page<Group>> {
        let page = groups::list(&self.backend, caller, &filter, &page).await?;
        let ids = page.items.iter().map(|row| row.group.id);
        let mut attached = match attributes {
            true => custom_attributes::of_groups(&self.backend, caller, ids).await?,
            false => None,
        };
        Ok(page.map(|row| {
            let own = attached.as_mut().map(|all| all.remove(&row.group.id));
            group(&self.backend.instance, row, own.map(Option::unwrap_or_default))
        }))
    }

    /// Returns a group after it was created or updated.
    async fn group(&self, access: GroupAccess) -> Result<Group> {
        let read = groups::get(&self.backend, access, true, false).await?;
        Ok(detail(&self.backend.instance, read, None))
    }
}

impl GroupsApi for App {
    async fn list_groups(
        &self,
        access: InstanceAccess,
        request: ListGroupsRequest,
        page: PageRequest,
    ) -> Result<Page<Group>> {
        let filter = groups::GroupFilter {
            top_level_only: request.top_level_only,
            ..group_filter(request.group_filter, HierarchyPart::Everything)
        };
        let attributes = request.with_custom_attributes;
        self.groups(&access.caller, filter, page, attributes).await
    }

    async fn list_subgroups(
        &self,
        access: GroupAccess,
        request: ListSubgroupsRequest,
        page: PageRequest,
    ) -> Result<Page<Group>> {
        let filter = group_filter(request.group_filter, HierarchyPart::Parent(access.group.id));
        let attributes = request.with_custom_attributes;
        self.groups(&access.caller, filter, page, attributes).await
    }

    async fn list_descendant_groups(
        &self,
        access: GroupAccess,
        request: ListDescendantGroupsRequest,
        page: PageRequest,
    ) -> Result<Page<Group>> {
        let filter = group_filter(request.group_filter, HierarchyPart::Ancestor(access.group.id));
        let attributes = request.with_custom_attributes;
        self.groups(&access.caller, filter, page, attributes).await
    }

    async fn list_descendants(
        &self,
        access: GroupAccess,
        request: ListDescendantsRequest,
        page: PageRequest,
    ) -> Result<Page<Group>> {
        let filter = group_filter(request.group_filter, HierarchyPart::Ancestor(access.group.id));
        let attributes = request.with_custom_attributes;
        self.groups(&access.caller, filter, page, attributes).await
    }

    async fn list_group_projects(
        &self,
        access: GroupAccess,
        request: ListGroupProjectsRequest,
        page: PageRequest,
    ) -> Result<Page<Project>> {
        let group = GroupProjects::Inside {
            id: access.group.id,
            with_subgroups: request.include_subgroups,
            with_shared: request.with_shared,
        };
        let (filter, parts) = project_filter(group, request.group_project_filter);
        self.projects(&access.caller, filter, page, parts).await
    }

    async fn list_group_shared_projects(
        &self,
        access: GroupAccess,
        request: ListGroupSharedProjectsRequest,
        page: PageRequest,
    ) -> Result<Page<Project>> {
        let group = GroupProjects::SharedWith(access.group.id);
        let (filter, parts) = project_filter(group, request.group_project_filter);
        self.projects(&access.caller, filter, page, parts).await
    }

    async fn create_group(
        &self,
        access: InstanceAccess,
        request: CreateGroupRequest,
        picture: Option<UploadedFile>,
    ) -> Result<Group> {
        let picture = avatars::validate(picture).await?;
        let body = request.body;
        let new = NewGroup {
            settings: group_settings(body.description, body.group_settings),
            name: body.name,
            path: body.path,
            parent_id: body.parent_id,
            visibility: body.visibility.map(Convert::convert),
        };
        let mut group_row = groups::create(&self.backend, &access.caller, new).await?;
        if picture.is_some() {
            group_row = avatars::set(&self.backend, group_row, picture).await?;
        }
        self.group(group_row).await
    }

    async fn get_group(&self, access: GroupAccess, request: GetGroupRequest) -> Result<Group> {
        let id = access.group.id;
        let attached = match request.with_custom_attributes {
            true => custom_attributes::of_groups(&self.backend, &access.caller, [id]).await?,
            false => None,
        };
        let own = attached.map(|mut all| all.remove(&id).unwrap_or_default());
        let read = groups::get(&self.backend, access, request.with_projects, request.statistics).await?;
        Ok(detail(&self.backend.instance, read, own))
    }

    async fn update_group(
        &self,
        access: GroupAccess,
        request: UpdateGroupRequest,
        picture: Option<UploadedFile>,
    ) -> Result<Group> {
        let picture = avatars::validate(picture).await?;
        let body = request.body;
        // An empty text in place of the file removes the avatar.
        let pictured = picture.is_some() || body.avatar.is_some();
        let change = GroupUpdate {
            settings: group_settings(body.description, body.group_settings),
            name: body.name,
            path: body.path,
            visibility: body.visibility.map(Convert::convert),
            file_template_project_id: body.file_template_project_id.into_patch(),
        };
        let mut changed = groups::update(&self.backend, access, change).await?;
        if pictured {
            changed = avatars::set(&self.backend, changed, picture).await?;
        }
        self.group(changed).await
    }

    async fn delete_group(&self, access: GroupAccess, request: DeleteGroupRequest) -> Result<Message> {
        deletion::groups::delete(&self.backend, &access, request.if_unmodified_since.as_deref()).await?;
        Ok(views::accepted())
    }

    async fn restore_group(&self, access: GroupAccess) -> Result<Group> {
        let restored = deletion::groups::restore(&self.backend, access).await?;
        self.group(restored).await
    }

    async fn transfer_group(&self, access: GroupAccess, request: TransferGroupRequest) -> Result<Group> {
        let moved = transfer::groups::transfer(&self.backend, access, request.body.group_id.take()).await?;
        self.group(moved).await
    }

    async fn transfer_project_to_group(
        &self,
        access: GroupAccess,
        request: TransferProjectToGroupRequest,
    ) -> Result<Group> {
        transfer::groups::transfer_project(&self.backend, &access, &request.project_id).await?;
        self.group(access).await
    }

    async fn share_group(&self, access: GroupAccess, request: ShareGroupRequest) -> Result<Group> {
        let share = request.body;
        let ends = share.expires_at.take();
        let shared = groups::share(&self.backend, access, share.group_id, share.group_access, ends).await?;
        self.group(shared).await
    }

    async fn unshare_group(&self, access: GroupAccess, request: UnshareGroupRequest) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        groups::unshare(&self.backend, &access, request.group_id, condition).await
    }
}
