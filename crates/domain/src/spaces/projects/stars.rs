//! Stars of projects.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, EntityTrait, ExprTrait,
    QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};
use storage::database::Violation;
use storage::entities::issuables::lock_rows;
use storage::entities::{fold, now, project_stars, projects, users};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{batch_of_children, contains, count_for_page};

/// Number of stars that one transaction deletes. On SQLite, a long statement blocks all other writers.
const BATCH: u64 = 1_000;

/// A user who starred a project.
#[derive(Debug, Clone)]
pub struct Starrer {
    /// The user.
    pub user: users::Model,
    /// The time of starring.
    pub since: DateTime<Utc>,
}

/// Stars a project for the caller.
///
/// # Errors
/// Returns `NotModified` if it is starred already.
pub async fn star(backend: &Backend, access: ProjectAccess) -> Result<ProjectAccess> {
    let (project_id, user_id) = (access.project.id, access.caller.signed_in()?.id);
    let project = backend
        .database
        .transaction(async |transaction| {
            let row = project_stars::ActiveModel {
                user_id: Set(user_id),
                project_id: Set(project_id),
                created_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction)
                .await
                .map_err(|error| match Violation::of(&error) {
                    Some(Violation::Unique(_)) => Error::NotModified,
                    // The project was deleted concurrently.
                    Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
                    _ => error.into(),
                })?;
            add_to_star_count(transaction, project_id, 1).await
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}

/// Removes the caller's star.
///
/// # Errors
/// Returns `NotModified` if it is not starred.
pub async fn unstar(backend: &Backend, access: ProjectAccess) -> Result<ProjectAccess> {
    let (project_id, user_id) = (access.project.id, access.caller.signed_in()?.id);
    let project = backend
        .database
        .transaction(async |transaction| {
            let removed = project_stars::Entity::delete_many()
                .filter(project_stars::Column::UserId.eq(user_id))
                .filter(project_stars::Column::ProjectId.eq(project_id))
                .exec(transaction)
                .await?;
            if removed.rows_affected == 0 {
                return Err(Error::NotModified);
            }
            add_to_star_count(transaction, project_id, -1).await
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}

/// Adds to the star count of a project.
async fn add_to_star_count(
    transaction: &DatabaseTransaction,
    project_id: i64,
    more: i32,
) -> Result<projects::Model> {
    projects::Entity::update_many()
        .col_expr(
            projects::Column::StarCount,
            Expr::col(projects::Column::StarCount).add(more),
        )
        .filter(projects::Column::Id.eq(project_id))
        .exec(transaction)
        .await?;
    let project = projects::Entity::find_by_id(project_id).one(transaction).await?;
    project.ok_or_else(|| Error::not_found("Project"))
}

/// Deletes all stars of a user and updates the star counts. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_all_of_user(backend: &Backend, user_id: i64) -> Result<()> {
    let column = ("project_stars", "user_id");
    loop {
        let ids = batch_of_children(&backend.database, column, &[user_id], BATCH).await?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_stars(backend, &ids).await?;
    }
}

/// Deletes stars of one user, each of another project.
async fn delete_stars(backend: &Backend, ids: &[i64]) -> Result<()> {
    let stars = || {
        project_stars::Entity::find()
            .select_only()
            .column(project_stars::Column::ProjectId)
            .filter(project_stars::Column::Id.is_in(ids.iter().copied()))
    };
    backend
        .database
        .transaction(async |transaction| {
            // The projects are locked first, because the stars refer to them.
            lock_rows(transaction, "projects", stars().into_query()).await?;
            let starred: Vec<i64> = stars()
                .order_by_asc(project_stars::Column::Id)
                .lock(LockType::Update)
                .into_tuple()
                .all(transaction)
                .await?;
            project_stars::Entity::delete_many()
                .filter(project_stars::Column::Id.is_in(ids.iter().copied()))
                .exec(transaction)
                .await?;
            projects::Entity::update_many()
                .col_expr(
                    projects::Column::StarCount,
                    Expr::col(projects::Column::StarCount).sub(1),
                )
                .filter(projects::Column::Id.is_in(starred))
                .exec(transaction)
                .await?;
            Ok::<_, Error>(())
        })
        .await
}

/// Lists the users who starred a project, in the order of starring. Blocked users and those with a private
/// profile are visible only to administrators and themselves.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn starrers(
    backend: &Backend,
    access: &ProjectAccess,
    search: Option<&str>,
    page: &PageRequest,
) -> Result<Page<Starrer>> {
    let db = backend.database.read();
    let shown = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(visible_users(&access.caller))
        .filter(matching_name(search.unwrap_or_default()));
    let query = project_stars::on_project(access.project.id)
        .filter(project_stars::Column::UserId.in_subquery(shown.into_query()));
    let all = query.clone().into_query();
    let found = query
        .find_also_related(users::Entity)
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let total = count_for_page(db, page, found.len(), all).await?;
    let found = found.into_iter().filter_map(|(star, user)| {
        Some(Starrer {
            user: user?,
            since: star.created_at,
        })
    });
    Ok(Page::new(page, found.collect(), total))
}

fn visible_users(caller: &Caller) -> Condition {
    let active_users = Condition::all().add(users::Column::DeletionStartedAt.is_null());
    if caller.is_admin() {
        return active_users;
    }
    let public = Condition::all()
        .add(users::Column::State.eq(users::UserState::Active))
        .add(users::Column::PrivateProfile.eq(false));
    let is_caller = caller.as_user().map(|user| users::Column::Id.eq(user.id));
    active_users.add(Condition::any().add(public).add_option(is_caller))
}

fn matching_name(text: &str) -> Condition {
    let text = fold(text.trim());
    if text.is_empty() {
        return Condition::all();
    }
    Condition::any()
        .add(contains(users::Column::UsernameKey, &text))
        .add(contains(users::Column::NameKey, &text))
}
