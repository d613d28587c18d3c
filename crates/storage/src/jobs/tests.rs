//! Tests of the queue and the runner, on both databases.

mod claimed;
mod clock;
mod failed;
mod lost;
mod outage;
mod postponed;
mod retries;
mod statement_limit;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};

use super::*;
use crate::{
    database::{
        Database,
        testing::{DatabaseKind, on_every_database, on_migrated},
    },
    entities::{self, jobs as rows},
};

/// Longer than any test: a test that depends on it must not pass by waiting.
const NEVER: Duration = Duration::from_secs(3600);
const LEASE: TimeDelta = TimeDelta::seconds(60);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Job for Greet {
    const KIND: &'static str = "greet";
    const MAX_ATTEMPTS: u16 = 3;
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Refresh {
    project: i64,
    round: i64,
}

impl Job for Refresh {
    const KIND: &'static str = "refresh";

    fn dedup_key(&self) -> Option<String> {
        Some(self.project.to_string())
    }
}

fn greet(name: &str) -> Greet {
    Greet {
        name: name.to_owned(),
    }
}

fn options() -> RunnerOptions {
    RunnerOptions {
        poll: NEVER,
        backoff: Duration::from_millis(1),
        ..RunnerOptions::default()
    }
}

async fn all(db: &Database) -> Vec<rows::Model> {
    rows::Entity::find()
        .order_by_asc(rows::Column::Id)
        .all(db.write())
        .await
        .unwrap()
}

/// Returns the time of a claim if the clock was not set.
fn time(now: DateTime<Utc>) -> queue::ClaimTime {
    queue::ClaimTime { now, leases: now }
}

async fn claim(db: &Database, runner: &str, now: DateTime<Utc>) -> Option<rows::Model> {
    queue::claim(db.write(), &["greet", "refresh"], runner, time(now), LEASE)
        .await
        .unwrap()
}

/// Starts a runner in the background and returns a way to stop it.
fn start(
    db: &Database,
    registry: JobRegistry,
    options: RunnerOptions,
) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let runner = JobRunner::new(db.clone(), registry, options);
    let task = tokio::spawn(runner.run(async {
        let _ = stopped.await;
    }));
    (stop, task)
}

async fn job_starts_when_its_transaction_commits(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let (sender, mut greeted) = mpsc::unbounded_channel();
        let registry = JobRegistry::default().handle(move |job: Greet, attempt| {
            sender.send((job, attempt)).unwrap();
            async { Ok(()) }
        });
        let (stop, task) = start(&db, registry, options());
        for name in ["ada", "bob"] {
            db.transaction(async |tx| enqueue(tx, &greet(name)).await)
                .await
                .unwrap();
            assert_eq!(
                greeted.recv().await.unwrap(),
                (greet(name), JobAttempt { number: 1, of: 3 })
            );
        }
        stop.send(()).unwrap();
        task.await.unwrap();
        assert_eq!(all(&db).await, []);
    })
    .await;
}

async fn withdraw_deletes_waiting_job_but_not_running_or_other_job(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let [mine, other] = [1, 2].map(|project| Refresh { project, round: 1 });
        for job in [&mine, &other] {
            enqueue(db.write(), job).await.unwrap();
        }
        cancel(db.write(), &mine).await.unwrap();
        let remaining = all(&db).await;
        let keys: Vec<_> = remaining.iter().map(|job| job.dedup_key.as_deref()).collect();
        assert_eq!(keys, [Some("2")]);

        let claimed = claim(&db, "node", entities::now()).await.expect("the other one");
        cancel(db.write(), &other).await.unwrap();
        assert_eq!(all(&db).await, [claimed]);
    })
    .await;
}

async fn job_of_failed_transaction_is_discarded(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let outcome: Result<(), EnqueueError> = db
            .transaction(async |tx| {
                enqueue(tx, &greet("ada")).await?;
                Err(sea_orm::DbErr::Custom("stop".into()).into())
            })
            .await;
        assert!(outcome.is_err());
        assert_eq!(all(&db).await, []);
    })
    .await;
}

async fn waiting_job_absorbs_jobs_of_same_key_but_running_job_does_not(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        let later = now + TimeDelta::hours(1);
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, later)
            .await
            .unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, now)
            .await
            .unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 3 }, later)
            .await
            .unwrap();
        let waiting = all(&db).await;
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].run_at, now);
        assert_eq!(waiting[0].payload, r#"{"project":1,"round":3}"#);

        claim(&db, "a", now).await.unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 4 }, now)
            .await
            .unwrap();
        enqueue_at(db.write(), &Refresh { project: 2, round: 1 }, now)
            .await
            .unwrap();
        assert_eq!(all(&db).await.len(), 3);
    })
    .await;
}

async fn waiting_job_cannot_be_claimed_during_transaction_that_updates_it(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
            .await
            .unwrap();
        let tx = db.begin().await.unwrap();
        enqueue_at(&tx, &Refresh { project: 1, round: 2 }, now)
            .await
            .unwrap();
        // With SQLite a claim would wait for the transaction, which is equally safe.
        if db.backend() == sea_orm::DatabaseBackend::Postgres {
            assert_eq!(claim(&db, "a", now).await, None);
        }
        tx.commit().await.unwrap();
        assert!(
            claim(&db, "a", now)
                .await
                .unwrap()
                .payload
                .contains(r#""round":2"#)
        );
    })
    .await;
}

async fn jobs_of_same_key_do_not_run_concurrently(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
            .await
            .unwrap();
        let first = claim(&db, "a", now).await.unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, now)
            .await
            .unwrap();
        assert_eq!(claim(&db, "b", now).await, None);
        queue::complete(db.write(), &first).await.unwrap();
        assert!(claim(&db, "b", now).await.is_some());
    })
    .await;
}

async fn claim_returns_due_jobs_of_known_kinds_in_order(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &greet("second"), now).await.unwrap();
        enqueue_at(db.write(), &greet("first"), now - TimeDelta::seconds(1))
            .await
            .unwrap();
        enqueue_at(db.write(), &greet("later"), now + TimeDelta::seconds(1))
            .await
            .unwrap();
        assert_eq!(
            queue::claim(db.write(), &["other"], "a", time(now), LEASE)
                .await
                .unwrap(),
            None
        );
        assert_eq!(
            queue::claim(db.write(), &[], "a", time(now), LEASE)
                .await
                .unwrap(),
            None
        );
        assert!(claim(&db, "a", now).await.unwrap().payload.contains("first"));
        assert!(claim(&db, "a", now).await.unwrap().payload.contains("second"));
        assert_eq!(claim(&db, "a", now).await, None);
        assert!(claim(&db, "a", now + TimeDelta::seconds(1)).await.is_some());
    })
    .await;
}

async fn claim_ends_with_its_lease_and_lost_claim_changes_nothing(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        let at = |seconds| start + TimeDelta::seconds(seconds);
        enqueue_at(db.write(), &greet("ada"), start).await.unwrap();
        let first = claim(&db, "a", start).await.unwrap();
        assert_eq!(claim(&db, "b", at(59)).await, None);
        assert!(queue::renew(db.write(), &first, at(50), LEASE).await.unwrap());
        assert_eq!(claim(&db, "b", at(70)).await, None);
        let second = claim(&db, "b", at(111)).await.unwrap();
        assert_eq!((second.id, second.attempts), (first.id, 2));

        assert!(!queue::renew(db.write(), &first, at(112), LEASE).await.unwrap());
        queue::complete(db.write(), &first).await.unwrap();
        queue::mark_dead(db.write(), &first, at(112), "late")
            .await
            .unwrap();
        let remaining = all(&db).await;
        assert_eq!(
            (
                remaining.len(),
                remaining[0].dead_at,
                remaining[0].locked_by.as_deref()
            ),
            (1, None, Some("b"))
        );
    })
    .await;
}

async fn job_lost_in_last_attempt_becomes_dead(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        enqueue_at(db.write(), &greet("ada"), start).await.unwrap();
        for round in 0..3 {
            assert!(claim(&db, "a", start + LEASE * (2 * round)).await.is_some());
        }
        let end = start + LEASE * 6;
        assert_eq!(claim(&db, "b", end).await, None);
        assert_eq!(queue::mark_lost_dead(db.write(), end).await.unwrap(), 1);
        assert_eq!(
            backlog(db.read()).await.unwrap(),
            JobBacklog {
                waiting: 0,
                running: 0,
                dead: 1
            }
        );
        assert_eq!(purge_dead(db.write(), end).await.unwrap(), 0);
        assert_eq!(purge_dead(db.write(), end + LEASE).await.unwrap(), 1);
    })
    .await;
}

async fn backlog_counts_successive_jobs_without_gap(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let start = entities::now();
        enqueue_at(db.write(), &greet("ada"), start).await.unwrap();
        let mut succession = std::pin::pin!(async {
            for _ in 0..200 {
                let job = claim(&db, "a", start).await.unwrap();
                enqueue_at(db.write(), &greet("ada"), start).await.unwrap();
                queue::complete(db.write(), &job).await.unwrap();
            }
        });
        loop {
            let counted = tokio::select! {
                () = &mut succession => break,
                counted = backlog(db.read()) => counted.unwrap(),
            };
            assert!(counted.waiting + counted.running > 0, "{counted:?}");
        }
    })
    .await;
}

async fn job_is_retried_after_errors_and_panics_and_stores_last_error(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let (sender, mut attempts) = mpsc::unbounded_channel();
        let registry = JobRegistry::default().handle(move |_: Greet, attempt: JobAttempt| {
            let sender = sender.clone();
            async move {
                sender.send((attempt.number, attempt.is_last())).unwrap();
                assert!(attempt.number != 2, "second thoughts");
                Err(JobFailure::from(std::io::Error::other(format!(
                    "attempt {}",
                    attempt.number
                ))))
            }
        });
        let quick = RunnerOptions {
            poll: Duration::from_millis(1),
            ..options()
        };
        let (stop, task) = start(&db, registry, quick);
        enqueue(db.write(), &greet("ada")).await.unwrap();
        for expected in [(1, false), (2, false), (3, true)] {
            assert_eq!(attempts.recv().await.unwrap(), expected);
        }
        stop.send(()).unwrap();
        task.await.unwrap();
        let remaining = all(&db).await;
        assert!(remaining[0].dead_at.is_some() && remaining[0].locked_by.is_none());
        assert_eq!(remaining[0].last_error.as_deref(), Some("attempt 3"));
    })
    .await;
}

async fn permanent_failure_and_malformed_payload_are_not_retried(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let now = entities::now();
        enqueue_at(db.write(), &greet("ada"), now).await.unwrap();
        enqueue_at(db.write(), &Refresh { project: 1, round: 1 }, now)
            .await
            .unwrap();
        let registry = JobRegistry::default()
            .handle(|_: Greet, _| async { Err(JobFailure::permanent("no such person")) })
            .handle(|_: Broken, _| async { Ok(()) });
        let (stop, task) = start(&db, registry, options());
        while backlog(db.read()).await.unwrap().dead < 2 {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap();
        task.await.unwrap();
        let remaining = all(&db).await;
        assert_eq!(remaining[0].last_error.as_deref(), Some("no such person"));
        assert!(
            remaining[1]
                .last_error
                .as_deref()
                .unwrap()
                .starts_with("malformed payload")
        );
    })
    .await;
}

/// Payload of another version of `Refresh`.
#[derive(Serialize, Deserialize)]
struct Broken {
    #[serde(rename = "missing")]
    _missing: String,
}

impl Job for Broken {
    const KIND: &'static str = Refresh::KIND;
}

async fn concurrent_runners_run_every_job_once(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let counts = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
        let (sender, mut done) = mpsc::unbounded_channel();
        for number in 0..40 {
            enqueue(db.write(), &greet(&number.to_string())).await.unwrap();
        }
        let runners: Vec<_> = (0..4)
            .map(|_| {
                let (counts, sender) = (Arc::clone(&counts), sender.clone());
                let registry = JobRegistry::default().handle(move |job: Greet, _| {
                    *counts.lock().unwrap().entry(job.name).or_default() += 1;
                    sender.send(()).unwrap();
                    async { Ok(()) }
                });
                start(
                    &db,
                    registry,
                    RunnerOptions {
                        poll: Duration::from_millis(5),
                        ..options()
                    },
                )
            })
            .collect();
        for _ in 0..40 {
            done.recv().await.unwrap();
        }
        for (stop, task) in runners {
            stop.send(()).unwrap();
            task.await.unwrap();
        }
        assert_eq!(all(&db).await, []);
        let counts = counts.lock().unwrap();
        assert_eq!(counts.len(), 40);
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    })
    .await;
}

async fn lease_is_renewed_while_job_runs(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let release = Arc::new(Notify::new());
        let waiting = Arc::clone(&release);
        let registry = JobRegistry::default().handle(move |_: Greet, _| {
            let waiting = Arc::clone(&waiting);
            async move {
                waiting.notified().await;
                Ok(())
            }
        });
        let quick = RunnerOptions {
            lease: Duration::from_millis(600),
            ..options()
        };
        let (stop, task) = start(&db, registry, quick);
        db.transaction(async |tx| enqueue(tx, &greet("ada")).await)
            .await
            .unwrap();
        let mut leases = std::collections::BTreeSet::new();
        while leases.len() < 3 {
            leases.extend(all(&db).await.into_iter().filter_map(|row| row.locked_until));
            tokio::task::yield_now().await;
        }
        release.notify_one();
        stop.send(()).unwrap();
        task.await.unwrap();
        assert_eq!(all(&db).await, []);
    })
    .await;
}

async fn stopped_runner_finishes_running_job_and_starts_no_other(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let (release, began) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (waiting, beginning) = (Arc::clone(&release), Arc::clone(&began));
        let registry = JobRegistry::default().handle(move |_: Greet, _| {
            let (waiting, beginning) = (Arc::clone(&waiting), Arc::clone(&beginning));
            async move {
                beginning.notify_one();
                waiting.notified().await;
                Ok(())
            }
        });
        enqueue(db.write(), &greet("ada")).await.unwrap();
        enqueue(db.write(), &greet("bob")).await.unwrap();
        let (stop, task) = start(
            &db,
            registry,
            RunnerOptions {
                concurrency: 1,
                ..options()
            },
        );
        began.notified().await;
        stop.send(()).unwrap();
        release.notify_one();
        task.await.unwrap();
        let remaining = all(&db).await;
        assert_eq!(remaining.len(), 1);
        assert_eq!(
            (remaining[0].attempts, remaining[0].locked_by.as_deref()),
            (0, None)
        );
        assert!(remaining[0].payload.contains("bob"));
    })
    .await;
}

async fn stopped_runner_releases_job_that_exceeds_drain_time(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let began = Arc::new(Notify::new());
        let beginning = Arc::clone(&began);
        let registry = JobRegistry::default().handle(move |_: Greet, _| {
            beginning.notify_one();
            std::future::pending::<Result<(), JobFailure>>()
        });
        enqueue(db.write(), &greet("ada")).await.unwrap();
        let hasty = RunnerOptions {
            drain: Duration::from_millis(1),
            ..options()
        };
        let (stop, task) = start(&db, registry, hasty);
        began.notified().await;
        stop.send(()).unwrap();
        task.await.unwrap();
        let remaining = all(&db).await;
        assert_eq!(
            (
                remaining[0].attempts,
                remaining[0].locked_by.as_deref(),
                remaining[0].dead_at
            ),
            (0, None, None)
        );
    })
    .await;
}

on_every_database![
    job_starts_when_its_transaction_commits,
    withdraw_deletes_waiting_job_but_not_running_or_other_job,
    job_of_failed_transaction_is_discarded,
    waiting_job_absorbs_jobs_of_same_key_but_running_job_does_not,
    waiting_job_cannot_be_claimed_during_transaction_that_updates_it,
    jobs_of_same_key_do_not_run_concurrently,
    claim_returns_due_jobs_of_known_kinds_in_order,
    claim_ends_with_its_lease_and_lost_claim_changes_nothing,
    job_lost_in_last_attempt_becomes_dead,
    backlog_counts_successive_jobs_without_gap,
    job_is_retried_after_errors_and_panics_and_stores_last_error,
    permanent_failure_and_malformed_payload_are_not_retried,
    lease_is_renewed_while_job_runs,
    stopped_runner_finishes_running_job_and_starts_no_other,
    stopped_runner_releases_job_that_exceeds_drain_time,
];

on_every_database![
    on 4 threads;
    concurrent_runners_run_every_job_once,
];
