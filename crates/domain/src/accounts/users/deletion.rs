//! Deletes users: hidden immediately, deleted by a job.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, ExprTrait, LockType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Select,
};
use storage::entities::{
    access_tokens, gpg_keys, job_tokens, known_addresses, members, namespaces, now, oauth_grants,
    oauth_tokens, pending_sign_ins, recovery_codes, scim_identities, sessions, taken_emails,
    two_factor_secrets, user_emails, user_identities, user_keys, user_statuses, users,
};
use storage::jobs;

use crate::accounts::jobs::delete_user::DeleteUser;
use crate::audit::{self, AuditEntity, AuditEvent, AuditKind};
use crate::identity::access::UserAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Number of groups that are read by one statement, because databases limit the number of parameters.
const GROUPS_PER_STATEMENT: usize = 1000;

/// Hides a user, revokes all credentials and enqueues a job for the rest. If `hard` is true, the content that
/// the user created and the groups without another Owner are deleted too. Personal projects are always
/// deleted.
///
/// # Errors
/// Returns `Conflict` for the sole Owner of a group who is not blocked unless `hard` is true, and for the last
/// administrator. Returns `NotFound` if the user was deleted concurrently.
pub async fn delete(backend: &Backend, access: &UserAccess, hard: bool) -> Result<()> {
    let user = &access.user;
    backend
        .database
        .transaction(async |transaction| {
            let today = now().date_naive();
            // Locked before the users, like in a creation of a group and in a change of its members.
            namespaces::lock_trees(transaction).await?;
            lock_owned_groups(transaction, user.id, today).await?;
            // Locked together, so that two administrators cannot delete each other.
            let administrators = match user.admin {
                true => users::lock_administrators(transaction).await?,
                false => Vec::new(),
            };
            let current = users::lock(transaction, user.id).await?;
            let current = current.ok_or_else(|| Error::not_found("User"))?;
            let solely_owned = without_other_owner(user.id, !hard, today);
            let groups: Vec<i64> = if hard {
                let ids = solely_owned.select_only().column(namespaces::Column::Id);
                ids.into_tuple().all(transaction).await?
            } else if solely_owned.one(transaction).await?.is_some() {
                let text = "User cannot be removed while is the sole-owner of a group";
                return Err(Error::Conflict(text.into()));
            } else {
                Vec::new()
            };
            if current.admin && administrators.iter().all(|other| other.id == user.id) {
                return Err(Error::Conflict("The last administrator cannot be deleted".into()));
            }
            let mut events = vec![AuditEvent::of(
                AuditKind::UserDeleted,
                AuditEntity::user(&current),
            )];
            events.extend(deleted_groups(transaction, &groups).await?);
            audit::record_all(transaction, &access.caller, events).await?;
            mark_for_deletion(transaction, user.id, hard, groups).await
        })
        .await
}

/// Returns the events of groups that are deleted with their Owner.
async fn deleted_groups(db: &impl ConnectionTrait, groups: &[i64]) -> Result<Vec<AuditEvent>> {
    let event =
        |group: &namespaces::Model| AuditEvent::of(AuditKind::GroupDeleted, AuditEntity::namespace(group));
    let mut events = Vec::with_capacity(groups.len());
    for ids in groups.chunks(GROUPS_PER_STATEMENT) {
        let deleted = namespaces::Entity::find()
            .filter(namespaces::Column::Id.is_in(ids.iter().copied()))
            .all(db)
            .await?;
        events.extend(deleted.iter().map(event));
    }
    Ok(events)
}

/// Hides bots, which own no resources. Returns the number of bots that were not hidden before.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_bots(transaction: &DatabaseTransaction, ids: Vec<i64>) -> Result<usize> {
    let mut hidden = 0;
    for id in ids {
        match mark_for_deletion(transaction, id, false, Vec::new()).await {
            Ok(()) => hidden += 1,
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hidden)
}

async fn mark_for_deletion(
    transaction: &DatabaseTransaction,
    user_id: i64,
    hard: bool,
    groups: Vec<i64>,
) -> Result<()> {
    let marked = users::Entity::update_many()
        .col_expr(users::Column::DeletionStartedAt, Expr::value(now()))
        .filter(users::Column::Id.eq(user_id))
        .filter(users::Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    if marked.rows_affected == 0 {
        return Err(Error::not_found("User"));
    }
    revoke_credentials(transaction, user_id).await?;
    let personal = namespaces::of_user(transaction, user_id).await?;
    let mut hidden = groups.clone();
    hidden.extend(personal.map(|space| space.id));
    if !hidden.is_empty() {
        namespaces::hide_all(transaction, &hidden).await?;
    }
    let job = DeleteUser {
        user_id,
        hard,
        groups,
    };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Deletes the credentials, sessions, identities and memberships of a user.
async fn revoke_credentials(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    macro_rules! remove {
        ($($table:ident),*) => {$(
            $table::Entity::delete_many()
                .filter($table::Column::UserId.eq(user_id))
                .exec(transaction)
                .await?;
        )*};
    }
    remove!(
        access_tokens,
        oauth_grants,
        oauth_tokens,
        sessions,
        pending_sign_ins,
        two_factor_secrets,
        recovery_codes,
        known_addresses,
        job_tokens,
        members,
        user_emails,
        taken_emails,
        user_identities,
        scim_identities,
        gpg_keys,
        user_keys,
        user_statuses
    );
    Ok(())
}

/// Locks the groups of which a user is an Owner, in the order of their IDs, so that their other Owners are not removed
/// in the meantime.
async fn lock_owned_groups(transaction: &DatabaseTransaction, user_id: i64, today: NaiveDate) -> Result<()> {
    let owned = namespaces::Entity::find()
        .select_only()
        .column(namespaces::Column::Id)
        .filter(namespaces::Column::Id.in_subquery(members::owned_groups(user_id, today)))
        .order_by_asc(namespaces::Column::Id)
        .lock(LockType::NoKeyUpdate);
    let _: Vec<i64> = owned.into_tuple().all(transaction).await?;
    Ok(())
}

/// Selects the groups of a user that have no other Owner. If `acting` is true, blocked Owners do not count.
fn without_other_owner(user_id: i64, acting: bool, today: NaiveDate) -> Select<namespaces::Entity> {
    namespaces::not_deleted()
        .filter(namespaces::Column::Id.in_subquery(members::owned_groups(user_id, today)))
        .filter(members::has_other_owner(user_id, acting, today).not())
}
