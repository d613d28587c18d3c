//! Access to packages, in addition to the rules of operations in the contract.

use sea_orm::sea_query::SelectStatement;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect, QueryTrait};
use storage::entities::access::projects_with_packages;
use storage::entities::projects::{self, FeatureAccess};
use storage::entities::{namespace_ancestors, now};

use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};

/// Refuses callers without access to the packages of the project. Package clients send credentials only after they
/// were asked for them, so a client without credentials is asked for packages that only members can use.
///
/// # Errors
/// Returns `Forbidden` for refused callers, and `Unauthorized` for a client without credentials if members can use the
/// packages.
pub fn check_access(access: &ProjectAccess) -> Result<()> {
    let level = access.project.package_registry_access_level;
    if access.effective_access().has_feature(level) {
        return Ok(());
    }
    Err(match level {
        FeatureAccess::Disabled => {
            Error::forbidden_because("The package registry of this project is disabled.")
        }
        _ if !access.caller.is_known() => Error::Unauthorized,
        _ => Error::forbidden_because("Only members of this project can use its package registry."),
    })
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
                .add(projects::Column::PackageRegistryAccessLevel.ne(FeatureAccess::Disabled))
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
