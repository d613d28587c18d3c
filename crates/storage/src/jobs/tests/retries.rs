//! Jobs that are enqueued while an equivalent job waits for its next attempt.

use super::*;

async fn enqueued_job_has_all_attempts_and_waits_for_delay_of_waiting_retry(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let mut now = entities::now();
        let delay = TimeDelta::minutes(1);
        let maximum = i32::from(Refresh::MAX_ATTEMPTS);
        enqueue_at(db.write(), &Refresh { project: 1, round: 0 }, now)
            .await
            .unwrap();
        for round in 1..=12 {
            let failed = claim(&db, "a", now).await.unwrap();
            queue::retry(db.write(), &failed, now + delay, "failed")
                .await
                .unwrap();
            // The second one of each round finds a row that the first one changed.
            for _ in 0..2 {
                enqueue_at(
                    db.write(),
                    &Refresh {
                        project: 1,
                        round: i64::from(round),
                    },
                    now,
                )
                .await
                .unwrap();
            }
            let waiting = all(&db).await;
            assert_eq!(waiting.len(), 1);
            let job = &waiting[0];
            assert!(job.payload.contains(&format!(r#""round":{round}"#)), "{job:?}");
            assert_eq!(
                (job.run_at, job.last_error.as_deref()),
                (now + delay, Some("failed"))
            );
            // The used attempts determine the next delay, and the new work has all its attempts.
            assert_eq!((job.attempts, job.max_attempts - job.attempts), (round, maximum));
            assert_eq!(claim(&db, "a", now).await, None);
            now += delay;
        }
    })
    .await;
}

async fn job_retried_by_operator_runs_before_delay_of_waiting_retry(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        let job = Refresh { project: 1, round: 1 };
        enqueue_at(db.write(), &job, now).await.unwrap();
        let dead = claim(&db, "a", now).await.unwrap();
        queue::mark_dead(db.write(), &dead, now, "failed").await.unwrap();
        enqueue_at(db.write(), &job, now).await.unwrap();
        let failed = claim(&db, "a", now).await.unwrap();
        queue::retry(db.write(), &failed, now + TimeDelta::hours(1), "failed")
            .await
            .unwrap();
        let retried = db
            .transaction(async |transaction| retry_failed(transaction, dead.id, now).await)
            .await
            .unwrap();
        assert!(retried.is_some());
        let next = claim(&db, "a", now).await.unwrap();
        let maximum = i32::from(Refresh::MAX_ATTEMPTS);
        assert_eq!(
            (next.id, next.attempts, next.max_attempts),
            (failed.id, 2, maximum + 1)
        );
    })
    .await;
}

on_every_database![
    enqueued_job_has_all_attempts_and_waits_for_delay_of_waiting_retry,
    job_retried_by_operator_runs_before_delay_of_waiting_retry,
];
