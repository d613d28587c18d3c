//! Access to packages, in addition to the rules of operations in the contract.

use sea_orm::sea_query::SelectStatement;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect, QueryTrait};
use storage::entities::access::projects_with_packages;
use storage::entities::{namespace_ancestors, now, projects};

use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};

/// Refuses all callers if the packages of the project are disabled.
///
/// # Errors
/// Returns `Forbidden` for refused callers.
pub fn check_enabled(access: &ProjectAccess) -> Result<()> {
    match access.project.packages_enabled {
        true => Ok(()),
        false => Err(Error::forbidden_because(
            "The package registry of this project is disabled.",
        )),
    }
}

/// Selects the IDs of the projects in a group whose packages the caller can read. Subgroups are included unless
/// `exclude_subgroups`.
#[must_use]
pub fn readable_projects(caller: &Caller, group_id: i64, exclude_subgroups: bool) -> SelectStatement {
    let readable = projects_with_packages(caller.viewer(), now().date_naive());
    let readable = match caller.deploy_token() {
        Some(token) => {
            let own = match token.namespace_id {
                Some(group) => {
                    projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group))
                }
                None => projects::Column::Id.eq(token.project_id.unwrap_or_default()),
            };
            let enabled = Condition::all()
                .add(projects::Column::DeletionStartedAt.is_null())
                .add(projects::Column::PackagesEnabled.eq(true))
                .add(own);
            Condition::any().add(readable).add(enabled)
        }
        None => readable,
    };
    let within = match exclude_subgroups {
        true => projects::Column::NamespaceId.eq(group_id),
        false => projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group_id)),
    };
    projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(within)
        .filter(readable)
        .into_query()
}
