//! Lists of deployments.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, Condition, QueryFilter, QueryOrder};
use storage::entities::deployments::{self, Column, DeploymentStatus};
use storage::entities::row_conditions::by_code_points;

use super::{DeploymentDetail, load_details};
use crate::delivery::access::check_can_read_deployments;
use crate::delivery::environment_rows;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{at_or_before, page_of};

/// Sort order of deployments. Ties are sorted by ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeploymentOrder {
    /// By ID.
    #[default]
    Id,
    /// By IID.
    Iid,
    /// By time of creation.
    CreatedAt,
    /// By time of the last change.
    UpdatedAt,
    /// By name of the branch or tag.
    Ref,
}

/// Filter of deployments.
#[derive(Debug, Clone, Default)]
pub struct DeploymentFilter {
    /// Name of the environment.
    pub environment: Option<String>,
    /// Status of the deployments.
    pub status: Option<DeploymentStatus>,
    /// Earliest time of the last change, inclusive.
    pub updated_after: Option<DateTime<Utc>>,
    /// Latest time of the last change, inclusive.
    pub updated_before: Option<DateTime<Utc>>,
    /// Sort order.
    pub order: DeploymentOrder,
    /// Whether the order is descending.
    pub descending: bool,
}

/// Returns a page of the deployments of a project.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller may not read deployments. Returns an error if the database or the
/// repository fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: DeploymentFilter,
    page: &PageRequest,
) -> Result<Page<DeploymentDetail>> {
    check_can_read_deployments(access)?;
    let db = backend.database.read();
    let project_id = access.project.id;
    let mut condition = Condition::all()
        .add_option(filter.status.map(|status| Column::Status.eq(status)))
        .add_option(filter.updated_after.map(|time| Column::UpdatedAt.gte(time)))
        .add_option(
            filter
                .updated_before
                .map(|time| at_or_before(Expr::col(Column::UpdatedAt), time)),
        );
    if let Some(name) = filter.environment {
        match environment_rows::find_by_name(db, project_id, &name).await? {
            Some(environment) => condition = condition.add(Column::EnvironmentId.eq(environment.id)),
            None => return Ok(Page::new(page, Vec::new(), 0)),
        }
    }
    let direction = match filter.descending {
        true => sea_orm::Order::Desc,
        false => sea_orm::Order::Asc,
    };
    let first = match filter.order {
        DeploymentOrder::Id => None,
        DeploymentOrder::Iid => Some(Column::Iid.into_expr()),
        DeploymentOrder::CreatedAt => Some(Column::CreatedAt.into_expr()),
        DeploymentOrder::UpdatedAt => Some(Column::UpdatedAt.into_expr()),
        DeploymentOrder::Ref => {
            let database = backend.database.backend();
            Some(by_code_points(database, Column::RefName.into_expr()))
        }
    };
    let mut query = deployments::of_project(project_id).filter(condition);
    if let Some(column) = first {
        query = query.order_by(column, direction.clone());
    }
    let page = page_of(db, query.order_by(Column::Id, direction), page).await?;
    Ok(Page {
        items: load_details(backend, access, page.items).await?,
        rest: page.rest,
    })
}
