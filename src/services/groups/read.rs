//! Reading one group, with its projects.

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::{Row, runners_token_place};
use crate::entities::access::{visible_groups, visible_projects};
use crate::entities::projects::{self, Column};
use crate::entities::{AccessLevel, group_shares, namespaces, now, project_shares, unexpired};
use crate::error::Result;
use crate::secrets::Secret;
use crate::services::Backend;
use crate::services::access::GroupAccess;
use crate::services::authentication::Caller;
use crate::services::namespaces::full_names;
use crate::services::projects::{self as project_rows, decorate};

/// Most projects of each kind that are given with a group.
const MOST_PROJECTS: u64 = 100;

/// A group with all that is shown when it is read by itself.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The group.
    pub row: Row,
    /// The groups it is shared with, as far as the caller may see them.
    pub shares: Vec<(group_shares::Model, namespaces::Model)>,
    /// The token that runners register with, for Owners.
    pub runners_token: Option<Secret<String>>,
    /// Its projects and those shared with it, as far as the caller may see them; absent when not asked for.
    pub projects: Option<(Vec<project_rows::Row>, Vec<project_rows::Row>)>,
}

/// Adds to a group what is shown when it is read by itself.
///
/// # Errors
/// Returns an error if the database fails or a token cannot be decrypted.
pub async fn read(backend: &Backend, access: GroupAccess, with_projects: bool) -> Result<Detail> {
    let db = backend.database.read();
    let owns = access.holds(AccessLevel::Owner);
    let (caller, group) = (access.caller, access.group);
    let full_name = full_names(db, [group.id])
        .await?
        .remove(&group.id)
        .unwrap_or_default();
    let shares = group_shares::of(group.id, now().date_naive())
        .filter(visible_groups(caller.viewer(), now().date_naive()))
        .all(db)
        .await?;
    let runners_token = match group
        .runners_token_encrypted
        .as_deref()
        .filter(|_| owns && with_projects)
    {
        Some(encrypted) => Some(
            backend
                .keyring
                .decrypt(encrypted, &runners_token_place(group.id))?,
        ),
        None => None,
    };
    let projects = match with_projects {
        true => Some(projects_of(db, &caller, group.id).await?),
        false => None,
    };
    Ok(Detail {
        row: Row {
            group,
            full_name,
            sizes: None,
        },
        shares: shares
            .into_iter()
            .filter_map(|(share, group)| Some((share, group?)))
            .collect(),
        runners_token,
        projects,
    })
}

/// The projects in a group, and those that are shared with it; the newest first.
async fn projects_of(
    db: &impl ConnectionTrait,
    caller: &Caller,
    group_id: i64,
) -> Result<(Vec<project_rows::Row>, Vec<project_rows::Row>)> {
    let today = now().date_naive();
    let shared = project_shares::Entity::find()
        .select_only()
        .column(project_shares::Column::ProjectId)
        .filter(project_shares::Column::GroupId.eq(group_id))
        .filter(unexpired(project_shares::Column::ExpiresAt, today))
        .into_query();
    let mut found = Vec::new();
    let mut own = 0;
    for which in [Column::NamespaceId.eq(group_id), Column::Id.in_subquery(shared)] {
        own = found.len();
        let rows = projects::live()
            .find_also_related(namespaces::Entity)
            .filter(visible_projects(caller.viewer(), today))
            .filter(which)
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id)
            .limit(MOST_PROJECTS)
            .all(db)
            .await?;
        found.extend(
            rows.into_iter()
                .filter_map(|(project, namespace)| Some((project, namespace?))),
        );
    }
    let mut rows = decorate(db, caller, found).await?;
    let shared = rows.split_off(own);
    Ok((rows, shared))
}
