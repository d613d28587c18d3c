//! Common code of group members and project members, which differ only in their operation names.

use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::spaces::members::{self, MemberFilter, MemberSource, Membership};

use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::spaces::member::member;
use contract::{Member, MemberCreate, MemberUpdate};

/// Returns the filter of a list.
pub(crate) fn member_filter(filter: contract::MemberFilter) -> MemberFilter {
    MemberFilter {
        query: filter.query,
        user_ids: filter.user_ids,
    }
}

impl App {
    fn member(&self, found: Membership) -> Member {
        member(&self.backend.instance.base_url, found)
    }

    pub(crate) async fn members(
        &self,
        source: impl Into<MemberSource>,
        filter: MemberFilter,
        page: PageRequest,
    ) -> Result<Page<Member>> {
        let page = members::list(&self.backend, &source.into(), &filter, &page).await?;
        Ok(page.map(|found| self.member(found)))
    }

    pub(crate) async fn all_members(
        &self,
        source: impl Into<MemberSource>,
        filter: MemberFilter,
        page: PageRequest,
    ) -> Result<Page<Member>> {
        let page = members::list_all(&self.backend, &source.into(), &filter, &page).await?;
        Ok(page.map(|found| self.member(found)))
    }

    pub(crate) async fn direct_member(
        &self,
        source: impl Into<MemberSource>,
        user_id: i64,
    ) -> Result<Member> {
        let found = members::get_direct(&self.backend, &source.into(), user_id).await?;
        Ok(self.member(found))
    }

    pub(crate) async fn any_member(&self, source: impl Into<MemberSource>, user_id: i64) -> Result<Member> {
        let found = members::get_any(&self.backend, &source.into(), user_id).await?;
        Ok(self.member(found))
    }

    pub(crate) async fn add_member(
        &self,
        source: impl Into<MemberSource>,
        new: MemberCreate,
    ) -> Result<Member> {
        let ends = new.expires_at.take();
        let added = members::add(&self.backend, &source.into(), new.user_id, new.access_level, ends).await?;
        Ok(self.member(added))
    }

    pub(crate) async fn update_member(
        &self,
        source: impl Into<MemberSource>,
        user_id: i64,
        change: MemberUpdate,
    ) -> Result<Member> {
        let (level, ends) = (change.access_level, change.expires_at.into_patch());
        let changed = members::update(&self.backend, &source.into(), user_id, level, ends).await?;
        Ok(self.member(changed))
    }

    pub(crate) async fn remove_member(
        &self,
        source: impl Into<MemberSource>,
        user_id: i64,
        condition: Option<String>,
    ) -> Result<()> {
        members::remove(&self.backend, &source.into(), user_id, condition.as_deref()).await
    }

    pub(crate) async fn override_member(
        &self,
        source: impl Into<MemberSource>,
        user_id: i64,
        overridden: bool,
    ) -> Result<Member> {
        let found = members::set_override(&self.backend, &source.into(), user_id, overridden).await?;
        Ok(self.member(found))
    }
}
