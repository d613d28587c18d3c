//! Jobs that cannot run yet.

use super::*;

async fn postponed_job_waits_and_keeps_its_attempts(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let (sender, mut attempts) = mpsc::unbounded_channel();
        let registry = JobRegistry::default().handle(move |_: Greet, attempt: JobAttempt| {
            sender.send(attempt.number).unwrap();
            async {
                Err(JobFailure::postponed(
                    Duration::from_millis(1),
                    "another job runs",
                ))
            }
        });
        let quick = RunnerOptions {
            poll: Duration::from_millis(1),
            ..options()
        };
        let (stop, task) = start(&db, registry, quick);
        enqueue(db.write(), &greet("ada")).await.unwrap();
        // More often than the job may fail.
        for _ in 0..5 {
            assert_eq!(attempts.recv().await.unwrap(), 1);
        }
        stop.send(()).unwrap();
        task.await.unwrap();
        let remaining = all(&db).await;
        assert_eq!(remaining.len(), 1);
        let job = &remaining[0];
        assert_eq!((job.attempts, job.locked_by.as_deref()), (0, None));
        assert_eq!(
            (job.dead_at, job.last_error.as_deref()),
            (None, Some("another job runs"))
        );
    })
    .await;
}

/// Postpones a claimed job, and expects that it waits for the delay with all its attempts.
async fn postpone(db: &Database, job: &rows::Model, now: DateTime<Utc>) {
    let later = now + TimeDelta::minutes(1);
    queue::postpone(db, job, later, "another job runs").await.unwrap();
    let waiting = all(db).await;
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].run_at, waiting[0].attempts), (later, 0));
    assert_eq!(waiting[0].max_attempts, i32::from(Refresh::MAX_ATTEMPTS));
    assert_eq!(claim(db, "a", now).await, None);
}

async fn job_enqueued_during_run_waits_for_delay_of_postponed_job(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
            .await
            .unwrap();
        let running = claim(&db, "a", now).await.unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, now)
            .await
            .unwrap();
        postpone(&db, &running, now).await;
        let next = claim(&db, "a", now + TimeDelta::minutes(1)).await.unwrap();
        assert_eq!(next.payload, r#"{"project":1,"round":2}"#);
    })
    .await;
}

async fn enqueued_job_waits_for_delay_of_postponed_job(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
            .await
            .unwrap();
        let running = claim(&db, "a", now).await.unwrap();
        postpone(&db, &running, now).await;
        enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, now)
            .await
            .unwrap();
        assert_eq!(claim(&db, "a", now).await, None);
        let next = claim(&db, "a", now + TimeDelta::minutes(1)).await.unwrap();
        assert_eq!(next.payload, r#"{"project":1,"round":2}"#);
        assert_eq!(
            (next.attempts, next.max_attempts),
            (1, i32::from(Refresh::MAX_ATTEMPTS))
        );
    })
    .await;
}

on_every_database![
    postponed_job_waits_and_keeps_its_attempts,
    job_enqueued_during_run_waits_for_delay_of_postponed_job,
    enqueued_job_waits_for_delay_of_postponed_job,
];
