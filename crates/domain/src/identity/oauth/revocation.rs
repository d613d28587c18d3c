//! Revocation of all OAuth authorizations of a user.

use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
};
use storage::entities::{now, oauth_applications, oauth_grants, oauth_tokens, users};

use super::applications::Application;
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Revokes all tokens and codes of a user, for an actor who need not be a user. Returns the applications that had a
/// valid token or code, in the order of their IDs.
///
/// # Errors
/// Returns `Error::NotFound` if the user was deleted concurrently.
pub async fn revoke_all_as(backend: &Backend, actor: &Actor, user_id: i64) -> Result<Vec<Application>> {
    backend
        .database
        .transaction(async |transaction| {
            let user = users::lock(transaction, user_id).await?;
            let user = user.ok_or_else(|| Error::not_found("User"))?;
            revoke_all(transaction, actor, &user).await
        })
        .await
}

/// Revokes all tokens and codes of a user, and records an event for each application. Belongs into a transaction, after
/// a lock or a change of the user's row: codes and tokens are issued under a lock of that row.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn revoke_all(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user: &users::Model,
) -> Result<Vec<Application>> {
    let instant = now();
    let tokens = Condition::all()
        .add(oauth_tokens::Column::UserId.eq(user.id))
        .add(oauth_tokens::Column::RevokedAt.is_null());
    let codes = Condition::all()
        .add(oauth_grants::Column::UserId.eq(user.id))
        .add(oauth_grants::Column::UsedAt.is_null());
    let with_token = oauth_tokens::Entity::find()
        .select_only()
        .column(oauth_tokens::Column::ApplicationId)
        .filter(tokens.clone())
        .into_query();
    let with_code = oauth_grants::Entity::find()
        .select_only()
        .column(oauth_grants::Column::ApplicationId)
        .filter(codes.clone())
        .filter(oauth_grants::Column::ExpiresAt.gt(instant))
        .into_query();
    let authorized = Condition::any()
        .add(oauth_applications::Column::Id.in_subquery(with_token))
        .add(oauth_applications::Column::Id.in_subquery(with_code));
    let applications = oauth_applications::Entity::find()
        .filter(authorized)
        .order_by_asc(oauth_applications::Column::Id)
        .all(transaction)
        .await?;
    if applications.is_empty() {
        return Ok(applications);
    }
    oauth_tokens::Entity::update_many()
        .col_expr(oauth_tokens::Column::RevokedAt, Expr::value(instant))
        .filter(tokens)
        .exec(transaction)
        .await?;
    oauth_grants::Entity::delete_many()
        .filter(codes)
        .exec(transaction)
        .await?;
    let event = |application: &Application| {
        let target = AuditTarget::new("OauthApplication", application.id, application.name.clone());
        AuditEvent::new(AuditKind::OauthTokensRevoked, AuditEntity::user(user), target)
    };
    audit::record_all(transaction, actor, applications.iter().map(event).collect()).await?;
    Ok(applications)
}
