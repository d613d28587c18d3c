//! A project or group with the role of a user, in one statement.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement, SubQueryStatement, UnionType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, FromQueryResult, QueryFilter, QueryResult, QuerySelect, QueryTrait,
};

use super::{group_grants, project_grants, together};
use crate::entities::projects::{self, ProjectWithNamespace};
use crate::entities::{AccessLevel, namespaces};

/// Name of the column with the role.
const ROLE: &str = "role";

/// Returns a project and its namespace by ID or full path, with the user's role on the project, if any.
///
/// # Errors
/// Any database error.
pub async fn project_with_role(
    db: &impl ConnectionTrait,
    reference: &str,
    user_id: Option<i64>,
    today: NaiveDate,
) -> Result<Option<(ProjectWithNamespace, Option<AccessLevel>)>, DbErr> {
    let Some(named) = projects::named(reference) else {
        return Ok(None);
    };
    let mut query = projects::not_deleted()
        .find_also_related(namespaces::Entity)
        .filter(named)
        .limit(1)
        .into_query();
    if let Some(user_id) = user_id {
        let id = || projects::Column::Id.into_expr();
        let namespace_id = || projects::Column::NamespaceId.into_expr();
        let own = project_grants(user_id, today).into_iter();
        let own = own.map(|grant| grant.rows(|target| target.eq(id())));
        let inherited = group_grants(user_id, today).into_iter();
        let inherited = inherited.map(|grant| grant.rows(|target| target.eq(namespace_id())));
        query.expr_as(highest(own.chain(inherited)), ROLE);
    }
    let Some(row) = db.query_one(&query).await? else {
        return Ok(None);
    };
    let project = projects::Model::from_query_result(&row, "A_")?;
    let namespace = namespaces::Model::from_query_result_optional(&row, "B_")?;
    let role = role_of(&row, user_id)?;
    Ok(namespace.map(|namespace| ((project, namespace), role)))
}

/// Returns a group by ID or full path, with the user's role in it, if any.
///
/// # Errors
/// Any database error.
pub async fn group_with_role(
    db: &impl ConnectionTrait,
    reference: &str,
    user_id: Option<i64>,
    today: NaiveDate,
) -> Result<Option<(namespaces::Model, Option<AccessLevel>)>, DbErr> {
    let group = namespaces::group_named(reference);
    let mut query = group.limit(1).into_query();
    if let Some(user_id) = user_id {
        let id = || namespaces::Column::Id.into_expr();
        let grants = group_grants(user_id, today).into_iter();
        let grants = grants.map(|grant| grant.rows(|target| target.eq(id())));
        query.expr_as(highest(grants), ROLE);
    }
    let Some(row) = db.query_one(&query).await? else {
        return Ok(None);
    };
    let group = namespaces::Model::from_query_result(&row, "")?;
    Ok(Some((group, role_of(&row, user_id)?)))
}

/// Returns the highest role that statements grant.
fn highest(grants: impl IntoIterator<Item = SelectStatement>) -> Expr {
    let highest = Query::select()
        .expr(Expr::col("access_level").max())
        .from_subquery(together(UnionType::All, grants), "grants")
        .take();
    Expr::from(SubQueryStatement::from(highest))
}

fn role_of(row: &QueryResult, user_id: Option<i64>) -> Result<Option<AccessLevel>, DbErr> {
    if user_id.is_none() {
        return Ok(None);
    }
    let level: Option<i32> = row.try_get("", ROLE)?;
    let level = level.map(AccessLevel::try_from).transpose();
    level.map_err(|error| DbErr::Type(error.to_string()))
}
