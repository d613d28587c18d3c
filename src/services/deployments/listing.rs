//! Lists of deployments.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, Condition, QueryFilter, QueryOrder};
use storage::entities::deployments::{self, Column, Status};

use super::{Row, decorate};
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::{no_later, page_of};
use crate::services::pipelines::refuse_reader;
use crate::services::{Backend, environments};

/// What deployments are ordered by; where that is the same, by their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Their ids.
    #[default]
    Id,
    /// Their numbers within the project.
    Iid,
    /// When they were made.
    CreatedAt,
    /// When they changed.
    UpdatedAt,
    /// Branches and tags by name.
    Ref,
}

/// Which deployments to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only those to the environment of this name.
    pub environment: Option<String>,
    /// Only those of this status.
    pub status: Option<Status>,
    /// Only those that changed at this time or later.
    pub updated_after: Option<DateTime<Utc>>,
    /// Only those that changed at this time or earlier.
    pub updated_before: Option<DateTime<Utc>>,
    /// What they are ordered by.
    pub order: Order,
    /// The largest first.
    pub descending: bool,
}

/// A page of the deployments of a project.
///
/// # Errors
/// 403 for whoever may not know of deployments, and whatever the database or the repository reports.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    refuse_reader(access)?;
    let db = backend.database.read();
    let project_id = access.project.id;
    let mut condition = Condition::all()
        .add_option(filter.status.map(|status| Column::Status.eq(status)))
        .add_option(filter.updated_after.map(|time| Column::UpdatedAt.gte(time)))
        .add_option(
            filter
                .updated_before
                .map(|time| no_later(Expr::col(Column::UpdatedAt), time)),
        );
    if let Some(name) = filter.environment {
        match environments::named(db, project_id, &name).await? {
            Some(environment) => condition = condition.add(Column::EnvironmentId.eq(environment.id)),
            None => return Ok(Page::new(page, Vec::new(), 0)),
        }
    }
    let direction = match filter.descending {
        true => sea_orm::Order::Desc,
        false => sea_orm::Order::Asc,
    };
    let first = match filter.order {
        Order::Id => None,
        Order::Iid => Some(Column::Iid),
        Order::CreatedAt => Some(Column::CreatedAt),
        Order::UpdatedAt => Some(Column::UpdatedAt),
        Order::Ref => Some(Column::RefName),
    };
    let mut wanted = deployments::of_project(project_id).filter(condition);
    if let Some(column) = first {
        wanted = wanted.order_by(column, direction.clone());
    }
    let page = page_of(db, wanted.order_by(Column::Id, direction), page).await?;
    Ok(Page {
        items: decorate(backend, access, page.items).await?,
        rest: page.rest,
    })
}
