//! Jobs that are enqueued while an equivalent job runs and fails, or waits for its next attempt.

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
            queue::retry(&db, &failed, now + delay, "failed").await.unwrap();
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

async fn job_enqueued_during_run_has_all_attempts_and_waits_for_delay_of_failed_job(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let mut now = entities::now();
        let delay = TimeDelta::minutes(1);
        let maximum = i32::from(Refresh::MAX_ATTEMPTS);
        enqueue_at(db.write(), &Refresh { project: 1, round: 0 }, now)
            .await
            .unwrap();
        for round in 1..=12 {
            let failed = claim(&db, "a", now).await.unwrap();
            let newer = Refresh {
                project: 1,
                round: i64::from(round),
            };
            // The delay does not depend on the instant of the newer job.
            enqueue_at(db.write(), &newer, now + TimeDelta::hours(i64::from(round % 2)))
                .await
                .unwrap();
            queue::retry(&db, &failed, now + delay, "failed").await.unwrap();
            let waiting = all(&db).await;
            assert_eq!(waiting.len(), 1);
            let job = &waiting[0];
            assert!(job.payload.contains(&format!(r#""round":{round}"#)), "{job:?}");
            assert_eq!(
                (job.run_at, job.last_error.as_deref()),
                (now + delay, Some("failed"))
            );
            assert_eq!((job.attempts, job.max_attempts - job.attempts), (round, maximum));
            assert_eq!(claim(&db, "a", now).await, None);
            now += delay;
        }
    })
    .await;
}

async fn job_enqueued_during_run_is_due_after_release_of_running_job(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        let maximum = i32::from(Refresh::MAX_ATTEMPTS);
        for (project, is_counted) in [(1, false), (2, true)] {
            enqueue_at(db.write(), &Refresh { project, round: 1 }, now)
                .await
                .unwrap();
            claim(&db, "stopped", now).await.unwrap();
            enqueue_at(
                db.write(),
                &Refresh { project, round: 2 },
                now + TimeDelta::hours(1),
            )
            .await
            .unwrap();
            match is_counted {
                true => assert_eq!(requeue_abandoned(&db).await.unwrap(), 1),
                false => queue::requeue_all(&db, "stopped").await.unwrap(),
            }
            let next = claim(&db, "a", now).await.unwrap();
            let counted = i32::from(is_counted);
            assert_eq!(
                (next.attempts, next.max_attempts),
                (1 + counted, maximum + counted)
            );
            assert!(next.payload.contains(r#""round":2"#), "{next:?}");
            queue::complete(db.write(), &next).await.unwrap();
            assert_eq!(all(&db).await, []);
        }
    })
    .await;
}

async fn failed_job_does_not_change_waiting_job_after_its_claim_was_lost(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
            .await
            .unwrap();
        let lost = claim(&db, "a", now).await.unwrap();
        claim(&db, "b", now + LEASE * 2).await.unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, now)
            .await
            .unwrap();
        let before = all(&db).await;
        queue::retry(&db, &lost, now + TimeDelta::hours(1), "failed")
            .await
            .unwrap();
        assert_eq!(all(&db).await, before);
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
        queue::retry(&db, &failed, now + TimeDelta::hours(1), "failed")
            .await
            .unwrap();
        let retried = db
            .transaction(async |transaction| {
                retry_failed(transaction, dead.id, now, &failed::registry()).await
            })
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
    job_enqueued_during_run_has_all_attempts_and_waits_for_delay_of_failed_job,
    job_enqueued_during_run_is_due_after_release_of_running_job,
    failed_job_does_not_change_waiting_job_after_its_claim_was_lost,
    job_retried_by_operator_runs_before_delay_of_waiting_retry,
];
