//! Epics of groups.

use domain::identity::access::GroupAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::planning::epics::{
    self, EpicDetail, EpicFilter, EpicLabelUpdate, EpicOrder, EpicUpdate, NewEpic,
};
use domain::planning::labels;
use domain::planning::state_event::StateEvent;

use crate::api::routes::EpicsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::planning::epic::{EpicViewOptions, epic};
use crate::views::planning::issue::state_filter;
use contract::timestamp::Timestamp;
use contract::{
    CreateEpicRequest, DeleteEpicRequest, Epic, GetEpicRequest, IssueStateEvent, ListEpicsRequest,
    SortDirection, UpdateEpicRequest,
};

/// Returns the filter of a list of epics.
fn epic_filter(request: ListEpicsRequest) -> EpicFilter {
    EpicFilter {
        author_id: request.author_id,
        author_username: request.author_username,
        labels: request.labels.unwrap_or_default(),
        search: request.search,
        state: request.state.and_then(state_filter),
        created_after: request.created_after.map(Timestamp::to_utc),
        created_before: request.created_before.map(Timestamp::to_utc),
        updated_after: request.updated_after.map(Timestamp::to_utc),
        updated_before: request.updated_before.map(Timestamp::to_utc),
        my_reaction_emoji: request.my_reaction_emoji,
        iids: request.iids,
        confidential: request.confidential,
        descendants: request.include_descendant_groups,
        ancestors: request.include_ancestor_groups,
        order: match request.order_by {
            None | Some(contract::EpicOrder::CreatedAt) => EpicOrder::CreatedAt,
            Some(contract::EpicOrder::UpdatedAt) => EpicOrder::UpdatedAt,
            Some(contract::EpicOrder::Title) => EpicOrder::Title,
        },
        ascending: request.sort == Some(SortDirection::Asc),
    }
}

impl App {
    /// Returns an epic as shown in its own group.
    fn epic(&self, detail: EpicDetail) -> Epic {
        let options = EpicViewOptions {
            group_id: detail.epic.namespace_id,
            labels_details: false,
        };
        epic(&self.backend.instance.base_url, detail, options)
    }
}

impl EpicsApi for App {
    async fn list_epics(
        &self,
        access: GroupAccess,
        request: ListEpicsRequest,
        page: PageRequest,
    ) -> Result<Page<Epic>> {
        let options = EpicViewOptions {
            group_id: access.group.id,
            labels_details: request.with_labels_details,
        };
        let caller = access.caller.clone();
        let page = epics::list(&self.backend, &access.into(), &epic_filter(request), &page).await?;
        if options.labels_details {
            labels::reserve_descriptions(&caller, page.items.iter().flat_map(|detail| &detail.labels))?;
        }
        Ok(page.map(|detail| epic(&self.backend.instance.base_url, detail, options)))
    }

    async fn create_epic(&self, access: GroupAccess, request: CreateEpicRequest) -> Result<Epic> {
        let body = request.body;
        let new = NewEpic {
            title: body.title,
            description: body.description,
            labels: body.labels.unwrap_or_default(),
            start_date: body.start_date,
            due_date: body.due_date,
            confidential: body.confidential,
            parent_id: body.parent_id,
            created_at: body.created_at.map(Timestamp::to_utc),
        };
        Ok(self.epic(epics::create(&self.backend, &access.into(), new).await?))
    }

    async fn get_epic(&self, access: GroupAccess, request: GetEpicRequest) -> Result<Epic> {
        let detail = epics::get(&self.backend, &access.into(), request.epic_iid).await?;
        Ok(self.epic(detail))
    }

    async fn update_epic(&self, access: GroupAccess, request: UpdateEpicRequest) -> Result<Epic> {
        let body = request.body;
        let update = EpicUpdate {
            title: body.title,
            description: body.description.into_patch(),
            labels: EpicLabelUpdate {
                all: body.labels.into_patch(),
                add: body.add_labels,
                remove: body.remove_labels,
            },
            start_date: body.start_date.into_patch(),
            due_date: body.due_date.into_patch(),
            confidential: body.confidential,
            parent_id: body.parent_id.into_patch(),
            state_event: body.state_event.map(|event| match event {
                IssueStateEvent::Close => StateEvent::Close,
                IssueStateEvent::Reopen => StateEvent::Reopen,
            }),
            updated_at: body.updated_at.map(Timestamp::to_utc),
        };
        let detail = epics::update(&self.backend, &access.into(), request.epic_iid, update).await?;
        Ok(self.epic(detail))
    }

    async fn delete_epic(&self, access: GroupAccess, request: DeleteEpicRequest) -> Result<()> {
        let unmodified_since = request.if_unmodified_since.as_deref();
        epics::delete(&self.backend, &access.into(), request.epic_iid, unmodified_since).await
    }
}
