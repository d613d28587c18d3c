//! Events.

use domain::activity::events::listing::{self, Filter, Happened};
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
        let filter = Filter {
            before: request.before,
            after: request.after,
            ..filter(request.action, request.target_type, request.sort)
        };
        let everybody = request.scope.is_some();
        let page = listing::own(&self.backend, &access.caller, everybody, filter, &page).await?;
        Ok(self.events(page))
    }

    async fn list_user_events(
        &self,
        access: UserAccess,
        request: ListUserEventsRequest,
        page: PageRequest,
    ) -> Result<Page<Event>> {
        let filter = Filter {
            before: request.before,
            after: request.after,
            ..filter(request.action, request.target_type, request.sort)
        };
        let page = listing::of_user(&self.backend, &access, filter, &page).await?;
        Ok(self.events(page))
    }

    async fn list_project_events(
        &self,
        access: ProjectAccess,
        request: ListProjectEventsRequest,
        page: PageRequest,
    ) -> Result<Page<Event>> {
        let filter = Filter {
            before: request.before,
            after: request.after,
            ..filter(request.action, request.target_type, request.sort)
        };
        let page = listing::of_project(&self.backend, &access, filter, &page).await?;
        Ok(self.events(page))
    }
}

impl App {
    fn events(&self, page: Page<Happened>) -> Page<Event> {
        page.map(|happened| views::activity::events::event(happened, &self.backend.instance.base_url))
    }
}

fn filter(
    action: Option<EventAction>,
    target: Option<EventTargetType>,
    sort: Option<SortDirection>,
) -> Filter {
    Filter {
        action: action.map(Convert::convert),
        targets: target.map(views::activity::events::target_types),
        ascending: sort == Some(SortDirection::Asc),
        ..Filter::default()
    }
}
