//! Jobs of due rows.

use sea_orm::DbErr;

use super::*;

async fn job_is_enqueued_only_if_its_row_is_claimed(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let job = greet("ada");
        let lost = enqueue_claimed(&db, &job, async |_| Ok(false)).await;
        assert!(!lost.unwrap());
        assert_eq!(all(&db).await, []);
        let claimed = enqueue_claimed(&db, &job, async |_| Ok(true)).await;
        assert!(claimed.unwrap());
        assert_eq!(all(&db).await.len(), 1);
    })
    .await;
}

async fn claim_and_job_are_rolled_back_together(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        // The claim is a row of the same table, so that the test needs no other one.
        let job = greet("ada");
        let failed = enqueue_claimed(&db, &job, async |transaction| {
            let row = rows::ActiveModel {
                kind: Set("claim".to_owned()),
                payload: Set("{}".to_owned()),
                run_at: Set(entities::now()),
                max_attempts: Set(1),
                created_at: Set(entities::now()),
                ..Default::default()
            };
            rows::Entity::insert(row)
                .exec_without_returning(transaction)
                .await?;
            Err(DbErr::Custom("stop".to_owned()))
        });
        assert!(failed.await.is_err());
        assert_eq!(all(&db).await, []);
    })
    .await;
}

on_every_database![
    job_is_enqueued_only_if_its_row_is_claimed,
    claim_and_job_are_rolled_back_together,
];
