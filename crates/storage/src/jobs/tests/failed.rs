//! Jobs that failed permanently.

use super::*;

/// Runs a job until it fails permanently, and returns its row.
async fn fail(db: &Database, job: &Refresh) -> rows::Model {
    enqueue(db.write(), job).await.unwrap();
    let claimed = claim(db, "node", entities::now()).await.unwrap();
    queue::mark_dead(db.write(), &claimed, entities::now(), "no luck")
        .await
        .unwrap();
    let jobs = all(db).await;
    jobs.into_iter().find(|row| row.id == claimed.id).unwrap()
}

/// Returns the handlers of the kinds in these tests.
pub(super) fn registry() -> JobRegistry {
    JobRegistry::default().handle(|_: Refresh, _| async { Ok(()) })
}

async fn retry(db: &Database, id: i64) -> Option<rows::Model> {
    db.transaction(async |transaction| retry_failed(transaction, id, entities::now(), &registry()).await)
        .await
        .unwrap()
}

async fn discard(db: &Database, id: i64) -> Option<rows::Model> {
    db.transaction(async |transaction| discard_failed(transaction, id).await)
        .await
        .unwrap()
}

async fn failed_jobs_are_listed_in_parts_and_by_kind(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let mut expected = Vec::new();
        for project in 1..=3 {
            expected.push(fail(&db, &Refresh { project, round: 1 }).await);
        }
        enqueue(db.write(), &greet("ada")).await.unwrap();
        let list = async |kind, after, limit| list_failed(db.read(), kind, after, limit).await.unwrap();
        assert_eq!(list(None, 0, 2).await, expected[..2]);
        assert_eq!(list(None, expected[1].id, 2).await, expected[2..]);
        assert_eq!(list(Some("refresh"), 0, 9).await, expected);
        assert_eq!(list(Some("greet"), 0, 9).await, []);
    })
    .await;
}

async fn failed_jobs_are_found_by_keys(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        for project in 1..=3 {
            fail(&db, &Refresh { project, round: 1 }).await;
        }
        // A job that waits, and a failed job of another kind with this key.
        enqueue(db.write(), &Refresh { project: 4, round: 1 })
            .await
            .unwrap();
        let other = rows::Entity::update_many()
            .col_expr(rows::Column::Kind, sea_orm::sea_query::Expr::value("greet"))
            .filter(rows::Column::DedupKey.eq("3"));
        other.exec(db.write()).await.unwrap();
        let keys = ["2", "3", "4", "5"].map(str::to_owned).to_vec();
        let found: Vec<Refresh> = failed_with_keys(db.read(), keys).await.unwrap();
        assert_eq!(found, [Refresh { project: 2, round: 1 }]);
    })
    .await;
}

async fn retried_job_has_all_attempts_again(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let failed = fail(&db, &Refresh { project: 1, round: 1 }).await;
        assert_eq!(retry(&db, failed.id).await.as_ref(), Some(&failed));
        let waiting = all(&db).await;
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].attempts, waiting[0].dead_at), (0, None));
        assert_eq!(
            (&waiting[0].payload, waiting[0].created_at),
            (&failed.payload, failed.created_at)
        );
        assert_eq!(waiting[0].last_error.as_deref(), Some("no luck"));
        // The job waits and is not failed any more.
        assert_eq!(retry(&db, failed.id).await, None);
        assert_eq!(retry(&db, waiting[0].id).await, None);
        assert_eq!(discard(&db, waiting[0].id).await, None);
        assert!(claim(&db, "node", entities::now()).await.is_some());
    })
    .await;
}

async fn retried_job_has_attempts_of_new_job_after_its_maximum_has_grown(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let maximum = i32::from(Refresh::MAX_ATTEMPTS);
        let job = Refresh { project: 1, round: 1 };
        enqueue(db.write(), &job).await.unwrap();
        let claimed = claim(&db, "node", entities::now()).await.unwrap();
        queue::retry(&db, &claimed, entities::now(), "no luck")
            .await
            .unwrap();
        let failed = fail(&db, &job).await;
        assert_eq!(failed.max_attempts, maximum + 1);
        // A node of another version has no handler of the kind.
        let unknown = JobRegistry::default();
        let retried = db
            .transaction(async |transaction| {
                retry_failed(transaction, failed.id, entities::now(), &unknown).await
            })
            .await
            .unwrap();
        assert!(retried.is_some());
        assert_eq!(all(&db).await[0].max_attempts, maximum + 1);

        let claimed = claim(&db, "node", entities::now()).await.unwrap();
        queue::mark_dead(db.write(), &claimed, entities::now(), "no luck")
            .await
            .unwrap();
        assert!(retry(&db, claimed.id).await.is_some());
        let waiting = all(&db).await;
        assert_eq!((waiting[0].attempts, waiting[0].max_attempts), (0, maximum));
    })
    .await;
}

async fn retried_job_gives_way_to_newer_job_of_same_key(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let failed = fail(&db, &Refresh { project: 1, round: 1 }).await;
        let later = entities::now() + TimeDelta::hours(1);
        enqueue_at(db.write(), &Refresh { project: 1, round: 2 }, later)
            .await
            .unwrap();
        assert!(retry(&db, failed.id).await.is_some());
        let waiting = all(&db).await;
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].payload, r#"{"project":1,"round":2}"#);
        assert!(waiting[0].run_at < later);
    })
    .await;
}

async fn only_failed_job_is_discarded_and_only_once(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let failed = fail(&db, &Refresh { project: 1, round: 1 }).await;
        enqueue(db.write(), &Refresh { project: 2, round: 1 })
            .await
            .unwrap();
        assert_eq!(discard(&db, failed.id).await, Some(failed.clone()));
        assert_eq!(discard(&db, failed.id).await, None);
        let others = all(&db).await;
        assert_eq!(others.len(), 1);
        assert_eq!(discard(&db, others[0].id).await, None);
    })
    .await;
}

on_every_database![
    failed_jobs_are_listed_in_parts_and_by_kind,
    failed_jobs_are_found_by_keys,
    retried_job_has_all_attempts_again,
    retried_job_has_attempts_of_new_job_after_its_maximum_has_grown,
    retried_job_gives_way_to_newer_job_of_same_key,
    only_failed_job_is_discarded_and_only_once,
];
