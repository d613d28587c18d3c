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
        assert_eq!((job.dead_at, job.last_error.as_deref()), (None, None));
    })
    .await;
}

on_every_database![postponed_job_waits_and_keeps_its_attempts,];
