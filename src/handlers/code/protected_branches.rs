//! Protected branches of projects and groups.

use domain::code::protected_refs::access_lists::{EntryChange, NewAccessList};
use domain::code::protected_refs::branches::{self, BranchOwner, BranchRuleUpdate, NewBranchRule};
use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ProtectedBranchesApi;
use crate::app::App;
use crate::views::code::protection::branch_protection;
use contract::{
    BranchProtection, BranchProtectionCreate, BranchProtectionUpdate, CreateBranchProtectionRequest,
    CreateGroupBranchProtectionRequest, DeleteBranchProtectionRequest, DeleteGroupBranchProtectionRequest,
    GetBranchProtectionRequest, GetGroupBranchProtectionRequest, GroupBranchProtectionCreate,
    GroupBranchProtectionUpdate, GroupProtectionAccessInput, GroupProtectionAccessUpdate,
    ListBranchProtectionsRequest, ListGroupBranchProtectionsRequest, ProtectionAccessInput,
    ProtectionAccessUpdate, UpdateBranchProtectionRequest, UpdateGroupBranchProtectionRequest,
};

impl ProtectedBranchesApi for App {
    async fn list_branch_protections(
        &self,
        access: ProjectAccess,
        request: ListBranchProtectionsRequest,
        page: PageRequest,
    ) -> Result<Page<BranchProtection>> {
        let (owner, search) = (BranchOwner::Project(&access), request.search.as_deref());
        let page = branches::list(&self.backend, owner, search, &page).await?;
        Ok(page.map(branch_protection))
    }

    async fn create_branch_protection(
        &self,
        access: ProjectAccess,
        request: CreateBranchProtectionRequest,
    ) -> Result<BranchProtection> {
        let (owner, new) = (BranchOwner::Project(&access), new_rule(request.body));
        let created = branches::create(&self.backend, owner, new).await?;
        Ok(branch_protection(created))
    }

    async fn get_branch_protection(
        &self,
        access: ProjectAccess,
        request: GetBranchProtectionRequest,
    ) -> Result<BranchProtection> {
        let owner = BranchOwner::Project(&access);
        let found = branches::get(&self.backend, owner, &request.name).await?;
        Ok(branch_protection(found))
    }

    async fn update_branch_protection(
        &self,
        access: ProjectAccess,
        request: UpdateBranchProtectionRequest,
    ) -> Result<BranchProtection> {
        let (owner, change) = (BranchOwner::Project(&access), rule_update(request.body));
        let changed = branches::update(&self.backend, owner, &request.name, change).await?;
        Ok(branch_protection(changed))
    }

    async fn delete_branch_protection(
        &self,
        access: ProjectAccess,
        request: DeleteBranchProtectionRequest,
    ) -> Result<()> {
        let (owner, since) = (
            BranchOwner::Project(&access),
            request.if_unmodified_since.as_deref(),
        );
        branches::delete(&self.backend, owner, &request.name, since).await
    }

    async fn list_group_branch_protections(
        &self,
        access: GroupAccess,
        request: ListGroupBranchProtectionsRequest,
        page: PageRequest,
    ) -> Result<Page<BranchProtection>> {
        let (owner, search) = (BranchOwner::Group(&access), request.search.as_deref());
        let page = branches::list(&self.backend, owner, search, &page).await?;
        Ok(page.map(branch_protection))
    }

    async fn create_group_branch_protection(
        &self,
        access: GroupAccess,
        request: CreateGroupBranchProtectionRequest,
    ) -> Result<BranchProtection> {
        let (owner, new) = (BranchOwner::Group(&access), new_group_rule(request.body));
        let created = branches::create(&self.backend, owner, new).await?;
        Ok(branch_protection(created))
    }

    async fn get_group_branch_protection(
        &self,
        access: GroupAccess,
        request: GetGroupBranchProtectionRequest,
    ) -> Result<BranchProtection> {
        let owner = BranchOwner::Group(&access);
        let found = branches::get(&self.backend, owner, &request.name).await?;
        Ok(branch_protection(found))
    }

    async fn update_group_branch_protection(
        &self,
        access: GroupAccess,
        request: UpdateGroupBranchProtectionRequest,
    ) -> Result<BranchProtection> {
        let (owner, change) = (BranchOwner::Group(&access), group_rule_update(request.body));
        let changed = branches::update(&self.backend, owner, &request.name, change).await?;
        Ok(branch_protection(changed))
    }

    async fn delete_group_branch_protection(
        &self,
        access: GroupAccess,
        request: DeleteGroupBranchProtectionRequest,
    ) -> Result<()> {
        let (owner, since) = (
            BranchOwner::Group(&access),
            request.if_unmodified_since.as_deref(),
        );
        branches::delete(&self.backend, owner, &request.name, since).await
    }
}

fn new_rule(body: BranchProtectionCreate) -> NewBranchRule {
    NewBranchRule {
        name: body.name,
        push: access_list(body.push_access_level, body.allowed_to_push),
        merge: access_list(body.merge_access_level, body.allowed_to_merge),
        unprotect: access_list(body.unprotect_access_level, body.allowed_to_unprotect),
        allow_force_push: body.allow_force_push,
        code_owner_approval_required: body.code_owner_approval_required,
    }
}

/// Returns the access list of a new protection.
pub(super) fn access_list(level: Option<i64>, sent: Option<Vec<ProtectionAccessInput>>) -> NewAccessList {
    let entry = |sent: ProtectionAccessInput| EntryChange {
        access_level: sent.access_level,
        user_id: sent.user_id,
        group_id: sent.group_id,
        deploy_key_id: sent.deploy_key_id,
        ..EntryChange::default()
    };
    NewAccessList {
        level,
        entries: sent.unwrap_or_default().into_iter().map(entry).collect(),
    }
}

fn rule_update(body: BranchProtectionUpdate) -> BranchRuleUpdate {
    let entry = |sent: ProtectionAccessUpdate| EntryChange {
        id: sent.id,
        remove: sent.destroy,
        access_level: sent.access_level,
        user_id: sent.user_id,
        group_id: sent.group_id,
        deploy_key_id: sent.deploy_key_id,
    };
    let changes = |sent: Option<Vec<ProtectionAccessUpdate>>| {
        let sent = sent.unwrap_or_default().into_iter();
        sent.map(entry).collect()
    };
    BranchRuleUpdate {
        push: changes(body.allowed_to_push),
        merge: changes(body.allowed_to_merge),
        unprotect: changes(body.allowed_to_unprotect),
        allow_force_push: body.allow_force_push,
        code_owner_approval_required: body.code_owner_approval_required,
    }
}

fn new_group_rule(body: GroupBranchProtectionCreate) -> NewBranchRule {
    let list = |level: Option<i64>, sent: Option<Vec<GroupProtectionAccessInput>>| {
        let entry = |sent: GroupProtectionAccessInput| EntryChange {
            access_level: Some(sent.access_level),
            ..EntryChange::default()
        };
        NewAccessList {
            level,
            entries: sent.unwrap_or_default().into_iter().map(entry).collect(),
        }
    };
    NewBranchRule {
        name: body.name,
        push: list(body.push_access_level, body.allowed_to_push),
        merge: list(body.merge_access_level, body.allowed_to_merge),
        unprotect: list(body.unprotect_access_level, body.allowed_to_unprotect),
        allow_force_push: body.allow_force_push,
        code_owner_approval_required: body.code_owner_approval_required,
    }
}

fn group_rule_update(body: GroupBranchProtectionUpdate) -> BranchRuleUpdate {
    let entry = |sent: GroupProtectionAccessUpdate| EntryChange {
        id: sent.id,
        remove: sent.destroy,
        access_level: sent.access_level,
        ..EntryChange::default()
    };
    let changes = |sent: Option<Vec<GroupProtectionAccessUpdate>>| {
        let sent = sent.unwrap_or_default().into_iter();
        sent.map(entry).collect()
    };
    BranchRuleUpdate {
        push: changes(body.allowed_to_push),
        merge: changes(body.allowed_to_merge),
        unprotect: changes(body.allowed_to_unprotect),
        allow_force_push: body.allow_force_push,
        code_owner_approval_required: body.code_owner_approval_required,
    }
}
