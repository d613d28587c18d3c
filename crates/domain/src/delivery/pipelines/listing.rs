//! Lists of pipelines.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, NullOrdering, Query};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use storage::entities::pipelines::{self, Column, Model, PipelineStatus};
use storage::entities::row_conditions::by_code_points;
use storage::entities::{fold, users};

use crate::delivery::access::check_can_read;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{at_or_before, page_of};

/// Subset of the pipelines of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineScope {
    /// Running pipelines.
    Running,
    /// Pending pipelines.
    Pending,
    /// Finished pipelines.
    Finished,
    /// The newest pipeline of each branch.
    Branches,
    /// The newest pipeline of each tag.
    Tags,
}

/// Sort orders of pipelines; ties are sorted by ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PipelineOrder {
    /// ID.
    #[default]
    Id,
    /// Name of the status.
    Status,
    /// Name of the ref.
    Ref,
    /// Time of the last update.
    UpdatedAt,
    /// ID of the user who created the pipeline. Pipelines of deleted users are last in both directions.
    UserId,
}

/// Filter of a list of pipelines.
#[derive(Debug, Clone, Default)]
pub struct PipelineFilter {
    /// Only this subset.
    pub scope: Option<PipelineScope>,
    /// Only pipelines with this status.
    pub status: Option<PipelineStatus>,
    /// Only pipelines of this branch or tag.
    pub ref_name: Option<String>,
    /// Only pipelines of this commit.
    pub sha: Option<String>,
    /// Only pipelines with or without an invalid configuration.
    pub yaml_errors: Option<bool>,
    /// Only pipelines of users with this display name.
    pub name: Option<String>,
    /// Only pipelines of the user with this user name.
    pub username: Option<String>,
    /// Only pipelines updated at this time or later.
    pub updated_after: Option<DateTime<Utc>>,
    /// Only pipelines updated at this time or earlier.
    pub updated_before: Option<DateTime<Utc>>,
    /// The sort order.
    pub order: PipelineOrder,
    /// Whether the smallest come first.
    pub ascending: bool,
}

/// Lists the pipelines of a project.
///
/// # Errors
/// Returns `Forbidden` if pipelines are not visible to the caller, and an error if a database query fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: PipelineFilter,
    page: &PageRequest,
) -> Result<Page<Model>> {
    check_can_read(access)?;
    let project_id = access.project.id;
    let (order, ascending) = (filter.order, filter.ascending);
    let query = pipelines::of_project(project_id).filter(condition(project_id, filter));
    let direction = match ascending {
        true => sea_orm::Order::Asc,
        false => sea_orm::Order::Desc,
    };
    let first = match order {
        PipelineOrder::Id => None,
        PipelineOrder::Status => Some(Column::Status),
        PipelineOrder::Ref => Some(Column::RefName),
        PipelineOrder::UpdatedAt => Some(Column::UpdatedAt),
        PipelineOrder::UserId => Some(Column::UserId),
    };
    let query = match first {
        None => query,
        // Pipelines of deleted users. The databases sort null values differently.
        Some(Column::UserId) => {
            query.order_by_with_nulls(Column::UserId, direction.clone(), NullOrdering::Last)
        }
        Some(Column::RefName) => {
            let name = by_code_points(backend.database.backend(), Column::RefName.into_expr());
            query.order_by(name, direction.clone())
        }
        Some(column) => query.order_by(column, direction.clone()),
    };
    let query = query.order_by(Column::Id, direction);
    page_of(backend.database.read(), query, page).await
}

fn condition(project_id: i64, filter: PipelineFilter) -> Condition {
    let ref_name = filter.ref_name.as_deref();
    let scope = filter.scope.map(|scope| match scope {
        PipelineScope::Running => Column::Status.eq(PipelineStatus::Running),
        PipelineScope::Pending => Column::Status.eq(PipelineStatus::Pending),
        PipelineScope::Finished => Column::Status.is_in(PipelineStatus::FINISHED),
        PipelineScope::Branches => newest_of_each(project_id, ref_name, false),
        PipelineScope::Tags => newest_of_each(project_id, ref_name, true),
    });
    let made_by = |condition| {
        let users = Query::select()
            .column(users::Column::Id)
            .from(users::Entity)
            .and_where(condition)
            .take();
        Column::UserId.in_subquery(users)
    };
    Condition::all()
        .add_option(scope)
        .add_option(filter.status.map(|status| Column::Status.eq(status)))
        .add_option(filter.ref_name.map(|name| Column::RefName.eq(name)))
        .add_option(filter.sha.map(|sha| Column::Sha.eq(sha.to_lowercase())))
        // Configurations are not read yet, so none is invalid.
        .add_option(
            filter
                .yaml_errors
                .filter(|faulty| *faulty)
                .map(|_| Expr::val(1).eq(0)),
        )
        .add_option(filter.name.map(|name| made_by(users::Column::Name.eq(name))))
        .add_option(
            filter
                .username
                .map(|name| made_by(users::Column::UsernameKey.eq(fold(&name)))),
        )
        .add_option(filter.updated_after.map(|time| Column::UpdatedAt.gte(time)))
        .add_option(
            filter
                .updated_before
                .map(|time| at_or_before(Expr::col(Column::UpdatedAt), time)),
        )
}

/// Selects the newest pipeline of each branch or of each tag, or of the one with a name.
fn newest_of_each(project_id: i64, ref_name: Option<&str>, tag: bool) -> Expr {
    let newest = pipelines::of_project(project_id)
        .select_only()
        .column_as(Column::Id.max(), "newest")
        .filter(Column::Tag.eq(tag))
        .apply_if(ref_name, |query, name| query.filter(Column::RefName.eq(name)))
        .group_by(Column::RefName);
    Column::Id.in_subquery(newest.into_query())
}
