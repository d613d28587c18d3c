//! Single groups with their projects.

use sea_orm::sea_query::{Expr, ExprTrait, JoinType, Order, Query, SelectStatement, UnionType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
};
use storage::entities::access::visible_projects;
use storage::entities::namespace_ancestors::names_part;
use storage::entities::projects::{self, Column};
use storage::entities::related_rows::{RelatedRowSets, RelatedRows};
use storage::entities::{
    AccessLevel, ShareSummary, group_shares, namespaces, now, project_shares, unexpired,
};

use super::list::sizes;
use super::{GroupSummary, runners_token_context};
use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::secrets::Secret;
use crate::spaces::namespaces::joined_names;
use crate::spaces::projects::{ProjectDetail, load_details};

/// Maximum projects of each kind that are included.
const MAX_PROJECTS: u64 = 100;

/// A group with the data of its detailed representation.
#[derive(Debug, Clone)]
pub struct GroupDetail {
    /// The group.
    pub row: GroupSummary,
    /// The groups it is shared with that are visible to the caller.
    pub shares: Vec<ShareSummary>,
    /// The registration token of runners, for Owners.
    pub runners_token: Option<Secret<String>>,
    /// Its own and shared projects that are visible to the caller, if requested.
    pub projects: Option<(Vec<ProjectDetail>, Vec<ProjectDetail>)>,
}

/// Loads the detailed representation of a group. `with_sizes` is ignored unless the caller is an administrator.
///
/// # Errors
/// Returns an error if the database fails or a token cannot be decrypted.
pub async fn get(
    backend: &Backend,
    access: GroupAccess,
    with_projects: bool,
    with_sizes: bool,
) -> Result<GroupDetail> {
    let db = backend.database.read();
    let owns = access.has_role(AccessLevel::Owner);
    let (caller, group) = (access.caller, access.group);
    let mut related = RelatedRows::default();
    let names = related.add(names_part(db.get_database_backend(), &[group.id]));
    let shares = group_shares::part(caller.viewer(), now().date_naive(), group.id);
    let shares = related.add(Some(shares));
    let runners_token = match group
        .runners_token_encrypted
        .as_deref()
        .filter(|_| owns && with_projects)
    {
        Some(encrypted) => Some(
            backend
                .keyring
                .decrypt(encrypted, &runners_token_context(group.id))?,
        ),
        None => None,
    };
    let (projects, mut rows) = match with_projects {
        true => {
            let (own, shared, rows) = projects_of(db, &caller, group.id, related).await?;
            (Some((own, shared)), rows)
        }
        false => (None, related.load(db).await?),
    };
    let sizes = match with_sizes && caller.is_admin() {
        true => Some(
            sizes(db, &[group.id])
                .await?
                .remove(&group.id)
                .unwrap_or_default(),
        ),
        false => None,
    };
    let full_name = joined_names(rows.take(names)).remove(&group.id);
    let shares = rows.take(shares).into_iter().map(ShareSummary::read);
    Ok(GroupDetail {
        row: GroupSummary {
            full_name: full_name.unwrap_or_default(),
            group,
            sizes,
        },
        shares: shares.collect::<std::result::Result<_, _>>()?,
        runners_token,
        projects,
    })
}

/// Returns the projects of a group and those shared with it, newest first, and the rows of the parts of `related`.
async fn projects_of(
    db: &impl ConnectionTrait,
    caller: &Caller,
    group_id: i64,
    related: RelatedRows,
) -> Result<(Vec<ProjectDetail>, Vec<ProjectDetail>, RelatedRowSets)> {
    let query = own_and_shared(caller, group_id);
    let (mut found, mut own) = (Vec::new(), 0);
    for row in db.query_all(&query).await? {
        let project = projects::Model::from_query_result(&row, "A_")?;
        let namespace = namespaces::Model::from_query_result(&row, "B_")?;
        found.push((project, namespace));
        if row.try_get::<i32>("", IS_SHARED)? == 0 {
            own = found.len();
        }
    }
    let (mut rows, related) = load_details(db, caller, found, related).await?;
    let shared = rows.split_off(own);
    Ok((rows, shared, related))
}

/// Name of the subquery with the IDs of the projects, and of its columns.
const PAGE: &str = "page";
const PAGE_ID: &str = "page_id";
const IS_SHARED: &str = "is_shared";

/// Selects the projects of a group, and then those shared with it, with their namespaces, newest first.
fn own_and_shared(caller: &Caller, group_id: i64) -> SelectStatement {
    let today = now().date_naive();
    let shared = project_shares::Entity::find()
        .select_only()
        .column(project_shares::Column::ProjectId)
        .filter(project_shares::Column::GroupId.eq(group_id))
        .filter(unexpired(project_shares::Column::ExpiresAt, today))
        .into_query();
    let newest = |which: Expr, is_shared: i32| {
        let ids = projects::not_deleted()
            .select_only()
            .column_as(Column::Id, PAGE_ID)
            .expr_as(Expr::Constant(is_shared.into()), IS_SHARED)
            .filter(visible_projects(caller.viewer(), today))
            .filter(which)
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id)
            .limit(MAX_PROJECTS)
            .into_query();
        // SQLite combines only statements without a limit.
        Query::select()
            .columns([PAGE_ID, IS_SHARED])
            .from_subquery(ids, "newest")
            .take()
    };
    let mut page = newest(Column::NamespaceId.eq(group_id), 0);
    page.union(UnionType::All, newest(Column::Id.in_subquery(shared), 1));
    let on_page = Expr::col((PAGE, PAGE_ID)).eq(Column::Id.into_expr());
    projects::Entity::find()
        .find_also_related(namespaces::Entity)
        .into_query()
        .expr_as(Expr::col((PAGE, IS_SHARED)), IS_SHARED)
        .join_subquery(JoinType::InnerJoin, page, PAGE, on_page)
        .order_by((PAGE, IS_SHARED), Order::Asc)
        .order_by((projects::Entity, Column::CreatedAt), Order::Desc)
        .order_by((projects::Entity, Column::Id), Order::Desc)
        .take()
}
