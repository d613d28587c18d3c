//! Audit events of shares, and the deletion of expired shares.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::members::MembershipSource;
use storage::entities::{AccessLevel, group_shares, namespaces, project_shares};

use super::auditing::{access_text, entities};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::delete_expired;

/// Returns the event of a new share with a group.
pub(crate) fn added(
    kind: AuditKind,
    entity: AuditEntity,
    group: &namespaces::Model,
    level: AccessLevel,
    expires_at: Option<NaiveDate>,
) -> AuditEvent {
    AuditEvent::new(kind, entity, AuditTarget::group(group)).to(access_text(level, expires_at))
}

/// Returns the event of a share that is removed.
pub(crate) fn removed(
    kind: AuditKind,
    entity: AuditEntity,
    group: AuditTarget,
    level: AccessLevel,
    expires_at: Option<NaiveDate>,
) -> AuditEvent {
    AuditEvent::new(kind, entity, group).from(access_text(level, expires_at))
}

/// A share that has expired.
struct ExpiredShare {
    source: MembershipSource,
    group_id: i64,
    level: AccessLevel,
    expires_at: Option<NaiveDate>,
}

/// Deletes a batch of expired shares of groups, and returns their number.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn sweep_groups(backend: &Backend, today: NaiveDate, batch: u64) -> Result<u64> {
    backend
        .database
        .transaction(async |transaction| {
            let columns = [group_shares::Column::Id, group_shares::Column::ExpiresAt];
            let removed = delete_expired::<group_shares::Entity>(transaction, columns, today, batch).await?;
            let count = u64::try_from(removed.len()).map_err(Error::internal)?;
            let expired = removed.into_iter().map(|share| ExpiredShare {
                source: MembershipSource::Group(share.namespace_id),
                group_id: share.with_group_id,
                level: share.access_level,
                expires_at: share.expires_at,
            });
            let events = removals(transaction, AuditKind::GroupUnshared, expired.collect()).await?;
            audit::record_all(transaction, Actor::system(), events).await?;
            Ok(count)
        })
        .await
}

/// Deletes a batch of expired shares of projects, and returns their number.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn sweep_projects(backend: &Backend, today: NaiveDate, batch: u64) -> Result<u64> {
    backend
        .database
        .transaction(async |transaction| {
            let columns = [project_shares::Column::Id, project_shares::Column::ExpiresAt];
            let removed =
                delete_expired::<project_shares::Entity>(transaction, columns, today, batch).await?;
            let count = u64::try_from(removed.len()).map_err(Error::internal)?;
            let expired = removed.into_iter().map(|share| ExpiredShare {
                source: MembershipSource::Project(share.project_id),
                group_id: share.group_id,
                level: share.access_level,
                expires_at: share.expires_at,
            });
            let events = removals(transaction, AuditKind::ProjectUnshared, expired.collect()).await?;
            audit::record_all(transaction, Actor::system(), events).await?;
            Ok(count)
        })
        .await
}

/// Returns the events of expired shares. Foreign keys ensure that all groups and projects exist.
async fn removals(
    db: &impl ConnectionTrait,
    kind: AuditKind,
    expired: Vec<ExpiredShare>,
) -> Result<Vec<AuditEvent>> {
    if expired.is_empty() {
        return Ok(Vec::new());
    }
    let sources: Vec<_> = expired.iter().map(|share| share.source).collect();
    let entities = entities(db, &sources).await?;
    let groups = namespaces::Entity::find()
        .filter(namespaces::Column::Id.is_in(expired.iter().map(|share| share.group_id)))
        .all(db)
        .await?;
    let groups: HashMap<i64, namespaces::Model> = groups.into_iter().map(|group| (group.id, group)).collect();
    let event = |share: &ExpiredShare| {
        let entity = entities.get(&share.source)?.clone();
        let group = AuditTarget::group(groups.get(&share.group_id)?);
        Some(removed(kind, entity, group, share.level, share.expires_at))
    };
    Ok(expired.iter().filter_map(event).collect())
}
