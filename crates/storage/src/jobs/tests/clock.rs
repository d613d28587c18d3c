//! Jobs whose times were stored before the clock was set back.

use super::*;

const HOUR: TimeDelta = TimeDelta::hours(1);

async fn correct(db: &Database, now: DateTime<Utc>) -> usize {
    queue::correct_times(db.write(), now, LEASE, |_| TimeDelta::seconds(10))
        .await
        .unwrap()
}

async fn times_of_jobs_are_corrected_after_clock_was_set_back(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let real = entities::now();
        // Due when it was created, due an hour later, retried, and planned before the clock was changed.
        for (name, hours) in [("due", 3), ("later", 4), ("retried", 3), ("planned", 168)] {
            enqueue_at(db.write(), &greet(name), real + HOUR * hours)
                .await
                .unwrap();
        }
        let names: Vec<String> = all(&db).await.into_iter().map(|job| job.payload).collect();
        for (name, attempts, created) in [
            ("due", 0, 3),
            ("later", 0, 3),
            ("retried", 2, -1),
            ("planned", 0, 0),
        ] {
            let row = rows::ActiveModel {
                attempts: Set(attempts),
                created_at: Set(real + HOUR * created),
                ..Default::default()
            };
            let changed = rows::Entity::update_many()
                .set(row)
                .filter(rows::Column::Payload.eq(serde_json::to_string(&greet(name)).unwrap()));
            assert_eq!(changed.exec(db.write()).await.unwrap().rows_affected, 1);
        }
        assert_eq!(correct(&db, real).await, 3);
        let times: Vec<TimeDelta> = all(&db).await.into_iter().map(|job| job.run_at - real).collect();
        let expected = [TimeDelta::zero(), HOUR, TimeDelta::seconds(10), HOUR * 168];
        assert_eq!(times, expected, "{names:?}");
        // Another correction changes nothing.
        assert_eq!(correct(&db, real).await, 0);
    })
    .await;
}

async fn lease_from_before_clock_was_set_back_expires(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let real = entities::now();
        enqueue_at(db.write(), &greet("ada"), real).await.unwrap();
        let lost = claim(&db, "lost", real + HOUR * 3).await.unwrap();
        assert_eq!(correct(&db, real).await, 0);
        assert_eq!(claim(&db, "next", real + LEASE).await, None);
        let next = claim(&db, "next", real + LEASE + TimeDelta::seconds(1))
            .await
            .unwrap();
        assert_eq!((next.id, next.attempts), (lost.id, 2));
    })
    .await;
}

async fn lease_is_compared_with_time_before_clock_was_set_forward(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let real = entities::now();
        enqueue_at(db.write(), &greet("ada"), real).await.unwrap();
        claim(&db, "living", real).await.unwrap();
        let kinds = ["greet"];
        let time = queue::ClaimTime {
            now: real + HOUR * 3,
            leases: real,
        };
        let stolen = queue::claim(db.write(), &kinds, "other", time, LEASE)
            .await
            .unwrap();
        assert_eq!(stolen, None);
    })
    .await;
}

on_every_database![
    times_of_jobs_are_corrected_after_clock_was_set_back,
    lease_from_before_clock_was_set_back_expires,
    lease_is_compared_with_time_before_clock_was_set_forward,
];
