//! Events.

use domain::activity::events::listing::{self, EventDetail, EventFilter};
use domain::identity::access::{InstanceAccess, ProjectAccess, UserAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::EventsApi;
use crate::app::App;
use crate::views;
use crate::views::enums::Convert;
use contract::{
    Event, EventAction, EventTargetType, ListEventsRequest, ListProjectEventsRequest, ListUserEventsRequest,
    SortDirection,
};

impl EventsApi for App {
    async fn list_events(
        &self,
        access: InstanceAccess,
        request: ListEventsRequest,
        page: PageRequest,
    ) -> Result<Page<Event>> {
        let filter = EventFilter {
            before: request.before,
            after: request.after,
            ..filter(request.action, request.target_type, request.sort)
        };
        let all_users = request.scope.is_some();
        let page = listing::list_own(&self.backend, &access.caller, all_users, filter, &page).await?;
        Ok(self.events(page))
    }

    async fn list_user_events(
        &self,
        access: UserAccess,
        request: ListUserEventsRequest,
        page: PageRequest,
    ) -> Result<Page<Event>> {
        let filter = EventFilter {
            before: request.before,
            after: request.after,
            ..filter(request.action, request.target_type, request.sort)
        };
        let page = listing::list_of_user(&self.backend, &access, filter, &page).await?;
        Ok(self.events(page))
    }

    async fn list_project_events(
        &self,
        access: ProjectAccess,
        request: ListProjectEventsRequest,
        page: PageRequest,
    ) -> Result<Page<Event>> {
        let filter = EventFilter {
            before: request.before,
            after: request.after,
            ..filter(request.action, request.target_type, request.sort)
        };
        let page = listing::list_of_project(&self.backend, &access, filter, &page).await?;
        Ok(self.events(page))
    }
}

impl App {
    fn events(&self, page: Page<EventDetail>) -> Page<Event> {
        page.map(|detail| views::activity::events::event(detail, &self.backend.instance.base_url))
    }
}

fn filter(
    action: Option<EventAction>,
    target: Option<EventTargetType>,
    sort: Option<SortDirection>,
) -> EventFilter {
    EventFilter {
        action: action.map(Convert::convert),
        target_types: target.map(views::activity::events::target_types),
        ascending: sort == Some(SortDirection::Asc),
        ..EventFilter::default()
    }
}
