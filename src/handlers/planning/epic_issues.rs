//! Issues of epics.

use domain::identity::access::GroupAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::planning::epics::issues::{self, ReorderTarget};

use crate::api::routes::EpicIssuesApi;
use crate::app::App;
use crate::views::planning::epic::{epic_issue, epic_issue_link};
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
        Ok(page.map(|issue| epic_issue(&self.backend.instance, issue)))
    }

    async fn add_epic_issue(
        &self,
        access: GroupAccess,
        request: AddEpicIssueRequest,
    ) -> Result<EpicIssueLink> {
        let (iid, issue_id) = (request.epic_iid, request.epic_issue_id);
        let (epic, added) = issues::add(&self.backend, &access.into(), iid, issue_id).await?;
        Ok(epic_issue_link(&self.backend.instance, epic, added))
    }

    async fn move_epic_issue(
        &self,
        access: GroupAccess,
        request: MoveEpicIssueRequest,
    ) -> Result<Vec<Issue>> {
        let target = ReorderTarget {
            before: request.body.move_before_id,
            after: request.body.move_after_id,
        };
        let (iid, association_id) = (request.epic_iid, request.epic_issue_id);
        let issues = issues::reorder(&self.backend, &access.into(), iid, association_id, target).await?;
        let issues = issues.into_iter();
        Ok(issues
            .map(|issue| epic_issue(&self.backend.instance, issue))
            .collect())
    }

    async fn remove_epic_issue(
        &self,
        access: GroupAccess,
        request: RemoveEpicIssueRequest,
    ) -> Result<EpicIssueLink> {
        let (iid, association_id) = (request.epic_iid, request.epic_issue_id);
        let (epic, removed) = issues::remove(&self.backend, &access.into(), iid, association_id).await?;
        Ok(epic_issue_link(&self.backend.instance, epic, removed))
    }
}
