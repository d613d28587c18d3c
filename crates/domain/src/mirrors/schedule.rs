//! Times of updates: after each change of a branch or tag, but not more often than the interval of the mirror.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveEnum, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::clock::scheduling_time;
use storage::database::Database;
use storage::entities::remote_mirrors::{Column, Entity, MirrorStatus, Model};
use storage::jobs;

use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{PlannedEffect, RefUpdate, RefUpdateListener, UpdatedRefs};
use crate::mirrors::jobs::update_remote_mirror::UpdateRemoteMirror;

/// Minimum time between the starts of two updates after changes.
const INTERVAL: TimeDelta = TimeDelta::minutes(5);
/// The same for a mirror of protected branches.
const PROTECTED_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// Schedules updates of mirrors after ref updates.
pub struct MirrorUpdates;

impl RefUpdateListener for MirrorUpdates {
    fn plan<'a>(
        &'a self,
        _: &'a Database,
        refs: &'a UpdatedRefs<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn PlannedEffect>>> {
        // A push that changes nothing schedules nothing, so that mirrors of each other stop.
        let is_mirrored = refs.changes.iter().any(|change| {
            let reference = &change.reference;
            change.old != change.new
                && (reference.starts_with("refs/heads/") || reference.starts_with("refs/tags/"))
        });
        Box::pin(async move { Ok(Box::new(PlannedMirrorUpdates { is_mirrored }) as Box<dyn PlannedEffect>) })
    }
}

struct PlannedMirrorUpdates {
    is_mirrored: bool,
}

impl PlannedEffect for PlannedMirrorUpdates {
    fn apply<'a>(
        self: Box<Self>,
        transaction: &'a DatabaseTransaction,
        update: &'a RefUpdate,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if !self.is_mirrored {
                return Ok(());
            }
            let enabled = Entity::update_many()
                .col_expr(Column::UpdateStatus, scheduled_status())
                .filter(Column::ProjectId.eq(update.project_id))
                .filter(Column::Enabled.eq(true))
                .exec_with_returning(transaction)
                .await?;
            for mirror in enabled {
                enqueue(transaction, mirror.id, next_start(&mirror)).await?;
            }
            Ok(())
        })
    }
}

/// Schedules an update for now, also if an update waits after a failure.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn schedule_now(transaction: &DatabaseTransaction, mirror_id: i64) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::UpdateStatus, scheduled_status())
        .filter(Column::Id.eq(mirror_id))
        .exec(transaction)
        .await?;
    // The delay of a waiting retry would remain.
    jobs::cancel(transaction, &UpdateRemoteMirror { mirror_id }).await?;
    enqueue(transaction, mirror_id, scheduling_time()).await
}

async fn enqueue(transaction: &DatabaseTransaction, mirror_id: i64, at: DateTime<Utc>) -> Result<()> {
    let job = UpdateRemoteMirror { mirror_id };
    jobs::enqueue_at(transaction, &job, at)
        .await
        .map_err(Error::internal)
}

/// Returns the status of a mirror whose update is scheduled. A running update keeps its status until it ends.
fn scheduled_status() -> Expr {
    let started = Expr::col(Column::UpdateStatus).eq(MirrorStatus::Started.to_value());
    Expr::case(started, MirrorStatus::Started.to_value())
        .finally(MirrorStatus::Scheduled.to_value())
        .into()
}

/// Returns when the next update can start.
fn next_start(mirror: &Model) -> DateTime<Utc> {
    let interval = match mirror.only_protected_branches {
        true => PROTECTED_INTERVAL,
        false => INTERVAL,
    };
    let now = scheduling_time();
    let earliest = mirror.last_update_started_at.map_or(now, |last| last + interval);
    // The clock may have been set back since the last update.
    earliest.clamp(now, now + interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_update_starts_after_the_interval() {
        let mut mirror = Model {
            id: 1,
            project_id: 1,
            url: String::new(),
            credentials_encrypted: None,
            enabled: true,
            only_protected_branches: false,
            keep_divergent_refs: false,
            update_status: MirrorStatus::None,
            last_update_at: None,
            last_update_started_at: None,
            last_successful_update_at: None,
            last_error: None,
            created_at: scheduling_time(),
            updated_at: scheduling_time(),
        };
        let seconds = |mirror: &Model| (next_start(mirror) - scheduling_time()).num_seconds();
        assert!(seconds(&mirror) <= 0);
        for (ago, all, protected) in [(0, 300, 60), (50, 250, 10), (400, 0, 0), (-900, 300, 60)] {
            mirror.last_update_started_at = Some(scheduling_time() - TimeDelta::seconds(ago));
            for (only_protected, expected) in [(false, all), (true, protected)] {
                mirror.only_protected_branches = only_protected;
                assert!((seconds(&mirror) - expected).abs() <= 1, "{ago} {only_protected}");
            }
        }
    }
}
