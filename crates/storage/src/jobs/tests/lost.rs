//! Jobs whose runner was lost, while another job with the same key waits.

use super::*;
use crate::database::testing::on_postgresql;

/// Claims a job for a runner that is lost, and enqueues another job with its key. Returns the claimed job.
async fn lose(db: &Database, now: DateTime<Utc>) -> rows::Model {
    enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
        .await
        .unwrap();
    let lost = claim(db, "lost", now).await.unwrap();
    enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, now)
        .await
        .unwrap();
    lost
}

async fn lost_job_is_not_claimed_together_with_waiting_job_of_same_key(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        let lost = lose(&db, start).await;
        let expired = start + LEASE * 2;
        // Two nodes claim at the same time: the statement of the second one does not see the claim of the first one.
        let first = db.begin().await.unwrap();
        let claimed = queue::claim(&first, &["refresh"], "a", time(expired), LEASE)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((claimed.id, claimed.attempts), (lost.id, 2));
        assert_eq!(claim(&db, "b", expired).await, None);
        first.commit().await.unwrap();
        assert_eq!(claim(&db, "b", expired).await, None);
        queue::complete(db.write(), &claimed).await.unwrap();
        let next = claim(&db, "b", expired).await.unwrap();
        assert!(next.payload.contains(r#""round":2"#), "{next:?}");
    })
    .await;
}

async fn lost_job_is_claimed_before_waiting_job_of_same_key(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        let lost = lose(&db, start).await;
        // The waiting job is due earlier.
        enqueue_at(
            db.write(),
            &Refresh { project: 1, round: 2 },
            start - TimeDelta::hours(1),
        )
        .await
        .unwrap();
        let expired = start + LEASE * 2;
        let claimed = claim(&db, "a", expired).await.unwrap();
        assert_eq!(claimed.id, lost.id);
        assert_eq!(claim(&db, "b", expired).await, None);
        queue::complete(db.write(), &claimed).await.unwrap();
        assert!(claim(&db, "b", expired).await.is_some());
    })
    .await;
}

async fn job_lost_in_last_attempt_does_not_prevent_job_of_same_key(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        let lost = lose(&db, start).await;
        let row = rows::ActiveModel {
            attempts: Set(lost.max_attempts),
            ..Default::default()
        };
        let last = rows::Entity::update_many()
            .set(row)
            .filter(rows::Column::Id.eq(lost.id));
        last.exec(db.write()).await.unwrap();
        assert_eq!(claim(&db, "b", start).await, None);
        let next = claim(&db, "b", start + LEASE * 2).await.unwrap();
        assert!(next.id != lost.id);
    })
    .await;
}

async fn lost_jobs_of_same_key_do_not_prevent_each_other(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        let lost = lose(&db, start).await;
        // An earlier version could claim both at the same time.
        let row = rows::ActiveModel {
            locked_by: Set(lost.locked_by.clone()),
            locked_until: Set(lost.locked_until),
            ..Default::default()
        };
        let both = rows::Entity::update_many()
            .set(row)
            .filter(rows::Column::Id.ne(lost.id));
        both.exec(db.write()).await.unwrap();
        let expired = start + LEASE * 2;
        let first = claim(&db, "a", expired).await.unwrap();
        assert_eq!(first.id, lost.id);
        assert_eq!(claim(&db, "b", expired).await, None);
        queue::complete(db.write(), &first).await.unwrap();
        assert!(claim(&db, "b", expired).await.is_some());
    })
    .await;
}

async fn lost_job_is_claimed_after_clock_was_set_back(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let real = entities::now();
        let lost = lose(&db, real + TimeDelta::hours(3)).await;
        queue::correct_times(db.write(), real, LEASE, |_| TimeDelta::seconds(10))
            .await
            .unwrap();
        let claimed = claim(&db, "a", real + LEASE * 2).await.unwrap();
        assert_eq!(claimed.id, lost.id);
    })
    .await;
}

on_every_database![
    lost_job_is_claimed_before_waiting_job_of_same_key,
    job_lost_in_last_attempt_does_not_prevent_job_of_same_key,
    lost_jobs_of_same_key_do_not_prevent_each_other,
    lost_job_is_claimed_after_clock_was_set_back,
];

on_postgresql![
    on 1 threads;
    lost_job_is_not_claimed_together_with_waiting_job_of_same_key,
];
