//! Issues of epics.

use domain::identity::access::GroupAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::planning::epics::issues::{self, Neighbours};

use crate::api::routes::EpicIssuesApi;
use crate::app::App;
use crate::views::planning::epic::{gathered, link};
use contract::{
    AddEpicIssueRequest, EpicIssueLink, Issue, ListEpicIssuesRequest, MoveEpicIssueRequest,
    RemoveEpicIssueRequest,
};

impl EpicIssuesApi for App {
    async fn list_epic_issues(
        &self,
        access: GroupAccess,
        request: ListEpicIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let page = issues::list(&self.backend, &access.into(), request.epic_iid, &page).await?;
        Ok(page.map(|found| gathered(&self.backend.instance, found)))
    }

    async fn add_epic_issue(
        &self,
        access: GroupAccess,
        request: AddEpicIssueRequest,
    ) -> Result<EpicIssueLink> {
        let (iid, issue) = (request.epic_iid, request.epic_issue_id);
        let (epic, added) = issues::add(&self.backend, &access.into(), iid, issue).await?;
        Ok(link(&self.backend.instance, epic, added))
    }

    async fn move_epic_issue(
        &self,
        access: GroupAccess,
        request: MoveEpicIssueRequest,
    ) -> Result<Vec<Issue>> {
        let between = Neighbours {
            before: request.body.move_before_id,
            after: request.body.move_after_id,
        };
        let (iid, moved) = (request.epic_iid, request.epic_issue_id);
        let all = issues::reorder(&self.backend, &access.into(), iid, moved, between).await?;
        let shown = all
            .into_iter()
            .map(|found| gathered(&self.backend.instance, found));
        Ok(shown.collect())
    }

    async fn remove_epic_issue(
        &self,
        access: GroupAccess,
        request: RemoveEpicIssueRequest,
    ) -> Result<EpicIssueLink> {
        let (iid, removed) = (request.epic_iid, request.epic_issue_id);
        let (epic, former) = issues::remove(&self.backend, &access.into(), iid, removed).await?;
        Ok(link(&self.backend.instance, epic, former))
    }
}
