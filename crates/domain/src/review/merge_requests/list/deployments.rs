//! Conditions on the deployments that shipped a merge request.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect, QueryTrait};
use storage::entities::issuables::IssuableKind;
use storage::entities::row_conditions::has_rows;
use storage::entities::selectivity::TARGET_ID;
use storage::entities::{deployment_merge_requests as links, deployments, environments};

use crate::planning::issuables::ListScope;
use crate::planning::issuables::list::{ConditionSet, IndexedCondition, between_times, projects_of};

/// Filter by deployment. One deployment must match all values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentFilter {
    /// ID of the deployment. The caller must be able to read it.
    pub id: Option<i64>,
    /// Name of the environment.
    pub environment: Option<String>,
    /// Earliest time at which the deployment finished.
    pub deployed_after: Option<DateTime<Utc>>,
    /// Latest time at which the deployment finished.
    pub deployed_before: Option<DateTime<Utc>>,
}

impl DeploymentFilter {
    /// Returns whether the filter selects deployments by their attributes, which the caller may be unable to read.
    pub(super) fn reads_deployments(&self) -> bool {
        self.environment.is_some() || self.has_times()
    }

    fn has_times(&self) -> bool {
        self.deployed_after.is_some() || self.deployed_before.is_some()
    }

    /// Adds the condition, if there is one.
    pub(super) fn add_to(&self, scope: ListScope, set: &mut ConditionSet) {
        if self.id.is_none() && !self.reads_deployments() {
            return;
        }
        let mut row = self.row(scope);
        let condition = IndexedCondition {
            ids: self.lookup(scope, set),
            test: Condition::all().add(has_rows(&mut row)),
            own: None,
            in_matches: None,
        };
        set.add(condition);
    }

    /// Returns the query for the IDs of the merge requests that the deployments shipped.
    fn lookup(&self, scope: ListScope, set: &ConditionSet) -> SelectStatement {
        let mut rows = Query::select();
        rows.expr_as(links::Column::MergeRequestId.into_expr(), TARGET_ID);
        let (id, environment_id) = match self.has_times() {
            true => {
                // SQLite reads the tables of a cross join in this order, and thus looks up the times.
                rows.from(deployments::Entity)
                    .cross_join(links::Entity)
                    .and_where(is_link_of_deployment())
                    .cond_where(self.times());
                (
                    deployments::Column::Id.into_expr(),
                    deployments::Column::EnvironmentId.into_expr(),
                )
            }
            false => {
                rows.from(links::Entity);
                (
                    links::Column::DeploymentId.into_expr(),
                    links::Column::EnvironmentId.into_expr(),
                )
            }
        };
        if let Some(deployment_id) = self.id {
            rows.and_where(id.eq(deployment_id));
        }
        if let Some(name) = &self.environment {
            rows.and_where(set.id_in(environment_id, environments_named(scope, name)));
        }
        rows
    }

    /// Returns the query for the links of a merge request that is checked.
    fn row(&self, scope: ListScope) -> SelectStatement {
        let merge_request_id = links::Column::MergeRequestId.into_expr();
        let mut row = Query::select();
        row.expr(Expr::val(1))
            .from(links::Entity)
            .and_where(merge_request_id.eq(IssuableKind::MergeRequest.column("id")));
        if let Some(id) = self.id {
            row.and_where(links::Column::DeploymentId.into_expr().eq(id));
        }
        if let Some(name) = &self.environment {
            // By an index of the column, SQLite would look up each environment of that name for each row.
            let environment_id = links::Column::EnvironmentId.into_expr().add(0);
            row.and_where(environment_id.in_subquery(environments_named(scope, name)));
        }
        if self.has_times() {
            row.cross_join(deployments::Entity)
                .and_where(is_link_of_deployment())
                .cond_where(self.times());
        }
        row
    }

    fn times(&self) -> Condition {
        let finished_at = deployments::Column::FinishedAt.into_expr();
        between_times(&finished_at, self.deployed_after, self.deployed_before)
    }
}

/// Matches a link and its deployment.
fn is_link_of_deployment() -> Expr {
    let deployment_id = links::Column::DeploymentId.into_expr();
    deployment_id.eq(deployments::Column::Id.into_expr())
}

/// Returns the query for the IDs of the environments with a name in the projects of a list.
fn environments_named(scope: ListScope, name: &str) -> SelectStatement {
    let project = environments::Column::ProjectId;
    let in_scope = match scope {
        ListScope::Instance => None,
        ListScope::Project(id) => Some(project.eq(id)),
        ListScope::Group(id) => Some(project.in_subquery(projects_of(id).into_query())),
    };
    environments::Entity::find()
        .select_only()
        .column(environments::Column::Id)
        .filter(environments::Column::Name.eq(name))
        .filter(Condition::all().add_option(in_scope))
        .into_query()
}
