//! Statistics of the instance, of projects and of issues.

use domain::code::fetch_statistics;
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::instance::statistics;
use domain::kernel::error::Result;
use domain::planning::issuables::{IssuableScope, ListScope};
use domain::planning::issues;

use crate::api::routes::StatisticsApi;
use crate::app::App;
use crate::handlers::planning::issues::issue_filter;
use crate::views::instance::statistics as view;
use contract::{
    ApplicationStatistics, GetGroupIssueStatisticsRequest, GetIssueStatisticsRequest,
    GetProjectIssueStatisticsRequest, IssueStatistics, ProjectFetches,
};

impl StatisticsApi for App {
    async fn get_application_statistics(&self, _: InstanceAccess) -> Result<ApplicationStatistics> {
        Ok(view::application(statistics::get(&self.backend).await?))
    }

    async fn get_project_statistics(&self, access: ProjectAccess) -> Result<ProjectFetches> {
        Ok(view::project(
            fetch_statistics::get(&self.backend, &access).await?,
        ))
    }

    async fn get_issue_statistics(
        &self,
        access: InstanceAccess,
        request: GetIssueStatisticsRequest,
    ) -> Result<IssueStatistics> {
        let mut filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        filter.shared.non_archived = request.non_archived;
        filter.shared.scope.get_or_insert(IssuableScope::CreatedByMe);
        let scope = ListScope::Instance;
        let counts = issues::count_by_state(&self.backend, &access.caller, scope, &filter).await?;
        Ok(view::issues(counts))
    }

    async fn get_group_issue_statistics(
        &self,
        access: GroupAccess,
        request: GetGroupIssueStatisticsRequest,
    ) -> Result<IssueStatistics> {
        let mut filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        filter.shared.non_archived = request.non_archived;
        let scope = ListScope::Group(access.group.id);
        let counts = issues::count_by_state(&self.backend, &access.caller, scope, &filter).await?;
        Ok(view::issues(counts))
    }

    async fn get_project_issue_statistics(
        &self,
        access: ProjectAccess,
        request: GetProjectIssueStatisticsRequest,
    ) -> Result<IssueStatistics> {
        let filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        let scope = ListScope::Project(access.project.id);
        let counts = issues::count_by_state(&self.backend, &access.caller, scope, &filter).await?;
        Ok(view::issues(counts))
    }
}
