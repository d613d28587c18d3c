//! Links between issues.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::planning::issues::links::{self, NewIssueLink};

use crate::api::routes::IssueLinksApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::planning::issue_link::{issue_link, linked_issue};
use contract::{
    CreateIssueLinkRequest, DeleteIssueLinkRequest, GetIssueLinkRequest, Issue, IssueLink,
    ListIssueLinksRequest,
};

impl IssueLinksApi for App {
    async fn list_issue_links(
        &self,
        access: ProjectAccess,
        request: ListIssueLinksRequest,
    ) -> Result<Vec<Issue>> {
        let linked = links::list(&self.backend, &access, request.issue_iid).await?;
        let linked = linked.into_iter();
        Ok(linked
            .map(|issue| linked_issue(&self.backend.instance, issue))
            .collect())
    }

    async fn create_issue_link(
        &self,
        access: ProjectAccess,
        request: CreateIssueLinkRequest,
    ) -> Result<IssueLink> {
        let body = request.body;
        let new = NewIssueLink {
            target_project: body.target_project_id,
            target_iid: body.target_issue_iid,
            link_type: body.link_type.map(Convert::convert).unwrap_or_default(),
        };
        let link = links::create(&self.backend, &access, request.issue_iid, new).await?;
        Ok(issue_link(&self.backend.instance, link))
    }

    async fn get_issue_link(&self, access: ProjectAccess, request: GetIssueLinkRequest) -> Result<IssueLink> {
        let (iid, id) = (request.issue_iid, request.issue_link_id);
        let link = links::get(&self.backend, &access, iid, id).await?;
        Ok(issue_link(&self.backend.instance, link))
    }

    async fn delete_issue_link(
        &self,
        access: ProjectAccess,
        request: DeleteIssueLinkRequest,
    ) -> Result<IssueLink> {
        let (iid, id) = (request.issue_iid, request.issue_link_id);
        let unmodified_since = request.if_unmodified_since.as_deref();
        let link = links::delete(&self.backend, &access, iid, id, unmodified_since).await?;
        Ok(issue_link(&self.backend.instance, link))
    }
}
